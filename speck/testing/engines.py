"""The contract of every engine binder: a suite to inherit from, for real engines and for doubles.

A subclass of :class:`EngineContract` supplies the fixture ``bench``: an
:class:`~speck.testing.engine_bench.EngineBench` for one engine that runs, with what a test needs around it.
All engines take the same tests; a skip says why.
"""

from __future__ import annotations

import inspect
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from speck.binder import Capability, EngineBinder
from speck.core.engine_plan import EnginePlan, OperatorClass
from speck.core.job import Job
from speck.core.runtime import Attempt, Capacity, Handle, JobMetrics, JobState, State
from speck.errors import NoCapacity, OutcomeUnknown, Rejected, StateLost, Unreachable
from speck.testing.engine_bench import EngineBench
from speck.testing.engine_checks import (
    assert_acknowledged,
    assert_forgotten,
    assert_gone,
    assert_listed,
    assert_log_contains,
    assert_unusable,
    assert_work_grew,
    has_worked,
    is_complete,
    overrides,
    passed_on,
    profile_of,
)
from speck.testing.waiting import GONE, PATIENCE, attempt_of, await_state, eventually
from speck.testing.wire_trouble import Trouble

T = TypeVar("T")


def _submitted_by_another(bench: EngineBench, job: Job, attempt: Attempt) -> Handle:
    """The handle of a job whose binder is closed, which leaves the job alone."""
    other = bench.binder()
    handle = other.submit(job, attempt)
    other.close()
    other.close()
    return handle


@dataclass(frozen=True)
class PassingJob:
    """A job that passes on what it reads, and the ``texts`` that were sent to it."""

    job: Job
    attempt: Attempt
    handle: Handle
    texts: list[str]

    def send(self, bench: EngineBench, texts: Sequence[str]) -> None:
        """Send it further texts."""
        self.texts.extend(texts)
        bench.send(self.job, texts)


class SharedJobs:
    """Jobs that several tests observe or feed, and none stops: a real engine takes seconds for a start."""

    def __init__(self, ends: ExitStack) -> None:
        """Begin without any; ``ends`` stops those that run."""
        self._ends = ends
        self._found: dict[tuple[EngineBench, str], Any] = {}

    def running(self, bench: EngineBench) -> tuple[Job, Attempt, Handle]:
        """A job that runs."""
        return self._once(bench, "running", lambda: self._running(bench, bench.job))

    def stopped_with_state(self, bench: EngineBench) -> tuple[Job, Handle, State]:
        """A job that was stopped, with its state."""
        return self._once(bench, "with state", lambda: self._stopped_with_state(bench))

    def passing(self, bench: EngineBench) -> PassingJob:
        """A job that runs and passes on what it reads."""
        return self._once(bench, "passing", lambda: PassingJob(*self._running(bench, bench.passing_job), []))

    def _once(self, bench: EngineBench, kind: str, make: Callable[[], T]) -> T:
        key = bench, kind
        if key not in self._found:
            self._found[key] = make()
        found: T = self._found[key]
        return found

    def _running(self, bench: EngineBench, make: Callable[[str], Job]) -> tuple[Job, Attempt, Handle]:
        engine, job = bench.binder(), make(f"job-{uuid.uuid4().hex[:8]}")
        attempt = attempt_of(job)
        handle = engine.submit(job, attempt)
        self._ends.callback(engine.stop, handle, keep_state=False)
        await_state(engine, handle, JobState.RUNNING)
        return job, attempt, handle

    def _stopped_with_state(self, bench: EngineBench) -> tuple[Job, Handle, State]:
        engine, job = bench.binder(), bench.job(f"job-{uuid.uuid4().hex[:8]}")
        handle = engine.submit(job, attempt_of(job))
        state = engine.stop(handle, keep_state=True)
        assert state is not None
        return job, handle, state


class EngineContract:
    """The tests; inherit and supply ``bench``."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls) -> Iterator[SharedJobs]:
        with ExitStack() as ends:
            yield SharedJobs(ends)

    @pytest.fixture
    def engine(self, bench: EngineBench) -> EngineBinder:
        return bench.binder()

    @pytest.fixture
    def name(self, bench: EngineBench) -> Iterator[str]:
        """The name of a job that the test itself ends: a job that stays takes room from other tests."""
        name = f"job-{uuid.uuid4().hex[:8]}"
        yield name
        assert bench.running(name) == 0, f"the test left its job {name} running"

    # -- the life of a job

    def test_life_of_a_job(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        """One job for all that needs a start and a stop: a real engine takes seconds for them."""
        job = bench.job(name)
        attempt = attempt_of(job)
        engine.check(job, None)
        assert engine.find(attempt) is None
        has_workers = Capability.WORKERS in engine.capabilities
        busy_before = has_workers and [each for each in engine.workers() if not each.free]
        handle = _submitted_by_another(bench, job, attempt)
        await_state(engine, handle, JobState.RUNNING)
        assert bench.running(name) == 1
        assert bench.binder().find(attempt) == handle
        assert not has_workers or [each for each in engine.workers() if not each.free]
        assert engine.stop(handle, keep_state=False) is None
        assert bench.running(name) == 0
        if has_workers and not busy_before:  # no job of another test
            eventually(engine.workers, lambda found: all(each.free for each in found))
        assert engine.find(attempt) is None
        assert_gone(engine, handle)
        for coordinator in (engine, bench.binder()):
            with pytest.raises(Rejected, match="ended before"):
                coordinator.submit(job, attempt)
        assert bench.running(name) == 0
        assert_forgotten(engine, bench.forgotten(handle))

    def test_jobs_do_not_see_each_other(
        self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs, name: str
    ) -> None:
        job = bench.job(name)
        attempt = attempt_of(job)
        handle = engine.submit(job, attempt)
        await_state(engine, handle, JobState.RUNNING)
        other = shared.running(bench)
        if overrides(engine, "running"):
            assert_listed(engine, [(job, attempt, handle), other])
        other_handle = other[2]
        engine.stop(handle, keep_state=False)
        assert engine.status(handle).state in GONE
        await_state(engine, other_handle, JobState.RUNNING)
        answers = engine.statuses([handle, other_handle])
        assert answers[handle.engine_id].state in GONE
        assert answers[other_handle.engine_id].state is JobState.RUNNING
        if overrides(engine, "running"):
            listed = {each.job_name for each in engine.running()}
            assert listed & {name, other[0].job_name} == {other[0].job_name}

    # -- submit, find

    def test_submit_again_is_the_same_job(
        self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs
    ) -> None:
        job, attempt, handle = shared.running(bench)
        assert engine.submit(job, attempt) == handle
        assert bench.binder().submit(job, attempt) == handle
        assert bench.running(job.job_name) == 1

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

    def test_submit_whose_response_is_lost(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name)
        attempt = attempt_of(job)
        with bench.losing_binder(job) as losing, pytest.raises((OutcomeUnknown, Unreachable)):
            losing.submit(job, attempt)
        # It may have started or not; its status says so, and another request for it yields one job.
        found = engine.find(attempt)
        handle = engine.submit(job, attempt)
        assert found in (None, handle)
        await_state(engine, handle, JobState.RUNNING)
        assert bench.running(name) == 1
        engine.stop(handle, keep_state=False)

    # -- room

    def test_no_room(self, bench: EngineBench, name: str) -> None:
        first, second = bench.job(f"{name}-1"), bench.job(f"{name}-2")
        with bench.room_for_one() as engine:
            engine.check(first, None)
            with pytest.raises(NoCapacity, match=second.job_name):
                engine.check(second, None)  # promised to the first, though it has not come yet
            handle = engine.submit(first, attempt_of(first))
            await_state(engine, handle, JobState.RUNNING)
            with pytest.raises(NoCapacity, match=second.job_name) as caught:
                engine.check(second, None)
            assert engine.capacity().slots_free in (None, 0)
            assert caught.value.address in str(caught.value)
            engine.check(first, None)  # its own slot comes free before it is started again
            engine.stop(handle, keep_state=False)
            engine.stop(engine.submit(first, attempt_of(first, 2)), keep_state=False)
            engine.check(second, None)
            # Takes the slot that is promised to it now: a repetition of this test would find no room.
            engine.stop(engine.submit(second, attempt_of(second)), keep_state=False)

    # -- status

    def test_status_has_the_time_of_the_observation(
        self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs
    ) -> None:
        _, _, handle = shared.running(bench)
        before = time.time()
        assert before <= engine.status(handle).observed_at <= time.time()

    # -- stop, state

    def test_stop_twice(self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs) -> None:
        _, handle, state = shared.stopped_with_state(bench)
        assert engine.stop(handle, keep_state=True) == state
        assert engine.stop(handle, keep_state=False) is None

    def test_missing_state(self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs) -> None:
        job, _, state = shared.stopped_with_state(bench)
        nowhere = State(state.kind, f"{state.location}-nowhere")
        with pytest.raises(Rejected, match="nowhere"):
            engine.check(job, nowhere)

    def test_state_of_another_engine(
        self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs
    ) -> None:
        job, _, state = shared.stopped_with_state(bench)
        with pytest.raises(Rejected, match="abacus-beads"):
            engine.check(job, State("abacus-beads", state.location))

    def test_a_state_that_is_gone_is_named(
        self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs
    ) -> None:
        job, handle, state = shared.stopped_with_state(bench)
        with bench.without_state(handle) as stateless:
            for coordinator in (engine, bench.binder()):
                with pytest.raises(StateLost, match=job.job_name) as caught:
                    coordinator.stop(stateless, keep_state=True)
                assert caught.value.address in str(caught.value)
                assert "\n" not in str(caught.value)
            assert engine.stop(stateless, keep_state=False) is None  # as with upgrade: stateless
        assert engine.stop(handle, keep_state=True) == state

    def test_start_from_state(self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs) -> None:
        """The last test of the job that was stopped: its next attempt continues with the state."""
        job, _, state = shared.stopped_with_state(bench)
        engine.check(job, state)
        handle = engine.submit(job, attempt_of(job, 2, state))
        await_state(engine, handle, JobState.RUNNING)
        later = engine.stop(handle, keep_state=True)
        assert later is not None
        assert later.kind == state.kind
        assert bench.running(job.job_name) == 0

    # -- the job's own faults

    def test_code_that_fails_at_build(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name, "fails_at_build")
        with pytest.raises(Rejected, match="no such street") as caught:
            engine.submit(job, attempt_of(job))
        assert bench.fault_place() in str(caught.value)
        assert "\n" not in str(caught.value)
        assert bench.running(name) == 0

    def test_a_job_is_built_without_a_start(
        self, bench: EngineBench, engine: EngineBinder, name: str
    ) -> None:
        if not overrides(engine, "build_job"):
            pytest.skip("this engine builds no job without starting it")
        engine.build_job(bench.job(name))
        with pytest.raises(Rejected, match="no such street") as caught:
            engine.build_job(bench.job(f"{name}-bad", "fails_at_build"))
        assert bench.fault_place() in str(caught.value)
        assert "\n" not in str(caught.value)
        assert bench.running(name) == bench.running(f"{name}-bad") == 0

    def test_code_that_is_missing(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name, "missing")
        for call in (partial(engine.check, job, None), partial(engine.submit, job, attempt_of(job))):
            with pytest.raises(Rejected, match=job.entry_class):
                call()
        assert bench.running(name) == 0

    def test_code_that_is_corrupt(self, bench: EngineBench, engine: EngineBinder, name: str) -> None:
        job = bench.job(name, "corrupt")
        for call in (partial(engine.check, job, None), partial(engine.submit, job, attempt_of(job))):
            with pytest.raises(Rejected, match=Path(job.job_path).name) as caught:
                call()
            assert "\n" not in str(caught.value)
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
        if overrides(engine, "log_tail"):
            assert_log_contains(engine, handle, "no such street", *bench.log_words())
        engine.stop(handle, keep_state=False)
        assert engine.status(handle).state in GONE | {JobState.FAILED}

    # -- an engine that is not there, or no good

    def test_engine_down(self, bench: EngineBench, shared: SharedJobs) -> None:
        job, attempt, handle = shared.running(bench)
        dead = bench.dead_binder()
        assert_unusable(dead, job, attempt, handle, Unreachable)

    @pytest.mark.parametrize("trouble", list(Trouble), ids=lambda trouble: trouble.value)
    def test_engine_in_trouble(self, bench: EngineBench, shared: SharedJobs, trouble: Trouble) -> None:
        job, attempt, handle = shared.running(bench)
        with bench.troubled_binder(trouble) as troubled:
            assert_unusable(troubled, job, attempt, handle, Unreachable, OutcomeUnknown)

    def test_engine_that_is_slow(self, bench: EngineBench, name: str) -> None:
        job = bench.job(name)
        attempt = attempt_of(job)
        with bench.slow_binder() as slow:
            slow.check(job, None)
            handle = slow.submit(job, attempt)
            assert slow.submit(job, attempt) == handle
            await_state(slow, handle, JobState.RUNNING)
            assert bench.running(name) == 1
            assert slow.stop(handle, keep_state=True) is not None
        assert bench.running(name) == 0

    def test_every_method_is_in_the_contract(self, engine: EngineBinder) -> None:
        methods = {name for name, _ in inspect.getmembers(EngineBinder, inspect.isfunction) if name[0] != "_"}
        assert methods <= {name for name, _ in inspect.getmembers(engine, inspect.ismethod)}

    # -- numbers

    def test_metrics(self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs) -> None:
        """By another coordinator than the one that has submitted the job, which was asked nothing before."""
        job, _, handle = shared.running(bench)
        bench.feed(job)
        metrics = eventually(lambda: engine.metrics(handle), lambda found: found.batch_id is not None)
        assert isinstance(metrics, JobMetrics)
        assert time.time() - 3600 < metrics.observed_at <= time.time()  # s
        for number in (metrics.input_rate, metrics.processing_rate, metrics.batch_duration_ms):
            assert number is None or number >= 0
        if overrides(engine, "measure"):
            unknown = replace(handle, engine_id=uuid.uuid4().hex)
            measured = engine.measure([handle, unknown])
            assert isinstance(measured[handle.engine_id], JobMetrics)
            assert isinstance(measured[unknown.engine_id], Rejected)

    def test_engine_plan(self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs) -> None:
        if Capability.PLANS not in engine.capabilities:
            pytest.skip("this engine reports no plan")
        passing = shared.passing(bench)
        passing.send(bench, ["a"])
        plan = eventually(partial(engine.engine_plan, passing.handle), is_complete)
        counted = plan.count()
        assert (counted[OperatorClass.SOURCE], counted[OperatorClass.SINK]) == (1, 1)
        assert [plan.nodes[0].kind, plan.nodes[-1].kind] == [OperatorClass.SOURCE, OperatorClass.SINK]
        assert plan.depth() == len(plan.nodes)  # a chain
        assert {node.parallelism for node in plan.nodes} == {1}
        assert plan.notes == ()
        assert {node.task for node in plan.nodes} <= plan.tasks.keys()
        assert EnginePlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan

    def test_profile(self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs) -> None:
        if Capability.PROFILES not in engine.capabilities:
            pytest.skip("this engine reports no counts of the work of jobs")
        passing = shared.passing(bench)
        job, handle, before = passing.job, passing.handle, len(passing.texts)
        texts = [f"{number}: {'ä' * (number % 7)}" for number in range(90)]
        passing.send(bench, texts[:30])
        first = eventually(partial(profile_of, engine, handle), partial(passed_on, before + 30))
        passing.send(bench, texts[30:])
        second = eventually(partial(profile_of, engine, handle), partial(passed_on, before + 90))
        for sample, sent in ((first, passing.texts[:-60]), (second, passing.texts)):
            payloads = sum(len(text.encode()) for text in sent)
            assert sample.bytes_in == payloads + len(sent) * len(job.source_topic.encode())
            assert sample.bytes_out == payloads + len(sent) * len(job.sink_topic.encode())
            assert sample.state_bytes is None or sample.state_bytes >= 0
            assert sample.vertices or sample.batches
            assert_acknowledged(sample, job.sink_broker)
        assert time.time() - 120 < first.observed <= second.observed <= time.time()
        assert_work_grew(first, second)
        unknown = replace(handle, engine_id=uuid.uuid4().hex)
        assert isinstance(engine.profile([unknown])[unknown.engine_id], Rejected)
        _, stopped, _ = shared.stopped_with_state(bench)
        assert isinstance(engine.profile([stopped])[stopped.engine_id], Rejected)

    def test_first_work(self, bench: EngineBench, engine: EngineBinder, shared: SharedJobs) -> None:
        if Capability.READINESS not in engine.capabilities:
            pytest.skip("this engine does not tell when a job has completed its first work")
        job, _, handle = shared.running(bench)
        bench.feed(job)
        eventually(partial(has_worked, engine, handle), lambda worked: worked is True)

    def test_checkup(self, engine: EngineBinder) -> None:
        if not overrides(engine, "checkup"):
            pytest.skip("this engine has no health check")
        checkup = engine.checkup()
        assert checkup.version
        assert [each for each in checkup.complaints if not each.remark] == []
        if checkup.clock is not None:  # this machine's own, however long the answers took
            assert checkup.clock[0] <= 1
            assert checkup.clock[1] >= -1

    def test_capacity(self, engine: EngineBinder) -> None:
        capacity = engine.capacity()
        assert isinstance(capacity, Capacity)
        assert capacity.cores is None or capacity.cores >= 1
        assert capacity.memory is None or capacity.memory > 1 << 20  # bytes, not megabytes
        assert capacity.memory_free is None or 0 <= capacity.memory_free <= (capacity.memory or 0)
        if capacity.slots is not None and capacity.slots_free is not None:
            assert 0 <= capacity.slots_free <= capacity.slots

    def test_acceptance(self, engine: EngineBinder) -> None:
        if not overrides(engine, "check_acceptance"):
            pytest.skip("this engine does not tell if it accepts jobs")
        engine.check_acceptance()

    def test_workers(self, engine: EngineBinder) -> None:
        """A worker alone; one that a job makes busy is seen in the life of a job."""
        if Capability.WORKERS not in engine.capabilities:
            pytest.skip("this engine does not consist of workers")
        found = engine.workers()
        assert len({each.id for each in found}) == len(found) >= 1
        for each in found:
            assert each.cores is None or each.cores > 0
            assert each.memory is None or each.memory > 1 << 20  # bytes, not megabytes
            if each.slots is not None and each.slots_free is not None:
                assert 0 <= each.slots_free <= each.slots
