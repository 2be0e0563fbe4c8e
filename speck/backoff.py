"""When a job that keeps failing is tried again: exponential back-off with jitter, on the caller's clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field

from tenacity import RetryCallState, Retrying
from tenacity.wait import wait_exponential_jitter

FIRST, LONGEST, JITTER = 10.0, 300.0, 5.0  # s
WELL = 300.0  # s; who ran so long without a fault begins anew

_STRATEGY = wait_exponential_jitter(multiplier=FIRST, max=LONGEST, jitter=JITTER)


def exponential(tries: int) -> float:
    """How long to wait (s) after so many tries: from 10 s doubling to 5 minutes, and up to 5 s by chance."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = tries
    return _STRATEGY(state)


@dataclass(slots=True)
class _Tried:
    tries: int = 0
    next_try: float = 0.0
    well_since: float | None = None


@dataclass
class Backoff:
    """What was tried of each job, by name; times are those of the caller's clock, s."""

    wait: Callable[[int], float] = exponential
    _tried: dict[str, _Tried] = field(default_factory=dict, init=False)

    def tried(self, name: str, now: float) -> None:
        """One more try was made: the next one is due later than the last."""
        entry = self._tried.setdefault(name, _Tried())
        entry.tries += 1
        entry.next_try, entry.well_since = now + self.wait(entry.tries), None

    def next_try(self, name: str) -> float | None:
        """When a job may be tried again; ``None`` when nothing was tried."""
        entry = self._tried.get(name)
        return None if entry is None else entry.next_try

    def runs(self, name: str, now: float) -> None:
        """The job was seen at work; after some time of that, its tries are forgotten."""
        entry = self._tried.get(name)
        if entry is None:
            return
        entry.well_since = now if entry.well_since is None else entry.well_since
        if now - entry.well_since >= WELL:
            del self._tried[name]

    def fell(self, name: str) -> None:
        """The job was seen not to work."""
        if name in self._tried:
            self._tried[name].well_since = None

    def keep(self, names: Set[str]) -> None:
        """Forget all jobs but these."""
        self.forget(set(self._tried) - names)

    def forget(self, names: Iterable[str]) -> None:
        """Begin anew with these jobs."""
        for name in names:
            self._tried.pop(name, None)
