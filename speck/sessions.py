"""The sessions through which jobs read: made before anybody writes to them, deleted with what leaves them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from speck.binder import MOST_COUNTED
from speck.calls import again
from speck.ledger import Ledger
from speck.model import Job, client_id
from speck.store import JobRecord, SessionRecord


@dataclass(frozen=True)
class Sessions:
    """The sessions of the jobs of one operation; each is in the store before its broker hears of it."""

    ledger: Ledger

    def make(self, job: Job, record: JobRecord) -> None:
        """Make sure of the session that a job is to read through."""
        session, known = session_for(job, record, self.ledger.operation.revision)
        attempts = self.ledger.store.attempts(job.job_name)
        if known and any(each.attempt.session == session.name for each in attempts):
            return  # a copy may be reading through it; to make sure of it would take it over
        with self.ledger.store.transaction() as transaction:
            transaction.put_job(with_current(record, session))
        broker = self.ledger.pool.broker(session.broker)
        again(partial(broker.ensure_session, session.name, session.topic))

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
        for session in record.sessions[:-1]:
            self._tell_left(name, session)
            again(partial(self.ledger.pool.broker(session.broker).delete_session, session.name))
        if len(record.sessions) > 1:
            with self.ledger.store.transaction() as transaction:
                transaction.put_job(replace(self.ledger.record(name), sessions=record.sessions[-1:]))

    def delete(self, name: str, *, told: bool) -> None:
        """Delete all sessions of a job that goes; ``told`` says that what is left in them is to be told."""
        record = self.ledger.store.job(name)
        for session in record.sessions if record else ():
            if told:
                self._tell_left(name, session)
            again(partial(self.ledger.pool.broker(session.broker).delete_session, session.name))

    def _tell_left(self, name: str, session: SessionRecord) -> None:
        """Say how much goes with a session that is about to be deleted."""
        left = again(partial(self.ledger.pool.broker(session.broker).waiting, session.name))
        if not left:
            return
        # Engines acknowledge a batch when they begin the next one: the last may be among what is left.
        some = f"at most {left} message{'s' * (left > 1)}"
        many = f"{left} or more messages" if left == MOST_COUNTED else some
        text = f"given up: {many} that waited at {session.topic!r} of {session.broker}"
        self.ledger.operation.note(name, text)
        with self.ledger.store.transaction() as transaction:
            transaction.add_event(self.ledger.event("given up", name, f"job {name!r}: {text}"))


def session_for(job: Job, record: JobRecord, revision: int) -> tuple[SessionRecord, bool]:
    """The session through which a job reads, and whether it is known already.

    Another source is another session: what still waits in the old one is not mixed with the new.
    """
    for session in record.sessions:
        if (session.broker, session.topic) == (job.source_broker, job.source_topic):
            return session, True
    name = client_id(job.job_name)
    if record.sessions:
        name += f".{revision}"
    return SessionRecord(job.source_broker, name, job.source_topic), False


def with_current(record: JobRecord, session: SessionRecord) -> JobRecord:
    """The record with this session last, which is where the current one stands."""
    others = (each for each in record.sessions if each != session)
    return replace(record, sessions=(*others, session))
