"""Drift: how a job as observed differs from what is desired.  A pure decision that returns data.

The plan alone decides whether a job is as it should be (:func:`speck.core.plan.make_plan`); this module names
the drift, and adds what a plan cannot see: copies that the store does not name, and code that an engine has.
It reports the most severe drift of each job; the next round finds the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from speck.core.job import JOB_FIELDS, ChangeCost, Job, form_fingerprint, session_fingerprint
from speck.core.lifecycle import AttemptPhase
from speck.core.plan import Action, Move, Plan, Start, Stop, Update
from speck.core.runtime import Drift, Found, Handle, JobState, JobStatus
from speck.store import AttemptRecord, JobRecord
from speck.store.abandoned import AbandonedAttempt
from speck.store.deployments import Snapshot

GONE: Mapping[JobState, Drift] = {
    JobState.FAILED: Drift.DIED,
    JobState.FINISHED: Drift.FINISHED,
    JobState.LOST: Drift.LOST,
    JobState.STOPPED: Drift.STOPPED,
}
_UP = frozenset({JobState.RUNNING, JobState.STARTING})


class Verdict(Enum):
    """The treatment of an orphan."""

    TERMINATE = auto()  # older than the running copy that the store names
    ADOPT = auto()  # in the desired form, and no other copy runs
    REPORT = auto()  # of another store, in another form, or not provably of the job's session


@dataclass(frozen=True, slots=True)
class EngineCopy:
    """A copy that runs at the engine of an address."""

    address: str
    found: Found


@dataclass(frozen=True, slots=True)
class Orphan:
    """A copy, started by some SpecK, that the store does not name."""

    copy: EngineCopy
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Drifted:
    """A job's drift, its observation in words, and the orphan that is the cause, if one is."""

    drift: Drift
    message: str
    orphan: Orphan | None = None


def copies_by_job(
    found: Mapping[str, Sequence[Found]], abandoned: Sequence[AbandonedAttempt] = ()
) -> dict[str, list[EngineCopy]]:
    """The copies that engines run, by job name, but for abandoned ones, which the reaper ends."""
    ids = {each.key for each in abandoned}
    handles = {(each.address, text) for each in abandoned if each.handle for text in _texts(each.handle)}
    named: dict[str, list[EngineCopy]] = {}
    for address, jobs in found.items():
        for each in jobs:
            if each.attempt not in ids and (address, each.engine_id) not in handles:
                named.setdefault(each.job_name, []).append(EngineCopy(address, each))
    return named


def find_drifts(
    plan: Plan,
    snapshot: Snapshot,
    statuses: Mapping[str, JobStatus],
    copies: Mapping[str, Sequence[EngineCopy]],
    owner: str,
) -> dict[str, Drifted]:
    """The jobs of a composition that are not as desired, by name; ``owner`` is the store's identity.

    ``plan`` leads from the snapshot and the statuses to the desired jobs.
    """
    found: dict[str, Drifted] = {}
    for action in plan.actions:
        name = action.job.job_name
        drift = _drift(action, snapshot, statuses.get(name), copies.get(name, ()), owner)
        if drift is not None:
            found[name] = drift
    return found


def _drift(
    action: Action,
    snapshot: Snapshot,
    status: JobStatus | None,
    copies: Sequence[EngineCopy],
    owner: str,
) -> Drifted | None:
    name = action.job.job_name
    attempt, record = snapshot.attempt(name), snapshot.records.get(name)
    if isinstance(action, Stop):
        return Drifted(Drift.NOT_STOPPED, (record and record.error) or "it has not been stopped yet")
    own, others = _partition(snapshot.attempts.get(name, ()), copies)
    return (
        _orphaned(action.job, attempt, status, record, others, owner)
        or _planned(action, attempt, record, status)
        or _old_code(snapshot.forms.get(name), own)
        or _foreign(others)
    )


def _partition(
    attempts: Iterable[AttemptRecord], copies: Iterable[EngineCopy]
) -> tuple[list[EngineCopy], list[EngineCopy]]:
    """The copies that the store names, and the others."""
    known: set[tuple[str, str]] = set()
    ids: set[str] = set()
    for each in attempts:
        ids.add(each.attempt.id)
        if each.handle is not None:
            known.update((each.handle.address, text) for text in _texts(each.handle))
    own: list[EngineCopy] = []
    others: list[EngineCopy] = []
    for copy in copies:
        ours = (copy.address, copy.found.engine_id) in known or copy.found.attempt in ids
        (own if ours else others).append(copy)
    return own, others


def _texts(handle: Handle) -> Iterable[str]:
    """The texts of a handle, one of which is the engine's own name of the copy."""
    yield handle.engine_id
    yield from handle.details.values()


def _orphaned(
    desired: Job,
    attempt: AttemptRecord | None,
    status: JobStatus | None,
    record: JobRecord | None,
    others: Iterable[EngineCopy],
    owner: str,
) -> Drifted | None:
    copy = next((each for each in others if each.found.attempt is not None), None)
    if copy is None:
        return None
    up = status is not None and status.state in _UP
    origin = "the store does not name" if copy.found.owner in ("", owner) else "another SpecK has started"
    message = f"attempt {copy.found.attempt} of it runs at {copy.address}, which {origin}"
    sessions = {session_fingerprint(each.broker, each.name) for each in (record.sessions if record else ())}
    ours = copy.found.reads in sessions and copy.found.owner in ("", owner)
    verdict = _verdict(desired, attempt, status, copy.found) if ours else Verdict.REPORT
    return Drifted(Drift.TWICE if up else Drift.OLD_CODE, message, Orphan(copy, verdict))


def _verdict(desired: Job, attempt: AttemptRecord | None, status: JobStatus | None, found: Found) -> Verdict:
    """The treatment of a copy that reads through the job's own session."""
    newer = attempt is not None and found.number > attempt.attempt.number
    if status is not None and status.state in _UP:
        return Verdict.REPORT if newer else Verdict.TERMINATE
    same = found.form == form_fingerprint(desired) and found.number > 0 and bool(found.owner)
    return Verdict.ADOPT if same and _is_gone(attempt, status) else Verdict.REPORT


def _is_gone(attempt: AttemptRecord | None, status: JobStatus | None) -> bool:
    """True if the copy that the store names, if any, is known to run no more."""
    if attempt is None:
        return True
    return attempt.phase is AttemptPhase.RUNNING and status is not None and status.state in GONE


def _planned(
    action: Action, attempt: AttemptRecord | None, record: JobRecord | None, status: JobStatus | None
) -> Drifted | None:
    """The drift that a plan's action stands for."""
    match action:
        case Start() if attempt is None:
            return Drifted(Drift.NOT_STARTED, (record and record.error) or "accepted, but not started yet")
        case Start() if attempt is not None and attempt.phase is not AttemptPhase.RUNNING:
            pending = f"attempt {attempt.attempt.number} is {attempt.phase}"
            return Drifted(Drift.NOT_STARTED, (record and record.error) or pending)
        case Start() if status is not None:
            return Drifted(GONE[status.state], status.message)
        case Update() | Move():
            names = [each.field for each in action.changes if JOB_FIELDS[each.field] > ChangeCost.NOTE]
            return Drifted(Drift.NOT_UPDATED, f"it runs as before: {', '.join(names)} changed")
    return None


def _old_code(form: Job | None, own: Iterable[EngineCopy]) -> Drifted | None:
    for each in own:
        if form is not None and each.found.code and form.code_hash and each.found.code != form.code_hash:
            message = f"its code there is {each.found.code[:12]}, and {form.code_hash[:12]} was asked for"
            return Drifted(Drift.OLD_CODE, message)
    return None


def _foreign(others: Iterable[EngineCopy]) -> Drifted | None:
    for each in others:
        message = f"{each.address} runs {each.found.engine_id} under the same name, which is not SpecK's"
        return Drifted(Drift.FOREIGN, message)
    return None
