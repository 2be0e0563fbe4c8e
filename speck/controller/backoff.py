"""Delays the retries of a failing job: exponential back-off with jitter, on the caller's steady clock.

The tries are kept in the store, by Unix time, so that a coordinator which dies with each try does not begin
anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from tenacity import RetryCallState, Retrying
from tenacity.wait import wait_exponential_jitter

from speck.core.lifecycle import ActionState
from speck.errors import StoreError
from speck.store import RetryState, Store

_log = logging.getLogger(__name__)

FIRST, LONGEST, JITTER = 10.0, 300.0, 5.0  # s
WELL = 300.0  # s without a fault, after which the tries of a job are forgotten

HELD = "is held back: its roll-out in waves failed"
_NEVER_HELD = frozenset({ActionState.DONE, ActionState.KEPT, ActionState.FAILED})

_STRATEGY = wait_exponential_jitter(multiplier=FIRST, max=LONGEST, jitter=JITTER)
_NONE = RetryState()


def exponential(tries: int) -> float:
    """The delay (s) after a number of tries: from 10 s doubling to 5 minutes, and up to 5 s of jitter."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = tries
    return _STRATEGY(state)


@dataclass
class Backoff:
    """The retry states of jobs, by name; times are those of the caller's clock, s, which is never set back.

    While the store cannot be written, changes are kept in memory.
    """

    wait: Callable[[int], float] = exponential
    _store: Store | None = field(default=None, init=False)
    _offset: Callable[[], float] = field(default=float, init=False)  # of Unix time from the caller's clock
    _entries: dict[str, RetryState] = field(default_factory=dict, init=False)
    _well_since: dict[str, float] = field(default_factory=dict, init=False)

    def keep_in(self, store: Store, now: float, offset: Callable[[], float] = float) -> None:
        """Load the retry states from a store, and write every change to it.

        ``offset`` gives the difference of Unix time, which is stored, from the caller's clock.
        """
        self._store, self._offset = store, offset
        # Unix time that was set back since must not delay a job for longer than any try would.
        latest = now + LONGEST + JITTER
        self._entries = {
            name: replace(each, next_try=min(each.next_try - offset(), latest))
            for name, each in store.retry_states().items()
        }

    def record_attempt(self, names: Iterable[str], now: float) -> None:
        """Begin one more try of these jobs: the delay to the next one grows."""
        changes: dict[str, RetryState | None] = {}
        for name in names:
            tries = self._entries.get(name, _NONE).tries + 1
            changes[name] = RetryState(tries, now + self.wait(tries))
            self._well_since.pop(name, None)
        self._put(changes)

    def ended(self, name: str, now: float) -> None:
        """End the last try of a job: the delay begins now."""
        entry = self._entries.get(name)
        if entry is not None:
            self._put({name: replace(entry, next_try=now + self.wait(entry.tries))})

    def suspend(self, name: str, why: str) -> None:
        """Do not retry a job before a user asks, for this reason."""
        self._put({name: replace(self._entries.get(name, _NONE), suspended=why)})

    def hold(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """Do not carry out, before a user asks, what a roll-out has left undone.

        ``actions`` are those of its operation as plain data.  A failed one counts as tried.
        """
        held = {each["job"]: each["error"] for each in actions if each["state"] not in _NEVER_HELD}
        self._put(
            {
                name: replace(
                    self._entries.get(name, _NONE),
                    suspended=f"{HELD} (apply again, or roll back){error and f': {error}'}",
                )
                for name, error in held.items()
            }
        )

    def is_held(self, name: str) -> bool:
        """True if a job waits for a user since its roll-out failed (:meth:`hold`)."""
        return (self.suspended(name) or "").startswith(HELD)

    def suspended(self, name: str) -> str | None:
        """The reason why a job is suspended; ``None`` if it is not."""
        return self._entries.get(name, _NONE).suspended or None

    def next_try(self, name: str) -> float | None:
        """The time of the next try of a job; ``None`` without a try before it."""
        entry = self._entries.get(name)
        return entry.next_try if entry is not None and entry.tries else None

    def runs(self, name: str, now: float) -> None:
        """Note that a job runs; after some time of that, its tries are forgotten."""
        entry = self._entries.get(name)
        if entry is None or not entry.tries:
            return
        if now - self._well_since.setdefault(name, now) >= WELL:
            self._well_since.pop(name, None)
            self._put({name: RetryState(suspended=entry.suspended) if entry.suspended else None})

    def stopped(self, name: str) -> None:
        """Note that a job does not run."""
        self._well_since.pop(name, None)

    def retain(self, names: Set[str]) -> None:
        """Forget all jobs but these."""
        self.forget(set(self._entries) - names)

    def forget(self, names: Iterable[str]) -> None:
        """Forget the tries of these jobs."""
        for name in (known := [each for each in names if each in self._entries]):
            self._well_since.pop(name, None)
        self._put(dict.fromkeys(known))

    def _put(self, changes: Mapping[str, RetryState | None]) -> None:
        if not changes:
            return
        self._entries |= {name: state for name, state in changes.items() if state is not None}
        for name in (name for name, state in changes.items() if state is None):
            self._entries.pop(name, None)
        if self._store is None:
            return
        offset = self._offset()
        try:
            with self._store.transaction() as transaction:
                for name, state in changes.items():
                    stored = None if state is None else replace(state, next_try=state.next_try + offset)
                    transaction.put_retry_state(name, stored)
        except StoreError as error:
            _log.error("the tries of %s could not be stored: %s", ", ".join(changes), error)
