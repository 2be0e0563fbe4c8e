"""The state of a copy that is abandoned while it goes on writing checkpoints, over engines in memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from speck.apply.operation import Operation
from speck.binder import EngineBinder
from speck.coordinator import Coordinator, build
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle, JobState, State
from speck.core.settings import Settings
from speck.errors import BinderError, OutcomeUnknown
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.benches.sessions import named
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.delayed_store import DelayedStore
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

ENGINE, OTHER, BROKER = "http://e1:1", "http://e2:1", "tcp://b1:1883"
A = make_job("a", spe_address=ENGINE, engine="flink")
MOVED = replace(A, spe_address=OTHER)


class CheckpointingEngine(InMemoryEngine):
    """One whose jobs keep their newest checkpoint only, in files that can be seen without the engine."""

    newest: ClassVar[dict[str, int]] = {}
    before_submit: ClassVar[list[str]] = []  # ids of jobs that complete a checkpoint before each submit
    before_check: ClassVar[list[str]] = []  # the same, before one check each

    def check(self, job: Job, state: State | None) -> None:
        if self.before_check:
            complete(self.world, self.before_check.pop())
        super().check(job, state)

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        for each in self.before_submit:
            complete(self.world, each)
        return super().submit(job, attempt)

    def left_state(self, handle: Handle) -> State | None:
        own = place(handle.engine_id)
        if own in self.world.states:
            return State("flink-savepoint", own)
        begun = handle.details["checkpoint"]
        return State("flink-savepoint", begun) if begun in self.world.states else None

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        with self.world.call("stop", self.address, handle.details["job"]):
            engine = self.world.engine(self.address)
            engine.ended.add(handle.engine_id)
            engine.jobs.pop(handle.engine_id, None)
            return self.left_state(handle) if keep_state else None

    def dispose_state(self, state: State) -> None:
        with self.world.call("dispose_state", self.address, state.location):
            self.world.states.discard(state.location)


def place(identifier: str) -> str:
    return f"memory:/{identifier}/chk-{CheckpointingEngine.newest.get(identifier, 0)}"


def complete(world: World, identifier: str) -> None:
    """A copy completes a checkpoint, which replaces the one before."""
    with world.lock:
        world.states.discard(place(identifier))
        CheckpointingEngine.newest[identifier] = CheckpointingEngine.newest.get(identifier, 0) + 1
        world.states.add(place(identifier))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(CheckpointingEngine, "newest", {})
    monkeypatch.setattr(CheckpointingEngine, "before_submit", [])
    monkeypatch.setattr(CheckpointingEngine, "before_check", [])
    world = World()
    yield world
    assert world.violations == []


@pytest.fixture
def coordinator(tmp_path: Path, world: World) -> Iterator[Coordinator]:
    def connect(address: str, inventory: Inventory) -> EngineBinder:
        return CheckpointingEngine(world, address, "flink")

    kinds = double_kinds(world)
    flink = next(each for each in kinds.engines if each.engine == "flink")
    registry = replace(kinds, engines=(replace(flink, connect=connect),))
    with DelayedStore(tmp_path / "store") as store:
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        made = build(store, registry, settings=settings).coordinator
        made.start()
        yield made
        made.close()


def carry_out(coordinator: Coordinator, job: Job, *leave_behind: str) -> Operation:
    return user.carry_out(coordinator, composition(job), leave_behind=leave_behind)


def heal(coordinator: Coordinator) -> None:
    """A round of the loop, in which the job is due."""
    coordinator.backoff.forget(["a"])
    coordinator.reconciler.round()
    for operation in coordinator.operations.running():
        assert operation.wait(30)


@pytest.fixture
def old(coordinator: Coordinator, world: World) -> str:
    """The id of a copy with four checkpoints, whose engine does not answer any more."""
    assert carry_out(coordinator, A).state == "succeeded"
    (running,) = world.running("a")
    for _ in range(4):
        complete(world, running.attempt.id)
    world.down(ENGINE)
    return running.attempt.id


def test_the_state_is_looked_for_after_the_fence_is_raised(
    coordinator: Coordinator, world: World, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_fence = InMemoryBroker.fence

    def fence(self: InMemoryBroker, session: str, attempt: int) -> None:
        if self._state.fences[session] != attempt:
            complete(world, old)  # and acknowledges what is in it
        raise_fence(self, session, attempt)

    monkeypatch.setattr(InMemoryBroker, "fence", fence)
    assert carry_out(coordinator, MOVED, ENGINE).state == "succeeded"
    (new,) = [each for each in world.running("a") if each.attempt.id != old]
    assert new.attempt.state is not None
    assert new.attempt.state.location == f"memory:/{old}/chk-5"


def test_a_state_that_is_replaced_while_the_engine_is_asked_is_looked_for_again(
    coordinator: Coordinator, world: World, old: str
) -> None:
    CheckpointingEngine.before_check.append(old)
    assert carry_out(coordinator, MOVED, ENGINE).state == "succeeded"
    assert world.where()["a"] == OTHER


def test_a_state_that_was_replaced_meanwhile_is_looked_for_again(
    coordinator: Coordinator, world: World, old: str
) -> None:
    CheckpointingEngine.before_submit.append(old)
    hold = world.hold("fence", named("a"), spared=2)  # of the third try
    operation, _ = user.apply(coordinator, composition(MOVED), leave_behind=[ENGINE])
    assert hold.reached.wait(30)
    CheckpointingEngine.before_submit.clear()
    hold.release()
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert world.where()["a"] == OTHER


def test_a_job_whose_start_failed_is_tried_on_from_the_newest_state(
    coordinator: Coordinator, world: World, old: str
) -> None:
    CheckpointingEngine.before_submit.append(old)
    assert "cannot be read" in carry_out(coordinator, MOVED, ENGINE).actions["a"].error
    assert coordinator.store.attempts("a") == []
    CheckpointingEngine.before_submit.clear()
    complete(world, old)
    heal(coordinator)
    (new,) = world.running("a")
    assert new.attempt.state is not None
    assert new.attempt.state.location == place(old)


def test_a_copy_that_ends_while_another_one_is_noted_takes_its_number_from_none(
    coordinator: Coordinator, world: World, old: str
) -> None:
    """The site comes back while the note of the next attempt is on its way to disk."""
    store = coordinator.store
    assert isinstance(store, DelayedStore)
    store.key = b"attempt/a/0000000002"
    operation, _ = user.apply(coordinator, composition(MOVED), leave_behind=[ENGINE])
    assert store.reached.wait(30)
    complete(world, old)
    world.up(ENGINE)
    with ThreadPoolExecutor(1) as thread:
        reaped = thread.submit(coordinator.reconciler.reaper.reap)
        wait([reaped], 0.5)
        store.released.set()
        reaped.result(30)
    assert operation.wait(30)
    record, (attempt,) = store.job("a"), [each.attempt for each in store.attempts("a")]
    assert record is not None
    assert record.attempts == attempt.number
    assert record.incarnation == attempt.incarnation
    assert place(old) in [each.location for each in record.retained_states]


@pytest.mark.parametrize("restarted", [False, True], ids=["engine answers", "engine was restarted"])
def test_the_only_state_is_not_deleted_with_the_copy_that_left_it(
    coordinator: Coordinator, world: World, old: str, restarted: bool
) -> None:
    CheckpointingEngine.before_submit.append(old)
    assert carry_out(coordinator, MOVED, ENGINE).state == "failed"
    CheckpointingEngine.before_submit.clear()
    complete(world, old)
    if restarted:
        world.restart(ENGINE)
    world.up(ENGINE)
    world.down(OTHER)
    coordinator.reconciler.reaper.reap()
    assert coordinator.store.abandoned_attempts() == []
    assert ("dispose_state", ENGINE, place(old)) not in world.calls
    world.up(OTHER)
    heal(coordinator)
    (new,) = world.running("a")
    assert new.attempt.state is not None
    assert new.attempt.state.location == place(old)


def test_the_state_of_a_form_that_may_come_back_is_not_deleted_with_the_copy_that_left_it(
    coordinator: Coordinator, world: World, old: str
) -> None:
    """An update of the job has begun without a state, and may still be taken back."""
    assert carry_out(coordinator, MOVED, ENGINE).state == "succeeded"
    record, (running,) = coordinator.store.job("a"), coordinator.store.attempts("a")
    state, begun = running.attempt.state, replace(running.attempt, state=None)
    assert record is not None
    assert state is not None
    updated = replace(record, state=None, state_source="", rollback_revision=1, rollback_state=state)
    with coordinator.store.transaction() as transaction:
        transaction.put_job(replace(updated, retained_states=()))
        transaction.put_attempt(replace(running, attempt=begun))
    world.up(ENGINE)
    coordinator.reconciler.reaper.reap()
    assert coordinator.store.abandoned_attempts() == []
    assert place(old) == state.location
    assert state.location in world.states


def test_the_newest_state_is_asked_for_again_if_the_uplink_breaks(
    coordinator: Coordinator, world: World, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, the job would start from the state that the copy had when it was abandoned."""

    def cut(self: CheckpointingEngine, handle: Handle) -> State | None:
        raise OutcomeUnknown("the connection broke", address=ENGINE)

    CheckpointingEngine.before_submit.append(old)
    assert carry_out(coordinator, MOVED, ENGINE).state == "failed"
    CheckpointingEngine.before_submit.clear()
    complete(world, old)
    world.restart(ENGINE)
    world.up(ENGINE)
    world.down(OTHER)
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointingEngine, "left_state", cut)
        coordinator.reconciler.reaper.reap()
    assert [each.attempt.id for each in coordinator.store.abandoned_attempts()] == [old]
    coordinator.reconciler.reaper.reap()
    assert coordinator.store.abandoned_attempts() == []
    world.up(OTHER)
    heal(coordinator)
    (new,) = world.running("a")
    assert new.attempt.state is not None
    assert new.attempt.state.location == place(old)


def test_a_copy_that_died_before_its_first_checkpoint_starts_from_the_newest_state(
    coordinator: Coordinator, world: World, old: str
) -> None:
    assert carry_out(coordinator, MOVED, ENGINE).state == "succeeded"
    complete(world, old)  # cut off from its broker, it has not read the fence
    world.crash("a")
    world.states.discard(f"memory:/{old}/chk-4")
    heal(coordinator)
    (new,) = [each for each in world.running("a") if each.attempt.id != old]
    assert new.attempt.state is not None
    assert (new.attempt.number, new.attempt.state.location) == (3, f"memory:/{old}/chk-5")


def test_a_state_that_cannot_be_found_keeps_the_job_waiting_and_nothing_is_deleted(
    coordinator: Coordinator, world: World, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(self: CheckpointingEngine, handle: Handle) -> State | None:
        raise BinderError("its last checkpoint is not visible from here", address=ENGINE)

    CheckpointingEngine.before_submit.append(old)
    assert carry_out(coordinator, MOVED, ENGINE).state == "failed"
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointingEngine, "left_state", hidden)
        assert "not visible from here" in carry_out(coordinator, MOVED, ENGINE).actions["a"].error
    assert world.states == {place(old)}
    assert [each.state for each in world.engine(ENGINE).jobs.values()] == [JobState.FAILED]  # fenced off
