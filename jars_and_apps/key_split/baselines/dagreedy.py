"""DAGreedy: hot keys by their fan-out against the loads."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.partitioners.counts import Counted, Counts
from jars_and_apps.key_split.partitioners.fill import fill
from jars_and_apps.key_split.partitioners.holders import Holders
from jars_and_apps.key_split.partitioners.options import Option, Options, read
from jars_and_apps.key_split.partitioners.placement import Pieces, workers_of
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Routing, Setting

Floats = NDArray[np.float64]


class DaGreedy:
    """A row of a hot key goes to the worker of greatest ``alpha * holds - (1 - alpha) * (L - avg) / avg``.

    ``holds``: 1 for a worker that has rows of the key in the window, else 0; L: its rows in the window by its
    weight; avg: their mean.  Zapridou, Mytilinis and Ailamaki, "Dalton: learned partitioning for distributed
    data streams", VLDB 2022.  A key that is hot in a slide stays so in the next.  Here the rows that
    a key has in a batch are placed at once.
    """

    OPTIONS: ClassVar[Options] = {
        "alpha": Option("weight of fan-out against load", 0.5, 0, 0.99),
        "hot": Option("a key is hot above 1/(hot * workers) of a slide", 100, 0.1, 1000),
    }

    def __init__(self, setting: Setting, counts: Counts, loads: Loads, holders: Holders) -> None:
        self._setting, self._counts, self._loads, self._holders = setting, counts, loads, holders
        options = read(self.OPTIONS, setting.options)
        self._bonus = options["alpha"] / (1 - options["alpha"])
        self._hot = options["hot"]
        self._shares = setting.weights / setting.weights.mean()

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        """A partitioner that has seen no row."""
        return cls(setting, Counts(setting), Loads(setting), Holders())

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        counts, loads = Counts.load(setting, arrays), Loads.load(setting, arrays)
        return cls(setting, counts, loads, Holders.load(arrays))

    def dump(self) -> Arrays:
        """Keys, the rows of each worker by slide, holders."""
        return {**self._counts.dump(), **self._loads.dump(), **self._holders.dump()}

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers of the rows with these hashes of keys."""
        counted = self._counts.take(hashes, 1 / (self._hot * self._setting.workers))
        threshold = self._counts.threshold(self._hot)
        hot = np.maximum(self._counts.rows[counted.keys], self._counts.before[counted.keys]) > threshold
        whole = self._counts.owner[counted.keys]
        cold = np.bincount(whole[~hot], weights=counted.rows[~hot], minlength=len(self._shares))
        rows = np.asarray(self._loads.rows() + cold, np.float64)
        rows += np.bincount(counted.others, minlength=len(rows))
        pieces = self._place(counted, np.flatnonzero(hot), rows, whole)
        workers = workers_of(counted, whole, pieces, self._counts.table.size)
        self._loads.add(np.bincount(workers, minlength=len(rows)))
        return Routing(workers, threshold)

    def advance(self, slides: int) -> None:
        """Advance event time by this number of slides."""
        self._counts.advance(slides)
        self._loads.advance(slides)
        self._holders.expire(self._counts.slide - self._setting.slides + 1)

    def observe(self, window: MetricsWindow) -> None:
        """Take no notice of what was measured."""

    def _place(
        self, counted: Counted, places: NDArray[np.int64], rows: Floats, whole: NDArray[np.int32]
    ) -> Pieces:
        pieces: Pieces = {}
        keys = self._counts.hashes[counted.keys[places]].tolist()
        known = zip(places.tolist(), keys, counted.rows[places].tolist(), whole[places].tolist(), strict=True)
        for place, key, count, owner in known:
            holding = self._holders.of(key) or [owner]
            given = self._given(rows, holding, count)
            rows += given
            found = [(worker, int(given[worker])) for worker in np.flatnonzero(given).tolist()]
            whole[place] = found[0][0]
            if len(found) > 1:
                pieces[place] = found
            if len(holding) > 1 or found != [(owner, count)]:
                first = () if self._holders.of(key) else holding
                self._holders.mark(key, (*first, *(each for each, _ in found)), self._counts.slide)
        return pieces

    def _given(self, rows: Floats, holding: list[int], count: int) -> Floats:
        """The rows of one key for each worker: holders first, until one that has none of it scores higher."""
        shares = self._shares
        levels = np.divide(rows, shares, out=np.full(len(rows), np.inf), where=shares > 0)
        bonus = self._bonus * max((rows.sum() + count / 2) / len(rows), 1.0)
        given = np.zeros(len(rows))
        holders = list(holding)
        levels[holders] = np.inf  # from here on, of those that do not hold it
        while True:
            next_one = int(levels.argmin())
            level = levels[next_one] + bonus
            now = rows[holders] + given[holders]
            room = np.maximum(level * shares[holders] - now, 0.0)
            remaining = count - int(given.sum())
            if remaining <= room.sum():
                given[holders] += fill(now, remaining, shares[holders])
                return given
            given[holders] += np.floor(room)
            given[next_one] += 1
            holders.append(next_one)
            levels[next_one] = np.inf
            if int(given.sum()) == count:
                return given
