"""Jobs are submitted, found again, measured, and come to their end."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import pytest

from speck.core.runtime import Handle, JobState
from speck.errors import NoCapacity, OutcomeUnknown, Rejected
from speck.testing import attempt_of, await_state, eventually
from testbed.benches.flink import FlinkBench
from tests.binders.flink.cluster_steps import start

pytestmark = pytest.mark.engine


def test_a_main_method_that_takes_longer_than_patience(flink_bench: FlinkBench, job_name: str) -> None:
    job = flink_bench.job(job_name, "streets.Counting$Slow", seconds=3)
    engine = flink_bench.binder()
    attempt = attempt_of(job)
    engine.rest.slow = 0.5
    with pytest.raises(OutcomeUnknown, match=r"did not answer in 0\.5 s"):
        engine.submit(job, attempt)
    with pytest.raises(OutcomeUnknown, match="may still start it"):
        flink_bench.binder().find(attempt)

    def find() -> Handle | None:
        with suppress(OutcomeUnknown):
            return engine.find(attempt)
        return None

    handle = eventually(find, lambda found: found is not None)
    assert handle is not None
    await_state(engine, handle, JobState.RUNNING)
    assert flink_bench.running(job_name) == 1
    engine.stop(handle, keep_state=False)
    assert engine.find(attempt) is None


def test_a_main_method_that_fails_after_the_start(flink_bench: FlinkBench, job_name: str) -> None:
    job = flink_bench.job(job_name, "streets.Counting$FailsAfterTheStart")
    with pytest.raises(Rejected, match="no such street"):
        flink_bench.binder().submit(job, attempt_of(job))
    assert flink_bench.running(job_name) == 0


def test_a_job_that_runs_is_not_ended_by_a_second_try(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name), flink_bench.binder()
    attempt = attempt_of(job)
    handle = engine.submit(job, attempt)
    await_state(engine, handle, JobState.RUNNING)
    assert engine.submit(flink_bench.job(job_name, "fails_at_build"), attempt) == handle
    assert engine.status(handle).state is JobState.RUNNING
    engine.stop(handle, keep_state=False)


def test_parallelism(flink_bench: FlinkBench, job_name: str) -> None:
    job = replace(flink_bench.job(job_name), parallelism=3)
    handle = start(flink_bench, job)
    details = flink_bench.rest.job_details(handle.engine_id)
    assert details is not None
    assert {vertex["parallelism"] for vertex in details["vertices"]} == {3}
    flink_bench.binder().stop(handle, keep_state=False)


def test_a_job_that_never_came_up(flink_bench: FlinkBench, job_name: str) -> None:
    engine = flink_bench.binder()
    engine.savepoints.startup_patience = 0.5
    job = replace(flink_bench.job(job_name), parallelism=100)
    with pytest.raises(
        NoCapacity, match=rf"no room for job '{job_name}', which takes 100: 32 slots, \d+ free"
    ):
        engine.check(job, None)
    handle = engine.submit(job, attempt_of(job))
    status = engine.status(handle)
    assert status.state is JobState.STARTING
    assert "scheduled" in status.message
    assert engine.stop(handle, keep_state=True) is None
    assert engine.status(handle).state is JobState.STOPPED


def test_a_job_that_comes_to_its_end(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name, count=10), flink_bench.binder()
    attempt = attempt_of(job)
    handle = engine.submit(job, attempt)
    await_state(engine, handle, JobState.FINISHED)
    assert engine.find(attempt) == handle
    assert engine.submit(job, attempt) == handle
    assert engine.stop(handle, keep_state=True) is None


FIND = """
import sys
from binders.flink import connect_engine
from speck.core.inventory import Inventory
from speck.core.runtime import Attempt
address, attempt_id, name = sys.argv[1:]
engine = connect_engine(address, Inventory())
handle = engine.find(Attempt(id=attempt_id, job_name=name, number=1, session=f"speck-{name}"))
print(handle.engine_id, engine.status(handle).state.value)
"""


def test_another_process_finds_it_and_leaves_it(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name), flink_bench.binder()
    handle = start(flink_bench, job)
    arguments = [sys.executable, "-c", FIND, engine.address, handle.engine_id, job_name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
    assert found.stdout.split() == [handle.engine_id, "running"]
    assert engine.status(handle).state is JobState.RUNNING
    engine.stop(handle, keep_state=False)


def test_metrics(flink_bench: FlinkBench, job_name: str) -> None:
    job, engine = flink_bench.job(job_name, rate=50), flink_bench.binder()
    handle = start(flink_bench, job)
    metrics = eventually(
        lambda: engine.metrics(handle),
        lambda found: found.input_rate is not None and (found.input_rows or 0) > 100,
    )
    assert metrics.input_rate == pytest.approx(50, rel=0.4)
    assert metrics.batch_duration_ms is not None
    assert 0 < metrics.batch_duration_ms < 60_000
    busy = metrics.details["busy"]
    assert isinstance(busy, float)
    assert 0 <= busy <= 1
    assert metrics.processing_rate is None or metrics.processing_rate >= metrics.input_rate
    assert metrics.details["state_bytes"]
    assert metrics.details["failed_checkpoints"] in (0, 1)  # one may come before all tasks run
    engine.stop(handle, keep_state=False)
