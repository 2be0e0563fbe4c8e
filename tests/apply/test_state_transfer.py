"""State that both sites must read, over engines in memory that share no storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from speck.apply.operation import Operation
from speck.binder import Capability, EngineBinder, Registry, StateFiles
from speck.coordinator import Coordinator, build
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle, State
from speck.core.settings import Settings
from speck.errors import BinderError, OutcomeUnknown, Rejected
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World, checkpoint
from testbed.faults.killed_coordinator import Life

HERE, THERE = "sc://e1:1", "sc://e2:1"
A = make_job("a")
MOVED = replace(A, spe_address=THERE)


@dataclass
class Disks:
    """The disk of each engine: the content of each state, by engine and location."""

    world: World
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    size: int = 3

    def at(self, address: str) -> list[bytes]:
        """The contents of the states on an engine's disk."""
        return [content for (where, _), content in self.files.items() if where == address]


class ApartEngine(InMemoryEngine):
    """An engine that sees no disk but its own; a job that starts writes its attempt's number to its state."""

    def __init__(self, world: World, address: str, disks: Disks) -> None:
        super().__init__(world, address)
        self.disks = disks

    def _note_violations(self, job: Job, attempt: Attempt) -> None:
        super()._note_violations(job, attempt)
        place = (self.address, checkpoint(attempt))
        self.disks.files[place] = self.disks.files.get(place, b"") + b"%d;" % attempt.number

    def state_of(self, handle: Handle) -> State | None:
        return State("spark-checkpoint", handle.details["checkpoint"])

    def state_fault(self, state: State) -> str | None:
        seen = (self.address, state.location) in self.disks.files
        return None if seen else f"{self.address} finds no checkpoint at {state.location!r}"

    def _admit(self, job_name: str, state: State | None) -> None:
        super()._admit(job_name, state)
        fault = self.state_fault(state) if state is not None else None
        if fault is not None:
            raise Rejected(fault, address=self.address)


class CarryingEngine(ApartEngine):
    """One that gives states and takes them."""

    def state_size(self, state: State) -> int:
        with self.world.call("state_size", self.address, ""):
            return self.disks.size

    def read_state(self, state: State) -> StateFiles:
        with self.world.call("read_state", self.address, ""):
            return StateFiles(state.kind, {"all": self.disks.files[self.address, state.location]})

    def state_place(self, job_name: str, name: str) -> State:
        return State("spark-checkpoint", f"memory:/{job_name}/{name}", self.address)

    def check_state_place(self, job_name: str) -> None:
        with self.world.call("check_state_place", self.address, job_name):
            pass

    def write_state(self, state: State, snapshot: StateFiles) -> None:
        self.disks.files[self.address, state.location] = b"half"
        with self.world.call("write_state", self.address, ""):
            self.disks.files[self.address, state.location] = snapshot.files["all"]
            self.world.states.add(state.location)

    def delete_state(self, state: State) -> None:
        with self.world.call("delete_state", self.address, ""):
            self.disks.files.pop((self.address, state.location), None)


class DyingEngine(CarryingEngine):
    """One that is out of reach as soon as it has a state."""

    def write_state(self, state: State, snapshot: StateFiles) -> None:
        super().write_state(state, snapshot)
        self.world.down(self.address)


class HangingEngine(DyingEngine):
    """One that does not answer the question before a start then."""

    def last_ended(self, job_name: str, owner: str) -> int:
        if not self.world.engine(self.address).reachable:
            raise OutcomeUnknown("silence", address=self.address)
        return super().last_ended(job_name, owner)


class ForgetfulEngine(CarryingEngine):
    """One that has restarted when it is asked for an attempt."""

    def find(self, attempt: Attempt) -> Handle | None:
        self.world.restart(self.address)
        return super().find(attempt)


def kinds(world: World, disks: Disks, engine: type[ApartEngine]) -> Registry:
    def connect(address: str, inventory: Inventory) -> EngineBinder:
        return engine(world, address, disks)

    doubles = double_kinds(world)
    sparks = [replace(kind, connect=connect) for kind in doubles.engines if kind.engine == "spark"]
    return Registry.of([*sparks, *doubles.brokers])


@pytest.fixture
def disks(world: World) -> Disks:
    return Disks(world)


class Begin:
    """Starts a coordinator; the one before is closed, as at a restart, or was killed."""

    coordinator: Coordinator
    life: Life

    def __init__(self, directory: Path, world: World, disks: Disks) -> None:
        self._directory, self._world, self._disks = directory, world, disks
        self._open: Store | None = None

    def __call__(self, engine: type[ApartEngine] = CarryingEngine, state_limit: int = 1000) -> Coordinator:
        place = self._directory / "store"
        if self._open is not None:
            self.end()
            place = self.life.killed_store if self.life.dead else self.life.store
        self._open = Store(place)
        self.life = Life(self._world, place)
        registry = kinds(cast(World, self.life), self._disks, engine)
        roots = [write_code(self._directory)]
        self.coordinator = build(
            self._open, registry, settings=Settings(roots=roots, period=0, state_limit=state_limit)
        ).coordinator
        self.coordinator.start()
        return self.coordinator

    def end(self) -> None:
        if self._open is not None:
            self.coordinator.close()
            self._open.close()
            self._open = None


@pytest.fixture
def begin(tmp_path: Path, world: World, disks: Disks) -> Iterator[Begin]:
    begin = Begin(tmp_path, world, disks)
    yield begin
    begin.end()


def carry_out(coordinator: Coordinator, *jobs: Job) -> Operation:
    return user.carry_out(coordinator, composition(*jobs))


def fault(operation: Operation) -> str:
    assert operation.state == "failed"
    return operation.actions["a"].error


def carried(operation: Operation) -> Mapping[str, int]:
    return {name: count for name, count in operation.calls.items() if name.endswith("_state")}


def test_one_double_transfers_states() -> None:
    assert Capability.TRANSFER in CarryingEngine.capabilities
    assert Capability.TRANSFER not in ApartEngine.capabilities


def test_a_state_goes_along_and_back_and_leaves_no_copy(begin: Begin, world: World, disks: Disks) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    for round_trip in range(3):
        for job in (MOVED, A):
            operation = carry_out(coordinator, job)
            assert operation.state == "succeeded"
            assert carried(operation) == {"read_state": 1, "write_state": 1}
        assert world.where() == {"a": HERE}
        assert disks.at(HERE) == [b"".join(b"%d;" % number for number in range(1, 2 * round_trip + 4))]
        assert disks.at(THERE) == []


def test_a_state_that_both_see_is_not_carried(begin: Begin, world: World, disks: Disks) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    ((_, location),) = disks.files
    disks.files[THERE, location] = disks.files[HERE, location]
    operation = carry_out(coordinator, MOVED)
    assert operation.state == "succeeded"
    assert carried(operation) == {}
    assert disks.at(THERE) == [b"1;2;"]


def test_an_update_in_place_carries_nothing(begin: Begin, disks: Disks) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    operation = carry_out(coordinator, replace(A, trigger="1 second"))
    assert operation.state == "succeeded"
    assert carried(operation) == {}
    assert disks.at(HERE) == [b"1;2;"]


def test_a_stateless_job_moves_without_its_state(begin: Begin, disks: Disks) -> None:
    coordinator = begin(ApartEngine)
    stateless = replace(A, upgrade="stateless")
    carry_out(coordinator, stateless)
    assert carry_out(coordinator, replace(stateless, spe_address=THERE)).state == "succeeded"
    assert disks.at(THERE) == [b"2;"]


def leave(coordinator: Coordinator, world: World, job: Job, moved: Job | None) -> None:
    """Start a job, lose its engine, and move the job away without asking it; ``None`` deletes the job."""
    carry_out(coordinator, job)
    world.down(HERE)
    if moved is None:
        operation = user.delete_composition(coordinator, "traffic", leave_behind=[HERE])
    else:
        operation, _ = user.apply(coordinator, composition(moved), leave_behind=[HERE])
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert len(coordinator.store.abandoned_attempts()) == 1


@pytest.mark.parametrize("restarted", [False, True], ids=["engine answers", "engine was restarted"])
@pytest.mark.parametrize("moved", [True, False], ids=["moved", "deleted"])
def test_the_state_of_a_copy_that_was_left_behind_is_deleted_with_it(
    begin: Begin, world: World, disks: Disks, moved: bool, restarted: bool
) -> None:
    coordinator, stateless = begin(), replace(A, upgrade="stateless")
    leave(coordinator, world, stateless, replace(stateless, spe_address=THERE) if moved else None)
    assert disks.at(HERE) == [b"1;"]
    if restarted:
        world.restart(HERE)
    world.up(HERE)
    world.fail("delete_state", OutcomeUnknown("silence", address=HERE))
    coordinator.reconciler.reaper.reap()
    assert len(coordinator.store.abandoned_attempts()) == 1
    coordinator.reconciler.reaper.reap()
    assert coordinator.store.abandoned_attempts() == []
    assert disks.at(HERE) == []
    assert disks.at(THERE) == ([b"2;"] if moved else [])


def test_a_place_that_the_new_copy_goes_on_with_is_not_deleted_with_the_old_one(
    begin: Begin, world: World, disks: Disks
) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    ((_, location),) = disks.files
    disks.files[THERE, location] = disks.files[HERE, location]  # both see it
    leave(coordinator, world, A, MOVED)
    world.up(HERE)
    coordinator.reconciler.reaper.reap()
    assert coordinator.store.abandoned_attempts() == []
    assert location in {place for _, place in disks.files}
    assert not any(method == "delete_state" for method, *_ in world.calls)


def test_a_state_that_cannot_be_carried_is_refused_before_the_old_copy_is_stopped(
    begin: Begin, world: World
) -> None:
    coordinator = begin(ApartEngine)
    carry_out(coordinator, A)
    before = world.changes()
    operation = carry_out(coordinator, MOVED)
    assert "e2:1 finds no checkpoint at 'memory:/a/" in fault(operation)
    assert world.changes() == before
    assert world.where() == {"a": HERE}


def test_a_state_over_the_limit_is_refused_before_the_old_copy_is_stopped(
    begin: Begin, world: World, disks: Disks
) -> None:
    coordinator = begin(state_limit=1 << 20)
    carry_out(coordinator, A)
    before = world.changes()
    disks.size = (1 << 20) + 200_000
    operation = carry_out(coordinator, MOVED)
    assert "its state of 1.2 MiB exceeds the transfer limit (at most 1.0 MiB" in fault(operation)
    assert world.changes() == before
    assert world.where() == {"a": HERE}
    disks.size = 1 << 20
    assert carry_out(coordinator, MOVED).state == "succeeded"


@pytest.mark.parametrize("end", [HERE, THERE])
def test_a_state_that_one_end_cannot_transfer_is_refused_before_the_old_copy_is_stopped(
    begin: Begin, world: World, disks: Disks, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """As through an agent, whichever of the two has one."""
    limit = property(lambda engine: 1 << 20 if engine.address == end else None)
    monkeypatch.setattr(CarryingEngine, "largest_state", limit, raising=False)
    coordinator = begin(state_limit=1 << 30)
    carry_out(coordinator, A)
    before = world.changes()
    disks.size = (1 << 20) + 200_000
    text = fault(carry_out(coordinator, MOVED))
    assert f"its state of 1.2 MiB cannot be transferred from or to {end} (at most 1.0 MiB: use a" in text
    assert world.changes() == before
    disks.size = 1 << 20
    assert carry_out(coordinator, MOVED).state == "succeeded"


def test_a_target_that_takes_no_files_is_asked_before_the_old_copy_is_stopped(
    begin: Begin, world: World
) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    before = world.changes()
    world.fail("check_state_place", Rejected("sc://e2:1 is read-only", address=THERE))
    assert "sc://e2:1 is read-only" in fault(carry_out(coordinator, MOVED))
    assert world.changes() == before


@pytest.mark.parametrize("kind", [Rejected, OutcomeUnknown])
def test_the_old_copy_is_put_back_when_the_target_does_not_write(
    begin: Begin, world: World, disks: Disks, kind: type[BinderError]
) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    world.fail("write_state", kind("it is read-only", address=THERE), times=None)
    message = fault(carry_out(coordinator, MOVED))
    assert "the state of job 'a' could not be transferred to sc://e2:1: it is read-only" in message
    assert "the previous version was restored and runs" in message
    assert world.where() == {"a": HERE}
    assert disks.files.keys() == {(HERE, world.running("a")[0].attempt.state.location)}  # type: ignore[union-attr]
    assert disks.at(HERE) == [b"1;2;"]


def test_the_state_goes_back_with_the_job_when_the_target_does_not_start_it(
    begin: Begin, world: World, disks: Disks
) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    world.fail("submit", Rejected("no such class", address=THERE), address=THERE)
    assert "the previous version was restored and runs" in fault(carry_out(coordinator, MOVED))
    assert world.where() == {"a": HERE}
    assert disks.at(HERE) == [b"1;3;"]  # the attempt between them started nothing
    assert disks.at(THERE) == []


@pytest.mark.parametrize(("engine", "kept"), [(DyingEngine, b"1;3;"), (HangingEngine, b"1;2;")])
def test_the_old_copy_is_put_back_from_its_own_state_when_the_target_dies_before_the_start(
    begin: Begin, world: World, disks: Disks, engine: type[ApartEngine], kept: bytes
) -> None:
    coordinator = begin(engine)
    carry_out(coordinator, A)
    assert "the previous version was restored and runs" in fault(carry_out(coordinator, MOVED))
    assert world.where() == {"a": HERE}
    assert disks.at(HERE) == [kept]
    assert disks.at(THERE) == [b"1;"]  # it cannot be deleted now
    world.up(THERE)
    assert user.delete_composition(coordinator, "traffic").wait(30)
    assert disks.at(THERE) == []


def test_a_start_whose_answer_was_lost_may_have_worked_so_its_state_goes_back(
    begin: Begin, world: World, disks: Disks
) -> None:
    coordinator = begin(ForgetfulEngine)
    carry_out(coordinator, A)
    world.fail("submit", OutcomeUnknown("silence", address=THERE), address=THERE, times=None, after=True)
    message = fault(carry_out(coordinator, MOVED))
    assert "silence (checked: it is not running); the previous version was restored and runs" in message
    assert world.where() == {"a": HERE}
    assert disks.at(HERE) == [b"1;2;3;"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("method", ["stop", "read_state", "write_state", "fence", "submit", "delete_state"])
def test_a_coordinator_that_is_killed_amid_the_move_goes_on(
    begin: Begin, world: World, disks: Disks, method: str, after: bool
) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    begin.life.kill_at = (method, after)
    operation, _ = user.apply(coordinator, composition(MOVED))
    assert operation.wait(30)
    assert begin.life.dead
    resumed = begin().operations.live(operation.id)
    assert resumed is not None
    assert resumed.wait(30)
    assert resumed.state == "succeeded"
    assert world.where() == {"a": THERE}
    (content,) = disks.at(THERE)
    assert content in (b"1;2;", b"1;3;")  # of an attempt that never came to the engine there is no trace
    # A copy that the killed one had yet to delete is deleted with the job.
    deletion = user.delete_composition(begin.coordinator, "traffic")
    assert deletion.wait(30)
    assert disks.at(HERE) == []


def test_what_could_not_be_deleted_is_deleted_later(begin: Begin, world: World, disks: Disks) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    world.fail("delete_state", OutcomeUnknown("silence", address=HERE))
    assert carry_out(coordinator, MOVED).state == "succeeded"
    assert disks.at(HERE) == [b"1;"]
    assert user.delete_composition(coordinator, "traffic").wait(30)
    assert disks.at(HERE) == []


# --- states that no copy starts from any more


@pytest.mark.parametrize("dead", [False, True], ids=["runs", "died"])
def test_a_job_that_goes_leaves_no_state(begin: Begin, world: World, disks: Disks, dead: bool) -> None:
    coordinator = begin()
    other = make_job("k", "p", "q")
    carry_out(coordinator, A, other)
    carry_out(coordinator, replace(A, trigger="1 second"), other)
    if dead:
        world.crash("a")
    assert len(disks.files) == 2
    assert carry_out(coordinator, other).state == "succeeded"
    assert disks.at(HERE) == [b"1;"]
    assert user.delete_composition(coordinator, "traffic").wait(30)
    assert disks.files == {}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("method", ["stop", "delete_state", "delete_session"])
def test_a_job_that_goes_leaves_no_state_when_the_coordinator_is_killed(
    begin: Begin, world: World, disks: Disks, method: str, after: bool
) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    begin.life.kill_at = (method, after)
    operation = user.delete_composition(coordinator, "traffic")
    assert operation.wait(30)
    assert begin.life.dead
    resumed = begin().operations.live(operation.id)
    assert resumed is not None
    assert resumed.wait(30)
    assert (resumed.state, world.running(), disks.files) == ("succeeded", [], {})


def test_a_job_that_comes_back_before_its_deletion_is_complete_starts_afresh(
    begin: Begin, world: World, disks: Disks
) -> None:
    coordinator = begin()
    other = make_job("k", "p", "q")
    carry_out(coordinator, A, other)
    world.fail("delete_session", OutcomeUnknown("silence", address="tcp://b1:1883"), times=3)
    assert carry_out(coordinator, other).state == "waiting"
    assert carry_out(coordinator, A, other).state == "succeeded"
    assert sorted(disks.at(HERE)) == [b"1;", b"2;"]
    assert [each.attempt.state for each in world.running("a")] == [None]


def test_a_stateless_job_leaves_the_state_of_one_copy(begin: Begin, world: World, disks: Disks) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    stateless = replace(A, upgrade="stateless")
    for number in range(2, 5):
        operation = carry_out(coordinator, replace(stateless, trigger=f"{number} seconds"))
        assert operation.state == "succeeded"
        assert disks.at(HERE) == [b"%d;" % number]
    world.crash("a")
    assert carry_out(coordinator, replace(stateless, trigger="4 seconds")).state == "succeeded"
    assert disks.at(HERE) == [b"5;"]


def test_a_stateless_form_that_is_put_back_leaves_the_state_of_the_former_one(
    begin: Begin, world: World, disks: Disks
) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    world.fail("submit", Rejected("no such class", address=HERE))
    operation = carry_out(coordinator, replace(A, upgrade="stateless", trigger="1 second"))
    assert "the previous version was restored and runs" in fault(operation)
    assert disks.at(HERE) == [b"1;3;"]


def test_an_engine_that_is_left_behind_is_not_asked_to_delete(
    begin: Begin, world: World, disks: Disks
) -> None:
    coordinator = begin()
    carry_out(coordinator, A)
    carry_out(coordinator, replace(A, trigger="1 second"))
    world.down(HERE)
    operation = user.delete_composition(coordinator, "traffic", leave_behind=[HERE])
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert "delete_state" not in world.counts()
