"""Recovery: a coordinator continues the work of a dead one, over engines and brokers in memory.

Real processes are killed in ``test_kills``; what cannot be timed there is arranged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from graphlib import CycleError
from pathlib import Path
from typing import Any, cast

import pytest

from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.apply.planned import PlannedChange
from speck.coordinator import Coordinator, build
from speck.core.job import Job
from speck.core.plan import Plan
from speck.core.runtime import Attempt, Handle
from speck.core.schedule import Leftovers, Step, schedule
from speck.core.settings import Settings
from speck.errors import OutcomeUnknown, Rejected, Unreachable
from speck.store import RetryState, Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition, make_job, write_code
from testbed.benches.user import carry_out
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World, checkpoint
from testbed.faults.killed_coordinator import Life

ENGINE, BROKER = "sc://e1:1", "tcp://b1:1883"
A = make_job("a", "in", "out")
SILENCE = OutcomeUnknown("killed", address=ENGINE)

Begin = Callable[..., Coordinator]


@pytest.fixture
def begin(tmp_path: Path, world: World) -> Iterator[Begin]:
    """Starts a coordinator on the same store; the one before is closed."""
    running: list[Coordinator] = []

    def end() -> None:
        while running:
            coordinator = running.pop()
            coordinator.close()
            coordinator.store.close()

    def start(arrange: Callable[[], None] = lambda: None, startup: float = 0.0) -> Coordinator:
        end()
        world.heal()
        arrange()
        root = write_code(tmp_path)
        coordinator = build(
            Store(tmp_path / "store"),
            double_kinds(world, startup=startup),
            settings=Settings(roots=(root,), period=0),
        ).coordinator
        running.append(coordinator)
        coordinator.start()
        return coordinator

    yield start
    end()


def die_in_submit(coordinator: Coordinator, world: World, job: Job = A) -> Attempt:
    """The store is as a SIGKILL during the submit of a job leaves it; answers the attempt."""
    world.fail("submit", SILENCE, name="a", times=None)
    world.fail("find", SILENCE, name="a", times=None)
    operation = carry_out(coordinator, composition(job))
    stored = coordinator.store.operation(operation.id)
    assert stored is not None
    (record,) = coordinator.store.attempts("a")
    assert record.phase == "intended"
    with coordinator.store.transaction() as transaction:
        transaction.put_operation(operation.id, stored | {"state": "running"})
    return record.attempt


def start_late(world: World, attempt: Attempt) -> None:
    """The engine comes to the request that the dead coordinator had sent it."""
    InMemoryEngine(world, ENGINE).submit(A, attempt)


def resumed(coordinator: Coordinator) -> Operation:
    (operation,) = (
        live
        for data in coordinator.store.operations()
        if (live := coordinator.operations.live(data["id"])) is not None
    )
    assert operation.wait(30)
    return operation


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[PlannedChange]:
    """The planned changes that operations begin with."""
    found: list[PlannedChange] = []
    begin = Operations.begin

    def recorded(operations: Operations, planned: PlannedChange, *others: Any) -> Operation:
        found.append(planned)
        return begin(operations, planned, *others)

    monkeypatch.setattr(Operations, "begin", recorded)
    return found


def test_a_resumption_is_a_planned_change_of_the_same_request(
    begin: Begin, world: World, begun: list[PlannedChange]
) -> None:
    die_in_submit(begin(), world)
    coordinator = begin()
    operation = resumed(coordinator)
    accepted, planned = begun
    assert planned.resumes is operation
    assert (planned.request, planned.number, planned.revision) == (accepted.request, 1, None)
    assert planned.due == planned.plan
    kinds = [each.kind for each in coordinator.store.events(100)]
    assert (kinds.count("accepted"), kinds.count("succeeded")) == (1, 1)


def test_a_job_that_was_tried_just_before_a_crash_waits(
    begin: Begin, world: World, begun: list[PlannedChange]
) -> None:
    die_in_submit(begin(), world)

    def silent() -> None:
        world.fail("submit", SILENCE, name="a", times=None)
        world.fail("find", SILENCE, name="a", times=None)

    coordinator = begin(silent)
    operation = resumed(coordinator)
    with coordinator.store.transaction() as transaction:  # as if it had died of this try
        transaction.put_operation(operation.id, operation.to_dict() | {"state": "running"})
    again = resumed(begin())
    assert begun[-1].waits.keys() == {"a"}
    assert begun[-1].due.actions == ()
    assert (again.state, again.actions["a"].error) == (
        "waiting",
        "was interrupted and waits for its next attempt",
    )
    assert world.running("a") == []


def test_a_job_that_waits_after_a_crash_holds_up_the_reader_of_its_former_topic(
    begin: Begin, world: World
) -> None:
    a, b = chain("a", "b")
    coordinator = begin()
    assert carry_out(coordinator, composition(a, b)).state == "succeeded"
    world.fail("check", Unreachable("killed", address=ENGINE), times=None)
    edited = composition(replace(a, sink_topic="x1"), replace(b, source_topic="x1"))
    operation = carry_out(coordinator, edited)
    with coordinator.store.transaction() as transaction:  # as if it had been killed while it prepared them
        transaction.put_operation(operation.id, operation.to_dict() | {"state": "running"})
        transaction.put_retry_state("a", RetryState(1, coordinator.operations.clock() + 60))
    coordinator = begin()
    again = resumed(coordinator)
    assert {name: each.error for name, each in again.actions.items()} == {
        "a": "was interrupted and waits for its next attempt",
        "b": "waits for job 'a', which was interrupted and waits for its next attempt",
    }
    assert [each.job.source_topic for each in world.running("b")] == ["t1"]
    coordinator.backoff.forget(["a"])
    coordinator.reconciler.round()
    for operation in coordinator.operations.running():
        assert operation.wait(30)
    assert [each.job.sink_topic for each in world.running("a")] == ["x1"]
    assert [each.job.source_topic for each in world.running("b")] == ["x1"]


def test_an_operation_whose_end_could_not_be_stored_is_not_resumed_after_a_later_one(
    begin: Begin, world: World
) -> None:
    """It would carry out the later change: as one of its own revision, and at what it was allowed to cost."""
    coordinator, place = begin(), "sc://e2:1"
    first = carry_out(coordinator, composition(A))
    stored = coordinator.store.operation(first.id)
    assert stored is not None
    with coordinator.store.transaction() as transaction:  # as if the disk had been full when it ended
        transaction.put_operation(first.id, stored | {"state": "running"})
    world.down(place)
    later = composition(A, make_job("b", "out", "out2", spe_address=place))
    assert carry_out(coordinator, later).state == "waiting"
    coordinator = begin(lambda: world.up(place))
    assert coordinator.operations.recent() == []
    ended = coordinator.store.operation(first.id)
    assert ended is not None
    assert (ended["state"], ended["error"]) == ("failed", "its end could not be stored")
    coordinator.reconciler.round()
    for operation in coordinator.operations.running():
        assert operation.wait(30)
    (attempt,) = coordinator.store.attempts("b")
    assert (attempt.revision, attempt.phase) == (2, "running")
    (snapshot,) = coordinator.deployments.snapshots()
    assert snapshot.is_carried_out()


def test_a_session_that_was_drained_before_a_crash_is_deleted_whatever_waits_there_since(
    begin: Begin, world: World
) -> None:
    a, b = chain("a", "b")
    coordinator = begin()
    carry_out(coordinator, composition(a, b))
    before = coordinator.store.job("b")
    assert before is not None
    (drained,) = before.sessions
    world.fail("delete_session", Unreachable("killed", address=BROKER), name=drained.name)
    operation = carry_out(
        coordinator, composition(replace(a, sink_topic="x1"), replace(b, source_topic="x1"))
    )
    record = coordinator.store.job("b")
    assert record is not None
    with coordinator.store.transaction() as transaction:  # as if it had been killed when its copy came up
        transaction.put_operation(operation.id, operation.to_dict() | {"state": "running"})
        sessions = (drained, *record.sessions[1:])
        transaction.put_job(replace(record, rollback_revision=1, sessions=sessions))
    world.broker(BROKER).backlog[drained.name] = 7  # from a writer outside of the composition
    assert resumed(begin()).state == "succeeded"
    assert sorted(world.broker(BROKER).sessions.values()) == ["t0", "x1"]


def test_request_that_an_engine_gets_to_late_starts_nothing_twice(begin: Begin, world: World) -> None:
    attempt = die_in_submit(begin(), world)
    assert resumed(begin()).state == "succeeded"
    start_late(world, attempt)
    assert [each.attempt.id for each in world.running("a")] == [attempt.id]


@pytest.mark.parametrize("late", [False, True], ids=["before it was looked for", "after"])
def test_request_that_an_engine_gets_to_late_outlives_no_deletion(
    begin: Begin, world: World, late: bool
) -> None:
    attempt = die_in_submit(begin(), world)
    coordinator = begin()
    if not late:
        start_late(world, attempt)
    resumed(coordinator)
    assert user.delete_composition(coordinator, "traffic").wait(30)
    with pytest.raises(Exception, match="has ended before"):
        start_late(world, attempt)
    assert world.running() == []
    assert world.broker(BROKER).sessions == {}


def test_attempt_in_another_form_is_brought_out_and_stopped(begin: Begin, world: World) -> None:
    """Neither deployed nor forgotten: the engine may be about to start what was asked for before."""
    attempt = die_in_submit(begin(), world)
    coordinator = begin()
    world.fail("submit", SILENCE, name="a", times=None)
    world.fail("find", SILENCE, name="a", times=None)
    resumed(coordinator)
    world.heal()
    edited = replace(A, trigger="1 second")
    assert carry_out(coordinator, composition(edited)).state == "succeeded"
    with pytest.raises(Exception, match="has ended before"):
        start_late(world, attempt)
    (running,) = world.running("a")
    assert running.job.trigger == "1 second"


def test_attempt_that_ended_before_is_followed_by_a_new_one(begin: Begin, world: World) -> None:
    attempt = die_in_submit(begin(), world)
    world.engine(ENGINE).ended.add(attempt.id)
    assert resumed(begin()).state == "succeeded"
    (running,) = world.running("a")
    assert running.attempt.number == attempt.number + 1


@pytest.mark.parametrize("method", ["check", "submit", "ensure_session", "fence"])
@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_call_without_an_answer_is_made_again(begin: Begin, world: World, method: str, done: bool) -> None:
    coordinator = begin()
    world.fail(method, SILENCE, times=2, after=done)
    assert carry_out(coordinator, composition(A)).state == "succeeded"
    assert len(world.running("a")) == 1


def test_engine_that_goes_after_a_submit_without_an_answer_may_run_the_job(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = InMemoryEngine.submit

    def submitted(self: InMemoryEngine, job: Job, attempt: Attempt) -> Handle:
        submit(self, job, attempt)
        world.down(ENGINE)
        raise SILENCE

    coordinator = begin()
    with monkeypatch.context() as patch:
        patch.setattr(InMemoryEngine, "submit", submitted)
        operation = carry_out(coordinator, composition(A))
    assert "it may or may not have started" in operation.actions["a"].error
    world.up(ENGINE)
    assert carry_out(coordinator, composition(A)).state == "succeeded"
    assert len(world.running("a")) == 1


@pytest.mark.parametrize("method", ["stop", "delete_session"])
@pytest.mark.parametrize("done", [False, True], ids=["request lost", "answer lost"])
def test_deletion_without_an_answer_is_made_again(
    begin: Begin, world: World, method: str, done: bool
) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A))
    world.fail(method, SILENCE, times=2, after=done)
    operation = user.delete_composition(coordinator, "traffic")
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert world.running() == []
    assert world.broker(BROKER).sessions == {}


def test_a_stateless_form_that_dies_gives_way_to_the_one_before_with_its_state(
    begin: Begin, world: World
) -> None:
    stateless = replace(A, upgrade="stateless")
    coordinator = begin(startup=0.3)
    carry_out(coordinator, composition(stateless))
    (old,) = world.running("a")
    world.doomed = lambda job: job.trigger is not None
    operation = carry_out(coordinator, composition(replace(stateless, trigger="1 second")))
    assert "the previous version was restored and runs" in operation.actions["a"].error
    (back,) = world.running("a")
    assert back.job.trigger is None
    assert back.attempt.state is not None
    assert back.attempt.state.location == checkpoint(old.attempt)
    # The form in between may have written with the numbers that follow: they are not given twice.
    assert back.attempt.incarnation == back.attempt.origin == back.attempt.number
    record = coordinator.store.job("a")
    assert record is not None and record.rollback_state is None


@pytest.mark.parametrize("dies", [False, True], ids=["is refused", "dies"])
def test_a_stateless_form_that_a_crash_left_stopped_is_put_back_with_its_state(
    begin: Begin, world: World, dies: bool
) -> None:
    stateless = replace(A, upgrade="stateless")
    coordinator = begin()
    carry_out(coordinator, composition(stateless))
    (before,) = world.running("a")
    die_in_submit(coordinator, world, replace(stateless, trigger="1 second"))
    world.doomed = lambda job: dies and job.trigger is not None

    def arrange() -> None:
        if not dies:
            world.fail("submit", Rejected("no such class", address=ENGINE), name="a", times=2)

    operation = resumed(begin(arrange, startup=0.3))
    assert "the previous version was restored and runs" in operation.actions["a"].error
    (back,) = world.running("a")
    assert back.job.trigger is None
    assert back.attempt.state is not None
    assert back.attempt.state.location == checkpoint(before.attempt)


def test_a_form_that_could_not_be_put_back_has_its_state_when_a_later_try_puts_it_back(
    begin: Begin, world: World
) -> None:
    stateless = replace(A, upgrade="stateless")
    changed = composition(replace(stateless, trigger="1 second"))
    coordinator = begin(startup=0.3)
    carry_out(coordinator, composition(stateless))
    (before,) = world.running("a")
    world.fail("submit", Rejected("no class loader", address=ENGINE), name="a", times=2)
    operation = carry_out(coordinator, changed)
    assert "and the previous version could not be restored" in operation.actions["a"].error
    world.doomed = lambda job: job.trigger is not None
    operation = carry_out(coordinator, changed)
    assert "the previous version was restored and runs" in operation.actions["a"].error
    (back,) = world.running("a")
    assert back.attempt.state is not None
    assert back.attempt.state.location == checkpoint(before.attempt)


@pytest.mark.parametrize("refused", [2, 3], ids=["and runs", "which is refused too"])
def test_form_that_a_crash_left_stopped_is_put_back_when_the_new_one_does_not_start(
    begin: Begin, world: World, refused: int
) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A))
    (before,) = world.running("a")
    die_in_submit(coordinator, world, replace(A, trigger="1 second"))
    no = Rejected("no", address=ENGINE)
    coordinator = begin(lambda: world.fail("submit", no, name="a", times=refused))
    operation = resumed(coordinator)
    assert operation.state == "failed"
    if refused == 3:  # the attempt of before, a new one, and the former form
        assert "and the previous version could not be restored" in operation.actions["a"].error
        assert world.running("a") == []
        return
    assert "the previous version was restored and runs" in operation.actions["a"].error
    (running,) = world.running("a")
    assert running.job.trigger == A.trigger
    assert running.attempt.state is not None
    assert before.attempt.id in running.attempt.state.location


# --- a watch that a crash broke off


FASTER = replace(A, trigger="1 second")


class Watched:
    """A coordinator that is killed at its first look at a copy that has taken the place of another."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world, self.root = world, write_code(directory)
        self.life = Life(world, directory / "store", Rejected("killed", address=ENGINE))
        self._open: Coordinator | None = None
        coordinator = self._begin(cast(World, self.life), self.life.store)
        carry_out(coordinator, composition(A))
        self.before = world.running("a")[0].attempt.id
        self.life.kill_at, self.life.spared = ("statuses", False), 1  # the plan looks too
        carry_out(coordinator, composition(FASTER))
        assert self.life.dead

    def again(self) -> Coordinator:
        """The next coordinator, on what the dead one left."""
        return self._begin(self.world, self.life.killed_store)

    def _begin(self, world: World, place: Path) -> Coordinator:
        self.close()
        self._open = build(
            Store(place), double_kinds(world, startup=0.1), settings=Settings(roots=(self.root,), period=0)
        ).coordinator
        self._open.start()
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open.store.close()


@pytest.fixture
def watched(world: World, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Watched]:
    world.doomed = lambda job: request.param and job.trigger == FASTER.trigger
    watched = Watched(world, tmp_path)
    yield watched
    watched.close()


def assert_rolled_back(watched: Watched, coordinator: Coordinator, operation: Operation) -> None:
    assert operation.state == "failed"
    assert "the previous version was restored and runs" in operation.actions["a"].error
    (running,) = watched.world.running("a")
    assert (running.job.trigger, running.attempt.state is not None) == (A.trigger, True)
    assert watched.before in running.attempt.state.location  # type: ignore[union-attr]
    before = watched.world.changes()
    coordinator.reconciler.round()
    assert coordinator.operations.is_idle("traffic")
    assert watched.world.changes() == before  # what was refused is not tried again by itself
    record = coordinator.store.job("a")
    assert record is not None
    assert record.rollback_revision == 0


@pytest.mark.parametrize("watched", [True], indirect=True)
def test_a_copy_that_dies_after_its_coordinator_is_replaced_by_the_former(watched: Watched) -> None:
    coordinator = watched.again()
    assert_rolled_back(watched, coordinator, resumed(coordinator))


@pytest.mark.parametrize("watched", [False], indirect=True)
def test_a_copy_whose_watch_was_broken_off_is_watched_again(watched: Watched, world: World) -> None:
    hold = world.hold("statuses", spared=1)  # the plan's own look
    coordinator = watched.again()
    assert hold.reached.wait(30)
    world.crash("a", "no such street")
    hold.release()
    operation = resumed(coordinator)
    assert "no such street" in operation.actions["a"].error
    assert_rolled_back(watched, coordinator, operation)


@pytest.mark.parametrize("watched", [False], indirect=True)
def test_a_copy_that_lives_is_kept_and_has_no_former_any_more(watched: Watched, world: World) -> None:
    before = world.changes()
    coordinator = watched.again()
    operation = resumed(coordinator)
    assert (operation.state, operation.actions["a"].state) == ("succeeded", "kept")
    assert world.changes() == before
    record = coordinator.store.job("a")
    assert record is not None
    assert record.rollback_revision == 0


def test_session_that_could_not_be_deleted_goes_with_the_next_apply(begin: Begin, world: World) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A))
    elsewhere = replace(A, source_topic="elsewhere")
    world.fail("delete_session", OutcomeUnknown("killed", address=BROKER), times=None)
    carry_out(coordinator, composition(elsewhere))
    assert len(world.broker(BROKER).sessions) == 2
    coordinator = begin()
    operation = carry_out(coordinator, composition(elsewhere))
    assert operation.actions["a"].kind == "keep"
    assert list(world.broker(BROKER).sessions.values()) == ["elsewhere"]
    (running,) = world.running("a")
    assert list(world.broker(BROKER).sessions) == [running.attempt.session]


def test_code_that_was_brought_and_not_accepted_is_forgotten(
    begin: Begin, world: World, tmp_path: Path
) -> None:
    coordinator = begin()
    carry_out(coordinator, composition(A))
    coordinator.changes.artifacts.keep([make_job("b", "in", "out", job_path="other.py")])
    (scratch,) = (tmp_path / "store" / "artifacts").glob(f"{A.code_hash}")
    (scratch / ".speck-scratch-1").mkdir()
    retained = [each.name for each in (tmp_path / "store" / "artifacts").iterdir()]
    assert len(retained) == 2
    begin()
    assert [each.name for each in (tmp_path / "store" / "artifacts").iterdir()] == [A.code_hash]
    assert [each.name for each in scratch.iterdir()] == ["jobs.py"]


def test_attempt_that_ran_and_was_lost_is_started_from_its_state(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Flink, which finds it by its checkpoints: the same attempt once more would begin anew."""
    attempt = die_in_submit(begin(), world)
    handle = Handle(ENGINE, attempt.id, {"job": "a", "checkpoint": f"memory:/a/{attempt.id}"})

    def lose() -> None:
        start_late(world, attempt)
        world.restart(ENGINE)
        monkeypatch.setattr(InMemoryEngine, "find", lambda self, attempt: handle)

    assert resumed(begin(lose)).state == "succeeded"
    (running,) = world.running("a")
    assert running.attempt.number == 2
    assert running.attempt.state is not None
    assert running.attempt.state.location == f"memory:/a/{attempt.id}"


def test_a_defect_in_the_plan_of_one_operation_keeps_no_server_from_starting(
    begin: Begin, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = begin()
    other = composition(make_job("b", "more", "out"), name="other")
    ids = [carry_out(coordinator, each).id for each in (composition(A), other)]
    stored = [coordinator.store.operation(each) for each in ids]
    with coordinator.store.transaction() as transaction:
        for data in filter(None, stored):
            actions = [each | {"state": "pending"} for each in data["actions"]]
            transaction.put_operation(data["id"], data | {"state": "running", "actions": actions})

    def cyclic(plan: Plan, *leftovers: Leftovers, **options: Any) -> tuple[Step, ...]:
        if "a" in {each.job.job_name for each in plan.actions}:
            raise CycleError("nodes are in a cycle", ["a", "a"])
        return schedule(plan, *leftovers, **options)

    monkeypatch.setattr("speck.coordinator.interrupted.schedule", cyclic)
    coordinator = begin()
    first, second = (coordinator.store.operation(each) for each in ids)
    assert first is not None and first["state"] == "failed"
    assert "cannot be resumed: internal error: CycleError(" in str(first)
    assert coordinator.operations.live(ids[0]) is None
    live = coordinator.operations.live(ids[1])
    assert second is not None and live is not None and live.wait(30)
    assert live.state == "succeeded"


def test_a_session_that_its_broker_lost_is_filled_again_by_its_writers(begin: Begin, world: World) -> None:
    coordinator = begin()
    world.fail("submit", Rejected("no", address=ENGINE), name="a", times=None)
    assert carry_out(coordinator, composition(A)).state == "failed"
    state = world.broker(BROKER)
    assert state.refilled == []  # the session is new: there is nothing that it has missed
    state.sessions.clear()
    world.heal()
    assert carry_out(coordinator, composition(A)).state == "succeeded"
    assert state.refilled == ["in"]


@pytest.mark.parametrize("done", [False, True], ids=["before the broker made it", "after"])
def test_a_session_that_was_never_made_was_not_lost(begin: Begin, world: World, done: bool) -> None:
    """Writers that were asked to send again would send messages of deployments that were deleted."""
    coordinator = begin()
    world.fail("ensure_session", SILENCE, times=None, after=done)
    operation = carry_out(coordinator, composition(A))
    stored = coordinator.store.operation(operation.id)
    assert stored is not None
    with coordinator.store.transaction() as transaction:
        transaction.put_operation(operation.id, stored | {"state": "running"})
    state = world.broker(BROKER)
    assert bool(state.sessions) is done
    assert resumed(begin()).state == "succeeded"
    assert state.refilled == []
    (record,) = begin().store.jobs()
    assert record.unmade_sessions == ()
