"""How a job as it is differs from what is wanted: a pure decision that returns data.

The worst comes first, and one is named: who heals it looks again, and meets the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from speck.core.job import JOB_FIELDS, Change, Job, changed_fields, form_fingerprint, session_fingerprint
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


@dataclass(frozen=True, slots=True)
class Drifted:
    """A job's drift, and in words what was seen.

    ``stray`` is a copy that an engine (at ``stray_at``) runs and the store does not name; ``ours`` says
    whether it reads through the very session of the job, so that SpecK must have started it, and no store but
    this one is known to have it.  One that is ``older`` than the copy which the store names is to end;
    one that is ``wanted`` runs in the very form that is wanted, and no other copy does.
    """

    drift: Drift
    message: str
    stray: Found | None = None
    stray_at: str = ""
    ours: bool = False
    older: bool = False
    wanted: bool = False


@dataclass(frozen=True, slots=True)
class EngineCopy:
    """A copy that was found at an engine."""

    address: str
    found: Found


def sightings(
    found: Mapping[str, Sequence[Found]], left: Sequence[AbandonedAttempt] = ()
) -> dict[str, list[EngineCopy]]:
    """What engines run, by job name, but for copies that were left behind, which are seen to apart."""
    ids = {each.key for each in left}
    handles = {(each.address, text) for each in left if each.handle for text in _texts(each.handle)}
    named: dict[str, list[EngineCopy]] = {}
    for address, jobs in found.items():
        for each in jobs:
            if each.attempt not in ids and (address, each.engine_id) not in handles:
                named.setdefault(each.job_name, []).append(EngineCopy(address, each))
    return named


def drifts(
    snapshot: Snapshot,
    statuses: Mapping[str, JobStatus],
    seen: Mapping[str, Sequence[EngineCopy]],
    owner: str,
) -> dict[str, Drifted]:
    """The jobs of a composition that are not as wanted, by name; ``owner`` is the store's identity."""
    found: dict[str, Drifted] = {}
    for name in snapshot.records.keys() | snapshot.wanted.keys():
        drift = _drift(name, snapshot, statuses.get(name), seen.get(name, ()), owner)
        if drift is not None:
            found[name] = drift
    return found


def _drift(
    name: str, snapshot: Snapshot, status: JobStatus | None, seen: Sequence[EngineCopy], owner: str
) -> Drifted | None:
    wanted, attempt, record = snapshot.wanted.get(name), snapshot.attempt(name), snapshot.records.get(name)
    if wanted is None:
        return Drifted(Drift.NOT_STOPPED, (record and record.error) or "its end was not carried out yet")
    own, others = _sorted_out(snapshot.attempts.get(name, ()), seen)
    return (
        _strayed(wanted, attempt, status, record, others, owner)
        or _not_there(attempt, record, status)
        or _older(wanted, snapshot.forms[name], own)
        or _foreign(others)
    )


def _sorted_out(
    attempts: Iterable[AttemptRecord], seen: Iterable[EngineCopy]
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
    for sighting in seen:
        found = sighting.found
        ours = (sighting.address, found.engine_id) in known or found.attempt in ids
        (own if ours else others).append(sighting)
    return own, others


def _texts(handle: Handle) -> Iterable[str]:
    """Among which is what the engine shows of the copy."""
    yield handle.engine_id
    yield from handle.details.values()


def _strayed(
    wanted: Job,
    attempt: AttemptRecord | None,
    status: JobStatus | None,
    record: JobRecord | None,
    others: Iterable[EngineCopy],
    owner: str,
) -> Drifted | None:
    reads = {session_fingerprint(each.broker, each.name) for each in (record.sessions if record else ())}
    for address, stray in ((each.address, each.found) for each in others if each.found.attempt is not None):
        up = status is not None and status.state in _UP
        told = "the store does not name" if stray.owner in ("", owner) else "another SpecK has started"
        message = f"attempt {stray.attempt} of it runs at {address}, which {told}"
        ours = bool(stray.reads) and stray.reads in reads and stray.owner in ("", owner)
        newer = attempt is not None and stray.number > attempt.attempt.number
        same = stray.form == form_fingerprint(wanted) and stray.number > 0 and bool(stray.owner)
        return Drifted(
            Drift.TWICE if up else Drift.OLD_CODE,
            message,
            stray,
            address,
            ours,
            older=ours and up and not newer,
            wanted=ours and same and _is_gone(attempt, status),
        )
    return None


def _is_gone(attempt: AttemptRecord | None, status: JobStatus | None) -> bool:
    """Whether the copy that the store names, if any, is known to run no more."""
    if attempt is None:
        return True
    return attempt.phase == "running" and status is not None and status.state in GONE


def _not_there(
    attempt: AttemptRecord | None, record: JobRecord | None, status: JobStatus | None
) -> Drifted | None:
    if attempt is None:
        return Drifted(Drift.NOT_STARTED, (record and record.error) or "accepted, and not started yet")
    if attempt.phase != "running":
        said = (record and record.error) or f"attempt {attempt.attempt.number} is {attempt.phase}"
        return Drifted(Drift.NOT_STARTED, said)
    if status is not None and status.state in GONE:
        return Drifted(GONE[status.state], status.message)
    return None


def _older(wanted: Job, form: Job, own: Iterable[EngineCopy]) -> Drifted | None:
    names = [each.field for each in changed_fields(form, wanted) if JOB_FIELDS[each.field] > Change.NOTE]
    if names:
        return Drifted(Drift.NOT_UPDATED, f"it runs as before: {', '.join(names)} changed")
    for each in own:
        if each.found.code and form.code_hash and each.found.code != form.code_hash:
            message = f"its code there is {each.found.code[:12]}, and {form.code_hash[:12]} was asked for"
            return Drifted(Drift.OLD_CODE, message)
    return None


def _foreign(others: Iterable[EngineCopy]) -> Drifted | None:
    for each in others:
        message = f"{each.address} runs {each.found.engine_id} under the same name, which is not SpecK's"
        return Drifted(Drift.FOREIGN, message)
    return None
