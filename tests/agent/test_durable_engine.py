"""The answers of an agent to a submit, without its supervisor: an engine and a disk that fail."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from speck.agent.attempt_files import AttemptFiles
from speck.agent.attempts import Attempts
from speck.agent.durable_engine import DurableEngine
from speck.agent.run_state import Phase, Record
from speck.core.job import Job
from speck.core.runtime import Attempt, JobState
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable
from speck.testing import attempt_of
from testbed.benches.double import ENGINE, DoubleBench
from testbed.doubles.world import World


@pytest.fixture(name="bench")
def bench_fixture() -> DoubleBench:
    return DoubleBench()


@pytest.fixture(name="world")
def world_fixture(bench: DoubleBench) -> World:
    return bench.world


@pytest.fixture(name="engine")
def engine_fixture(bench: DoubleBench, tmp_path: Path) -> DurableEngine:
    return DurableEngine(bench.binder(), ENGINE, Attempts(AttemptFiles(tmp_path)))


@pytest.fixture(name="job")
def job_fixture(bench: DoubleBench) -> Job:
    return bench.job("clean")


def phase(engine: DurableEngine, attempt: Attempt) -> Phase | None:
    record = engine.attempts.get(attempt.id)
    return None if record is None else record.phase


def test_an_attempt_that_may_run_is_kept_when_its_engine_is_away_at_the_next_try(
    engine: DurableEngine, world: World, job: Job
) -> None:
    """Otherwise the agent would not start it again after a loss."""
    attempt = attempt_of(job)
    world.fail("submit", OutcomeUnknown("no answer", address=ENGINE), after=True)
    with pytest.raises(OutcomeUnknown):
        engine.submit(job, attempt)
    world.fail("submit", Unreachable("connection refused", address=ENGINE))
    with pytest.raises(OutcomeUnknown, match="connection refused"):
        engine.submit(job, attempt)
    assert phase(engine, attempt) is Phase.ACCEPTED
    assert engine.find(attempt) is not None
    assert phase(engine, attempt) is Phase.RUNNING


def test_an_attempt_whose_engine_was_never_asked_is_forgotten(
    engine: DurableEngine, world: World, job: Job
) -> None:
    attempt = attempt_of(job)
    world.fail("submit", Unreachable("connection refused", address=ENGINE))
    with pytest.raises(Unreachable):
        engine.submit(job, attempt)
    assert phase(engine, attempt) is None


def test_a_job_that_runs_is_not_reported_as_refused_when_the_disk_is_full(
    engine: DurableEngine, world: World, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator would start another attempt beside it, from an older state."""
    attempt, write = attempt_of(job), AttemptFiles.write

    def full(files: AttemptFiles, record: Record) -> None:
        if record.phase is Phase.RUNNING:
            raise BinderError("no space left on device", address=ENGINE)
        write(files, record)

    with monkeypatch.context() as patched:
        patched.setattr(AttemptFiles, "write", full)
        with pytest.raises(OutcomeUnknown, match="no space left"):
            engine.submit(job, attempt)
    assert len(world.running("clean")) == 1
    assert engine.submit(job, attempt) == engine.find(attempt)
    assert len(world.running("clean")) == 1
    assert phase(engine, attempt) is Phase.RUNNING


def test_an_attempt_whose_engine_dies_while_it_is_looked_for_is_not_over(
    engine: DurableEngine, world: World, job: Job
) -> None:
    """The coordinator would start the next attempt from the state before this one."""
    attempt = attempt_of(job)
    handle = engine.submit(job, attempt)
    world.restart(ENGINE)
    world.fail("status", Unreachable("connection refused", address=ENGINE))
    with pytest.raises(OutcomeUnknown, match="connection refused"):
        engine.find(attempt)
    assert phase(engine, attempt) is Phase.RUNNING
    assert engine.find(attempt) == handle


def test_an_attempt_that_has_worked_and_ended_is_found_as_a_failed_one(
    engine: DurableEngine, world: World, job: Job
) -> None:
    """A coordinator that was away since its submit may not start the next one from the state before it."""
    attempt = attempt_of(job)
    handle = engine.submit(job, attempt)
    world.restart(ENGINE)
    record = engine.attempts.get(attempt.id)
    assert record is not None
    engine.attempts.put(record.to(Phase.GONE).to(Phase.ENDED, "its state is gone"))
    assert engine.find(attempt) == handle
    assert (engine.status(handle).state, engine.status(handle).message) == (
        JobState.FAILED,
        "its state is gone",
    )
    engine.stop(handle, keep_state=False)
    assert engine.find(attempt) is None


def _faulty(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("error", [Unreachable("away", address=ENGINE), Rejected("no slot", address=ENGINE)])
def test_an_attempt_that_cannot_be_forgotten_is_not_reported_as_refused(
    engine: DurableEngine, world: World, job: Job, monkeypatch: pytest.MonkeyPatch, error: BinderError
) -> None:
    """The supervisor starts it once the engine can, which the coordinator has to know."""
    attempt = attempt_of(job)
    world.fail("submit", error)
    with monkeypatch.context() as patched:
        patched.setattr("speck.agent.attempt_files.sync_directory", _faulty)
        with pytest.raises(OutcomeUnknown, match="cannot forget job 'clean': Input/output error"):
            engine.submit(job, attempt)
        with pytest.raises(OutcomeUnknown, match="cannot forget job 'clean'"):
            engine.find(attempt)
    assert phase(engine, attempt) is Phase.ACCEPTED
    assert engine.find(attempt) is None
    assert phase(engine, attempt) is None


def test_a_job_that_runs_is_not_reported_as_refused_when_its_former_attempt_cannot_be_forgotten(
    engine: DurableEngine, world: World, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.stop(engine.submit(job, attempt_of(job)), keep_state=False)
    later = attempt_of(job, 2)
    with monkeypatch.context() as patched:
        patched.setattr("speck.agent.attempt_files.sync_directory", _faulty)
        with pytest.raises(OutcomeUnknown, match="cannot forget job 'clean'"):
            engine.submit(job, later)
    assert engine.find(later) is not None
    assert [each.attempt.id for each in world.running("clean")] == [later.id]
