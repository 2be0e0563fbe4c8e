"""Balanced: levels each batch over the workers, with the least fan-out."""

from __future__ import annotations

import heapq
import math
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.partitioners.counts import Counted, Counts
from jars_and_apps.key_split.partitioners.fill import level
from jars_and_apps.key_split.partitioners.holders import Holders
from jars_and_apps.key_split.partitioners.options import Option, Options, read
from jars_and_apps.key_split.partitioners.placement import Pieces, keys_of, workers_of
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Routing, Setting

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_BURST, _BURST_ROWS = 4.0, 8  # a key is hot at once above this multiple of the share and this number of rows
_NEVER_CUT = 0.02  # of a level
_NOISE = 0.75  # of the square root of a load: chance is left alone
_NEW_SPEED = 0.3  # the weight of the last metrics window
_MOST_RATIO = 20.0  # of a speed to the median, either way


class Balanced:
    """Cold keys are at their owners, hot ones fill what those leave of an even level.

    The level is that of the last batches, a batch counting for half of the one after it.  A worker whose cold
    keys are over it gives some of them off; they, and hot keys that fit one worker, are the new worker's own.
    Only a key that no worker has room for is cut: it stays with the workers that have it in the window, up to
    the tolerance, before another one gets it.

    Loads are rows, and ``key_cost`` more for each key that a worker has in a batch: where the work for a key
    outweighs that for a row, even rows are no even work.
    """

    OPTIONS: ClassVar[Options] = {
        "hot": Option("a key is hot above 1/(hot * workers) of a slide", 4, 1, 1000),
        "tolerance": Option("excess over the level for which no new worker gets a key", 0.05, 0, 1),
        "memory": Option("share of the last batches' loads that counts in the next", 0.5, 0, 0.99),
        "relief": Option("excess over its share at which a worker's cold keys move", 0.02, 0, 1),
        "key_cost": Option("the work for a key in a batch, beside its rows, in rows", 0, 0, 100_000, True),
    }

    def __init__(self, setting: Setting, counts: Counts, holders: Holders) -> None:
        self._counts, self._holders = counts, holders
        options = read(self.OPTIONS, setting.options)
        self._hot, self._tolerance = options["hot"], options["tolerance"]
        self._memory, self._relief = options["memory"], options["relief"]
        self._key_cost = options["key_cost"]
        self._weights = setting.weights
        self._slides = setting.slides
        self._loads = np.zeros(setting.workers)
        self._speeds = np.full(setting.workers, np.nan)

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        """A partitioner that has seen no row."""
        return cls(setting, Counts(setting), Holders())

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        found = cls(setting, Counts.load(setting, arrays), Holders.load(arrays))
        found._loads[:], found._speeds[:] = arrays["loads"], arrays["speeds"]
        return found

    def dump(self) -> Arrays:
        """Keys, holders, decayed loads (rows) and measured speeds (rows/s), one a worker."""
        loads = {"loads": self._loads.copy(), "speeds": self._speeds.copy()}
        return {**self._counts.dump(), **self._holders.dump(), **loads}

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers of the rows with these hashes of keys."""
        counted = self._counts.take(hashes, 1 / (self._hot * len(self._weights)))
        hot = self._hot_keys(counted, len(hashes))
        costs: Floats = (counted.rows + self._key_cost).astype(np.float64)
        before = self._memory * self._loads
        loads = before + self._cold_loads(counted, costs, hot)
        shares = self.shares()
        due = shares * (before.sum() + costs.sum() + len(counted.others))
        hot |= self._relieved(counted, costs, hot, loads, due)
        filling = _Filling(loads, float(costs[hot].sum()), shares, self._tolerance, self._key_cost)
        whole = self._counts.owner[counted.keys]
        pieces, moved = self._place(counted, np.flatnonzero(hot), filling, whole)
        workers = workers_of(counted, whole, pieces, self._counts.table.size)
        self._loads = before + np.bincount(workers, minlength=len(loads))
        if self._key_cost:
            self._loads += self._key_cost * keys_of(whole, pieces, len(loads))
        self._counts.owner[counted.keys[moved]] = whole[moved]
        return Routing(workers, self._threshold(), *self._counts.moves(counted.keys[moved]))

    def advance(self, slides: int) -> None:
        """Advance event time by this number of slides."""
        self._counts.advance(slides)
        self._holders.expire(self._counts.slide - self._slides + 1)

    def observe(self, window: MetricsWindow) -> None:
        """Take the workers' speeds, rows by busy seconds; they take the place of the weights."""
        measured = (window.rows > 0) & (window.busy > 0)
        speeds = window.rows[measured] / window.busy[measured]
        old = self._speeds[measured]
        self._speeds[measured] = np.where(np.isnan(old), speeds, old + _NEW_SPEED * (speeds - old))

    def shares(self) -> Floats:
        """The share of the rows that each worker is to get; they sum to 1."""
        known = ~np.isnan(self._speeds) & (self._weights > 0)
        if not known.any():
            fixed: Floats = self._weights / self._weights.sum()
            return fixed
        median = float(np.median(self._speeds[known]))
        speeds = np.where(known, self._speeds, median).clip(median / _MOST_RATIO, median * _MOST_RATIO)
        speeds = np.where(self._weights > 0, speeds, 0.0)
        shares: Floats = speeds / speeds.sum()
        return shares

    def _threshold(self) -> float:
        return self._counts.threshold(self._hot)

    def _hot_keys(self, counted: Counted, rows: int) -> Bools:
        found = np.maximum(self._counts.rows[counted.keys], self._counts.before[counted.keys])
        burst = max(_BURST * rows / (self._hot * len(self._weights)), _BURST_ROWS)
        return (found > self._threshold()) | (counted.rows > burst)

    def _cold_loads(self, counted: Counted, costs: Floats, hot: Bools) -> Floats:
        owners = self._counts.owner[counted.keys[~hot]]
        cold = np.bincount(owners, weights=costs[~hot], minlength=len(self._weights))
        others = np.bincount(counted.others, minlength=len(self._weights))
        return np.asarray(cold + others, np.float64)

    def _relieved(self, counted: Counted, costs: Floats, hot: Bools, loads: Floats, due: Floats) -> Bools:
        """The cold keys, the largest first, that workers over their due give off; ``loads`` without them."""
        excess = loads - (due * (1 + self._relief) + _NOISE * np.sqrt(due))
        relieved = np.zeros(len(hot), np.bool_)
        if (excess <= 0).all():
            return relieved
        owners = self._counts.owner[counted.keys]
        places = np.flatnonzero(~hot & (excess > 0)[owners])
        places = places[np.argsort(owners[places], kind="stable")]
        of, costs = owners[places], costs[places]
        before = np.cumsum(costs) - costs
        before -= before[np.searchsorted(of, of)]
        chosen = before < excess[of]
        relieved[places[chosen]] = True
        loads -= np.bincount(of[chosen], weights=costs[chosen], minlength=len(loads))
        return relieved

    def _place(
        self, counted: Counted, places: NDArray[np.int64], filling: _Filling, whole: NDArray[np.int32]
    ) -> tuple[Pieces, list[int]]:
        """Place the keys at these places, the largest first; the pieces of those split, and those moved."""
        pieces: Pieces = {}
        moved: list[int] = []
        slide, holders = self._counts.slide, self._holders
        keys = self._counts.hashes[counted.keys[places]].tolist()
        known = zip(places.tolist(), keys, counted.rows[places].tolist(), whole[places].tolist(), strict=True)
        for place, key, rows, owner in known:
            if rows <= filling.never_cut:
                worker = filling.one(owner, rows)
                found = [(worker, rows)]
            else:
                found = filling.cut(holders.of(key) or [owner], rows)
                worker = found[0][0]
            if len(found) > 1:
                pieces[place] = found
                holders.mark(key, (each for each, _ in found), slide)
            elif worker != owner:
                whole[place] = worker
                moved.append(place)
        return pieces, moved


class _Filling:
    """The room that each worker has below an even level, as keys are placed one by one."""

    def __init__(self, loads: Floats, cost: float, shares: Floats, tolerance: float, key_cost: float) -> None:
        height = level(loads, cost, shares)
        levels = height * shares
        self.never_cut = _NEVER_CUT * float(levels[shares > 0].mean())
        self._room = np.where(shares > 0, levels - loads, -math.inf).tolist()
        self._spare = (tolerance * levels).tolist()
        self._key_cost = key_cost
        self._heap = [(-room, worker) for worker, room in enumerate(self._room)]
        heapq.heapify(self._heap)

    def one(self, owner: int, rows: int) -> int:
        """The worker of a key that is not cut: its owner if it has room, else the roomiest."""
        cost = rows + self._key_cost
        worker = owner if self._room[owner] >= cost else self._roomiest()
        self._take(worker, cost)
        return worker

    def cut(self, holders: list[int], rows: int) -> list[tuple[int, int]]:
        """The workers of a key and their rows: first its holders, then as few others as can be."""
        found: dict[int, int] = {}
        holders.sort(key=lambda worker: -self._room[worker])
        for spare in (0.0, 1.0):
            for worker in holders:
                rows -= self._assign(found, worker, rows, self._room[worker] + spare * self._spare[worker])
        while rows:
            worker = self._roomiest()
            cost = 0 if worker in found else self._key_cost
            fits = self._room[worker] if self._room[worker] >= cost + 1 else rows + cost
            rows -= self._assign(found, worker, rows, fits)
        return list(found.items())

    def _assign(self, found: dict[int, int], worker: int, rows: int, room: float) -> int:
        cost = 0 if worker in found else self._key_cost
        given = min(rows, int(room - cost)) if room >= cost + 1 else 0
        if given:
            found[worker] = found.get(worker, 0) + given
            self._take(worker, given + cost)
        return given

    def _take(self, worker: int, cost: float) -> None:
        self._room[worker] -= cost
        heapq.heappush(self._heap, (-self._room[worker], worker))

    def _roomiest(self) -> int:
        while -self._heap[0][0] != self._room[self._heap[0][1]]:
            heapq.heappop(self._heap)
        return self._heap[0][1]
