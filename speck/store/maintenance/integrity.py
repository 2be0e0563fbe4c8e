"""Faults in the records of a store, and their remedies: pure decisions that return data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from speck.core.attempt_number import HIGHEST
from speck.core.job import Job
from speck.store import kinds
from speck.store.codec import FORMAT, FORMAT_KEY, INCOMPLETE
from speck.store.maintenance.contents import Contents
from speck.store.records import AttemptRecord, Head, JobRecord, SessionRecord
from speck.store.transaction import Transaction, Write

# A job's attempts are numbered, and the highest number may read.  Where some were forgotten, the next must
# be above all that there ever were, so that an unknown copy gives way.
LEAP = 10_000


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with ``what``; ``mends`` puts it right as ``remedy`` says (empty: cannot)."""

    what: str
    message: str
    remedy: str = ""
    mends: tuple[Write, ...] = ()


def findings(contents: Contents) -> list[Finding]:
    """Everything that is wrong: what cannot be read, and references that lead nowhere."""
    checks = (_unreadable, _format, _heads, _jobs, _numbers, _attempts, _desired_jobs, _profiles)
    return [found for check in checks for found in check(contents)]


def _changes(*writes: tuple[str, object]) -> tuple[Write, ...]:
    transaction = Transaction(lambda prefix: ())
    for method, value in writes:
        getattr(transaction, method)(value)
    return tuple(transaction.changes())


def _unreadable(contents: Contents) -> Iterator[Finding]:
    for key, why in contents.unreadable.items():
        yield Finding(key.decode(errors="replace"), f"cannot be read ({why})", "dropped", ((key, None),))


def _format(contents: Contents) -> Iterator[Finding]:
    message = f"is {contents.format!r} (expected {FORMAT!r})"
    if contents.format == INCOMPLETE:  # only the primary has the rest
        yield Finding("meta/format", message)
    elif contents.format != FORMAT:
        yield Finding("meta/format", message, "written", ((FORMAT_KEY, FORMAT.encode()),))


def _heads(contents: Contents) -> Iterator[Finding]:
    for name, head in contents.heads.items():
        if head.revision and (name, head.revision) not in contents.revisions:
            last = contents.last_revision(name)
            yield Finding(
                f"composition {name!r}",
                f"its last revision, {head.revision}, is missing",
                f"revision {last} takes its place" if last else "left without a revision",
                _changes(("put_head", replace(head, revision=last))),
            )
    for name in dict.fromkeys(name for name, _ in contents.revisions):
        if name not in contents.heads and name not in contents.deleted:
            last = contents.last_revision(name)
            yield Finding(
                f"composition {name!r}",
                "has revisions, but no record of the last one",
                f"revision {last} is",
                _changes(("put_head", Head(name, last))),
            )


def _jobs(contents: Contents) -> Iterator[Finding]:
    known = contents.heads.keys() | {name for name, _ in contents.revisions}
    for name, record in contents.jobs.items():
        if record.composition not in known:
            sessions = ", ".join(f"{each.name} at {each.broker}" for each in record.sessions) or "none"
            yield Finding(
                f"job {name!r}",
                f"its composition {record.composition!r} is not known",
                f"forgotten; its sessions stay where they are: {sessions}",
                _changes(("delete_job", name)),
            )


def _numbers(contents: Contents) -> Iterator[Finding]:
    """Jobs that can have no further attempt, as after the fence of a damaged or forged message."""
    running = {each.attempt.job_name for each in contents.attempts}
    for name, record in contents.jobs.items():
        if record.attempts >= HIGHEST:
            message = f"the number of its last attempt is {record.attempts} (expected less than {HIGHEST})"
            lowered = replace(record, attempts=LEAP, renumbers=True)
            if name in running:
                remedy = "not lowered, since an attempt of it may run: delete the job"
                yield Finding(f"job {name!r}", f"{message}; {remedy}")
            else:
                remedy = f"lowered to {LEAP}; remove the fence at its broker before its next start"
                yield Finding(f"job {name!r}", message, remedy, _changes(("put_job", lowered)))


def _session(form: Job, name: str) -> SessionRecord:
    """The session of this name through which a job in this form reads."""
    return SessionRecord(form.source_broker, name, form.source_topic, form.start)


def _attempts(contents: Contents) -> Iterator[Finding]:
    for record in contents.attempts:
        attempt = record.attempt
        what = f"attempt {attempt.number} of job {attempt.job_name!r}"
        form = contents.form(record)
        job = contents.jobs.get(attempt.job_name)
        if form is None:
            where = f" at {record.handle.address}" if record.handle else ""
            yield Finding(
                what,
                f"revision {record.revision}, which defines how it runs, is missing",
                f"forgotten; it may still run{where} (attempt id {attempt.id})",
                _changes(("delete_attempt", attempt), *_raised(contents, record)),
            )
        elif job is None:
            session = _session(form[1], attempt.session)
            number = attempt.number + LEAP
            found = JobRecord(attempt.job_name, form[0], number, (session,), renumbers=True)
            yield Finding(what, "its job has no record", "recorded", _changes(("put_job", found)))
        elif attempt.session not in [each.name for each in job.sessions]:
            session = _session(form[1], attempt.session)
            put = replace(job, sessions=(*job.sessions, session))
            yield Finding(
                what, f"its session {attempt.session!r} is not known", "noted", _changes(("put_job", put))
            )


def _raised(contents: Contents, record: AttemptRecord) -> Iterator[tuple[str, object]]:
    job = contents.jobs.get(record.attempt.job_name)
    if job is not None:
        number = max(job.attempts, record.attempt.number) + LEAP
        yield "put_job", replace(job, attempts=number, renumbers=True)


def _desired_jobs(contents: Contents) -> Iterator[Finding]:
    running = {each.attempt.job_name for each in contents.attempts}
    for head in contents.heads.values():
        for name in contents.desired(head):
            if name not in contents.jobs and name not in running:
                put = JobRecord(name, head.name, attempts=LEAP, renumbers=True)
                yield Finding(
                    f"job {name!r}",
                    "is desired, but has no record",
                    "recorded; the next apply starts it, and stops a copy that still runs",
                    _changes(("put_job", put)),
                )


def _profiles(contents: Contents) -> Iterator[Finding]:
    keys = [
        *((name, kinds.JOB_PROFILE.key(name, form)) for name, form in contents.job_profiles),
        *((name, kinds.CUT_CORRECTION.key(name, form)) for name, form in contents.cut_corrections),
    ]
    for name, key in keys:
        if name not in contents.jobs:
            yield Finding(f"profile of job {name!r}", "its job is not known", "forgotten", ((key, None),))


def code_findings(contents: Contents, intact: Mapping[str, bool]) -> list[Finding]:
    """Code that revisions name and that is missing or changed; ``intact`` is true by hash if its code is."""
    users: dict[str, list[str]] = {}
    for (composition, number), revision in sorted(contents.revisions.items()):
        for job in revision.jobs.values():
            users.setdefault(job.code_hash, []).append(f"{composition!r} revision {number} {job.job_name!r}")
    return [
        Finding(f"code {code_hash[:12]}", f"{_state(intact.get(code_hash))}; {_shown(names)} name it")
        for code_hash, names in users.items()
        if not intact.get(code_hash)
    ]


def _state(intact: bool | None) -> str:
    return "is missing" if intact is None else "does not match its hash"


def _shown(names: list[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def artifacts_directory(directory: Path) -> Path:
    """The directory of the code beside a store."""
    return directory / "artifacts"
