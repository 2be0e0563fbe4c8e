"""The kinds of copies, by all that tells them apart: the table of docs/reconciler.md, Orphans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speck.apply.copies import AbandonedCopies, CopyKind, EngineCopy, KnownJob, classify, copies_by_job
from speck.core.job import form_fingerprint, session_fingerprint
from speck.core.lifecycle import AttemptPhase
from speck.core.runtime import Attempt, Found, Handle, JobState, JobStatus
from speck.store import AttemptRecord, JobRecord, SessionRecord
from speck.store.abandoned import AbandonedAttempt
from testbed.benches.jobs_by_hand import make_job

JOB = make_job("a")
HERE, ELSEWHERE = JOB.spe_address, "sc://elsewhere:1"
OURS, OTHER = "store-1", "store-2"
SESSION = SessionRecord(JOB.source_broker, "a:1", JOB.source_topic)
READS = session_fingerprint(SESSION.broker, SESSION.name)
FORM = form_fingerprint(JOB)


def attempt(number: int, identifier: str = "") -> Attempt:
    return Attempt(id=identifier or f"attempt-{number}", job_name="a", number=number, session="a:1")


def known(
    state: JobState | None, number: int = 3, phase: AttemptPhase = AttemptPhase.RUNNING, owner: str = OURS
) -> KnownJob:
    """A job whose last attempt is in a state; ``None``: the store knows its session, and no attempt."""
    handle = Handle(HERE, "application-7", {"query": "q-7"})
    attempts = () if state is None else (AttemptRecord(attempt(number), 1, phase, handle),)
    return KnownJob(
        owner=owner,
        desired=JOB,
        attempts=attempts,
        record=replace(JobRecord("a", "c"), sessions=(SESSION,)),
        status=None if state is None else JobStatus(state, 0.0),
        abandoned=ABANDONED,
    )


ABANDONED = AbandonedCopies.of(
    [
        AbandonedAttempt(
            composition="c",
            engine=JOB.engine,
            address=HERE,
            source_broker=JOB.source_broker,
            attempt=attempt(1, "gone"),
            handle=Handle(HERE, "application-1", {"query": "q-1"}),
        )
    ]
)
COPY = Found("q-9", "a", attempt="attempt-9", number=2, owner=OURS, reads=READS, form=FORM)
UP, STARTING, DIED = JobState.RUNNING, JobState.STARTING, JobState.FAILED

CASES: list[tuple[str, EngineCopy, KnownJob, CopyKind]] = [
    # What the store names, by the id of the attempt, or by the engine's name of it at the same engine.
    ("own by id", EngineCopy(HERE, replace(COPY, attempt="attempt-3")), known(UP), CopyKind.OWN),
    ("own by its handle", EngineCopy(HERE, Found("application-7", "a")), known(UP), CopyKind.OWN),
    ("own by a detail", EngineCopy(HERE, Found("q-7", "a")), known(DIED), CopyKind.OWN),
    ("that name elsewhere", EngineCopy(ELSEWHERE, Found("q-7", "a")), known(UP), CopyKind.UNMARKED),
    # What it has abandoned.
    ("abandoned by id", EngineCopy(ELSEWHERE, replace(COPY, attempt="gone")), known(UP), CopyKind.ABANDONED),
    ("abandoned by its name", EngineCopy(HERE, Found("q-1", "a")), known(UP), CopyKind.ABANDONED),
    ("that name elsewhere", EngineCopy(ELSEWHERE, Found("q-1", "a")), known(UP), CopyKind.UNMARKED),
    # Without a mark.
    ("no mark", EngineCopy(HERE, Found("q-9", "a", reads=READS, owner=OURS)), known(UP), CopyKind.UNMARKED),
    # Of another store, or of an unknown one.
    ("another store's", EngineCopy(HERE, replace(COPY, owner=OTHER)), known(UP), CopyKind.FOREIGN),
    (
        "another store's, job ended",
        EngineCopy(HERE, replace(COPY, owner=OTHER)),
        known(DIED),
        CopyKind.FOREIGN,
    ),
    ("unknown store's", EngineCopy(HERE, replace(COPY, owner="", reads="x")), known(UP), CopyKind.FOREIGN),
    ("unknown store's, older", EngineCopy(HERE, replace(COPY, owner="")), known(UP), CopyKind.OLDER),
    (
        "unknown store's, job ended",
        EngineCopy(HERE, replace(COPY, owner="")),
        known(DIED),
        CopyKind.CONFLICTING,
    ),
    # Of this store, beside a copy that runs.
    ("older", EngineCopy(HERE, COPY), known(UP), CopyKind.OLDER),
    ("older, at another engine", EngineCopy(ELSEWHERE, COPY), known(STARTING), CopyKind.OLDER),
    ("of the same number", EngineCopy(HERE, replace(COPY, number=3)), known(UP), CopyKind.OLDER),
    ("newer", EngineCopy(HERE, replace(COPY, number=4)), known(UP), CopyKind.CONFLICTING),
    (
        "older, of another session",
        EngineCopy(HERE, replace(COPY, reads="x")),
        known(UP),
        CopyKind.CONFLICTING,
    ),
    # Of this store, in place of one that has ended.
    ("adoptable", EngineCopy(HERE, COPY), known(DIED), CopyKind.ADOPTABLE),
    ("adoptable, newer", EngineCopy(HERE, replace(COPY, number=9)), known(JobState.LOST), CopyKind.ADOPTABLE),
    ("adoptable, no attempt", EngineCopy(HERE, COPY), known(None), CopyKind.ADOPTABLE),
    ("in another form", EngineCopy(HERE, replace(COPY, form="x")), known(DIED), CopyKind.CONFLICTING),
    ("without a number", EngineCopy(HERE, replace(COPY, number=0)), known(DIED), CopyKind.CONFLICTING),
    ("of another session", EngineCopy(HERE, replace(COPY, reads="x")), known(DIED), CopyKind.CONFLICTING),
    ("beside an unknown one", EngineCopy(HERE, COPY), known(JobState.UNKNOWN), CopyKind.CONFLICTING),
    (
        "beside one that is stopped",
        EngineCopy(HERE, COPY),
        known(DIED, phase=AttemptPhase.STOPPING),
        CopyKind.CONFLICTING,
    ),
    # Of a job that the store never started: nothing is its session.
    ("first start", EngineCopy(HERE, replace(COPY, owner=OTHER)), KnownJob(owner=OURS), CopyKind.FOREIGN),
    (
        "first start, unknown",
        EngineCopy(HERE, replace(COPY, owner="")),
        KnownJob(owner=OURS),
        CopyKind.FOREIGN,
    ),
    ("first start, this store's", EngineCopy(HERE, COPY), KnownJob(owner=OURS), CopyKind.CONFLICTING),
    ("first start, no mark", EngineCopy(HERE, Found("q-9", "a")), KnownJob(owner=OURS), CopyKind.UNMARKED),
]


@pytest.mark.parametrize(
    ("copy", "job", "kind"), [case[1:] for case in CASES], ids=[each[0] for each in CASES]
)
def test_the_kind_of_a_copy(copy: EngineCopy, job: KnownJob, kind: CopyKind) -> None:
    assert classify(copy, job) is kind


def test_each_kind_has_a_case() -> None:
    assert {each[3] for each in CASES} == set(CopyKind)


def test_abandoned_copies_are_in_no_list() -> None:
    other = Found("q-2", "b")
    found = {HERE: [COPY, Found("q-1", "a")], ELSEWHERE: [Found("q-1", "a"), other]}
    assert copies_by_job(found, ABANDONED) == {
        "a": [EngineCopy(HERE, COPY), EngineCopy(ELSEWHERE, Found("q-1", "a"))],
        "b": [EngineCopy(ELSEWHERE, other)],
    }
