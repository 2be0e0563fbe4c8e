"""Jobs of another store: copies and sessions of the same name that a store has no record of.

A store that is lost leaves its jobs running.  Another store that starts them once more doubles all that they
write, so before the first start of a job each engine and each broker in question is asked once.  An engine
without a list of its jobs, and a broker that keeps no owners, are passed over.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from speck.apply.copies import AbandonedCopies, CopyKind, EngineCopy, KnownJob, classify
from speck.binder import OwnedSession
from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.core.job import Job, client_id
from speck.core.plan import ForeignJob
from speck.core.runtime import Found
from speck.errors import Rejected, SpeckError
from speck.store import Store
from speck.store.deployments import EngineKey

PATIENCE = 5.0  # s, for the answers of all; the step before a start asks again

_Answer = TypeVar("_Answer")
_Copies = Mapping[str, Sequence[Found]]  # of an engine, by the name of the job
_Sessions = Mapping[str, Sequence[OwnedSession]]  # of a broker, by the client id of the job (client_id)


@dataclass
class ForeignJobs:
    """Looks for jobs of other stores; asks each place once.  ``left_behind`` are addresses not asked."""

    store: Store
    pool: BinderPool
    left_behind: Collection[str] = ()
    _engines: dict[EngineKey, _Copies] = field(default_factory=dict, init=False)
    _brokers: dict[str, _Sessions] = field(default_factory=dict, init=False)
    _locks: dict[str, threading.Lock] = field(default_factory=dict, init=False)  # by address

    def of(self, jobs: Iterable[Job]) -> tuple[ForeignJob, ...]:
        """Those of these jobs that another store runs or has a session for, by name.

        A job that this store has started before is none: its sessions and fences are this store's.  A place
        that does not answer in time is passed over.
        """
        new = [job for job in jobs if is_new(self.store, job.job_name)]
        self._ask(new)
        found = (self._of(job) for job in sorted(new, key=lambda each: each.job_name))
        return tuple(each for each in found if each is not None)

    def refuse(self, job: Job) -> None:
        """Raise :class:`~speck.errors.Rejected` if a job that is about to start first is another store's."""
        if is_new(self.store, job.job_name):
            self._ask_here(job)
            found = self._of(job)
            if found is not None:
                raise Rejected(found.text(self.store.identity), address=found.address or found.broker)

    # --- asking

    def _ask(self, jobs: Iterable[Job]) -> None:
        engines = {(job.engine, job.spe_address) for job in jobs if job.spe_address not in self.left_behind}
        brokers = {job.source_broker for job in jobs if job.source_broker not in self.left_behind}
        places: list[EngineKey | str] = [*(engines - self._engines.keys()), *(brokers - self._brokers.keys())]
        found = ask(places, self._listed, PATIENCE, name="foreign").answers
        self._engines |= {key: each for key, each in found.items() if not isinstance(key, str)}
        self._brokers |= {key: each for key, each in found.items() if isinstance(key, str)}

    def _listed(self, place: EngineKey | str) -> Mapping[str, Sequence[Any]]:
        return self._sessions(place) if isinstance(place, str) else self._running(place)

    def _ask_here(self, job: Job) -> None:
        """Ask the places of a job, unless another one has; one silent place holds up its own jobs alone."""
        engine, broker = (job.engine, job.spe_address), job.source_broker
        if job.spe_address not in self.left_behind:
            with self._locks.setdefault(job.spe_address, threading.Lock()):
                if engine not in self._engines:
                    self._engines[engine] = self._running(engine)
        if broker not in self.left_behind:
            with self._locks.setdefault(broker, threading.Lock()):
                if broker not in self._brokers:
                    self._brokers[broker] = self._sessions(broker)

    def _running(self, key: EngineKey) -> _Copies:
        def listed() -> Sequence[Found]:
            return self.pool.engine_at(*key).running()

        return _by(lambda copy: copy.job_name, _unless_refused(listed))

    def _sessions(self, address: str) -> _Sessions:
        def listed() -> Sequence[OwnedSession]:
            return self.pool.broker(address).foreign_sessions()

        # No client id of a job contains a colon.
        return _by(lambda each: each.session.partition(":")[0], _unless_refused(listed))

    # --- comparing

    def _of(self, job: Job) -> ForeignJob | None:
        session = next(iter(self.sessions_of(job)), None)
        copy = next((each for each in self._copies_of(job) if self._is_foreign(each, session)), None)
        if copy is None and session is None:
            return None
        owner = (copy.found.owner if copy is not None else "") or (
            session.owner if session is not None else ""
        )
        return ForeignJob(
            job.job_name,
            owner,
            address=job.spe_address if copy is not None else "",
            attempt=(copy.found.attempt or "") if copy is not None else "",
            broker=job.source_broker if session is not None else "",
            session=session.session if session is not None else "",
        )

    def _copies_of(self, job: Job) -> list[EngineCopy]:
        """The copies of a job at its engine, as far as it was asked."""
        listed = self._engines.get((job.engine, job.spe_address), {})
        return [EngineCopy(job.spe_address, each) for each in listed.get(job.job_name, ())]

    def sessions_of(self, job: Job) -> list[OwnedSession]:
        """The sessions of other stores that a job of this name reads the same topic through."""
        listed = self._brokers.get(job.source_broker, {})
        return [
            each
            for each in listed.get(client_id(job.job_name), ())
            if job.source_topic in (each.topics or (job.source_topic,))
        ]

    def _is_foreign(self, copy: EngineCopy, session: OwnedSession | None) -> bool:
        """True if another store has started a copy; one without any mark may be of anybody.

        A copy of this very store that it does not name is the reconciler's: the store is an older one.
        """
        kind = classify(copy, self._unstarted)
        return kind is CopyKind.FOREIGN or (kind is CopyKind.UNMARKED and session is not None)

    @cached_property
    def _unstarted(self) -> KnownJob:
        return unstarted(self.store)


def is_new(store: Store, name: str) -> bool:
    """True if a store has never started a job of this name, as far as it has not been deleted since."""
    record = store.job(name)
    begun = record is not None and (record.sessions or record.attempts > store.first_attempt)
    return not begun and not store.attempts(name)


def unstarted(store: Store) -> KnownJob:
    """The knowledge that a store has of any job that it has never started."""
    return KnownJob(owner=store.identity, abandoned=AbandonedCopies.of(store.abandoned_attempts()))


def _unless_refused(listed: Callable[[], Sequence[_Answer]]) -> Sequence[_Answer]:
    try:
        return listed()
    except SpeckError:
        return ()  # what does not answer starts nothing either; what has no list is passed over


def _by(key: Callable[[_Answer], str], found: Iterable[_Answer]) -> dict[str, list[_Answer]]:
    grouped = defaultdict[str, list[_Answer]](list)
    for each in found:
        grouped[key(each)].append(each)
    return grouped
