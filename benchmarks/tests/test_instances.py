"""The reasons for which a job has one reader, at a real Mosquitto: docs/workers.md, "Instances"."""

from __future__ import annotations

import pytest

from benchmarks.instances.trials import TRIALS, Figures
from testbed.servers.mosquitto import MosquittoServer
from tests.support.trials import trial

pytestmark = pytest.mark.engine

MESSAGES = 240  # of which each member gets more than are in flight (100)


@pytest.fixture(name="of")
def of_fixture(mosquitto: MosquittoServer, request: pytest.FixtureRequest) -> Figures:
    """The figures of the trial that the test names."""
    return TRIALS[request.param](mosquitto, MESSAGES)


@pytest.mark.parametrize("of", ["away"], indirect=True)
def test_messages_of_an_absent_member_wait_for_it(of: Figures) -> None:
    assert (of["lost"], of["doubled"]) == (0, 0)
    assert of["in_flight_to_the_other"] == 0
    assert of["late"] == MESSAGES / 2
    assert of["in_order_after_the_return"]


@pytest.mark.parametrize("of", [pytest.param("expired", marks=trial("[deleted]")), "deleted"], indirect=True)
def test_messages_in_a_session_that_ends_are_lost(of: Figures) -> None:
    assert of == {"in_flight": 100, "lost": MESSAGES / 2}


@pytest.mark.parametrize("of", ["slow"], indirect=True)
def test_the_slow_member_gets_as_much_as_the_fast_one(of: Figures) -> None:
    assert of["to_the_slow"] == of["to_the_fast"] == MESSAGES / 2


@pytest.mark.parametrize("of", ["joined"], indirect=True)
def test_a_new_member_gets_nothing_of_what_waits(of: Figures) -> None:
    assert of["waiting_when_it_joined"] > 0
    assert of["of_those_to_the_second"] == 0


@pytest.mark.parametrize("of", ["repeated"], indirect=True)
def test_a_repetition_reaches_the_member_that_has_not_seen_it(of: Figures) -> None:
    assert of["passed_on_twice"] == MESSAGES


@pytest.mark.parametrize("of", ["removed"], indirect=True)
def test_a_member_that_leaves_the_group_first_loses_nothing(of: Figures) -> None:
    assert of["waiting_when_it_left"] > 0
    assert (of["lost"], of["doubled"]) == (0, 0)


@pytest.mark.parametrize("of", ["restarted"], indirect=True)
def test_a_restarted_broker_forgets_who_shares(of: Figures) -> None:
    assert (of["lost_before"], of["lost_subscribed_again"]) == (0, 0)
    assert of["lost_while_away"] == of["lost_back"] == MESSAGES


@pytest.mark.parametrize("of", ["restarted_alone"], indirect=True)
def test_a_restarted_broker_remembers_who_reads_alone(of: Figures) -> None:
    assert set(of.values()) == {0}
