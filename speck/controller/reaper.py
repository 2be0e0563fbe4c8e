"""Ends what was left behind when its engine and its broker answer again.

Each may come back without the other.  A copy is shut out of its session as soon as the broker answers, and
stopped as soon as the engine does; the session is deleted when no copy is left that could come back to read
through it, or has had the time to find the fence.  Every step may be made again, and the store forgets a
thing only after its engine or its broker has said that it is no more, or when a user says that they never
will.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from speck.apply.abandon import addresses_of, dropped_text, shut_out
from speck.apply.operation import Operation
from speck.binder import DisposableState, EngineBinder
from speck.binder.pool import BinderPool
from speck.core.runtime import JobState, State
from speck.errors import BinderError, Fault, InvalidInput, OutcomeUnknown, SpeckError, Unreachable
from speck.store import Event, Store, Transaction
from speck.store.abandoned import AbandonedAttempt, AbandonedSession

_log = logging.getLogger(__name__)

PATIENCE = 3.0  # s, that a round of the loop waits for places that may not be there
EAGER = 30  # rounds in which a place is asked each time, some minutes; after that:
SELDOM = 6  # it is asked every so many rounds


@dataclass
class Reaper:
    """One per store, since one at a time ends them.  ``clock`` tells Unix time, s."""

    store: Store
    pool: BinderPool
    clock: Callable[[], float]
    _at_work: threading.Lock = field(default_factory=threading.Lock, init=False)
    _missed: Counter[str] = field(default_factory=Counter, init=False)
    _rounds: int = field(default=0, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    # --- when

    def round(self, silent: Iterable[str] = ()) -> None:
        """Go through all in the background; ``silent`` are addresses that are known not to answer.

        What does not answer for long is asked less often, and keeps nobody waiting.
        """
        self._rounds += 1
        if self._is_busy() or not (self.store.abandoned_attempts() or self.store.abandoned_sessions()):
            return
        seldom = self._rounds % SELDOM != 0
        rest = {address for address, missed in self._missed.items() if missed >= EAGER and seldom}
        spared = frozenset((*silent, *rest))
        self._thread = threading.Thread(target=self._look, args=(spared,), name="leftovers", daemon=True)
        self._thread.start()
        self._thread.join(PATIENCE)

    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _look(self, spared: frozenset[str]) -> None:
        try:
            missed = self.settle(spared=spared)
        except Exception:
            _log.exception("what was left behind could not be seen to")
            return
        if missed is not None:
            kept = Counter({each: count for each, count in self._missed.items() if each in missed | spared})
            self._missed = kept + Counter(missed)

    def close(self) -> None:
        """Wait for what is asked."""
        if self._thread is not None:
            self._thread.join()

    def settle_after(self, operation: Operation) -> None:
        """End what can be ended once an operation is through, which waits for nobody known to be silent."""
        self.settle(operation, {*operation.left_behind, *self._missed})

    def settle(self, operation: Operation | None = None, spared: Iterable[str] = ()) -> set[str] | None:
        """End what can be ended, but for what is ``spared``; answers the addresses that did not answer.

        Calls and events are those of an operation, or the loop's.  ``None``: another is at it already.
        """
        if not self._at_work.acquire(blocking=False):
            return None
        try:
            return _Settling(self.store, self.pool, self.clock, operation, set(spared)).run()
        finally:
            self._at_work.release()

    # --- for good

    def forget(self, names: Iterable[str], author: str = "") -> int:
        """Forget what was left at sites or addresses that never come back; answers how many things.

        Raises :class:`~speck.errors.InvalidInput` when nothing was left there.
        """
        with self._at_work:
            copies, sessions = self.store.abandoned_attempts(), self.store.abandoned_sessions()
            used = {*(each.address for each in copies), *(each.broker for each in sessions)}
            there = addresses_of(names, self.pool.inventory, used)
            if not there & used:
                fault = Fault(f"nothing was left behind at {', '.join(sorted(there)) or 'no place'}")
                raise InvalidInput([fault], "what is to be forgotten")
            settling = _Settling(self.store, self.pool, self.clock, None, set(), author)
            gone = [each for each in copies if each.address in there]
            for copy in gone:
                settling.forget_copy(copy, spared=there)
            for session in (over := [each for each in sessions if each.broker in there]):
                settling.forget_session(session)
            return len(gone) + len(over)


@dataclass(frozen=True)
class _Settling:
    """One time through all.  ``silent`` are the addresses that are asked no more.

    ``author`` is the user at whose word it is done; ``None``: nobody, but the loop or an operation does it.
    """

    store: Store
    pool: BinderPool
    clock: Callable[[], float]
    operation: Operation | None
    silent: set[str]
    author: str | None = None

    def run(self) -> set[str]:
        """Go through all; answers the addresses that turned out silent."""
        spared = frozenset(self.silent)
        sessions = self.store.abandoned_sessions()
        fenced = {each.key for each in sessions if each.fenced}
        for session in sessions:
            self._try(session.broker, partial(self._shut_out, session))
        for copy in self.store.abandoned_attempts():
            self._try(copy.address, partial(self._end, copy))
        for session in self.store.abandoned_sessions():
            self._try(session.broker, partial(self._delete, session, fenced))
        return self.silent - spared

    def _try(self, address: str, step: Callable[[], None]) -> None:
        if address in self.silent:
            return
        try:
            step()
        except SpeckError as error:
            self.silent.add(address)
            _log.info("what was left behind at %s waits: %s", address, error)

    # --- sessions

    def _shut_out(self, session: AbandonedSession) -> None:
        if not session.fenced:
            shut_out(self.store, self.pool, session)
            with self.store.transaction() as transaction:
                transaction.put_abandoned_session(replace(session, fenced=True))

    def _delete(self, session: AbandonedSession, fenced: Collection[str]) -> None:
        """Delete a session; the fence goes with it, and so only when the copies have had time to find it."""
        number = self.store.fence_above(session.broker, session.name)
        if number and session.key not in fenced:
            return
        broker = self.pool.broker(session.broker)
        waiting = broker.waiting(session.name)
        broker.delete_session(session.name)
        if number:  # a copy may still come back
            broker.fence(session.name, number)
        what = f"session {session.name!r}, left behind at {session.broker}, was deleted"
        told = f"{what} ({dropped_text(waiting, session)})" if waiting else what
        self._forget_session(session, "given up" if waiting else "stopped", told)

    def _forget_session(self, session: AbandonedSession, kind: str, message: str) -> None:
        with self.store.transaction() as transaction:
            transaction.delete_abandoned_session(session)
            self._tell(transaction, kind, session.composition, session.job, message)

    def forget_session(self, session: AbandonedSession) -> None:
        """A user says that its broker never comes back."""
        message = f"session {session.name!r}, left behind at {session.broker}, was forgotten"
        self._forget_session(session, "forgotten", message)

    # --- copies

    def _end(self, copy: AbandonedAttempt) -> None:
        engine = self.pool.engine_at(copy.engine, copy.address)
        handle = copy.handle
        if handle is None:
            self._count("find")
            handle = engine.find(copy.attempt)
        status = engine.status(handle) if handle is not None else None
        if status is not None and status.state is JobState.UNKNOWN:
            raise OutcomeUnknown(status.message, address=copy.address)
        if handle is not None and status is not None and status.state is not JobState.LOST:
            self._count("stop")
            # With its state, for a copy that was stopped without may have its last checkpoint deleted, from
            # which the new copy began.
            self._drop(engine, copy, engine.stop(handle, True))
        self._forget_copy(copy, "stopped", "has ended")

    def forget_copy(self, copy: AbandonedAttempt, spared: Collection[str]) -> None:
        """A user says that its engine never comes back; nor do the brokers that are ``spared``."""
        self._forget_copy(copy, "forgotten", "was forgotten", spared)

    def _forget_copy(self, copy: AbandonedAttempt, kind: str, end: str, spared: Collection[str] = ()) -> None:
        name, broker = copy.attempt.job_name, copy.source_broker
        message = f"attempt {copy.attempt.number}, left behind at {copy.address}, {end}"
        with self.store.transaction() as transaction:
            transaction.delete_abandoned_attempt(copy)
            if broker not in spared and self._is_last(copy):
                # What its fence was for is over.
                left = AbandonedSession(copy.composition, name, broker, copy.attempt.session, "", fenced=True)
                transaction.put_abandoned_session(left)
            self._tell(transaction, kind, copy.composition, name, message)

    def _is_last(self, copy: AbandonedAttempt) -> bool:
        """Whether nobody else reads through a copy's session, and it is not to be deleted already."""
        job = self.store.job(copy.attempt.job_name)
        others = {each.session for each in self.store.abandoned_attempts() if each.key != copy.key}
        sessions = {(each.broker, each.name) for each in self.store.abandoned_sessions()}
        used = {(each.broker, each.name) for each in (job.sessions if job else ())}
        return bool(copy.attempt.session) and copy.session not in others | sessions | used

    def _drop(self, engine: EngineBinder, copy: AbandonedAttempt, state: State | None) -> None:
        """Delete the state that a copy has left in the end, which nobody will start from.

        Asked again after a crash, or no answer, a stop may answer what the copy itself began from: that is
        not its own.
        """
        if state is None or not isinstance(engine, DisposableState) or self._is_needed(copy, state):
            return
        self._count("dispose_state")
        try:
            engine.dispose_state(state)
        except (Unreachable, OutcomeUnknown):
            raise  # the copy stays in the store, and is asked about again
        except BinderError as error:
            _log.warning("the state of attempt %s is left at %s: %s", copy.key, state.location, error)

    def _is_needed(self, copy: AbandonedAttempt, state: State) -> bool:
        name = copy.attempt.job_name
        job = self.store.job(name)
        begun = [copy.attempt.state, *(each.attempt.state for each in self.store.attempts(name))]
        known = [*begun, *((job.state, *job.retained_states, *job.garbage_states) if job else ())]
        return state.location in [each.location for each in known if each is not None]

    # --- telling

    def _count(self, call: str) -> None:
        if self.operation is not None:
            self.operation.count(call)

    def _tell(self, transaction: Transaction, kind: str, composition: str, job: str, message: str) -> None:
        operation = self.operation
        by_loop = self.author is None and (operation is None or operation.kind == "heal")
        transaction.add_event(
            Event(
                self.clock(),
                kind,
                f"job {job!r}: {message}",
                composition,
                job,
                operation.id if operation else "",
                author=self.author or "",
                by_loop=by_loop,
            )
        )
