"""The end of operations: whatever fails in it, the composition is idle and those who wait are answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.operation import Operation
from speck.coordinator import build
from speck.core.adaptation import AdaptationState
from speck.core.settings import Quotas
from speck.errors import StoreError
from speck.store import DeletedComposition, Head
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition
from testbed.benches.reconciler import Bench
from testbed.doubles.delayed_store import DelayedStore
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from tests.support.threads import without_threads

(A,) = chain("a")


def broken(*arguments: object) -> None:
    raise StoreError("the store cannot be read just now")


@pytest.mark.parametrize("place", ["on_end", "on_applied", "observer", "retention"])
def test_an_error_at_the_end_of_an_operation_leaves_nothing_busy(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    operations = bench.coordinator.operations
    noted: list[Operation] = []
    if place == "observer":
        monkeypatch.setattr(operations, "_observe", broken)
    elif place == "retention":
        monkeypatch.setattr(operations.retention, "trim", lambda *arguments: 1 / 0)
    else:
        getattr(operations, place).insert(0, broken)
    operations.on_end.append(lambda operation, plan, state: noted.append(operation))
    operation, _ = user.apply(bench.coordinator, composition(A))
    assert operation.wait(30)
    assert operations.is_idle("traffic")
    assert [each.attempt.number for each in world.running("a")] == [1]
    if place != "retention":
        assert noted == [operation]  # one listener keeps no other from its call
    monkeypatch.undo()
    for listeners in (operations.on_end, operations.on_applied):
        if broken in listeners:
            listeners.remove(broken)
    assert bench.apply(replace(A, trigger="1 second")).state == "succeeded"


def test_an_operation_without_a_thread_ends_and_leaves_nothing_busy(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_threads(monkeypatch, "operation-")
    operation, _ = user.apply(bench.coordinator, composition(A))
    assert operation.state == "failed"
    assert operation.error == (
        "it did not begin: can't start new thread (the reconciler carries it out, or apply again)"
    )
    operations = bench.coordinator.operations
    assert operations.is_idle("traffic")
    operations.join(1)
    stored = operations.store.operation(operation.id)
    assert stored is not None
    assert (stored["state"], stored["error"]) == (operation.state, operation.error)
    monkeypatch.undo()
    assert bench.apply(A).state == "succeeded"
    assert [each.attempt.number for each in world.running("a")] == [1]


def test_operations_on_many_jobs_do_not_stay_in_memory_by_their_number(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.apply.operations.RECENT_ACTIONS", 5)
    jobs = chain("a", "b", "c")
    ids = [bench.apply(*(replace(each, labels={"n": str(n)}) for each in jobs)).id for n in range(4)]
    assert [each.id for each in bench.coordinator.operations.recent()] == ids[-2:]
    assert [bench.coordinator.operations.data(each)["id"] for each in ids] == ids  # the store has all


# --- the memory of a composition


def test_what_is_written_while_a_composition_is_deleted_does_not_outlive_it(
    tmp_path: Path, world: World
) -> None:
    with DelayedStore(tmp_path / "store") as store:
        adaptation = build(store, double_kinds(world)).adaptation
        with store.transaction() as transaction:
            transaction.put_head(Head("traffic", 1))
        store.key = b"deleted/traffic"

        def delete() -> None:
            with store.transaction() as transaction:
                transaction.put_deleted(DeletedComposition("traffic", 1, 1.0))

        with ThreadPoolExecutor(2) as threads:
            deleted = threads.submit(delete)
            assert store.reached.wait(30)
            written = threads.submit(adaptation._write, "traffic", AdaptationState(paused=1.0))
            wait([written], 0.3)
            store.released.set()
            deleted.result(30)
            assert not written.result(30)
        assert store.adaptation("traffic") == AdaptationState()


# --- heals


def test_heals_have_a_bound_and_go_on_in_the_next_round(bench: Bench, world: World) -> None:
    """As after the loss of an engine with the jobs of many compositions."""
    coordinator = bench.coordinator
    for number in range(5):
        (job,) = chain(f"a{number}")
        operation, _ = user.apply(coordinator, composition(job, name=f"c{number}"))
        assert operation.wait(30)
    for number in range(5):
        world.crash(f"a{number}")
    operations = coordinator.operations
    operations.settings = replace(operations.settings, quotas=Quotas(operations=2))
    hold = world.hold("submit")
    bench.clock.now += 10
    coordinator.reconciler.round()
    assert hold.reached.wait(30)
    assert len(operations.running()) == 2
    assert sum(coordinator.backoff.next_try(f"a{number}") is not None for number in range(5)) == 2
    hold.release()
    bench.finish()
    bench.round(2)
    assert sorted(world.where()) == [f"a{number}" for number in range(5)]
