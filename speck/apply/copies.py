"""Copies: how each copy that an engine runs relates to what the store knows of its job.  Pure.

The reconciler, the refusal of jobs of another store, and the adoption ask for the same kinds; each decides
by itself what to do with them (the table is in docs/reconciler.md, Orphans).  The further evidence of an
adoption stays there (:func:`speck.apply.adoption.decide`): it compares a copy with the sessions at a broker,
which nobody else reads.  The reaper asks by the records of what was abandoned, and needs no list of copies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from speck.core.job import Job, form_fingerprint, session_fingerprint
from speck.core.lifecycle import AttemptPhase
from speck.core.runtime import Found, Handle, JobState, JobStatus
from speck.store import AttemptRecord, JobRecord
from speck.store.abandoned import AbandonedAttempt

_UP = frozenset({JobState.RUNNING, JobState.STARTING})


@dataclass(frozen=True, slots=True)
class EngineCopy:
    """A copy that runs at the engine of an address."""

    address: str
    found: Found


class CopyKind(Enum):
    """The relation of a copy to the store that is asked."""

    OWN = auto()  # an attempt that the store names
    ABANDONED = auto()  # an attempt that the store has abandoned: the reaper ends it
    UNMARKED = auto()  # without the mark of an attempt: not SpecK's, or of an engine that holds no marks
    FOREIGN = auto()  # of another store; or of an unknown one, and not of a session of the job
    OLDER = auto()  # of the job's session, beside a copy that runs, and that is of its number or a higher one
    ADOPTABLE = auto()  # of this store, in the desired form; replaces a copy that has ended
    CONFLICTING = auto()  # neither of these: only a user knows which copy is right


@dataclass(frozen=True)
class AbandonedCopies:
    """The copies that a store has abandoned, by their ids and by the names that engines have for them."""

    ids: Collection[str] = frozenset()
    handles: Collection[tuple[str, str]] = frozenset()  # an engine's address, and its name of the copy

    @classmethod
    def of(cls, records: Iterable[AbandonedAttempt]) -> AbandonedCopies:
        """Those of the records of a store."""
        known = list(records)
        handles = {(each.address, text) for each in known if each.handle for text in _texts(each.handle)}
        return cls(frozenset(each.key for each in known), frozenset(handles))

    def has(self, copy: EngineCopy) -> bool:
        """True if the store has abandoned this copy."""
        return copy.found.attempt in self.ids or (copy.address, copy.found.engine_id) in self.handles


NONE_ABANDONED = AbandonedCopies()


@dataclass(frozen=True, kw_only=True)
class KnownJob:
    """The knowledge that the store with the identity ``owner`` has of a job.

    A job that it never started has neither attempts nor a record.  ``status`` is that of the last attempt.
    """

    owner: str
    desired: Job | None = None
    attempts: Sequence[AttemptRecord] = ()
    record: JobRecord | None = None
    status: JobStatus | None = None
    abandoned: AbandonedCopies = NONE_ABANDONED

    def names(self, copy: EngineCopy) -> bool:
        """True if the store has an attempt that is this copy."""
        return any(
            copy.found.attempt == each.attempt.id
            or (each.handle is not None and _is_named(copy, each.handle.address, each.handle))
            for each in self.attempts
        )

    def reads(self, copy: EngineCopy) -> bool:
        """True if a copy reads through a session of the job."""
        sessions = self.record.sessions if self.record is not None else ()
        return copy.found.reads in {session_fingerprint(each.broker, each.name) for each in sessions}

    @property
    def is_up(self) -> bool:
        """True if the copy that the store names runs."""
        return self.status is not None and self.status.state in _UP

    @property
    def is_gone(self) -> bool:
        """True if the copy that the store names, if any, is known to have ended."""
        if not self.attempts:
            return True
        ended = self.status is not None and self.status.state.ended
        return ended and self.attempts[-1].phase is AttemptPhase.RUNNING


def classify(copy: EngineCopy, job: KnownJob) -> CopyKind:
    """The kind of a copy that runs under the name of a job."""
    found = copy.found
    if job.names(copy):
        return CopyKind.OWN
    if job.abandoned.has(copy):
        return CopyKind.ABANDONED
    if found.attempt is None:
        return CopyKind.UNMARKED
    reads = job.reads(copy)
    if found.owner not in ("", job.owner) or not (found.owner or reads):
        return CopyKind.FOREIGN
    if reads and job.is_up:
        newer = bool(job.attempts) and found.number > job.attempts[-1].attempt.number
        return CopyKind.CONFLICTING if newer else CopyKind.OLDER
    same = job.desired is not None and found.form == form_fingerprint(job.desired)
    adoptable = reads and same and found.number > 0 and bool(found.owner) and job.is_gone
    return CopyKind.ADOPTABLE if adoptable else CopyKind.CONFLICTING


def copies_by_job(
    found: Mapping[str, Sequence[Found]], abandoned: AbandonedCopies
) -> dict[str, list[EngineCopy]]:
    """The copies that engines run, by job name, except for abandoned ones, which the reaper ends."""
    named: dict[str, list[EngineCopy]] = {}
    for address, jobs in found.items():
        for copy in (EngineCopy(address, each) for each in jobs):
            if not abandoned.has(copy):
                named.setdefault(copy.found.job_name, []).append(copy)
    return named


def _is_named(copy: EngineCopy, address: str, handle: Handle) -> bool:
    return copy.address == address and copy.found.engine_id in _texts(handle)


def _texts(handle: Handle) -> list[str]:
    """The texts of a handle, one of which is the engine's own name of the copy."""
    return [handle.engine_id, *handle.details.values()]
