"""When a job that keeps failing is tried again: exponential back-off with jitter, on the caller's clock.

What was tried is kept in the store, so that a coordinator which dies with each try does not begin anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from tenacity import RetryCallState, Retrying
from tenacity.wait import wait_exponential_jitter

from speck.errors import StoreError
from speck.store import RetryState, Store

_log = logging.getLogger(__name__)

FIRST, LONGEST, JITTER = 10.0, 300.0, 5.0  # s
WELL = 300.0  # s; who ran so long without a fault begins anew

_STRATEGY = wait_exponential_jitter(multiplier=FIRST, max=LONGEST, jitter=JITTER)
_NONE = RetryState()


def exponential(tries: int) -> float:
    """How long to wait (s) after so many tries: from 10 s doubling to 5 minutes, and up to 5 s by chance."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = tries
    return _STRATEGY(state)


@dataclass
class Backoff:
    """What was tried of each job, by name; times are those of the caller's clock, s.

    Of a store that cannot be written, what is known is kept in memory.
    """

    wait: Callable[[int], float] = exponential
    _store: Store | None = field(default=None, init=False)
    _tried: dict[str, RetryState] = field(default_factory=dict, init=False)
    _well_since: dict[str, float] = field(default_factory=dict, init=False)

    def keep_in(self, store: Store, now: float) -> None:
        """Go on from what a store holds, and keep in it what is tried from now on."""
        self._store = store
        # A clock that was put back since must not hold a job up for longer than any try would.
        latest = now + LONGEST + JITTER
        self._tried = {
            name: replace(each, next_try=min(each.next_try, latest)) for name, each in store.tries().items()
        }

    def tried(self, names: Iterable[str], now: float) -> None:
        """One more try of these jobs begins: the next one is due later than the last."""
        changes: dict[str, RetryState | None] = {}
        for name in names:
            tries = self._tried.get(name, _NONE).tries + 1
            changes[name] = RetryState(tries, now + self.wait(tries))
            self._well_since.pop(name, None)
        self._put(changes)

    def ended(self, name: str, now: float) -> None:
        """The last try has come to its end: what is to be waited begins now."""
        entry = self._tried.get(name)
        if entry is not None:
            self._put({name: replace(entry, next_try=now + self.wait(entry.tries))})

    def hold(self, name: str, why: str) -> None:
        """The job is not to be tried again before a user asks, for this reason."""
        self._put({name: replace(self._tried.get(name, _NONE), held=why)})

    def held(self, name: str) -> str | None:
        """Why a job is not tried again by itself; ``None`` when it is."""
        return self._tried.get(name, _NONE).held or None

    def next_try(self, name: str) -> float | None:
        """When a job may be tried again; ``None`` when nothing was tried."""
        entry = self._tried.get(name)
        return entry.next_try if entry is not None and entry.tries else None

    def runs(self, name: str, now: float) -> None:
        """The job was seen at work; after some time of that, its tries are forgotten."""
        entry = self._tried.get(name)
        if entry is None or not entry.tries:
            return
        if now - self._well_since.setdefault(name, now) >= WELL:
            self._well_since.pop(name, None)
            self._put({name: RetryState(held=entry.held) if entry.held else None})

    def fell(self, name: str) -> None:
        """The job was seen not to work."""
        self._well_since.pop(name, None)

    def keep(self, names: Set[str]) -> None:
        """Forget all jobs but these."""
        self.forget(set(self._tried) - names)

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew with these jobs."""
        for name in (known := [each for each in names if each in self._tried]):
            self._well_since.pop(name, None)
        self._put(dict.fromkeys(known))

    def _put(self, changes: Mapping[str, RetryState | None]) -> None:
        if not changes:
            return
        self._tried |= {name: tries for name, tries in changes.items() if tries is not None}
        for name in (name for name, tries in changes.items() if tries is None):
            self._tried.pop(name, None)
        if self._store is None:
            return
        try:
            with self._store.transaction() as transaction:
                for name, tries in changes.items():
                    transaction.put_tries(name, tries)
        except StoreError as error:
            _log.error("what was tried of %s could not be stored: %s", ", ".join(changes), error)
