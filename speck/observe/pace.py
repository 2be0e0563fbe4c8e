"""The interval at which jobs are measured, as long as a budget of processor time requires.  No clock."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field

LEAST = 10.0  # s between two samples of a job, where the budget permits
LONGEST = 300.0  # s, likewise at most: beyond that the budget is exceeded
SHARE = 0.01  # of a core
FRESH = 60.0  # s, for which a sample is fresh; three intervals, where those are longer
_GRID = 5.0  # s, of which an interval is a multiple: the sampler's rounds
_ROUNDS = 6  # of which the mean cost counts
_DECLINE = 0.8  # of the former interval: the last three samples are within three of the next one
_FLOOR = 0.1  # share of the budget that is for samples, however much the rest takes


def fresh_for(interval: float) -> float:
    """The time (s) for which a sample is fresh where one is taken every ``interval`` s: room for three."""
    return max(FRESH, 3 * interval)


@dataclass
class Pace:
    """Adapts the interval of measurements to the processor time that they take.

    ``share`` is the budget in cores; ``interval`` is the time between two samples of a job, s.

    Safe to use from several threads.
    """

    share: float = SHARE
    interval: float = LEAST
    _since: float = field(default=-math.inf, init=False)
    _costs: dict[Hashable, deque[float]] = field(default_factory=dict, init=False)
    _watches: dict[Hashable, deque[float]] = field(default_factory=dict, init=False)
    _periodic: dict[Hashable, tuple[float, float]] = field(default_factory=dict, init=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False)

    def spend(self, key: Hashable, seconds: float) -> None:
        """Note the processor time of a round of samples, by its engine.

        The first round of an engine looks up what the others need, and does not count.
        """
        with self._guard:
            _note(self._costs, key, seconds)

    def spend_every(self, key: Hashable, period: float, seconds: float) -> None:
        """Note the processor time of work beside the samples, which is done every ``period`` s."""
        with self._guard:
            self._periodic[key] = (period, seconds)

    def spend_watching(self, key: Hashable, period: float, seconds: float) -> None:
        """Note the processor time of a look at an engine's losses, every ``period`` s; as :meth:`spend`."""
        with self._guard:
            _note(self._watches, key, seconds / period)

    def forget_others(self, keys: Collection[Hashable]) -> None:
        """Forget the samples and watches of all engines but these."""
        with self._guard:
            for noted in (self._costs, self._watches):
                for key in noted.keys() - set(keys):
                    del noted[key]

    @property
    def used(self) -> float:
        """The share of a core that measuring takes at the present interval."""
        with self._guard:
            return self._rounds() / self.interval + self._beside()

    def adapt(self, now: float) -> None:
        """Adapt the interval to the noted costs; ``now`` is s of any clock.

        It grows at once, and falls by a fifth an interval, so that no sample becomes stale by that.
        """
        with self._guard:
            needed = self._needed()
            if needed >= self.interval:
                self.interval, self._since = needed, now
            elif now - self._since >= self.interval:
                lower = math.ceil(_DECLINE * self.interval / _GRID) * _GRID
                # One that the grid does not let fall by a fifth falls by one of its steps.
                lower = lower if lower < self.interval else self.interval - _GRID
                self.interval, self._since = max(needed, lower), now

    def _needed(self) -> float:
        remaining = max(self.share - self._beside(), _FLOOR * self.share)
        needed = self._rounds() / remaining if remaining > 0 else LONGEST
        return min(LONGEST, max(LEAST, math.ceil(needed / _GRID) * _GRID))

    def _rounds(self) -> float:
        """The processor time of a sample of all jobs, s."""
        return _sum_of_means(self._costs)

    def _beside(self) -> float:
        periodic = sum(seconds / period for period, seconds in self._periodic.values())
        return periodic + _sum_of_means(self._watches)


def _note(noted: dict[Hashable, deque[float]], key: Hashable, value: float) -> None:
    """Note a value of a key, but its first one."""
    if key in noted:
        noted[key].append(value)
    else:
        noted[key] = deque(maxlen=_ROUNDS)


def _sum_of_means(noted: Mapping[Hashable, Collection[float]]) -> float:
    return sum(sum(each) / len(each) for each in noted.values() if each)
