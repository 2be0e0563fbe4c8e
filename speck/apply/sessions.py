"""The sessions through which jobs read: made before anybody writes to them, deleted with what leaves them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count

from speck.apply.abandon import Abandoner, given_up, shut_out
from speck.apply.context import OperationContext
from speck.binder.retry import with_retries
from speck.core.job import Job, client_id
from speck.store import JobRecord, SessionRecord


@dataclass(frozen=True)
class Sessions:
    """The sessions of the jobs of one operation; each is in the store before its broker hears of it."""

    ledger: OperationContext
    leaver: Abandoner

    def make(self, job: Job, record: JobRecord) -> None:
        """Make sure of the session that a job is to read through."""
        store = self.ledger.store
        taken = store.abandoned_names(job.source_broker)
        session, known = session_for(job, record, self.ledger.operation.revision, taken)
        self._shut_out_former(job)
        attempts = store.attempts(job.job_name)
        if known and any(each.attempt.session == session.name for each in attempts):
            return  # a copy may be reading through it; to make sure of it would take it over
        with store.transaction() as transaction:
            transaction.put_job(with_current(record, session))
        broker = self.ledger.pool.broker(session.broker)
        with_retries(partial(broker.ensure_session, session.name, session.topic))

    def _shut_out_former(self, job: Job) -> None:
        """The job comes back to a broker where copies of it were left, which may not have been told yet."""
        for left in self.ledger.store.abandoned_sessions():
            if (left.job, left.broker, left.fenced) == (job.job_name, job.source_broker, False):
                with_retries(partial(shut_out, self.ledger.store, self.ledger.pool, left))

    def keep_current(self, job: Job) -> None:
        """Of a job that runs: keep the session that it reads through, and no other."""
        record = self.ledger.record(job.job_name)
        session, _ = session_for(job, record, self.ledger.operation.revision)
        with self.ledger.store.transaction() as transaction:
            transaction.put_job(with_current(record, session))
        self.drop_former(job.job_name)

    def drop_former(self, name: str) -> None:
        """Delete the sessions through which the job read before."""
        record = self.ledger.record(name)
        former = self.leaver.part(record, record.sessions[:-1])
        for session in former:
            self._tell_left(name, session)
            self._delete(session)
        if former:
            with self.ledger.store.transaction() as transaction:
                transaction.put_job(replace(self.ledger.record(name), sessions=record.sessions[-1:]))

    def delete(self, name: str, *, told: bool) -> None:
        """Delete all sessions of a job that goes; ``told`` says that what is left in them is to be told."""
        record = self.ledger.store.job(name)
        for session in self.leaver.part(record, record.sessions) if record else ():
            if told:
                self._tell_left(name, session)
            self._delete(session)

    def _delete(self, session: SessionRecord) -> None:
        with_retries(partial(self.ledger.pool.broker(session.broker).delete_session, session.name))

    def _tell_left(self, name: str, session: SessionRecord) -> None:
        """Say how much goes with a session that is about to be deleted."""
        left = with_retries(partial(self.ledger.pool.broker(session.broker).waiting, session.name))
        if not left:
            return
        text = given_up(left, session)
        self.ledger.operation.note(name, text)
        with self.ledger.store.transaction() as transaction:
            transaction.add_event(self.ledger.event("given up", name, f"job {name!r}: {text}"))


def session_for(
    job: Job, record: JobRecord, revision: int, taken: Collection[str] = ()
) -> tuple[SessionRecord, bool]:
    """The session through which a job reads, and whether it is known already.

    Another source is another session: what still waits in the old one is not mixed with the new.  ``taken``
    are names that a new one must not have at that broker.
    """
    for session in record.sessions:
        if (session.broker, session.topic) == (job.source_broker, job.source_topic):
            return session, True
    first = client_id(job.job_name)
    later = (f"{first}.{number}" for number in count(revision))
    names = later if record.sessions else chain([first], later)
    there = {each.name for each in record.sessions if each.broker == job.source_broker}
    name = next(each for each in names if each not in taken and each not in there)
    return SessionRecord(job.source_broker, name, job.source_topic), False


def with_current(record: JobRecord, session: SessionRecord) -> JobRecord:
    """The record with this session last, which is where the current one stands."""
    others = (each for each in record.sessions if each != session)
    return replace(record, sessions=(*others, session))
