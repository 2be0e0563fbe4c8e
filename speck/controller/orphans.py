"""Copies of jobs that engines run and the store does not name, as after an old backup was brought back.

Only those of this very store are touched, which each attempt carries with it.  Beside a newer copy that the
store names, one is ended.  In place of one that runs no more it is taken up, if it runs in the form that is
wanted: that is what was asked for, and what it has done is not lost.  All others are told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from speck.apply import job_state
from speck.apply.job_state import JobLifecycle, OrphanAdopted
from speck.binder.pool import BinderPool
from speck.controller.drift import Drifted, EngineCopy
from speck.core.job import session_fingerprint
from speck.core.runtime import Attempt
from speck.store import Event, Store, Transaction
from speck.store.deployments import Snapshot

_ROUNDS = 2  # in which a copy must be seen: one may have been started or stopped while it was looked for


@dataclass
class Orphans:
    """``quietly`` writes while nothing is at work; ``event`` makes one of a kind, a job and a message."""

    store: Store
    pool: BinderPool
    quietly: Callable[[str, int, Callable[[Transaction], None]], bool]
    event: Callable[[str, str, str], Event]
    _unknown: Counter[str] = field(default_factory=Counter, init=False)

    def end(self, snapshot: Snapshot, name: str, drifted: Drifted) -> None:
        """Stop a second copy."""
        attempt = _attempt_of(snapshot, name, drifted)
        engine = self.pool.engine_at(snapshot.forms[name].engine, drifted.stray_at)
        handle = engine.find(attempt)
        if handle is not None:
            engine.stop(handle, keep_state=False)
            message = f"job {name!r}: second copy (attempt {attempt.id}) stopped at {drifted.stray_at}"
            self._tell(self._event(snapshot, "stopped", name, message))

    def take_up(self, snapshot: Snapshot, name: str, drifted: Drifted, turn: int) -> None:
        """Make a copy the one that the store names."""
        attempt = _attempt_of(snapshot, name, drifted)
        job = snapshot.wanted[name]
        handle = self.pool.engine_at(job.engine, drifted.stray_at).find(attempt)
        if handle is None or not attempt.session:
            return
        stored = JobLifecycle(snapshot.records[name], tuple(snapshot.attempts.get(name, ())))
        adopted = OrphanAdopted(attempt, snapshot.head.revision, handle)
        message = f"job {name!r}: attempt {attempt.number} was found at {drifted.stray_at}, and taken up"

        def write(transaction: Transaction) -> None:
            job_state.write(transaction, stored, adopted)
            transaction.add_event(self._event(snapshot, "started", name, message))

        self.quietly(snapshot.head.name, turn, write)

    def tell_unknown(self, seen: Mapping[str, Sequence[EngineCopy]]) -> None:
        """Tell once of each copy of this store whose job is in no composition."""
        unknown = {
            each.found.attempt: each
            for name, sightings in seen.items()
            for each in sightings
            if each.found.attempt and each.found.owner == self.store.identity and self._knows_nothing(name)
        }
        self._unknown = Counter({key: self._unknown[key] + 1 for key in unknown})
        for key, sighting in unknown.items():
            if self._unknown[key] == _ROUNDS:
                name = sighting.found.job_name
                what = f"is in no composition, and attempt {key} of it runs at {sighting.address}"
                advice = "apply a composition that has it, or stop it there"
                self._tell(self.event("stray", name, f"job {name!r} {what} ({advice})"))

    def _knows_nothing(self, job: str) -> bool:
        left = (each.attempt.job_name for each in self.store.abandoned_attempts())
        return self.store.job(job) is None and job not in left

    def _event(self, snapshot: Snapshot, kind: str, job: str, message: str) -> Event:
        return replace(self.event(kind, job, message), composition=snapshot.head.name)

    def _tell(self, event: Event) -> None:
        with self.store.transaction() as transaction:
            transaction.add_event(event)


def _attempt_of(snapshot: Snapshot, name: str, drifted: Drifted) -> Attempt:
    stray = drifted.stray
    assert stray is not None and stray.attempt is not None  # noqa: S101 - so found
    sessions = {session_fingerprint(each.broker, each.name): each for each in snapshot.records[name].sessions}
    session = sessions.get(stray.reads)
    return Attempt(
        id=stray.attempt, job_name=name, number=stray.number, session=session.name if session else ""
    )
