"""The sessions through which jobs read: made before a writer starts, deleted after the last reader."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain, count

from speck.apply.abandon import Abandoner, dropped_text, shut_out
from speck.apply.context import OperationContext
from speck.apply.job_state import SessionEnsured, SessionsDetached
from speck.binder.retry import with_retries
from speck.core.job import Job, client_id
from speck.core.lifecycle import EventKind
from speck.store import JobRecord, SessionRecord


@dataclass(frozen=True)
class Sessions:
    """The sessions of the jobs of one operation; each is in the store before its broker is asked for it."""

    context: OperationContext
    abandoner: Abandoner

    def ensure(self, job: Job, record: JobRecord) -> None:
        """Make the session that a job is to read through, unless a copy may be reading through it."""
        store = self.context.store
        taken = store.abandoned_names(job.source_broker)
        session, known = session_for(job, record, self.context.operation.revision, taken)
        self._shut_out_abandoned(job)
        attempts = store.attempts(job.job_name)
        if known and any(each.attempt.session == session.name for each in attempts):
            return  # ensuring it would take it over from that copy
        self.context.note(job.job_name, SessionEnsured(session))
        broker = self.context.pool.broker(session.broker)
        with_retries(partial(broker.ensure_session, session.name, session.topic))

    def _shut_out_abandoned(self, job: Job) -> None:
        """Fence the copies abandoned at a broker to which the job comes back."""
        for session in self.context.store.abandoned_sessions():
            if (session.job, session.broker, session.fenced) == (job.job_name, job.source_broker, False):
                with_retries(partial(shut_out, self.context.store, self.context.pool, session))

    def prune(self, job: Job) -> None:
        """Delete all sessions of a running job but the one that it reads through."""
        record = self.context.record(job.job_name)
        session, _ = session_for(job, record, self.context.operation.revision)
        self.context.note(job.job_name, SessionEnsured(session))
        self.detach_former(job.job_name)

    def detach_former(self, name: str) -> None:
        """Delete the sessions through which a job read before its current one."""
        record = self.context.record(name)
        former = tuple(self.abandoner.abandon_sessions(record, record.sessions[:-1]))
        for session in former:
            self._report_waiting(name, session)
            self._delete(session)
        if former:
            self.context.note(name, SessionsDetached(former))

    def detach_all(self, name: str, *, report: bool) -> None:
        """Delete all sessions of a job that goes; ``report``: with an event for the messages in them."""
        record = self.context.store.job(name)
        for session in self._deletable(record):
            if report:
                self._report_waiting(name, session)
            self._delete(session)

    def _deletable(self, record: JobRecord | None) -> Iterable[SessionRecord]:
        return self.abandoner.abandon_sessions(record, record.sessions) if record else ()

    def _delete(self, session: SessionRecord) -> None:
        with_retries(partial(self.context.pool.broker(session.broker).delete_session, session.name))

    def _report_waiting(self, name: str, session: SessionRecord) -> None:
        """Report the messages that are deleted with a session."""
        waiting = with_retries(partial(self.context.pool.broker(session.broker).waiting, session.name))
        if waiting:
            text = dropped_text(waiting, session)
            self.context.operation.note(name, text)
            self.context.report(EventKind.DROPPED, name, f"job {name!r}: {text}", waiting)


def session_for(
    job: Job, record: JobRecord, revision: int, taken: Collection[str] = ()
) -> tuple[SessionRecord, bool]:
    """The session through which a job reads, and true if the record has it already.

    Another source is another session: messages of the old one are not mixed with the new.  ``taken`` are
    names that a new one must not have at that broker.
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
