"""One pass over the abandoned attempts and sessions, which ends those whose places answer.

Each may come back without the other.  A copy is shut out of its session as soon as the broker answers.  It is
stopped as soon as the engine does, and its state is kept or deleted (``abandoned_states``).
The session is deleted when no abandoned copy is left that could come back to read through it, or has had the
time to read the fence.  Every step may be repeated, and the store forgets an attempt or a session only after
its engine or its broker has answered that it is no more, or when a user declares that they never will.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from speck.apply.abandon import deletion_text, shut_out
from speck.apply.operation import Operation
from speck.binder import BrokerBinder
from speck.binder.pool import BinderPool
from speck.controller.abandoned_states import AbandonedStates
from speck.controller.deleted_sessions import DeletedSessions
from speck.core.lifecycle import AUTOMATIC, EventKind
from speck.core.runtime import JobState
from speck.core.waiting import MOST_COUNTED
from speck.errors import OutcomeUnknown, Rejected, SessionOfAnother, SpeckError, StateLost, Unreachable
from speck.store import Event, Store
from speck.store.abandoned import AbandonedAttempt, AbandonedSession, DeletedSession

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reaping:
    """One pass over all.  ``silent`` are the addresses that are no longer asked.

    ``operation`` is the one that reaps; ``None``: the reconciler, or the user ``author`` who declares that
    places never come back.  ``records`` is held while records are compared and written, never during a call.
    ``ending`` are the keys of the attempts that a pass is ending.
    """

    store: Store
    pool: BinderPool
    clock: Callable[[], float]
    operation: Operation | None
    silent: set[str]
    author: str | None
    records: threading.RLock
    ending: set[str]

    def run(self) -> set[str]:
        """Reap all; returns the addresses that turned out silent."""
        spared = frozenset(self.silent)
        sessions = self.store.abandoned_sessions()
        fenced = {each.key for each in sessions if each.fenced}
        for session in sessions:
            self._try(session.broker, partial(self._shut_out, session))
        for attempt in self.store.abandoned_attempts():
            self._try(attempt.address, partial(self.stop, attempt))
        deleted = DeletedSessions(self.store, self.pool, self.clock)
        deleted.correct_times()
        for address, gone in deleted.due().items():
            self._try(address, partial(deleted.look, address, gone))
        deleted.forget_old()
        deleted.forget_used()
        for session in self.store.abandoned_sessions():
            self._try(session.broker, partial(self._delete, session, fenced))
        return self.silent - spared

    def take(self, address: str, steps: Iterable[Callable[[], None]]) -> None:
        """Take some steps at one address, until it does not answer."""
        for step in steps:
            self._try(address, step)

    def _try(self, address: str, step: Callable[[], None]) -> None:
        if address in self.silent:
            return
        try:
            step()
        except SpeckError as error:
            self.silent.add(address)
            _log.info("what is abandoned at %s waits: %s", address, error)
        except Exception:  # a defect at one place must not keep what is abandoned at others
            self.silent.add(address)
            _log.exception("what is abandoned at %s waits", address)

    # --- sessions

    def fence(self, session: AbandonedSession) -> None:
        """Raise the fence of a session, so that no abandoned copy reads on.

        That is not noted: a pass notes it, and with the next one its copies have had the time to read it.
        """
        if not session.fenced:
            with suppress(SessionOfAnother):
                shut_out(self.store, self.pool, session)

    def _shut_out(self, session: AbandonedSession) -> None:
        if not session.fenced:
            try:
                shut_out(self.store, self.pool, session)
            except SessionOfAnother as error:
                self._forget_session(session, EventKind.FORGOTTEN, f"not deleted: {error}")
                return
            with self.records, self.store.transaction() as transaction:
                if self._has_session(session):
                    transaction.put_abandoned_session(replace(session, fenced=True))

    def _delete(self, session: AbandonedSession, fenced: Collection[str]) -> None:
        """Delete a session and its fence, once the abandoned copies have had time to read it."""
        number = self.store.fence_above(session.broker, session.name)
        if number and session.key not in fenced:
            return
        broker = self.pool.broker(session.broker)
        try:
            counted, uncounted = self._counted(session, broker)
            if not self._has_session(session):  # forgotten meanwhile: a job may have one of its name
                return
            broker.delete_session(session.name)
            if number:  # a copy may still come back
                broker.fence(session.name, number)
        except SessionOfAnother as error:
            self._forget_session(session, EventKind.FORGOTTEN, f"not deleted: {error}")
            return
        with self.store.transaction() as transaction:
            transaction.put_deleted_session(DeletedSession.of(session, self.clock()))
        lost = counted.waiting + counted.unsaved
        kind = EventKind.DROPPED if lost else EventKind.STOPPED
        message = deletion_text(counted, uncounted=uncounted)
        at_least = uncounted or counted.waiting == MOST_COUNTED
        self._forget_session(session, kind, message, lost, at_least=at_least)

    def _counted(self, session: AbandonedSession, broker: BrokerBinder) -> tuple[AbandonedSession, bool]:
        """The session with the numbers of its messages; true if that of the unsaved ones is not known.

        They are stored before they are deleted: a deletion without an answer is repeated, and finds none.
        """
        unsaved = self._unsaved(session, broker)  # first, since a writer may just be sending them
        waiting = max(session.waiting, broker.waiting(session.name))
        counted = replace(session, waiting=waiting, unsaved=max(session.unsaved, unsaved or 0))
        if counted != session:
            with self.records, self.store.transaction() as transaction:
                if self._has_session(session):
                    transaction.put_abandoned_session(counted)
        return counted, unsaved is None

    def _unsaved(self, session: AbandonedSession, broker: BrokerBinder) -> int | None:
        """The messages that the broker lost before they reached a session; ``None`` if that is not known.

        None were lost of a session that is back after its deletion, or of which only the fence remains.
        """
        if session.returned or not session.topic:
            return 0
        try:
            return broker.unsaved(session.name, session.topic)
        except SessionOfAnother:
            raise
        except Rejected:  # by an agent of an earlier version
            return None

    def _forget_session(
        self,
        session: AbandonedSession,
        kind: EventKind,
        message: str,
        messages: int = 0,
        *,
        at_least: bool = False,
    ) -> None:
        with self.records, self.store.transaction() as transaction:
            if not self._has_session(session):  # a user has forgotten it during a call
                return
            transaction.delete_abandoned_session(session)
            event = self._event(kind, session.composition, session.job, message)
            event = replace(event, messages=messages, session=session.key, at_least=at_least)
            transaction.add_event(event)

    def _has_session(self, session: AbandonedSession) -> bool:
        return session.key in {each.key for each in self.store.abandoned_sessions()}

    def forget_session(self, session: AbandonedSession) -> None:
        """Forget a session whose broker never comes back, as a user declares."""
        message = f"session {session.name!r}, abandoned at {session.broker}, was forgotten"
        self._forget_session(session, EventKind.FORGOTTEN, message)

    # --- attempts

    def stop(self, abandoned: AbandonedAttempt) -> None:
        """End a copy, unless another pass does, or has done so."""
        with self.records:
            if abandoned.key in self.ending or not self._has_attempt(abandoned):
                return
            self.ending.add(abandoned.key)
        try:
            self._end(abandoned)
        finally:
            with self.records:
                self.ending.discard(abandoned.key)

    def _end(self, abandoned: AbandonedAttempt) -> None:
        engine = self.pool.engine_at(abandoned.engine, abandoned.address)
        states = self._states_of(abandoned)
        handle = abandoned.handle
        if handle is None:
            self._count("find")
            handle = engine.find(abandoned.attempt)
        status = engine.status(handle) if handle is not None else None
        if status is not None and status.state is JobState.UNKNOWN:
            raise OutcomeUnknown(status.message, address=abandoned.address)
        if handle is not None and status is not None and status.state is not JobState.LOST:
            self._count("stop")
            # With its state: without, its last checkpoint might be deleted, from which the new copy began.
            try:
                state = engine.stop(handle, True)
            except StateLost:
                state = engine.stop(handle, False)
            states.keep_or_drop(state)
        else:
            states.keep_left()
        if handle is not None:
            states.delete_place(handle)
        self._forget_attempt(abandoned, EventKind.STOPPED, "has ended")

    def keep_left(self, abandoned: AbandonedAttempt) -> None:
        """Keep the state of a copy whose engine never comes back, if it can be found."""
        states = self._states_of(abandoned)
        try:
            states.keep_left()
        except (Unreachable, OutcomeUnknown) as error:
            states.note_missing(error)

    def forget_attempt(self, abandoned: AbandonedAttempt, spared: Collection[str]) -> None:
        """Forget an attempt whose engine never comes back, nor the brokers that are ``spared``."""
        self._forget_attempt(abandoned, EventKind.FORGOTTEN, "was forgotten", spared)

    def _forget_attempt(
        self, abandoned: AbandonedAttempt, kind: EventKind, end: str, spared: Collection[str] = ()
    ) -> None:
        name, broker = abandoned.attempt.job_name, abandoned.source_broker
        message = f"attempt {abandoned.attempt.number}, abandoned at {abandoned.address}, {end}"
        with self.records, self.store.transaction() as transaction:
            if not self._has_attempt(abandoned):
                return  # a user has forgotten it during a call
            transaction.delete_abandoned_attempt(abandoned)
            if broker not in spared and self._is_last(abandoned):
                # Its fence has served its purpose.
                session = abandoned.attempt.session
                transaction.put_abandoned_session(
                    AbandonedSession(abandoned.composition, name, broker, session, "", fenced=True)
                )
            transaction.add_event(self._event(kind, abandoned.composition, name, message))

    def _states_of(self, abandoned: AbandonedAttempt) -> AbandonedStates:
        return AbandonedStates(self.store, self.pool, abandoned, self._count)

    def _has_attempt(self, abandoned: AbandonedAttempt) -> bool:
        return abandoned.key in {each.key for each in self.store.abandoned_attempts()}

    def _is_last(self, abandoned: AbandonedAttempt) -> bool:
        """True if no other copy reads through its session, and the session is not about to be deleted."""
        job = self.store.job(abandoned.attempt.job_name)
        others = {each.session for each in self.store.abandoned_attempts() if each.key != abandoned.key}
        sessions = {(each.broker, each.name) for each in self.store.abandoned_sessions()}
        used = {(each.broker, each.name) for each in (job.sessions if job else ())}
        return bool(abandoned.attempt.session) and abandoned.session not in others | sessions | used

    # --- reports

    def _count(self, call: str) -> None:
        if self.operation is not None:
            self.operation.count(call)

    def _event(self, kind: EventKind, composition: str, job: str, message: str) -> Event:
        operation = self.operation
        automatic = self.author is None and (operation is None or operation.kind in AUTOMATIC)
        return Event(
            self.clock(),
            kind,
            f"job {job!r}: {message}",
            composition,
            job,
            operation.id if operation else "",
            author=self.author or "",
            automatic=automatic,
        )
