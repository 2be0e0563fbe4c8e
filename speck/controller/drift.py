"""Drift: how a job as observed differs from what is desired.  A pure decision that returns data.

The plan alone decides whether a job is as it should be (:func:`speck.core.plan.make_plan`); this module names
the drift, and adds what a plan cannot see: copies that the store does not name, and code that an engine has.
It reports the most severe drift of each job; the next round finds the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from speck.apply.copies import CopyKind, EngineCopy, KnownJob, classify
from speck.core.job import JOB_FIELDS, ChangeCost, Job
from speck.core.lifecycle import AttemptPhase
from speck.core.plan import Action, Move, Plan, Start, Stop, Update
from speck.core.runtime import Drift, JobState, JobStatus
from speck.store import AttemptRecord, JobRecord
from speck.store.deployments import Snapshot

GONE: Mapping[JobState, Drift] = {
    JobState.FAILED: Drift.DIED,
    JobState.FINISHED: Drift.FINISHED,
    JobState.LOST: Drift.LOST,
    JobState.STOPPED: Drift.STOPPED,
}


class Verdict(Enum):
    """The treatment of an orphan."""

    TERMINATE = auto()  # older than the running copy that the store names
    ADOPT = auto()  # in the desired form, and no other copy runs
    REPORT = auto()  # of another store, in another form, or not provably of the job's session


_VERDICTS = {CopyKind.OLDER: Verdict.TERMINATE, CopyKind.ADOPTABLE: Verdict.ADOPT}


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
    known = KnownJob(
        owner=owner,
        desired=action.job,
        attempts=snapshot.attempts.get(name, ()),
        record=record,
        status=status,
    )
    kinds = [(classify(each, known), each) for each in copies]
    return (
        _orphaned(known, kinds)
        or _planned(action, attempt, record, status)
        or _old_code(snapshot.forms.get(name), [each for kind, each in kinds if kind is CopyKind.OWN])
        or _foreign([each for kind, each in kinds if kind is CopyKind.UNMARKED])
    )


def _orphaned(known: KnownJob, kinds: Iterable[tuple[CopyKind, EngineCopy]]) -> Drifted | None:
    orphans = (each for each in kinds if each[0] not in (CopyKind.OWN, CopyKind.UNMARKED))
    kind, copy = next(orphans, (CopyKind.OWN, None))
    if copy is None:
        return None
    origin = (
        "the store does not name" if copy.found.owner in ("", known.owner) else "another SpecK has started"
    )
    message = f"attempt {copy.found.attempt} of it runs at {copy.address}, which {origin}"
    verdict = _VERDICTS.get(kind, Verdict.REPORT)
    return Drifted(Drift.TWICE if known.is_up else Drift.OLD_CODE, message, Orphan(copy, verdict))


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
            return Drifted(
                Drift.NOT_UPDATED, f"it still runs in its previous form: {', '.join(names)} changed"
            )
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
