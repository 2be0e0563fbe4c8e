"""Orphans: copies that engines run and the store does not name, as after the restore of an old backup.

Only those of this very store are touched, whose identity each attempt carries.  A copy beside a newer one
that the store names is terminated.  A copy in the desired form in place of one that has ended is adopted: it
is what was asked for, and its work is not lost.  All others are reported.  Those of the last round are listed
beside the abandoned work, since both run, or may run, beside what the store names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from speck.apply import job_state
from speck.apply.copies import EngineCopy
from speck.apply.job_events import OrphanAdopted
from speck.apply.job_state import lifecycle_of
from speck.apply.operations import Operations
from speck.binder.pool import BinderPool
from speck.controller.drift import Drifted, Orphan, Verdict
from speck.core.attempt_number import FURTHEST, is_believed
from speck.core.event_limit import EventLimit
from speck.core.job import session_fingerprint
from speck.core.lifecycle import EventKind
from speck.core.runtime import Attempt
from speck.errors import Rejected
from speck.store import Event, Store
from speck.store.deployments import Snapshot

MOST_UNKNOWN = 200  # events an hour about copies at one engine: its site may be in wrong hands
_ROUNDS = 2  # in which a copy must be found: one may be started or stopped during an observation


@dataclass(frozen=True, slots=True)
class FoundOrphan:
    """An orphan of a job, as of a round; without a composition if none contains the job."""

    job: str
    composition: str
    session: str
    orphan: Orphan
    message: str


@dataclass
class Orphans:
    """Terminates, adopts or reports the orphans of each round.  ``clock`` returns Unix time, s."""

    store: Store
    pool: BinderPool
    operations: Operations
    clock: Callable[[], float]
    _unknown: Counter[str] = field(default_factory=Counter, init=False)
    _limit: EventLimit = field(default_factory=lambda: EventLimit(MOST_UNKNOWN), init=False)
    _reported: set[str] = field(default_factory=set, init=False)  # attempts with an event
    # By composition; replaced and never changed, since threads of the server read it.
    _found: Mapping[str, Sequence[FoundOrphan]] = field(default_factory=dict, init=False)

    def found(self) -> list[FoundOrphan]:
        """The orphans of the last round."""
        return [each for found in self._found.values() for each in found]

    def note(self, snapshot: Snapshot, drifted: Mapping[str, Drifted]) -> None:
        """Note the orphans of a composition's jobs, instead of those of the previous round."""
        head = snapshot.head.name
        found = tuple(
            FoundOrphan(name, head, _session_of(snapshot, name, each.orphan.copy), each.orphan, each.message)
            for name, each in drifted.items()
            if each.orphan is not None
        )
        self._found = {**self._found, head: found}

    def retain(self, compositions: Collection[str]) -> None:
        """Forget the orphans of all other compositions, which are gone."""
        self._found = {name: found for name, found in self._found.items() if name in compositions}

    def handle(self, snapshot: Snapshot, name: str, orphan: Orphan, generation: int) -> None:
        """Terminate or adopt an orphan of a job, unless an operation changes its composition meanwhile."""
        if orphan.verdict is Verdict.TERMINATE:
            self._terminate(snapshot, name, orphan.copy)
        elif orphan.verdict is Verdict.ADOPT:
            self._adopt(snapshot, name, orphan.copy, generation)

    def _terminate(self, snapshot: Snapshot, name: str, copy: EngineCopy) -> None:
        attempt = _attempt_of(snapshot, name, copy)
        engine = self.pool.engine_at(snapshot.forms[name].engine, copy.address)
        handle = engine.find(attempt)
        if handle is not None:
            engine.stop(handle, keep_state=False)
            message = f"job {name!r}: second copy (attempt {attempt.id}) stopped at {copy.address}"
            self._report(self._event(EventKind.STOPPED, name, message, snapshot.head.name))

    def _adopt(self, snapshot: Snapshot, name: str, copy: EngineCopy, generation: int) -> None:
        attempt = _attempt_of(snapshot, name, copy)
        known = snapshot.records[name].attempts
        if not is_believed(attempt.number, known):
            raise Rejected(
                f"it runs at {copy.address} as attempt {attempt.number} (expected at most "
                f"{known + FURTHEST}), and is not adopted (stop it there)"
            )
        handle = self.pool.engine_at(snapshot.desired[name].engine, copy.address).find(attempt)
        if handle is None or not attempt.session:
            return
        message = f"job {name!r}: attempt {attempt.number} was found at {copy.address}, and adopted"
        with self.operations.idle_transaction(snapshot.head.name, generation) as transaction:
            if transaction is not None:
                stored = lifecycle_of(self.store, name, snapshot.head.name)
                job_state.write(transaction, stored, OrphanAdopted(attempt, snapshot.head.revision, handle))
                transaction.add_event(self._event(EventKind.STARTED, name, message, snapshot.head.name))

    def report_unknown(self, copies: Mapping[str, Sequence[EngineCopy]], known: Collection[str]) -> None:
        """Report each copy of this store whose job is in no composition, once.

        ``known`` are jobs that are in one, as far as that is known already.
        """
        unknown = {
            each.found.attempt: each
            for name, found in copies.items()
            if name not in known
            for each in found
            if each.found.attempt and each.found.owner == self.store.identity and self._is_unknown(name)
        }
        self._unknown = Counter({key: self._unknown[key] + 1 for key in unknown})
        lasting = [copy for key, copy in unknown.items() if self._unknown[key] >= _ROUNDS]
        found = tuple(map(_in_no_composition, lasting))
        self._found = {**self._found, "": found}
        self._reported &= unknown.keys()
        new = [each for each in found if (each.orphan.copy.found.attempt or "") not in self._reported]
        self._report_new(new, self.clock())

    def _report_new(self, found: Sequence[FoundOrphan], now: float) -> None:
        """Write an event of each, unless there were too many at its engine: those are counted in one."""
        self._limit.report(now, self._report_left_out)
        for each in found:
            with self._limit.admission(each.orphan.copy.address, now) as has_room:
                if has_room:
                    self._report(self._event(EventKind.ORPHAN, each.job, f"job {each.job!r} {each.message}"))
            self._reported.add(each.orphan.copy.found.attempt or "")

    def _report_left_out(self, address: str, number: int) -> None:
        message = (
            f"{address}: {number:,} further copies of jobs in no composition were found (expected at "
            f"most {self._limit.most} an hour)"
        )
        self._report(self._event(EventKind.ORPHAN, "", message))

    def _is_unknown(self, job: str) -> bool:
        abandoned = (each.attempt.job_name for each in self.store.abandoned_attempts())
        return self.store.job(job) is None and job not in abandoned

    def _event(self, kind: EventKind, job: str, message: str, composition: str = "") -> Event:
        return Event(self.clock(), kind, message, composition, job, automatic=True)

    def _report(self, event: Event) -> None:
        self.store.add_events([event])


def _in_no_composition(copy: EngineCopy) -> FoundOrphan:
    what = f"is in no composition, and attempt {copy.found.attempt} of it runs at {copy.address}"
    message = f"{what} (apply a composition that contains it, or stop it there)"
    return FoundOrphan(copy.found.job_name, "", "", Orphan(copy, Verdict.REPORT), message)


def _attempt_of(snapshot: Snapshot, name: str, copy: EngineCopy) -> Attempt:
    found = copy.found
    assert found.attempt is not None  # noqa: S101 - only such a copy is an orphan
    session = _session_of(snapshot, name, copy)
    return Attempt(id=found.attempt, job_name=name, number=found.number, session=session)


def _session_of(snapshot: Snapshot, name: str, copy: EngineCopy) -> str:
    """The job's session that the copy reads; empty if it reads another one."""
    record = snapshot.records.get(name)
    sessions = record.sessions if record else ()
    reads = copy.found.reads
    return next((each.name for each in sessions if session_fingerprint(each.broker, each.name) == reads), "")
