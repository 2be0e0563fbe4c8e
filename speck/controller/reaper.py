"""Reaps abandoned attempts and sessions when their engines and brokers answer again.

One pass is in :mod:`speck.controller.reaping`; this module begins them, in the background.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial

from speck.apply.abandon import addresses_of
from speck.apply.operation import Operation
from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.controller.deleted_sessions import DeletedSessions
from speck.controller.reaping import Reaping
from speck.errors import Fault, InvalidInput
from speck.store import Store

_log = logging.getLogger(__name__)

CLOSING = 10.0  # s
PATIENCE = 3.0  # s, that a round of the reconciler, or an operation, waits for addresses that may be silent
EAGER = 30  # rounds in which an address is asked each time, some minutes; after that:
SELDOM = 6  # rounds between two requests


@dataclass
class Reaper:
    """Ends abandoned attempts and sessions in the background.

    One per store, since one thread at a time reaps.  ``clock`` returns Unix time, s.
    """

    store: Store
    pool: BinderPool
    clock: Callable[[], float]
    _reaping: threading.Lock = field(default_factory=threading.Lock, init=False)
    # While records are compared and written, by a pass or by a user; never during a call.
    _records: threading.RLock = field(default_factory=threading.RLock, init=False)
    _ending: set[str] = field(default_factory=set, init=False)  # the keys of attempts: a pass is ending them
    _missed: Counter[str] = field(default_factory=Counter, init=False)
    _rounds: int = field(default=0, init=False)
    # While a thread begins: a round and the end of an operation may each want one, and close() one that runs.
    _beginning: threading.Lock = field(default_factory=threading.Lock, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    # --- schedule

    def round(self, silent: Iterable[str] = ()) -> None:
        """Reap in the background; ``silent`` are addresses that are known not to answer.

        An address that does not answer for long is asked less often, and delays nothing else.
        """
        self._rounds += 1
        deleted = DeletedSessions(self.store, self.pool, self.clock)
        looks = deleted.due() or deleted.ahead()
        if not (self.store.abandoned_attempts() or self.store.abandoned_sessions() or looks):
            return
        seldom = self._rounds % SELDOM != 0
        rest = {address for address, missed in self._missed.items() if missed >= EAGER and seldom}
        self._begin(lambda: self._reap_once(frozenset((*silent, *rest))))

    def _begin(self, work: Callable[[], object]) -> None:
        """Reap in a thread, unless one reaps already, and wait a moment for its end."""
        with self._beginning:
            if self._is_busy():
                return
            thread = threading.Thread(target=work, name="reaper", daemon=True)
            thread.start()
            self._thread = thread
        thread.join(PATIENCE)

    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _reap_once(self, spared: frozenset[str]) -> None:
        try:
            missed = self.reap(spared=spared)
        except Exception:
            _log.exception("abandoned attempts and sessions could not be reaped")
            return
        if missed is not None:
            silent = missed | spared
            before = Counter({each: count for each, count in self._missed.items() if each in silent})
            self._missed = before + Counter(missed)

    def end_at(self, addresses: Collection[str]) -> None:
        """End what was abandoned at addresses that can be reached again, and wait a moment for it.

        Copies are stopped and sessions fenced side by side, beside any pass that is under way; the sessions
        are deleted by a later one.  The addresses are asked in each round from now on.
        """
        missed = self._missed
        self._missed = Counter({each: missed[each] for each in missed.keys() - set(addresses)})
        reaping, steps = self._pass(), defaultdict[str, list[Callable[[], None]]](list)
        for attempt in self.store.abandoned_attempts():
            if attempt.address in addresses:
                steps[attempt.address].append(partial(reaping.stop, attempt))
        for session in self.store.abandoned_sessions():
            if session.broker in addresses:
                steps[session.broker].append(partial(reaping.fence, session))
        if steps:
            ask(steps, lambda address: reaping.take(address, steps[address]), PATIENCE, name="reaper")

    def close(self, seconds: float = CLOSING) -> None:
        """Wait for the request under way, for at most ``seconds``; one that is broken off is repeated."""
        with self._beginning:
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def reap_after(self, operation: Operation) -> None:
        """Reap once an operation is applied; addresses that are known to be silent are not asked.

        What an address that does not answer holds up ends in the background, or in a later round.
        """
        spared = {*operation.request.leave_behind, *self._missed}
        self._begin(lambda: self._reap_after(operation, spared))

    def _reap_after(self, operation: Operation, spared: Iterable[str]) -> None:
        try:
            self.reap(operation, spared)
        except Exception:
            _log.exception("abandoned attempts and sessions could not be reaped")

    def reap(self, operation: Operation | None = None, spared: Iterable[str] = ()) -> set[str] | None:
        """End what answers, but for the addresses that are ``spared``; returns those that are silent.

        Calls and events are those of an operation, or of the reconciler.  ``None``: another thread reaps.
        """
        if not self._reaping.acquire(blocking=False):
            return None
        try:
            return self._pass(operation, spared).run()
        finally:
            self._reaping.release()

    def _pass(
        self, operation: Operation | None = None, spared: Iterable[str] = (), author: str | None = None
    ) -> Reaping:
        return Reaping(
            store=self.store,
            pool=self.pool,
            clock=self.clock,
            operation=operation,
            silent=set(spared),
            author=author,
            records=self._records,
            ending=self._ending,
        )

    # --- by declaration of a user

    def forget(self, names: Iterable[str], author: str = "") -> int:
        """Forget what is abandoned at sites or addresses that never come back; returns its number.

        Does not wait for a pass that is under way, which may be held up by just these places.  Raises
        :class:`~speck.errors.InvalidInput` when nothing is abandoned there.
        """
        attempts, sessions = self.store.abandoned_attempts(), self.store.abandoned_sessions()
        used = {*(each.address for each in attempts), *(each.broker for each in sessions)}
        there = addresses_of(names, self.pool.inventory, used)
        if not there & used:
            fault = Fault(f"nothing was abandoned at {', '.join(sorted(there)) or 'no place'}")
            raise InvalidInput([fault], "--forget")
        reaping = self._pass(author=author)
        gone = [each for each in attempts if each.address in there]
        for attempt in gone:
            reaping.keep_left(attempt)
        with self._records:  # only now: a mute agent is asked for its states for long
            for attempt in gone:
                reaping.forget_attempt(attempt, spared=there)
            for session in (over := [each for each in sessions if each.broker in there]):
                reaping.forget_session(session)
        return len(gone) + len(over)
