"""The loss of messages where jobs read no more: planned, refused and allowed, over REST and by commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from speck.client import RequestRefused
from speck.core.job import session_name
from testbed.servers.rest import RestServer, yaml_of
from tests.fixtures.speck_command import Speck

BROKER = "tcp://b1:1883"
FIRST, REWIRED = yaml_of("a t0 t1", "b t1 t2"), yaml_of("a t0 x1", "b x1 t2")


def waiting_session(rest: RestServer) -> str:
    """The session of job b."""
    return session_name("b", rest.coordinator.store.identity)


@pytest.fixture(autouse=True)
def dead_reader(rest: RestServer) -> None:
    """Job b is dead, cannot be started as it was, and 7 messages wait for it."""
    rest.client.apply(FIRST.encode(), "one", wait=30)
    rest.world.crash("b")
    rest.world.broker(BROKER).backlog[waiting_session(rest)] = 7
    rest.world.doomed = lambda job: job.source_topic == "t1"


def test_it_is_in_the_plan_and_allowed_by_a_parameter(rest: RestServer) -> None:
    client = rest.client
    (session,) = client.plan(REWIRED.encode(), "one")["leaves"]
    assert session == {
        "job": "b",
        "broker": BROKER,
        "topic": "t1",
        "waiting": 7,
        "fate": "the job is not running; it is restarted in its old form to process them first",
        "lossless": True,
    }
    (session,) = client.plan(REWIRED.encode(), "one", give_up=True)["leaves"]
    assert session["lossless"] is False
    operation = client.apply(REWIRED.encode(), "one", wait=30)
    assert (operation["state"], operation["give_up"]) == ("failed", False)
    assert rest.world.broker(BROKER).backlog[waiting_session(rest)] == 7
    operation = client.apply(REWIRED.encode(), "one", wait=30, give_up=True)
    assert (operation["state"], operation["give_up"]) == ("succeeded", True)
    assert "7 messages wait at 't1'" in operation["warnings"][-1]
    assert [each["kind"] for each in client.events(50, job="b")].count("given up") == 1
    losses = {each["reason"]: each["count"] for each in client.job("b")["losses"]}
    assert losses == {"session deleted": 7}


def test_it_is_shown_and_allowed_by_an_option(rest: RestServer, speck: Speck, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(REWIRED)
    assert (
        "b leaves 7 messages at 't1' of tcp://b1:1883: the job is not running" in speck("plan", str(file)).out
    )
    refused = speck("apply", str(file))
    assert refused.code == 1
    assert "--give-up" in refused.err
    assert "so they are discarded" in speck("plan", str(file), "--give-up").out
    assert speck("apply", str(file), "--give-up", "--yes").code == 0


def test_a_job_and_a_rollback_may_give_up(rest: RestServer, speck: Speck) -> None:
    operation = rest.client.delete_job("b", wait=30)
    assert "7 messages wait at 't1'" in operation["actions"][1]["error"]
    assert speck("delete", "b", "--yes", "--job", "--give-up").code == 0
    assert waiting_session(rest) not in rest.world.broker(BROKER).sessions
    rest.world.doomed = lambda job: False
    assert speck("rollback", "one", "1", "--give-up", "--yes").code == 0
    assert "--give-up is for --job" in speck("delete", "one", "--yes", "--give-up").err


def test_an_unknown_value_is_refused(rest: RestServer) -> None:
    with pytest.raises(RequestRefused, match="give_up"):
        rest.client.apply(REWIRED.encode(), "one", give_up="perhaps")
