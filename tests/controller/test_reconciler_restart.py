"""The reconciler's memory over the death of its coordinator, and its entries in the history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.controller.backoff import JITTER, LONGEST, Backoff
from speck.core.settings import HistoryBounds
from speck.errors import OutcomeUnknown, Rejected, StoreError
from speck.store import RetryState, Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, code_hash
from testbed.benches.reconciler import WAITS, Bench
from testbed.doubles.world import World

ENGINE = "sc://e1:1"
A, B = chain("a", "b")
OTHER = replace(A, job_path="other.py", code_hash=code_hash("other.py"))
SILENCE = OutcomeUnknown("killed", address=ENGINE)


def submits(world: World) -> int:
    return world.counts()["submit"]


def break_off(bench: Bench) -> None:
    """The store is as a SIGKILL in the midst of the last operation leaves it; the next coordinator starts."""
    last = bench.store.operations()[-1]
    with bench.store.transaction() as transaction:
        transaction.put_operation(last["id"], last | {"state": "running"})
    bench.restart()
    bench.finish()


# --- back-off


def test_back_off_outlives_the_coordinator(bench: Bench, world: World) -> None:
    bench.apply(A)
    for _ in range(2):
        world.crash("a")
        bench.round(1, seconds=WAITS)
    world.crash("a")
    bench.round(1, seconds=1)
    due = bench.job("a")["next_try"]
    assert due == bench.clock.now - 1 + 2 * WAITS
    bench.restart()
    bench.round(1, seconds=1)
    assert world.running("a") == []
    assert (bench.job("a")["next_try"], bench.job("a")["waits"]) == (due, "waits for its next attempt")
    bench.round(1, seconds=2 * WAITS)
    assert len(world.running("a")) == 1


@pytest.mark.parametrize("asked_by", ["the loop", "a user"])
def test_a_coordinator_that_dies_with_each_try_does_not_hammer_the_engine(
    bench: Bench, world: World, asked_by: str
) -> None:
    if asked_by == "the loop":
        bench.apply(A)
        world.crash("a")
    world.fail("submit", SILENCE, times=None)
    world.fail("find", SILENCE, times=None)
    bench.round() if asked_by == "the loop" else bench.apply(A)
    break_off(bench)
    asked = submits(world)
    for _ in range(5):
        break_off(bench)
        bench.round(1, seconds=0.1)
    assert submits(world) == asked
    assert bench.store.operations()[-1]["state"] == "waiting"
    world.heal()
    bench.round(1, seconds=3 * WAITS)
    assert len(world.running("a")) == 1


def test_what_was_refused_is_not_tried_by_the_next_coordinator_either(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.fail("submit", Rejected("NameError in jobs.py:3", address=ENGINE), name="a")
    assert bench.apply(OTHER).state == "failed"
    bench.restart()
    before = world.changes()
    bench.round(20, seconds=60)
    assert world.changes() == before  # the copy that was put back runs on undisturbed
    assert "NameError" in str(bench.job("a")["waits"])
    assert bench.apply(OTHER).state == "succeeded"
    assert bench.store.retry_states() == {}


def test_tries_go_with_their_job(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    for name in ("a", "b"):
        world.crash(name)
    bench.round()
    assert sorted(bench.store.retry_states()) == ["a", "b"]
    bench.apply(A)
    assert user.delete_composition(bench.coordinator, "traffic").wait(30)
    assert bench.store.retry_states() == {}


def test_a_clock_that_was_put_back_holds_nobody_up_for_long(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        with store.transaction() as transaction:
            transaction.put_retry_state("a", RetryState(1, next_try=9e9))
        backoff = Backoff()
        backoff.keep_in(store, 1000.0)
        assert backoff.next_try("a") == 1000 + LONGEST + JITTER


def test_what_cannot_be_stored_is_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Store) -> None:
        raise StoreError("no space left")

    with Store(tmp_path / "store") as store:
        backoff = Backoff(lambda tries: WAITS)
        backoff.keep_in(store, 0)
        monkeypatch.setattr(Store, "transaction", full)
        backoff.record_attempt(["a"], 5)
        assert backoff.next_try("a") == 5 + WAITS


# --- history


@pytest.fixture
def small(tmp_path: Path, world: World) -> Iterator[Bench]:
    bench = Bench.begin(world, tmp_path, HistoryBounds(operations=3, events=20, healings=2, loop_events=4))
    yield bench
    bench.close()


def test_a_job_that_keeps_dying_pushes_no_user_out_of_history(small: Bench, world: World) -> None:
    for job in (A, replace(A, trigger="1 second"), A):
        assert small.apply(job).state == "succeeded"
    users = [each["id"] for each in small.store.operations()]
    said = small.queries.events()
    for _ in range(8):
        world.crash("a")
        small.round(1, seconds=LONGEST * 9)
    kinds = [each["kind"] for each in small.store.operations()]
    assert kinds == ["apply", "apply", "apply", "heal", "heal"]
    assert [each["id"] for each in small.store.operations()][:3] == users
    events = small.queries.events()
    assert events[: len(said)] == said
    healing = ["accepted", "intended", "stopped", "started", "succeeded"]  # the last of eight
    assert [each["kind"] for each in events[len(said) :]] == healing
    last = small.store.operations()[-1]
    assert small.coordinator.operations.data(last["id"])["kind"] == "heal"


def test_events_of_users_and_of_the_loop_are_told_in_their_order(small: Bench, world: World) -> None:
    small.apply(A)
    world.crash("a")
    small.round()
    small.clock.now += 1
    small.apply(A, B)
    operations = [
        each["operation"] for each in small.queries.events() if each["kind"] in ("accepted", "succeeded")
    ]
    ids = [each["id"] for each in small.store.operations()]
    assert operations == [each for each in ids for _ in range(2)]
    small.restart()
    world.crash("a")
    small.round()
    assert [each["kind"] for each in small.queries.events(3)] == ["stopped", "started", "succeeded"]
