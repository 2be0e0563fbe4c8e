"""Nothing is lost and nothing doubled between jobs, whatever fails under load.

``SPECK_FAULT_MESSAGES`` sets how many messages a trial sends, ``SPECK_FAULT_CUT`` for how many seconds the
link is cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from binders.mqtt import MqttBroker
from speck.core.inventory import Inventory
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, job
from testbed.faults.faults import FAULTS, cut_link, leave_site
from testbed.faults.rig import Account, Rig
from testbed.waiting import PATIENCE
from tests.support.requirements import NEEDS_RIG
from tests.support.trials import trial

MESSAGES = int(os.environ.get("SPECK_FAULT_MESSAGES", "1500"))
CUT = float(os.environ.get("SPECK_FAULT_CUT", "3"))


pytestmark = [pytest.mark.engine, NEEDS_RIG]


@pytest.fixture(name="rig", scope="module")
def rig_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with Rig(tmp_path_factory.mktemp("rig")) as rig:
        yield rig


# A broker that is killed forgets more than one that saves its sessions as it ends, and an emptied one all.
MARKS = {
    "broker_restarted": [trial("[broker_emptied]")],
    "broker_killed": [trial("[broker_emptied], and a broker that is killed twice in test_real_time.py")],
    "task_manager_killed": [trial("[job_manager_killed]")],
    "engines_killed": [trial("[job_manager_killed]")],
}


@pytest.mark.parametrize("fault", [pytest.param(each, marks=MARKS.get(each, ())) for each in FAULTS])
def test_nothing_is_lost_or_doubled(rig: Rig, fault: str) -> None:
    harm = cut_link(CUT) if fault == "link_cut" else FAULTS[fault]
    assert rig.trial(harm, MESSAGES) == Account(MESSAGES, lost=0, doubled=0)


def test_a_copy_on_a_site_that_was_left_ends_when_it_comes_back(rig: Rig) -> None:
    assert leave_site(rig, MESSAGES) == Account(MESSAGES, lost=0, doubled=0)


def test_no_session_is_left_of_a_changed_source_or_a_deleted_job(rig: Rig) -> None:
    def lines(topic: str) -> str:
        code = (FLINK_CODE, "io.speck.flink.jobs.Forward")
        sink = (rig.edge.address, "passed")
        return "jobs:\n" + job("passing", rig.flink.address, (rig.middle.address, topic), sink, code)

    def sessions() -> list[str]:
        record = rig.coordinator.store.job("passing")
        assert record is not None
        return [session.name for session in record.sessions]

    broker = MqttBroker(rig.middle.address, Inventory())
    rig.apply(lines("first"), "passing")
    (before,) = sessions()
    rig.apply(lines("second"), "passing")
    (after,) = sessions()
    assert after != before
    assert not broker.session_exists(before)
    operation = user.delete_composition(rig.coordinator, "passing")
    assert operation.wait(PATIENCE)
    assert operation.state == "succeeded"
    assert not broker.session_exists(after)
