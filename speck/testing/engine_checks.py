"""The assertions of the contract of engines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from speck.binder import Capability, EngineBinder
from speck.core.engine_plan import EnginePlan
from speck.core.job import Job, form_fingerprint, session_fingerprint
from speck.core.profile import JobSample
from speck.core.runtime import Attempt, Handle, JobState
from speck.errors import BinderError, Rejected, SpeckError
from speck.testing.waiting import GONE, PATIENCE, attempt_of, eventually

# s, in which each call of an engine in trouble ends: the binders of the benches wait a fifth of a second for
# an answer, and 10 s for the process that starts a query.
IN_TROUBLE = 20.0


def overrides(engine: EngineBinder, method: str) -> bool:
    """True if a binder has this method itself, and not by a default of the contract."""
    return getattr(type(engine), method) is not getattr(EngineBinder, method)


def assert_unusable(
    engine: EngineBinder, job: Job, attempt: Attempt, handle: Handle, *errors: type[SpeckError]
) -> None:
    """Every method raises one of these errors of SpecK, which names the fault of the engine in one line."""
    status = engine.status(handle)
    assert status.state is JobState.UNKNOWN
    assert status.message
    assert engine.statuses([handle])[handle.engine_id].state is JobState.UNKNOWN
    calls: dict[str, Callable[[], object]] = {
        "check": lambda: engine.check(job, None),
        "submit": lambda: engine.submit(job, attempt_of(job)),
        "find": lambda: engine.find(attempt),
        "stop": lambda: engine.stop(handle, keep_state=True),
        "metrics": lambda: engine.metrics(handle),
        "capacity": engine.capacity,
    }
    further: dict[str, Callable[[], object]] = {
        "measure": lambda: engine.measure([handle]),
        "profile": lambda: engine.profile([handle]),
        "running": engine.running,
        "workers": engine.workers,
        "log_tail": lambda: engine.log_tail(handle, 10),
        "engine_plan": lambda: engine.engine_plan(handle),
        "checkup": engine.checkup,
        "has_worked": lambda: engine.has_worked(handle),
        "build_job": lambda: engine.build_job(job),
        "check_acceptance": engine.check_acceptance,
    }
    calls |= {method: call for method, call in further.items() if overrides(engine, method)}
    for method, call in calls.items():
        begun = time.monotonic()
        with pytest.raises(errors) as caught:
            call()
        assert time.monotonic() - begun < IN_TROUBLE, method
        assert isinstance(caught.value, BinderError)
        assert caught.value.address
        assert caught.value.address in str(caught.value)
        assert "\n" not in str(caught.value)


def assert_log_contains(engine: EngineBinder, handle: Handle, *words: str) -> None:
    """The job's log contains these words, in lines, and at most the requested number of lines."""
    lines = eventually(
        lambda: engine.log_tail(handle, 1000),
        lambda found: all(any(word in line for line in found) for word in words),
    )
    assert not any("\n" in line for line in lines)
    assert [len(engine.log_tail(handle, most)) for most in (1, 3)] == [1, min(3, len(lines))]
    assert engine.log_about


def assert_gone(engine: EngineBinder, handle: Handle) -> None:
    """The status of a stopped job is that it is gone, with a reason."""
    status = engine.status(handle)
    assert status.state in GONE
    assert status.message
    with pytest.raises(SpeckError):
        engine.metrics(handle)


def assert_forgotten(engine: EngineBinder, handle: Handle) -> None:
    """The status of a job that the engine does not know is lost, and it has no log."""
    status = engine.status(handle)
    assert status.state is JobState.LOST
    assert status.message
    if overrides(engine, "log_tail"):
        with pytest.raises(Rejected):
            engine.log_tail(handle, 10)
    if Capability.PLANS in engine.capabilities:
        with pytest.raises(Rejected):
            engine.engine_plan(handle)


def assert_listed(engine: EngineBinder, started: Sequence[tuple[Job, Attempt, Handle]]) -> None:
    """The jobs that run are listed once each, as they were submitted."""
    names = sorted(job.job_name for job, _, _ in started)
    listed = [each for each in engine.running() if each.job_name in names]
    assert sorted(each.job_name for each in listed) == names
    found = {each.job_name: each for each in listed}
    for job, attempt, handle in started:
        one = found[job.job_name]
        assert one.engine_id in (handle.engine_id, *handle.details.values())
        if one.attempt is not None:  # an engine without labels lists the name alone
            reads, form = session_fingerprint(job.source_broker, attempt.session), form_fingerprint(job)
            marks = (one.attempt, one.number, one.owner, one.code, one.reads, one.form)
            assert marks == (attempt.id, attempt.number, attempt.owner, job.code_hash, reads, form)
            stamps = (one.incarnation, one.origin, one.lineage)
            assert stamps == (attempt.incarnation, attempt.origin, attempt.lineage)


def profile_of(engine: EngineBinder, handle: Handle) -> JobSample:
    """The counts of one job."""
    sample = engine.profile([handle])[handle.engine_id]
    assert isinstance(sample, JobSample), sample
    assert sample.engine_id == handle.engine_id
    return sample


def has_worked(engine: EngineBinder, handle: Handle) -> bool | None:
    """The engine's answer, ``None`` also for a job that it cannot be asked about."""
    try:
        return engine.has_worked(handle)
    except BinderError:
        return None


def is_complete(plan: EnginePlan) -> bool:
    return bool(plan.nodes) and None not in (each.parallelism for each in plan.nodes)


def passed_on(messages: int, sample: JobSample) -> bool:
    return (sample.messages_in, sample.messages_out) == (messages, messages)


def assert_acknowledged(sample: JobSample, broker: str) -> None:
    """The sample has the acknowledgements of this broker alone, within seconds."""
    (acks,) = sample.acks
    assert acks.broker == broker
    assert acks.least is not None
    assert acks.median is not None
    assert 0 < acks.least <= acks.median < PATIENCE
    assert 0 <= acks.window_full <= 1


def assert_work_grew(before: JobSample, after: JobSample) -> None:
    """The counts of vertices or batches agree with those of the job, and have grown."""
    for old, new in zip(before.vertices, after.vertices, strict=True):
        assert (old.name, old.subtasks) == (new.name, new.subtasks)
        assert (old.records_in, new.records_in) == (before.messages_in, after.messages_in)
        assert 0 <= old.busy <= new.busy
        assert 0 <= old.idle <= new.idle
        assert 0 <= new.busiest <= 1
    for sample in (before, after) if after.batches else ():
        rows = sum(batch.rows for batch in sample.batches)
        assert 0 < rows <= (sample.messages_in or 0)  # a batch between two reports may be missing
        assert all(batch.rows > 0 and batch.work > 0 for batch in sample.batches)
        numbers = [batch.number for batch in sample.batches]
        assert numbers == sorted(set(numbers))
    assert after.cores_used >= 1
