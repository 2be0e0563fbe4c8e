"""The fences of lost jobs, read at brokers that do not answer, or answer late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from speck.agent.fences import Fences, Late
from speck.agent.run_state import Record, accepted
from speck.core.runtime import Attempt
from speck.errors import SpeckError, Unreachable
from speck.testing.waiting import eventually
from testbed.benches.examples import job
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.troubles import Hold
from testbed.doubles.world import World

NEAR, FAR = "tcp://near:1883", "tcp://far:1883"


def record(name: str, broker: str) -> Record:
    attempt = Attempt(id=name * 32, job_name=name, number=1, session=f"speck-{name}")
    return accepted(replace(job(name), source_broker=broker), attempt, "http://127.0.0.1:8081")


HERE, THERE = record("a", NEAR), record("b", FAR)


@pytest.fixture(name="world")
def world_fixture(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("speck.agent.fences.PATIENCE", 0.05)
    found = World()
    for each in (HERE, THERE):
        InMemoryBroker(found, each.job.source_broker).fence(each.attempt.session, 3)
    return found


@pytest.fixture(name="fences")
def fences_fixture(world: World) -> Fences:
    return Fences(lambda broker, _owner: InMemoryBroker(world, broker))


@pytest.fixture(name="held")
def held_fixture(world: World) -> Iterator[Hold]:
    found = world.hold("fenced", address=FAR)
    yield found
    found.release()


def read(fences: Fences) -> list[int | SpeckError]:
    found = fences.read([HERE, THERE])
    return [found[each.attempt.id] for each in (HERE, THERE)]


def test_a_broker_that_does_not_answer_delays_no_other(fences: Fences, held: Hold) -> None:
    near, far = eventually(lambda: read(fences), lambda found: not isinstance(found[0], Late))
    assert near == 3
    assert isinstance(far, Late)
    assert "tcp://far:1883 has not answered in 0.05 s" in str(far)
    held.release()
    eventually(lambda: read(fences), lambda found: found == [3, 3])


def test_an_error_of_before_is_followed_by_another_question(
    fences: Fences, world: World, held: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The uplink may be back since then."""
    world.fail("fenced", Unreachable("away", address=FAR), address=FAR)
    assert isinstance(read(fences)[1], Late)
    held.release()
    fences._asked._begun[FAR, THERE.attempt.owner].future.result()
    monkeypatch.setattr("speck.agent.fences.PATIENCE", 20.0)
    assert read(fences) == [3, 3]


def test_a_question_that_is_under_way_is_forgotten_at_a_contact(
    fences: Fences, world: World, held: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(read(fences)[1], Late)
    world._holds.remove(held)
    fences.forget()
    monkeypatch.setattr("speck.agent.fences.PATIENCE", 20.0)
    assert read(fences) == [3, 3]


def test_a_broker_that_is_away_is_asked_once_for_all_of_its_jobs(fences: Fences, world: World) -> None:
    world.down(FAR)
    other = record("c", FAR)
    found = fences.read([THERE, other, HERE])
    assert {str(found[each.attempt.id]) for each in (THERE, other)} == {
        f"{FAR} cannot be reached: connection refused"
    }
    assert found[HERE.attempt.id] == 3
    assert [address for method, address, _ in world.calls if method == "fenced"].count(FAR) == 1
