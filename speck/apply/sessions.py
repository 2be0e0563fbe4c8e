"""The sessions through which jobs read: made before a writer starts, deleted after the last reader.

A session belongs to one job of one store.  One that another job's record names is
given up without being deleted; one of another store is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, count

from speck.apply import job_state
from speck.apply.abandon import Abandoner, dropped_text, lost_text, shut_out
from speck.apply.context import OperationContext
from speck.apply.job_events import SessionEnsured, SessionIntended, SessionsDetached
from speck.apply.job_state import lifecycle_of
from speck.apply.leaving import count_unread
from speck.binder.retry import with_retries
from speck.core.graph import source_of
from speck.core.job import Job, is_replay, owner_in, replay_name, session_name
from speck.core.lifecycle import EventKind
from speck.core.start import LATEST
from speck.core.waiting import waiting_text
from speck.errors import SessionOfAnother
from speck.store import JobRecord, SessionRecord
from speck.store.abandoned import AbandonedSession, DeletedSession


@dataclass(frozen=True)
class Sessions:
    """The sessions of the jobs of one operation; each is in the store before its broker is asked for it."""

    context: OperationContext
    abandoner: Abandoner
    _sharing: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def ensure(self, job: Job, record: JobRecord) -> None:
        """Make the session that a job is to read through, unless a copy may be reading through it.

        Raises :class:`~speck.errors.SessionOfAnother` for one that belongs to another store.
        """
        self._shut_out_abandoned(job)
        session, known = self._chosen(job, record)
        attempts = self.context.store.attempts(job.job_name)
        if known and any(each.attempt.session == session.name for each in attempts):
            self._claim(session)
            return  # ensuring it would take it over from that copy
        made = known and session not in record.unmade_sessions
        self._reclaim(session)
        # The reader of a session that is made here finds it, and cannot know that its broker had lost it.
        # Nobody lost one that was never made: writers would send messages of former deployments.
        self.make(session, again=made)
        self.context.note(job.job_name, SessionEnsured(session))

    def _chosen(self, job: Job, record: JobRecord) -> tuple[SessionRecord, bool]:
        """The session of a job, and true if the job has had it; a new one is written as intended."""
        store, operation, others = self.context.store, self.context.operation, self._names_of_others(job)
        # Names are read and written in one block: the reaper marks a restored session for deletion unless a
        # job uses it.
        with store.transaction() as transaction:
            abandoned = store.abandoned_names(job.source_broker)
            session = session_for(job, record, store.identity, operation.revision, others, abandoned)
            known = session in record.sessions
            if not known:
                before = lifecycle_of(store, job.job_name, operation.composition)
                intended = SessionIntended(session, reads_again(job, record))
                job_state.write(transaction, before, intended)
        return session, known

    def make(self, session: SessionRecord, *, again: bool) -> None:
        """Have its broker make a session, unless it is there; ``again``: the broker may have lost it."""
        broker, named = self.context.pool.broker(session.broker), (session.name, session.topic)
        if is_replay(session.name):
            with_retries(partial(broker.begin_session, *named, session.start))
        else:
            with_retries(partial(broker.restore_session if again else broker.ensure_session, *named))

    def _claim(self, session: SessionRecord) -> None:
        """Have the broker name this store as the owner of a session, which a power cut may have undone."""
        self._reclaim(session)
        broker = self.context.pool.broker(session.broker)
        with_retries(partial(broker.claim_session, session.name, session.topic))

    def _reclaim(self, session: SessionRecord) -> None:
        """Have the broker name this store as the owner of a session that it has adopted.

        A broker that came back without its memory has the owner from the session's reader, which may have
        read the fence before the adoption alone.
        """
        former, own = owner_in(session.name), self.context.store.identity
        broker = self.context.pool.broker(session.broker)
        if former not in ("", own):
            with_retries(partial(broker.adopt_session, session.name, former))

    @cached_property
    def _jobs_of_sessions(self) -> Mapping[tuple[str, str], set[str]]:
        """The jobs of the store by broker and name of their sessions, as the operation began."""
        jobs: dict[tuple[str, str], set[str]] = {}
        for record in self.context.store.jobs():
            for session in record.sessions:
                jobs.setdefault((session.broker, session.name), set()).add(record.name)
        return jobs

    def _names_of_others(self, job: Job) -> Container[str]:
        """The names of the sessions that other jobs have at a job's broker."""
        return _NamesOfOthers(self._jobs_of_sessions, job.source_broker, job.job_name)

    def _leaves_to_others(self, name: str, session: SessionRecord) -> bool:
        """Detach a session that another job has too; returns true if it was one.  The last job deletes it."""
        with self._sharing:
            shared = self._is_shared(name, session)
            if shared:
                self.context.note(name, SessionsDetached((session,)))
            return shared

    def _is_shared(self, name: str, session: SessionRecord) -> bool:
        """True if another job reads through a session, or is about to."""
        others = self._jobs_of_sessions.get((session.broker, session.name), set()) - {name}
        records = filter(None, map(self.context.store.job, others))
        return any(
            (session.broker, session.name) == (each.broker, each.name)
            for record in records
            for each in record.sessions
        )

    def _shut_out_abandoned(self, job: Job) -> None:
        """Fence the copies abandoned at a broker to which the job comes back."""
        for session in self.context.store.abandoned_sessions():
            if (session.job, session.broker, session.fenced) == (job.job_name, job.source_broker, False):
                with_retries(partial(shut_out, self.context.store, self.context.pool, session))

    def prune(self, job: Job) -> None:
        """Delete all sessions of a running job but its current one, as :meth:`detach_former`."""
        self.context.note(job.job_name, SessionEnsured(self.current(job)))
        self.detach_former(job.job_name)

    def current(self, job: Job) -> SessionRecord:
        """The session through which a running job reads: not the last one if a later change was reverted."""
        record, owner = self.context.record(job.job_name), self.context.store.identity
        return session_for(job, record, owner, self.context.operation.revision)

    def detach_former(self, name: str) -> None:
        """Delete the sessions that a job had before its current one.

        One with messages stays, unless it is noted as to be deleted, or the user has allowed to give them up.
        """
        record = self.context.record(name)
        former = self.abandoner.abandon_sessions(record, record.sessions[:-1])
        released = tuple(each for each in former if not self._stays(name, each))
        for session in released:
            self._retire(name, session, report=session.source != record.sessions[-1].source)
        if released:
            self.context.note(name, SessionsDetached(released))

    def _stays(self, name: str, session: SessionRecord) -> bool:
        if self.context.operation.request.give_up or not session.start:
            return False
        if session.source == self.context.record(name).sessions[-1].source:
            return False  # the job reads again: what waits here is in the current session too
        waiting = self.waiting(name, session)
        if waiting:
            text = (
                f"kept: {waiting_text(waiting, session.topic, session.broker)}, which the job no longer reads"
            )
            self.context.operation.note(name, f"{text} (use --give-up to delete them)")
        return bool(waiting)

    def waiting(self, name: str, session: SessionRecord) -> int | None:
        """The messages that wait in a session for a job alone, as of :func:`count_unread`."""
        if self._is_shared(name, session):
            return 0
        broker = self.context.pool.broker(session.broker)
        try:
            self._reclaim(session)
            return with_retries(partial(count_unread, broker, self.context.record(name), session))
        except SessionOfAnother:
            return 0

    def detach_all(self, name: str, *, report: bool) -> None:
        """Delete all sessions of a job that goes; ``report``: with an event for the messages in them."""
        record = self.context.store.job(name)
        for session in self._deletable(record):
            self._retire(name, session, report=report)

    def _deletable(self, record: JobRecord | None) -> Iterable[SessionRecord]:
        return self.abandoner.abandon_sessions(record, record.sessions) if record else ()

    def _retire(self, name: str, session: SessionRecord, *, report: bool) -> None:
        """Delete a session that is this job's alone; one of another job or store stays."""
        if self._leaves_to_others(name, session):
            return
        try:
            self._reclaim(session)
            if report:
                self._report_waiting(name, session)
            self._delete(name, session)
        except SessionOfAnother as error:
            self.context.operation.note(name, str(error))
            self.context.report(EventKind.FORGOTTEN, name, f"job {name!r}: not deleted: {error}")

    def _delete(self, name: str, session: SessionRecord) -> None:
        broker = self.context.pool.broker(session.broker)
        # Above each attempt, should the broker have lost the fence: a copy that comes back is shut out.
        with_retries(partial(broker.fence, session.name, self.context.record(name).attempts + 1))
        with_retries(partial(broker.delete_session, session.name))
        composition = self.context.operation.composition
        gone = AbandonedSession(composition, name, session.broker, session.name, session.topic)
        with self.context.store.transaction() as transaction:
            transaction.put_deleted_session(DeletedSession.of(gone, self.context.clock()))

    def _report_waiting(self, name: str, session: SessionRecord) -> None:
        """Report the messages that are deleted with a session, or that its writers retain for a lost one."""
        broker = self.context.pool.broker(session.broker)
        waiting = with_retries(partial(count_unread, broker, self.context.record(name), session))
        if waiting != 0:
            text = lost_text(session) if waiting is None else dropped_text(waiting, session)
            self.context.operation.note(name, text)
            self.context.report(EventKind.DROPPED, name, f"job {name!r}: {text}", waiting or 0)


@dataclass(frozen=True)
class _NamesOfOthers(Container[str]):
    """The names of the sessions that jobs other than ``job`` have at a broker; of many, none is looked at.

    ``jobs`` are the names of jobs by broker and name of their sessions.
    """

    jobs: Mapping[tuple[str, str], Collection[str]]
    broker: str
    job: str

    def __contains__(self, name: object) -> bool:
        return any(each != self.job for each in self.jobs.get((self.broker, str(name)), ()))


def session_for(
    job: Job,
    record: JobRecord,
    owner: str,
    revision: int,
    others: Container[str] = (),
    abandoned: Container[str] = (),
) -> SessionRecord:
    """The session through which a job of the store ``owner`` reads: one of its record's, or a new one.

    Another source is another session: messages of the old one are not mixed with the new.  So is another
    start, from which the job reads again.  ``others`` are the names of other jobs' sessions at that broker,
    ``abandoned`` names that a new session must not have.
    """
    if (session := _known_session(job, record, others)) is not None:
        return session
    numbers = count(revision) if record.sessions else chain([0], count(revision))
    begins = job.start != LATEST and (not record.sessions or reads_again(job, record))
    named = replay_name if begins else session_name
    names = (named(job.job_name, owner, number) for number in (count(revision) if begins else numbers))
    there = {each.name for each in record.sessions if each.broker == job.source_broker}
    name = next(each for each in names if not any(each in taken for taken in (there, others, abandoned)))
    return SessionRecord(job.source_broker, name, job.source_topic, job.start)


def reads_again(job: Job, record: JobRecord) -> bool:
    """True if the next copy of a job is to read again from its start, without a state."""
    session = _known_session(job, record)
    if session is not None:
        return session.name == record.unread
    return any(each.source == source_of(job) for each in record.sessions)


def _known_session(job: Job, record: JobRecord, others: Container[str] = ()) -> SessionRecord | None:
    """The newest session of a job's source and start; a job that begins at the end may have any start."""
    found = [
        each
        for each in reversed(record.sessions)
        if each.source == source_of(job) and each.name not in others and each.start
    ]
    same = (each for each in found if each.start == job.start)
    return next(same, found[0] if found and job.start == LATEST else None)
