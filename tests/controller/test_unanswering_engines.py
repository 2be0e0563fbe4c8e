"""One engine or broker whose calls do not return holds up nothing but its own jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from speck.binder import pool
from speck.controller import reaper, reconciler
from speck.controller.abandoned_states import AbandonedStates
from speck.controller.backoff import Backoff
from speck.coordinator import Coordinator, build
from speck.core.plan import Keep
from speck.core.runtime import JobState
from speck.core.settings import Settings
from speck.errors import InvalidInput
from speck.observe import observer
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.benches.reconciler import Bench
from testbed.doubles.kinds import double_kinds
from testbed.doubles.troubles import Hold
from testbed.doubles.world import World

STUCK, OTHER = "sc://stuck:1", "sc://e2:1"
PATIENCE = 0.3  # s, of all loops here
LIMIT = 10.0  # s, far below the 60 s after which a call of the double fails

GOOD, BAD = make_job("good", "in", "mid"), make_job("bad", "in2", "mid2", spe_address=STUCK)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "PATIENCE", PATIENCE)
    monkeypatch.setattr(reaper, "PATIENCE", PATIENCE)


@contextmanager
def stuck(world: World, *methods: str, address: str = STUCK) -> Iterator[list[Hold]]:
    """While the block runs, calls of these methods at an address do not return."""
    holds = [world.hold(method, address=address) for method in methods]
    try:
        yield holds
    finally:
        for each in holds:
            each.release()


def test_others_are_healed_while_a_job_waits_for_an_engine_that_does_not_answer(
    bench: Bench, world: World
) -> None:
    world.down(STUCK)
    for job, name in ((GOOD, "good"), (BAD, "bad")):
        operation, _ = user.apply(bench.coordinator, composition(job, name=name))
        assert operation.wait(30)
    world.up(STUCK)
    bench.coordinator.observer.patience = PATIENCE
    with stuck(world, "submit", "check", "capacity", "statuses", "status"):
        world.crash("good")
        begun = time.monotonic()
        bench.clock.now += 10
        bench.coordinator.reconciler.round()
        assert time.monotonic() - begun < LIMIT
        assert world.counts()["capacity"] > 0
        eventually(lambda: [each.job.job_name for each in world.running()], lambda found: found == ["good"])


def test_a_probe_that_is_late_is_neither_repeated_nor_lost(bench: Bench, world: World) -> None:
    reconciling = bench.coordinator.reconciler
    key, nothing = ("spark", STUCK), observer.Observation({})
    with stuck(world, "capacity"):
        for _ in range(3):
            assert reconciling._probe([key], [], nothing) == {STUCK: f"{STUCK}: has not responded yet"}
        assert world.counts()["capacity"] == 1
    eventually(lambda: reconciling._probe([key], [], nothing), lambda found: found == {})
    assert world.counts()["capacity"] <= 2


def test_a_plan_waits_for_an_engine_for_a_limited_time(bench: Bench, world: World) -> None:
    bench.apply(GOOD, BAD)
    with stuck(world, "statuses", "status"):
        for patience in (PATIENCE, LIMIT):  # the second one waits less, since the engine was late
            begun = time.monotonic()
            deployed = bench.coordinator.deployments.snapshots()[0].deployed()
            found = bench.coordinator.observer.observe(deployed, patience)
            assert time.monotonic() - begun < LIMIT / 2
            assert (found["good"].state, found["bad"].state) == (JobState.RUNNING, JobState.UNKNOWN)
            assert found["bad"].message == f"{STUCK}: has not answered in {patience:g} s"
    deployed = bench.coordinator.deployments.snapshots()[0].deployed()
    eventually(
        lambda: bench.coordinator.observer.observe(deployed)["bad"].state,
        lambda state: state is JobState.RUNNING,
    )


def started_again(world: World, store: Store, directory: Path) -> Coordinator:
    services = build(
        store,
        double_kinds(world),
        settings=Settings(roots=(directory,), period=0.2),
        backoff=Backoff(lambda tries: 0.1),
    )
    services.coordinator.observer.patience = PATIENCE
    return services.coordinator


@pytest.mark.usefixtures("known_owner")
def test_a_start_with_an_interrupted_operation_heals_the_others(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.coordinator.planning.planner.PATIENCE", PATIENCE)
    bench = Bench.begin(world, tmp_path)
    for job, name in ((GOOD, "good"), (BAD, "bad")):
        operation, _ = user.apply(bench.coordinator, composition(job, name=name))
        assert operation.wait(30)
    data = dict(bench.store.operation(operation.id) or {})
    bench.close()
    with (
        Store(tmp_path / "store") as store,
        stuck(world, "statuses", "status", "capacity", "check", "submit"),
    ):
        with store.transaction() as transaction:  # as a coordinator that is killed leaves it
            transaction.put_operation(data["id"], data | {"state": "running", "ended": None})
        coordinator = started_again(world, store, tmp_path)
        begun = time.monotonic()
        coordinator.start()
        assert time.monotonic() - begun < LIMIT
        assert coordinator.unready_reasons() in ([], ["the engines have not been observed yet"])
        world.crash("good")
        eventually(lambda: "good" in [each.job.job_name for each in world.running()], bool, LIMIT)
        for each in world._holds:
            each.release()
        coordinator.close()


MOVED = make_job("bad", "in2", "mid2", spe_address=OTHER)


def leave_behind(bench: Bench, world: World) -> None:
    """Move a job off an engine that is down."""
    bench.apply(GOOD, BAD)
    world.down(STUCK)
    operation, _ = user.apply(bench.coordinator, composition(GOOD, MOVED), leave_behind=[STUCK])
    assert operation.wait(30)


def test_a_place_is_forgotten_while_the_reaper_waits_for_it(bench: Bench, world: World) -> None:
    leave_behind(bench, world)
    assert len(bench.store.abandoned_attempts()) == 1
    world.up(STUCK)
    with stuck(world, "stop", "status", "find") as holds:
        begun = time.monotonic()
        bench.coordinator.reaper.round()
        eventually(lambda: any(each.reached.is_set() for each in holds), bool)
        assert bench.coordinator.reaper.forget([STUCK], "ann") == 1
        assert time.monotonic() - begun < LIMIT
        assert bench.store.abandoned_attempts() == []
    bench.coordinator.reaper.close()
    # The call that returns now leaves no second event, and makes no record again.
    ends = [each["kind"] for each in bench.queries.events(1000) if "attempt 1, abandoned" in each["message"]]
    assert ends == ["forgotten"]
    assert bench.store.abandoned_attempts() == []
    with pytest.raises(InvalidInput):
        bench.coordinator.reaper.forget([STUCK])


def test_a_session_that_is_made_again_after_a_user_forgot_it_is_not_deleted(
    bench: Bench, world: World
) -> None:
    jobs = {
        address: make_job(name, name, f"out-{name}", source_broker=address, sink_broker="tcp://b0:1883")
        for name, address in (("first", "tcp://b1:1883"), ("second", "tcp://b2:1883"))
    }
    bench.apply(*jobs.values())
    for each in jobs:
        world.down(each)
    assert user.delete_composition(bench.coordinator, "traffic", leave_behind=list(jobs)).wait(30)
    slow, forgotten = (each.broker for each in bench.store.abandoned_sessions())
    before = dict(world.broker(forgotten).sessions)
    assert before
    with stuck(world, "delete_session", address=slow) as holds:
        for each in jobs:
            world.up(each)
        bench.coordinator.reaper._missed.clear()
        bench.coordinator.reaper.round()
        assert holds[0].reached.wait(LIMIT)
        assert bench.coordinator.reaper.forget([forgotten]) == 1
        del world.broker(forgotten).sessions[next(iter(before))]  # its broker comes back empty
        bench.apply(jobs[forgotten])
        assert world.broker(forgotten).sessions == before
    bench.coordinator.reaper.close()
    bench.coordinator.reaper.reap()
    assert world.broker(forgotten).sessions == before
    assert world.broker(slow).sessions == {}
    assert bench.store.abandoned_sessions() == []


def test_others_are_reaped_while_a_user_forgets_a_place_that_does_not_answer(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = "sc://e3:1"
    jobs = BAD, make_job("third", "in3", "mid3", spe_address=third)
    bench.apply(*jobs)
    world.down(STUCK)
    world.down(third)
    moved = composition(*(replace(each, spe_address=OTHER) for each in jobs))
    operation, _ = user.apply(bench.coordinator, moved, leave_behind=[STUCK, third])
    assert operation.wait(30)
    assert len(bench.store.abandoned_attempts()) == 2
    world.up(third)
    reached, released, keep = threading.Event(), threading.Event(), AbandonedStates.keep_left

    def keep_left(states: AbandonedStates) -> None:
        if states.abandoned.address == STUCK:
            reached.set()
            released.wait(30)
        keep(states)

    monkeypatch.setattr(AbandonedStates, "keep_left", keep_left)
    forgetting = threading.Thread(target=bench.coordinator.reaper.forget, args=([STUCK],))
    forgetting.start()
    try:
        assert reached.wait(LIMIT)
        ending = threading.Thread(target=bench.coordinator.reaper.end_at, args=([third],), daemon=True)
        ending.start()
        eventually(
            lambda: [each.address for each in bench.store.abandoned_attempts()],
            lambda found: found == [STUCK],
            LIMIT,
        )
    finally:
        released.set()
        forgetting.join()
    assert bench.store.abandoned_attempts() == []


def test_an_operation_does_not_wait_for_what_was_left_behind_elsewhere(bench: Bench, world: World) -> None:
    leave_behind(bench, world)
    bench.coordinator.reaper._missed.clear()
    world.up(STUCK)
    with stuck(world, "stop", "status", "find"):
        begun = time.monotonic()
        operation, plan = user.apply(bench.coordinator, composition(GOOD, MOVED))
        assert operation.wait(LIMIT)
        assert time.monotonic() - begun < LIMIT
        assert all(isinstance(each, Keep) for each in plan.actions)
    bench.coordinator.reaper.close()
    bench.coordinator.reaper.reap()
    assert bench.store.abandoned_attempts() == []


def test_calls_that_wait_are_those_of_daemons(bench: Bench, world: World) -> None:
    """The end of the process does not wait for them."""
    with stuck(world, "capacity"):
        bench.coordinator.reconciler._probe([("spark", STUCK)], [], observer.Observation({}))
        waiting = [each for each in threading.enumerate() if each.name == "probe"]
        assert waiting
        assert all(each.daemon for each in waiting)


def test_the_end_does_not_wait_for_a_silent_engine(bench: Bench, world: World) -> None:
    for job in (GOOD, BAD):
        operation, _ = user.apply(bench.coordinator, composition(job, name=job.job_name))
        assert operation.wait(30)
    coordinator = bench.coordinator
    coordinator.observer.patience = PATIENCE
    with stuck(world, "statuses", "status", "metrics", "measure", "capacity") as holds:
        coordinator.reconciler.round()
        coordinator.sampler.sample()
        assert any(each.reached.is_set() for each in holds)
        begun = time.monotonic()
        coordinator.close()
        assert time.monotonic() - begun < LIMIT
        waiting = [each for each in threading.enumerate() if each.name in ("observe", "sample")]
        assert {(each.name, each.daemon) for each in waiting} == {("observe", True), ("sample", True)}


def test_the_end_waits_for_an_operation_as_long_as_it_was_given(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CLOSING", PATIENCE)
    with stuck(world, "submit") as holds:
        operation, _ = user.apply(bench.coordinator, composition(BAD))
        assert holds[0].reached.wait(30)
        begun = time.monotonic()
        bench.coordinator.close(PATIENCE)
        assert PATIENCE <= time.monotonic() - begun < LIMIT
        assert bench.coordinator.operations.running()
        hanging = [each for each in threading.enumerate() if each.name == f"operation-{operation.id}"]
        assert [each.daemon for each in hanging] == [True]
    assert operation.wait(30)
