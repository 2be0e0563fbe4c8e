"""The states that each stop of a job leaves, and beginnings that left none, over engines in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.job_state import RETAINED_STATES
from speck.apply.operation import Operation
from speck.binder import Capability, EngineBinder, Registry
from speck.coordinator import Coordinator, build
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Handle, JobState, JobStatus, State
from speck.core.settings import Settings
from speck.errors import OutcomeUnknown, Rejected
from speck.store import JobRecord, Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

ENGINE = "http://e1:1"
A = make_job("a", spe_address=ENGINE, engine="flink")


class SavingEngine(InMemoryEngine):
    """One whose jobs leave a state with each stop, and keep nothing before ``World.states`` has something.

    It remembers what it has stopped.
    """

    def status(self, handle: Handle) -> JobStatus:
        found = super().status(handle)
        stopped = found.state is JobState.LOST and handle.engine_id in self.world.engine(self.address).ended
        return replace(found, state=JobState.STOPPED) if stopped else found

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        if super().stop(handle, keep_state) is None:
            return None
        location = f"memory:/{handle.details['job']}/savepoint-{handle.engine_id}"
        self.world.states.add(location)
        return State("flink-savepoint", location)

    def dispose_state(self, state: State) -> None:
        with self.world.call("dispose_state", self.address, state.location):
            for running in self.world.running():
                assert running.attempt.state is None or running.attempt.state.location != state.location
            self.world.states.discard(state.location)

    def kept_nothing(self, handle: Handle) -> bool:
        with self.world.call("kept_nothing", self.address, handle.details["job"]):
            return not self.world.states


def kinds(world: World) -> Registry:
    def connect(address: str, inventory: Inventory) -> EngineBinder:
        return SavingEngine(world, address, "flink")

    doubles = double_kinds(world)
    return Registry.of([*(replace(each, connect=connect) for each in doubles.engines), *doubles.brokers])


@pytest.fixture
def coordinator(tmp_path: Path, world: World) -> Iterator[Coordinator]:
    with Store(tmp_path / "store") as store:
        coordinator = build(
            store, kinds(world), settings=Settings(roots=(write_code(tmp_path),), period=0)
        ).coordinator
        coordinator.start()
        yield coordinator
        coordinator.close()


def carry_out(coordinator: Coordinator, *jobs: Job) -> Operation:
    return user.carry_out(coordinator, composition(*jobs))


def update(coordinator: Coordinator, number: int) -> None:
    assert carry_out(coordinator, replace(A, trigger=f"{number} seconds")).state == "succeeded"


def saved(world: World) -> set[str]:
    return {each for each in world.states if "savepoint-" in each}


def retained(coordinator: Coordinator) -> JobRecord:
    record = coordinator.store.job("a")
    assert record is not None
    return record


def test_the_double_leaves_a_state_with_each_stop() -> None:
    assert {Capability.DISPOSE, Capability.PROGRESS} <= SavingEngine.capabilities


# --- states that were left


def test_all_but_the_last_states_are_deleted(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, A)
    places = []
    for number in range(1, 6):
        places.append(f"memory:/a/savepoint-{world.running('a')[0].attempt.id}")
        update(coordinator, number)
        assert saved(world) == set(places[-RETAINED_STATES:])
        (running,) = world.running("a")
        assert running.attempt.state is not None
        assert running.attempt.state.location == places[-1]


def test_states_are_deleted_with_their_job(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, A)
    for number in range(1, 4):
        update(coordinator, number)
    assert user.delete_composition(coordinator, "traffic").wait(30)
    assert saved(world) == set()


def test_a_state_that_could_not_be_deleted_is_later(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, A)
    world.fail("dispose_state", OutcomeUnknown("silence", address=ENGINE), times=1)
    for number in range(1, 4):
        update(coordinator, number)
    assert len(saved(world)) == RETAINED_STATES + 1
    assert len(retained(coordinator).garbage_states) == 1
    update(coordinator, 4)
    assert len(saved(world)) == RETAINED_STATES
    assert retained(coordinator).garbage_states == ()


def test_a_state_that_could_not_be_deleted_with_its_job_is_told(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, A)
    update(coordinator, 1)
    (place,) = saved(world)
    world.fail("dispose_state", OutcomeUnknown("silence", address=ENGINE), times=None)
    operation = user.delete_composition(coordinator, "traffic")
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert place in operation.actions["a"].note


# --- states of copies that were left behind

OTHER = "http://e2:1"


def leave_behind(coordinator: Coordinator, world: World) -> str:
    """Move the job off a silent engine; answers where its copy there leaves a state when it is stopped."""
    carry_out(coordinator, A)
    (old,) = world.running("a")
    world.down(ENGINE)
    moved = replace(A, spe_address=OTHER)
    operation, _ = user.apply(coordinator, composition(moved), leave_behind=[ENGINE])
    assert operation.wait(30)
    assert operation.state == "succeeded"
    world.up(ENGINE)
    return f"memory:/a/savepoint-{old.attempt.id}"


def test_what_a_copy_left_behind_leaves_in_the_end_is_deleted(coordinator: Coordinator, world: World) -> None:
    place = leave_behind(coordinator, world)
    coordinator.reconciler.round()
    assert coordinator.store.abandoned_attempts() == []
    assert ("dispose_state", ENGINE, place) in world.calls
    assert saved(world) == set()


def test_what_a_copy_left_behind_leaves_is_deleted_when_its_job_has_gone(
    coordinator: Coordinator, world: World
) -> None:
    leave_behind(coordinator, world)
    world.down(ENGINE)
    assert user.delete_composition(coordinator, "traffic").wait(30)
    world.up(ENGINE)
    coordinator.reconciler.round()
    assert coordinator.store.abandoned_attempts() == []
    assert saved(world) == set()


def test_a_state_that_gave_no_answer_is_deleted_with_the_next_look(
    coordinator: Coordinator, world: World
) -> None:
    place = leave_behind(coordinator, world)
    world.fail("dispose_state", OutcomeUnknown("silence", address=ENGINE), times=1)
    coordinator.reconciler.round()
    assert [copy.address for copy in coordinator.store.abandoned_attempts()] == [ENGINE]
    assert saved(world) == {place}
    coordinator.reconciler.round()
    assert coordinator.store.abandoned_attempts() == []
    assert saved(world) == set()


def test_a_state_that_cannot_be_deleted_is_left_and_the_copy_has_ended(
    coordinator: Coordinator, world: World
) -> None:
    place = leave_behind(coordinator, world)
    world.fail("dispose_state", Rejected("no right to", address=ENGINE), times=None)
    coordinator.reconciler.round()
    assert coordinator.store.abandoned_attempts() == []
    assert saved(world) == {place}


def test_what_the_new_copy_began_from_is_not_deleted_with_the_old_one(
    coordinator: Coordinator, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Flink, where a copy that has ended answers its last checkpoint."""
    monkeypatch.setattr(SavingEngine, "stop", InMemoryEngine.stop)
    leave_behind(coordinator, world)
    coordinator.reconciler.round()
    assert coordinator.store.abandoned_attempts() == []
    (running,) = world.running("a")
    assert running.attempt.state is not None
    assert running.attempt.state.location in world.states


# --- beginnings that left none


def beginnings(coordinator: Coordinator, world: World, job: Job) -> tuple[str, str]:
    """The engine is started again before the job has kept anything; the old id, and the next lineage."""
    (before,) = world.running("a")
    world.restart(ENGINE)
    world.states.clear()
    assert carry_out(coordinator, job).state == "succeeded"
    (after,) = world.running("a")
    return before.attempt.id, after.attempt.lineage


def test_who_begins_anew_goes_on_with_the_stamps_of_the_first(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, A)
    first, lineage = beginnings(coordinator, world, A)
    assert lineage == first
    _, lineage = beginnings(coordinator, world, replace(A, labels={"a": "b"}))
    assert lineage == first
    (record,) = coordinator.store.attempts("a")
    assert record.attempt.lineage == first
    update(coordinator, 1)  # from a state, which has its own
    assert world.running("a")[0].attempt.lineage == ""


@pytest.mark.parametrize(
    "job", [replace(A, trigger="1 second"), replace(A, upgrade="stateless")], ids=["form", "stateless"]
)
def test_who_begins_as_another_has_stamps_of_its_own(
    coordinator: Coordinator, world: World, job: Job
) -> None:
    carry_out(coordinator, A)
    assert beginnings(coordinator, world, job)[1] == ""


def test_who_kept_something_is_no_beginning(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, A)
    world.restart(ENGINE)
    world.states = {"memory:/a/elsewhere"}
    assert carry_out(coordinator, A).state == "succeeded"
    (running,) = world.running("a")
    assert (running.attempt.number, running.attempt.state, running.attempt.lineage) == (2, None, "")
