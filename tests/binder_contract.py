"""What every engine binder must do, the double included.

A subclass of :class:`EngineContract` supplies the fixture ``bench``: an :class:`EngineBench` for one engine
that runs, with what a test needs around it.  All engines take the same tests; a skip says why.
"""

from __future__ import annotations

import inspect
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import pytest

from speck.binder import EngineBinder
from speck.errors import Refused, SpeckError, Unreachable
from speck.model import Attempt, Capacity, Handle, Job, JobMetrics, JobState, JobStatus, State, client_id

PATIENCE = 60.0

# What an engine says of a job that was stopped: some remember it for a while.
GONE = frozenset({JobState.LOST, JobState.STOPPED})

T = TypeVar("T")


class EngineBench(Protocol):
    """One engine and the things around it."""

    def binder(self) -> EngineBinder:
        """Another binder of the engine, as another coordinator would have; closed by the bench."""

    def dead_binder(self) -> EngineBinder:
        """A binder of an engine that is not there."""

    def job(self, name: str, behaviour: str = "good") -> Job:
        """A job, its session made: ``good``, ``fails_at_build``, ``fails_at_run`` or ``missing`` (its class).

        The good one counts; a failing one raises an error that says ``no such street``.
        """

    def feed(self, job: Job) -> None:
        """Send the job a message, if it takes any."""

    def running(self, job_name: str) -> int:
        """How many copies of a job run on the engine, asked of the engine itself."""

    def forgotten(self, handle: Handle) -> Handle:
        """The handle of a job that the engine does not know, in the form that this engine gives handles."""

    def fault_place(self) -> str:
        """Where ``fails_at_build`` fails, as file and line, as far as the engine can tell; empty if not."""


def attempt_of(job: Job, number: int = 1, state: State | None = None) -> Attempt:
    """A new attempt at a job."""
    return Attempt(
        id=uuid.uuid4().hex,
        job_name=job.job_name,
        number=number,
        session=client_id(job.job_name),
        state=state,
    )


def await_state(engine: EngineBinder, handle: Handle, *states: JobState) -> JobStatus:
    """Wait until the engine says one of these states."""
    return eventually(lambda: engine.status(handle), lambda status: status.state in states)


def eventually(ask: Callable[[], T], wanted: Callable[[T], bool], patience: float = PATIENCE) -> T:
    """Ask until the answer is as wanted."""
    deadline = time.monotonic() + patience
    while not wanted(answer := ask()):
        assert time.monotonic() < deadline, f"still {answer!r} after {patience} s"
        time.sleep(0.05)
    return answer


class EngineContract:
    """The tests; inherit and supply ``bench``."""

    @pytest.fixture
    def engine(self, bench: EngineBench) -> EngineBinder:
        return bench.binder()

    @pytest.fixture
    def name(self) -> str:
        return f"job-{uuid.uuid4().hex[:8]}"

    # -- submit, find

    def test_submit_runs(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        engine.check(job, None)
        handle = engine.submit(job, attempt_of(job))
        await_state(engine, handle, JobState.RUNNING)
        assert bench.running(name) == 1
        engine.stop(handle, keep_state=False)
        assert bench.running(name) == 0

    def test_submit_again_is_the_same_job(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        attempt = attempt_of(job)
        handle = engine.submit(job, attempt)
        assert engine.submit(job, attempt) == handle
        assert bench.binder().submit(job, attempt) == handle
        assert bench.running(name) == 1
        engine.stop(handle, keep_state=False)

    def test_submit_at_the_same_time(self, bench: EngineBench, name: str) -> None:
        job = bench.job(name)
        attempt = attempt_of(job)
        engines = [bench.binder() for _ in range(3)]
        start = threading.Barrier(len(engines))

        def submit(engine: EngineBinder) -> Handle:
            start.wait(PATIENCE)
            return engine.submit(job, attempt)

        with ThreadPoolExecutor(len(engines)) as pool:
            handles = list(pool.map(submit, engines))
        assert handles == [handles[0]] * 3
        assert bench.running(name) == 1
        engines[0].stop(handles[0], keep_state=False)

    def test_find_after_a_lost_answer(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        attempt = attempt_of(job)
        assert engine.find(attempt) is None
        handle = engine.submit(job, attempt)
        assert bench.binder().find(attempt) == handle
        engine.stop(handle, keep_state=False)
        assert engine.find(attempt) is None

    def test_jobs_do_not_see_each_other(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        jobs = [bench.job(f"{name}-{number}") for number in range(2)]
        handles = [engine.submit(job, attempt_of(job)) for job in jobs]
        engine.stop(handles[0], keep_state=False)
        assert engine.status(handles[0]).state in GONE
        await_state(engine, handles[1], JobState.RUNNING)
        engine.stop(handles[1], keep_state=False)

    # -- status

    def test_status_of_a_stopped_job(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        handle = engine.submit(job, attempt_of(job))
        engine.stop(handle, keep_state=False)
        status = engine.status(handle)
        assert status.state in GONE
        assert status.message

    def test_status_of_a_forgotten_job(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        handle = engine.submit(job, attempt_of(job))
        engine.stop(handle, keep_state=False)
        status = engine.status(bench.forgotten(handle))
        assert status.state is JobState.LOST
        assert status.message

    def test_status_has_the_time_of_the_look(
        self, bench: EngineBench, engine: EngineBinder, name: str
    ) -> None:
        job = bench.job(name)
        handle = engine.submit(job, attempt_of(job))
        before = time.time()
        assert before <= engine.status(handle).observed_at <= time.time()
        engine.stop(handle, keep_state=False)

    # -- stop, state

    def test_stop_without_state(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        handle = engine.submit(job, attempt_of(job))
        assert engine.stop(handle, keep_state=False) is None

    def test_stop_twice(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        handle = engine.submit(job, attempt_of(job))
        state = engine.stop(handle, keep_state=True)
        assert state is not None
        assert engine.stop(handle, keep_state=True) == state
        assert engine.stop(handle, keep_state=False) is None

    def test_start_from_state(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        first = engine.submit(job, attempt_of(job))
        await_state(engine, first, JobState.RUNNING)
        state = engine.stop(first, keep_state=True)
        assert state is not None
        engine.check(job, state)
        second = engine.submit(job, attempt_of(job, 2, state))
        await_state(engine, second, JobState.RUNNING)
        later = engine.stop(second, keep_state=True)
        assert later is not None
        assert later.kind == state.kind

    def test_state_that_is_not_there(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        handle = engine.submit(job, attempt_of(job))
        state = engine.stop(handle, keep_state=True)
        assert state is not None
        nowhere = State(state.kind, f"{state.location}-nowhere")
        with pytest.raises(Refused, match="nowhere"):
            engine.check(job, nowhere)

    # -- the job's own faults

    def test_code_that_fails_at_build(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name, "fails_at_build")
        with pytest.raises(Refused, match="no such street") as caught:
            engine.submit(job, attempt_of(job))
        assert bench.fault_place() in str(caught.value)
        assert "\n" not in str(caught.value)
        assert bench.running(name) == 0

    def test_code_that_is_missing(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name, "missing")
        with pytest.raises(Refused, match=job.entry_class):
            engine.submit(job, attempt_of(job))
        assert bench.running(name) == 0

    def test_code_that_fails_at_run(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name, "fails_at_run")
        attempt = attempt_of(job)
        handle = engine.submit(job, attempt)
        bench.feed(job)
        status = await_state(engine, handle, JobState.FAILED)
        assert "no such street" in status.message
        assert "\n" not in status.message
        assert engine.find(attempt) == handle  # what has failed is found too, and can tell why
        assert engine.status(handle).message == status.message
        engine.stop(handle, keep_state=False)
        assert engine.status(handle).state in GONE | {JobState.FAILED}

    # -- an engine that is not there

    def test_engine_down(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        attempt = attempt_of(job)
        handle = engine.submit(job, attempt)
        dead = bench.dead_binder()
        status = dead.status(handle)
        assert status.state is JobState.UNKNOWN
        assert status.message
        calls: dict[str, Callable[[], object]] = {
            "check": lambda: dead.check(job, None),
            "submit": lambda: dead.submit(job, attempt_of(job)),
            "find": lambda: dead.find(attempt),
            "stop": lambda: dead.stop(handle, keep_state=True),
            "metrics": lambda: dead.metrics(handle),
            "capacity": dead.capacity,
        }
        for call in calls.values():
            with pytest.raises(Unreachable) as caught:
                call()
            assert caught.value.address in str(caught.value)
        engine.stop(handle, keep_state=False)

    def test_every_method_is_in_the_contract(self, engine: EngineBinder) -> None:
        methods = {name for name, _ in inspect.getmembers(EngineBinder, inspect.isfunction) if name[0] != "_"}
        assert methods <= {name for name, _ in inspect.getmembers(engine, inspect.ismethod)}

    # -- numbers

    def test_metrics(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        handle = engine.submit(job, attempt_of(job))
        bench.feed(job)
        metrics = eventually(lambda: engine.metrics(handle), lambda found: found.batch_id is not None)
        assert isinstance(metrics, JobMetrics)
        assert metrics.observed_at <= time.time()
        for number in (metrics.input_rate, metrics.processing_rate, metrics.batch_duration_ms):
            assert number is None or number >= 0
        engine.stop(handle, keep_state=False)

    def test_metrics_of_a_forgotten_job(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        handle = engine.submit(job, attempt_of(job))
        engine.stop(handle, keep_state=False)
        with pytest.raises(SpeckError):
            engine.metrics(handle)

    def test_capacity(self, engine: EngineBinder) -> None:
        capacity = engine.capacity()
        assert isinstance(capacity, Capacity)
        assert capacity.cores is None or capacity.cores >= 1
        assert capacity.memory is None or capacity.memory > 1 << 20  # bytes, not megabytes
        if capacity.slots is not None and capacity.slots_free is not None:
            assert 0 <= capacity.slots_free <= capacity.slots

    def test_close_leaves_jobs_alone(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        attempt = attempt_of(job)
        other = bench.binder()
        handle = other.submit(job, attempt)
        other.close()
        other.close()
        await_state(engine, handle, JobState.RUNNING)
        engine.stop(handle, keep_state=False)
