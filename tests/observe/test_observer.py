"""A look at all engines has a few threads at a time, and asks those last that were silent before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pytest

from speck.binder.pool import BinderPool
from speck.binder.start_limit import StartLimit
from speck.core.inventory import Inventory
from speck.core.runtime import Handle, JobState, JobStatus
from speck.observe.observer import SHOWN, Observer
from speck.store.deployments import Deployment
from speck.testing import attempt_of, eventually
from testbed.benches.jobs_by_hand import make_job
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

ENGINES = [f"sc://e{number}:15002" for number in range(5)]
Look = Callable[[Observer, list[Deployment]], dict[str, JobState]]


def observer_of(world: World, at_once: int, patience: float) -> Observer:
    """An observer that asks so many engines at a time, since no time passes for its limit."""
    limit = StartLimit(at_once, lambda: 0.0, lambda: 0.0, lambda _, look: None, at_once)
    return Observer(BinderPool(double_kinds(world), Inventory()), time.time, patience, limit)


def deployed(pool: BinderPool) -> list[Deployment]:
    """A job at each engine."""
    jobs = [make_job(f"at-{number}", spe_address=each) for number, each in enumerate(ENGINES)]
    return [(job, pool.engine(job).submit(job, attempt_of(job))) for job in jobs]


def round_of(observer: Observer, jobs: list[Deployment]) -> dict[str, JobState]:
    return {name: each.state for name, each in observer.poll(jobs).statuses.items()}


def plan_of(observer: Observer, jobs: list[Deployment]) -> dict[str, JobState]:
    return {name: each.state for name, each in observer.observe(jobs, observer.patience).items()}


def shown(observer: Observer) -> dict[str, JobState]:
    return {name: each.state for name, each in observer.seen().items()}


@pytest.mark.parametrize("look", [round_of, plan_of])
def test_a_few_engines_are_asked_at_a_time(look: Look) -> None:
    """A thread for each of a thousand engines waited for the interpreter."""
    world = World()
    observer = observer_of(world, 2, patience=0.05)
    jobs = deployed(observer.pool)
    hold = world.hold("statuses")
    assert set(look(observer, jobs).values()) == {JobState.UNKNOWN}
    assert len(observer.looks._waiting) == 3
    hold.release()
    found = eventually(lambda: look(observer, jobs), lambda each: JobState.UNKNOWN not in each.values())
    assert found == {job.job_name: JobState.RUNNING for job, _ in jobs}
    observer.pool.close()


@pytest.mark.parametrize("look", [round_of, plan_of])
def test_a_defect_of_a_binder_hides_no_other_engine(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    observer = observer_of(World(), 5, patience=60.0)
    jobs, statuses = deployed(observer.pool), InMemoryEngine.statuses

    def fail(engine: InMemoryEngine, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        if engine.address == ENGINES[0]:
            raise ValueError("no such state")
        return statuses(engine, handles)

    monkeypatch.setattr(InMemoryEngine, "statuses", fail)
    states = look(observer, jobs)
    assert [name for name, each in states.items() if each is JobState.UNKNOWN] == ["at-0"]
    observer.pool.close()


def test_those_that_were_silent_are_asked_last() -> None:
    world = World()
    observer = observer_of(world, 1, patience=60.0)
    jobs = deployed(observer.pool)
    world.down(ENGINES[0])
    for order in (ENGINES, [*ENGINES[1:], ENGINES[0]]):
        world.calls.clear()
        states = round_of(observer, jobs)
        assert [name for name, each in states.items() if each is JobState.UNKNOWN] == ["at-0"]
        assert [address for method, address, _ in world.calls if method == "statuses"] == order
    observer.pool.close()


def test_the_last_status_is_shown_while_an_engine_takes_its_time() -> None:
    """The page said that no job of a busy machine was known, while all of them ran."""
    world, now = World(), [time.time()]
    observer = observer_of(world, 5, patience=0.05)
    observer.steady = lambda: now[0]
    jobs = deployed(observer.pool)
    eventually(lambda: round_of(observer, jobs), lambda found: set(found.values()) == {JobState.RUNNING})
    world.down(ENGINES[0])  # refuses each call, and so is known not to answer
    eventually(lambda: round_of(observer, jobs), lambda found: found["at-0"] is JobState.UNKNOWN)
    hold = world.hold("statuses")
    assert set(round_of(observer, jobs).values()) == {JobState.UNKNOWN}
    assert shown(observer) == {"at-0": JobState.UNKNOWN} | dict.fromkeys(
        ("at-1", "at-2", "at-3", "at-4"), JobState.RUNNING
    )
    now[0] += SHOWN + 1
    round_of(observer, jobs)
    assert set(shown(observer).values()) == {JobState.UNKNOWN}
    hold.release()
    observer.pool.close()


def test_no_status_is_shown_of_a_job_that_changes() -> None:
    world = World()
    observer = observer_of(world, 5, patience=0.05)
    jobs = deployed(observer.pool)
    eventually(lambda: round_of(observer, jobs), lambda found: set(found.values()) == {JobState.RUNNING})
    observer.forget(["at-1"])
    hold = world.hold("statuses")
    round_of(observer, jobs)
    assert shown(observer)["at-1"] is JobState.UNKNOWN
    hold.release()
    observer.pool.close()


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_the_last_status_is_shown_for_as_long_whatever_the_clock_shows(jump: float) -> None:
    """An engine that hangs is not shown as it was for an hour, since the clock was set back by one."""
    world, unix, now = World(), [time.time()], [7.0]
    observer = observer_of(world, 5, patience=0.05)
    observer.clock, observer.steady = lambda: unix[0], lambda: now[0]
    jobs = deployed(observer.pool)
    eventually(lambda: round_of(observer, jobs), lambda found: set(found.values()) == {JobState.RUNNING})
    hold = world.hold("statuses")
    unix[0] += jump
    round_of(observer, jobs)
    assert set(shown(observer).values()) == {JobState.RUNNING}
    now[0] += SHOWN + 1
    round_of(observer, jobs)
    assert set(shown(observer).values()) == {JobState.UNKNOWN}
    hold.release()
    observer.pool.close()
