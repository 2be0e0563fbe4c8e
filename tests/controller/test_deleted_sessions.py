"""A broker comes back from a power cut with sessions whose deletion it had not saved."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest

from speck.apply import sessions
from speck.controller.deleted_sessions import KEPT, RETRY
from speck.store import SessionRecord
from speck.store.abandoned import LOOKS
from testbed.benches import user
from testbed.benches.jobs_by_hand import make_job
from testbed.benches.reconciler import Bench
from testbed.doubles.world import World

JOB = make_job("good", "in", "mid")
BROKER = JOB.source_broker


@pytest.fixture(name="lose_deletion")
def lose_deletion_fixture(bench: Bench, world: World) -> Callable[[], None]:
    """Deletes the job; returns the power cut, after which the broker is as it was before."""
    bench.apply(JOB)
    broker = world.broker(BROKER)
    before = {name: copy.copy(getattr(broker, name)) for name in ("sessions", "owners", "fences")}
    assert user.delete_composition(bench.coordinator, "traffic").wait(30)
    assert broker.sessions == {}

    def lose() -> None:
        for name, value in before.items():
            setattr(broker, name, dict(value))
        broker.tombstones.clear()

    return lose


def after(bench: Bench, seconds: float) -> None:
    bench.round(seconds=seconds)
    bench.coordinator.reaper.close()


def texts(bench: Bench) -> list[str]:
    return [each["message"] for each in bench.queries.events(1000) if "deleted again" in each["message"]]


@pytest.mark.parametrize("seconds", LOOKS)
def test_a_session_that_is_back_is_deleted_again(
    bench: Bench, world: World, lose_deletion: Callable[[], None], seconds: float
) -> None:
    if seconds != LOOKS[0]:
        after(bench, LOOKS[0])  # nothing is back yet
    lose_deletion()
    (name,) = world.broker(BROKER).sessions
    world.broker(BROKER).backlog[name] = 7
    after(bench, seconds)
    broker = world.broker(BROKER)
    assert (broker.sessions, broker.owners, broker.fences) == ({}, {}, {})
    assert name in broker.tombstones  # a copy that comes back ends
    assert bench.store.abandoned_sessions() == []
    (text,) = texts(bench)
    assert "had lost that (discarded: at most 7 messages" in text
    lose_deletion()  # the second deletion was not saved either
    after(bench, LOOKS[0])
    assert world.broker(BROKER).sessions == {}


def test_nothing_is_looked_for_once_it_was_saved(
    bench: Bench, world: World, lose_deletion: Callable[[], None]
) -> None:
    for each in LOOKS:
        after(bench, each)
    assert bench.store.deleted_sessions() == []
    lose_deletion()
    world.calls.clear()
    after(bench, LOOKS[-1])
    assert "owned_sessions" not in world.counts()


def test_a_session_that_a_job_has_again_stays(
    bench: Bench, world: World, lose_deletion: Callable[[], None]
) -> None:
    lose_deletion()
    bench.apply(JOB)
    after(bench, LOOKS[0])
    assert list(world.broker(BROKER).sessions.values()) == ["in"]
    assert (bench.store.deleted_sessions(), texts(bench)) == ([], [])


def test_a_session_that_is_back_while_a_job_gets_it_stays(
    bench: Bench, world: World, lose_deletion: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_deletion()
    bench.clock.now += LOOKS[0]
    deletion = world.hold("delete_session", address=BROKER)
    reaping = threading.Thread(target=bench.coordinator.reaper.reap)
    choose = sessions.session_for

    def chosen(*arguments: Any) -> SessionRecord:
        found = choose(*arguments)
        if reaping.ident is None:
            reaping.start()
            reaping.join(0.5)  # it looks at the broker before the choice is written, or waits for that
        return found

    monkeypatch.setattr(sessions, "session_for", chosen)
    bench.apply(JOB)
    deletion.release()
    reaping.join()
    assert list(world.broker(BROKER).sessions.values()) == ["in"]
    assert bench.store.abandoned_sessions() == []


def test_a_broker_that_is_away_is_asked_again(
    bench: Bench, world: World, lose_deletion: Callable[[], None]
) -> None:
    world.down(BROKER)
    after(bench, LOOKS[0])
    world.calls.clear()
    after(bench, 10.0)
    assert "owned_sessions" not in world.counts()
    world.up(BROKER)
    lose_deletion()
    after(bench, RETRY)
    assert world.broker(BROKER).sessions == {}


@pytest.mark.parametrize("seconds", [3600.0, 10 * 365 * 86_400.0])
def test_a_session_is_looked_for_although_the_clock_was_set_back(
    bench: Bench, world: World, lose_deletion: Callable[[], None], seconds: float
) -> None:
    bench.clock.now -= seconds
    after(bench, 0.0)
    lose_deletion()
    after(bench, LOOKS[0])
    assert world.broker(BROKER).sessions == {}


def test_a_broker_that_was_away_is_asked_again_although_the_clock_was_set_back(
    bench: Bench, world: World, lose_deletion: Callable[[], None]
) -> None:
    bench.clock.now += KEPT / 2
    world.down(BROKER)
    after(bench, 0.0)  # postpones the look
    bench.clock.now -= KEPT / 2
    world.up(BROKER)
    lose_deletion()
    after(bench, 0.0)
    after(bench, LOOKS[0])
    assert world.broker(BROKER).sessions == {}


def test_a_broker_that_never_comes_back_is_forgotten(
    bench: Bench, world: World, lose_deletion: Callable[[], None]
) -> None:
    world.down(BROKER)
    after(bench, KEPT)
    assert bench.store.deleted_sessions() == []
