"""The rates of each job over the last hour, a point a minute, for small curves; in bounded memory."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from speck.observe.rates import Rates

INTERVAL = 60  # s between two points
POINTS = 60  # a minute each: the last hour
FIELDS = ("input_rate", "output_rate", "waiting", "work_seconds")  # of Rates


@dataclass(slots=True)
class _Ring:
    """The points of a job up to the minute ``last``; 960 bytes, NaN where nothing is known."""

    last: int
    values: array[float] = field(default_factory=lambda: array("f", [math.nan] * POINTS * len(FIELDS)))

    def put(self, minute: int, rates: Rates) -> None:
        """Set the point of a minute, the newest one; the last values in a minute count.

        With a minute before that, the clock was set back: its later points are forgotten.
        """
        for later in range(max(minute, self.last - POINTS) + 1, self.last + 1):
            self._set(later, [math.nan] * len(FIELDS))
        self.last = min(self.last, minute)
        for skipped in range(max(self.last + 1, minute - POINTS + 1), minute + 1):
            self._set(skipped, [math.nan] * len(FIELDS))
        self.last = minute
        found = [getattr(rates, name) for name in FIELDS]
        self._set(minute, [math.nan if value is None else value for value in found])

    def points(self, minute: int, place: int) -> list[float | None]:
        """The values of a field in the minutes up to this one; ``None`` where nothing is known."""
        minutes = range(minute - POINTS + 1, minute + 1)
        return [self._value(each, place) for each in minutes]

    def _set(self, minute: int, values: list[float]) -> None:
        begin = minute % POINTS * len(FIELDS)
        self.values[begin : begin + len(FIELDS)] = array("f", values)

    def _value(self, minute: int, place: int) -> float | None:
        if not self.last - POINTS < minute <= self.last:
            return None
        value = self.values[minute % POINTS * len(FIELDS) + place]
        return None if math.isnan(value) else float(f"{value:.4g}")


@dataclass
class Curves:
    """The points of all jobs by name; ``clock`` gives Unix time, s."""

    clock: Callable[[], float]
    _rings: dict[str, _Ring] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def add(self, job: str, rates: Rates) -> None:
        """Record the present rates of a job."""
        minute = self._minute()
        with self._lock:
            self._rings.setdefault(job, _Ring(minute)).put(minute, rates)

    def forget_others(self, jobs: Collection[str]) -> None:
        """Forget all but these jobs."""
        with self._lock:
            for name in self._rings.keys() - set(jobs):
                del self._rings[name]

    def of_job(self, job: str) -> dict[str, Any]:
        """The values of each field of :data:`FIELDS`, the oldest first; the last point is at ``until``."""
        minute = self._minute()
        with self._lock:
            ring = self._rings.get(job, _Ring(minute))
            found = {name: ring.points(minute, place) for place, name in enumerate(FIELDS)}
        return {"until": minute * INTERVAL, "interval": INTERVAL} | found

    def _minute(self) -> int:
        return int(self.clock() // INTERVAL)
