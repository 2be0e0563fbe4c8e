"""A day of a fleet of workers, simulated: instances of jobs arrive, run for hours, and end.

An instance runs where it was put until it ends, as in the intelligent resource manager of HarmonicIO; SpecK
chooses like that in a pool of engines.  The rules of fit, the averages of measured shares, the default share
and the number of spare workers are the product's (``speck.placement.packing``).
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from speck.placement.packing import DEFAULT_SHARE, Average, Fit, loose_fit, spare_workers, strict_fit

DAY = 24 * 3600.0  # s
STARTUP = 10.0  # s from the call of a hook to a worker that takes jobs
IDLE = 60.0  # s without a job, after which a worker may go
MEASURED = 10.0  # s after its arrival, when the share of an instance is known
MOST = 1000  # workers
SHARES = (1 / 16, 1 / 8, 1 / 4)  # of a worker, by kind of job
KINDS = 10
HOURS = (6.0, 18.0)  # of an instance
_OVER = 1.05  # of a worker; above it, its instances do not get what they ask for


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a job: its kind, its true share of a worker, its arrival and its end, s."""

    kind: int
    share: float
    begin: float
    end: float


def workload(instances: int, noise: float, seed: int) -> list[Instance]:
    """Instances of :data:`KINDS` kinds that arrive over the day, and run for :data:`HOURS`.

    ``noise`` is the standard deviation of an instance's share, relative to that of its kind.
    """
    chance = random.Random(seed)
    shares = [chance.choice(SHARES) for _ in range(KINDS)]
    made = []
    for _ in range(instances):
        kind = chance.randrange(KINDS)
        begin = chance.triangular(0.0, 0.75 * DAY, 0.4 * DAY)
        share = shares[kind] * max(0.2, chance.gauss(1.0, noise))
        made.append(Instance(kind, share, begin, begin + chance.uniform(*HOURS) * 3600))
    return sorted(made, key=lambda each: each.begin)


@dataclass
class _Figures:
    """Sums and samples of a day; the sums are of worker seconds."""

    fills: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    present: float = 0.0
    used: float = 0.0
    least: float = 0.0
    over: float = 0.0
    most_load: float = 0.0
    most_used: int = 0  # then
    least_then: int = 0

    def data(self) -> dict[str, float]:
        return {
            "fill_before_next": median(self.fills or [1.0]),  # of one worker: none came too soon
            "bins_over_least": self.most_used / self.least_then,
            "bins_over_least_day": self.used / self.least,
            "cpu_error": median(self.errors),
            "workers_most": float(self.most_used),
            "worker_hours": self.present / 3600,
            "overloaded_share": self.over / self.used,
            "waited_seconds_p99": float(np.quantile(self.waits, 0.99)),
        }


class Fleet:
    """The workers of a pool, in the order of their index, under one rule of fit.

    ``fit`` ``None`` spreads: each instance goes to the least loaded of ``fixed`` workers, which stay.
    """

    def __init__(self, fit: Fit | None, noise: float, seed: int, fixed: int = 0) -> None:
        """Begin with no worker, or with the fixed ones."""
        self._fit = fit
        self._noise = noise
        self._chance = random.Random(seed)
        self._counts: npt.NDArray[np.float64] = np.zeros((MOST, KINDS))
        self._loads: npt.NDArray[np.float64] = np.zeros(MOST)
        self._there = np.zeros(MOST, dtype=bool)
        self._there[:fixed] = True
        self._starting = 0
        self._idle_since: npt.NDArray[np.float64] = np.zeros(MOST)
        self._averages: list[Average | None] = [None] * KINDS
        self._events: list[tuple[float, int, str, Any]] = []
        self._waiting: deque[Instance] = deque()
        self._number = 0
        self.figures = _Figures()

    def run(self, instances: Sequence[Instance]) -> dict[str, float]:
        """The figures of a day."""
        for each in instances:
            self._at(each.begin, "arrives", each)
        last = 0.0
        while self._events:
            now, _, kind, what = heapq.heappop(self._events)
            self._account(now - last)
            last = now
            getattr(self, f"_{kind}")(now, what)
            self._place_waiting(now)
            self._scale(now)
        return self.figures.data()

    def _at(self, time: float, kind: str, what: Any = None) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, kind, what))

    # --- events

    def _arrives(self, now: float, instance: Instance) -> None:
        self._waiting.append(instance)

    def _measured(self, now: float, instance: Instance) -> None:
        sample = instance.share * max(0.1, self._chance.gauss(1.0, self._noise))
        former = self._averages[instance.kind]
        self._averages[instance.kind] = former.with_next(sample) if former else Average(sample)
        used = float(self._loads.sum())
        self.figures.errors.append(abs(float((self._counts @ self._shares()).sum()) - used) / used)

    def _ends(self, now: float, what: tuple[int, Instance]) -> None:
        worker, instance = what
        self._counts[worker, instance.kind] -= 1
        self._loads[worker] -= instance.share
        if not self._counts[worker].any():
            self._loads[worker] = 0.0
            self._idle_since[worker] = now
            self._at(now + IDLE, "idle")

    def _idle(self, now: float, what: None) -> None:
        """Do nothing: :meth:`_scale` follows each event."""

    def _ready(self, now: float, what: None) -> None:
        self._starting -= 1
        worker = int(np.argmin(self._there))
        self._there[worker] = True
        self._idle_since[worker] = now
        self._at(now + IDLE, "idle")

    # --- packing

    def _in_use(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self._counts.sum(axis=1) > 0
        return found

    def _shares(self) -> npt.NDArray[np.float64]:
        return np.array([DEFAULT_SHARE if each is None else each.value for each in self._averages])

    def _place_waiting(self, now: float) -> None:
        while self._waiting:
            instance = self._waiting[0]
            worker = self._worker_for(instance)
            if worker is None:
                return
            self._waiting.popleft()
            in_use = self._in_use()
            if not in_use[worker] and in_use.any():
                self.figures.fills.append(float(self._loads[in_use].mean()))
            self._counts[worker, instance.kind] += 1
            self._loads[worker] += instance.share
            self.figures.waits.append(now - instance.begin)
            self._at(now + MEASURED, "measured", instance)
            self._at(now + (instance.end - instance.begin), "ends", (worker, instance))

    def _worker_for(self, instance: Instance) -> int | None:
        shares = self._shares()
        reserved = self._counts @ shares
        if self._fit is None:
            return int(np.argmin(np.where(self._there, reserved, np.inf)))
        desired = float(shares[instance.kind])
        for worker in np.flatnonzero(self._there):
            if self._fit(desired, 1.0 - float(reserved[worker])) or not reserved[worker]:
                return int(worker)
        return None

    def _scale(self, now: float) -> None:
        if self._fit is None:
            return
        in_use = self._in_use()
        bins = int(in_use.sum()) + self._further_bins()
        desired = min(MOST, bins + spare_workers(bins))
        present = int(self._there.sum()) + self._starting
        for _ in range(desired - present):
            self._starting += 1
            self._at(now + STARTUP, "ready")
        for worker in reversed(np.flatnonzero(self._there & ~in_use)):
            if present <= desired:
                break
            if now - self._idle_since[worker] >= IDLE:
                self._there[worker] = False
                present -= 1

    def _further_bins(self) -> int:
        shares = self._shares()
        return math.ceil(sum(float(shares[each.kind]) for each in self._waiting))

    # --- figures

    def _account(self, seconds: float) -> None:
        in_use = self._in_use()
        load = float(self._loads.sum())
        used, least = int(in_use.sum()), math.ceil(load)
        figures = self.figures
        figures.present += seconds * int(self._there.sum())
        figures.used += seconds * used
        figures.least += seconds * least
        figures.over += seconds * int((self._loads > _OVER).sum())
        if load > figures.most_load:
            figures.most_load, figures.most_used, figures.least_then = load, used, least


RULES: tuple[tuple[str, Fit], ...] = (("speck", loose_fit), ("published", strict_fit))


def simulate(instances: int, noise: float, seed: int) -> dict[str, dict[str, float]]:
    """The figures of one day by rule; ``even`` has a fixed fleet, as large as ``speck`` has at most."""
    day = workload(instances, noise, seed)
    found = {name: Fleet(fit, noise, seed).run(day) for name, fit in RULES}
    found["even"] = Fleet(None, noise, seed, fixed=int(found["speck"]["workers_most"])).run(day)
    return found
