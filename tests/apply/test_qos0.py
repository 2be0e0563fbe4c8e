"""Plans say which jobs lose messages at QoS 0 while they are replaced."""

from __future__ import annotations

from dataclasses import replace

from speck.apply.qos0 import qos0_notes
from speck.coordinator.planning.planner import joined_notes
from speck.core.plan import Deployed, make_plan
from testbed.benches.examples import job

RATES = dict.fromkeys(("updated", "moved", "kept", "labelled", "stopped"), 499.6)


def test_only_jobs_that_are_replaced_are_named() -> None:
    running = {name: job(name) for name in (*RATES, "other")}
    desired = {
        "updated": replace(running["updated"], code_hash="beef"),
        "moved": replace(running["moved"], spe_address="http://elsewhere:8081/"),
        "kept": running["kept"],
        "labelled": replace(running["labelled"], labels={"team": "x"}),
        "other": replace(running["other"], code_hash="beef"),
        "new": job("new"),
    }
    plan = make_plan("c", 1, desired, {name: Deployed(each) for name, each in running.items()})
    notes = qos0_notes(plan, RATES)
    assert notes.keys() == {"updated", "moved"}
    assert "messages at QoS 0: those that arrive while it is replaced are lost" in notes["updated"]
    assert "500 messages/s" in notes["updated"]
    assert "messages/s" not in qos0_notes(plan, {"updated": None})["updated"]


def test_the_remarks_on_one_job_are_joined() -> None:
    assert joined_notes([{"a": "x"}, {"a": "y", "b": "z"}]) == {"a": "x; y", "b": "z"}
