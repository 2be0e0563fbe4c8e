"""A bound on the events that one source may cause, such as a site, which may be in wrong hands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class _Period:
    begun: float
    written: int = 0
    left_out: int = 0


@dataclass
class EventLimit:
    """At most ``most`` events of each source in a ``period`` (s), which begins with its first event.

    The times are of one clock, s, which may be set.  Safe to use from several threads.
    """

    most: int
    period: float = 3600.0
    _periods: dict[str, _Period] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def room(self, source: str, now: float) -> int:
        """The number of events of a source that may be written now."""
        with self._lock:
            current = self._current(source, now)
            return self.most if current is None else self.most - current.written

    def note(self, source: str, now: float, written: int, left_out: int = 0) -> None:
        """Note the events of a source that were written, and the number of those that were not."""
        with self._lock:
            current = self._current(source, now)
            if current is None:
                current = self._periods[source] = _Period(now)
            current.written += written
            current.left_out += left_out

    @contextmanager
    def admission(self, source: str, now: float) -> Iterator[bool]:
        """True if the block may write an event of a source.

        It is counted as written, or as left out, when the block has ended without an error.
        """
        is_admitted = self.room(source, now) > 0
        yield is_admitted
        self.note(source, now, int(is_admitted), int(not is_admitted))

    def report(self, now: float, write: Callable[[str, int], object]) -> None:
        """Call ``write(source, number)`` for each number of events that were left out in a period now over.

        An error of it is raised; what was not reported then is reported by the next call.
        """
        for source, number in self._ended(now).items():
            write(source, number)
            self._forget(source)

    def _ended(self, now: float) -> Mapping[str, int]:
        with self._lock:
            over = {key: each for key, each in self._periods.items() if self._is_over(each, now)}
            for key, each in over.items():
                if not each.left_out:
                    del self._periods[key]
            return {key: each.left_out for key, each in over.items() if each.left_out}

    def _forget(self, source: str) -> None:
        with self._lock:
            self._periods.pop(source, None)

    def _current(self, source: str, now: float) -> _Period | None:
        """The period of a source; it lasts until what was left out in it is reported."""
        found = self._periods.get(source)
        return None if found is None or (self._is_over(found, now) and not found.left_out) else found

    def _is_over(self, each: _Period, now: float) -> bool:
        return not 0 <= now - each.begun < self.period
