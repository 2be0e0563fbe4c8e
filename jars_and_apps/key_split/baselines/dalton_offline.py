"""Dalton over a fixed set of hot keys, which explores to give data for training."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.counting import Counting
from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.baselines.ranks import hottest, masks, true_hot
from jars_and_apps.key_split.partitioners.counts import Counted, Counts
from jars_and_apps.key_split.partitioners.options import Option, Options, read
from jars_and_apps.key_split.partitioners.placement import Pieces, workers_of
from jars_and_apps.key_split.partitioners.protocol import Arrays, Routing, Setting

Floats = NDArray[np.float64]


class DaltonOffline(Counting):
    """The hottest keys of the first slide go to slices of the workers, at random by values that are learned.

    Each has a slice as with saspartitioner; a worker of it is drawn with the softmax of value /
    ``temperature``, and with ``epsilon`` any.  The values of a batch's workers move by ``a`` a row towards
    ``(1 - s) / 2``, ``s = (L - avg) / (1e-4 + max(L, avg))``, L being the rows of the window by weight.
    """

    OPTIONS: ClassVar[Options] = {
        "a": Option("learning rate", 0.1, 0.001, 1),
        "epsilon": Option("share of rows that explore", 0.1, 0, 1),
        "temperature": Option("of the softmax", 0.1, 0.001, 100),
        "hot_keys": Option("keys, by rank, that count as hot", 10, 1, 1000, whole=True),
    }

    def __init__(self, setting: Setting, counts: Counts, loads: Loads) -> None:
        super().__init__(setting, counts, loads)
        self._options = read(self.OPTIONS, setting.options)
        self._keys = np.empty(0, np.uint64)
        self._values = np.empty((0, setting.workers))

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        found = super().load(setting, arrays)
        found._keys = np.array(arrays["hot"], np.uint64)
        found._values = np.array(arrays["values"], np.float64)
        return found

    def dump(self) -> Arrays:
        """Keys, loads; the fixed hot keys, and the value of each worker for them, NaN outside its slice."""
        hot = {"hot": self._keys.copy(), "values": self._values.copy()}
        return {**super().dump(), **hot}

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers of the rows with these hashes of keys."""
        counted = self._counts.take(hashes)
        whole = self._counts.owner[counted.keys]
        chance = np.random.Generator(np.random.Philox(key=self._setting.seed, counter=batch))
        pieces, given = self._draw(counted, whole, chance)
        workers = workers_of(counted, whole, pieces, self._counts.table.size)
        self._loads.add(np.bincount(workers, minlength=self._setting.workers))
        self._learn(given)
        return Routing(workers)

    def advance(self, slides: int) -> None:
        """Advance event time by this number of slides."""
        super().advance(slides)
        if not len(self._keys):
            self._choose()

    def _choose(self) -> None:
        """Fix the hot keys and their slices."""
        used = np.flatnonzero(self._setting.weights)
        hot = hottest(self._counts, int(self._options["hot_keys"]))
        rows = self._counts.before[hot]
        split = true_hot(rows, len(used))
        self._keys = self._counts.hashes[hot[:split]].copy()
        self._values = np.full((split, self._setting.workers), np.nan)
        for values, workers in zip(self._values, masks(rows[:split], used), strict=True):
            values[workers] = 0.0

    def _draw(
        self, counted: Counted, whole: NDArray[np.int32], chance: np.random.Generator
    ) -> tuple[Pieces, NDArray[np.int64]]:
        place_of = np.full(self._counts.table.size + 1, -1)  # the last one is that of a key without a slot
        place_of[counted.keys] = np.arange(len(counted.keys))
        pieces: Pieces = {}
        all_given = np.zeros(self._values.shape, np.int64)
        for number, place in enumerate(place_of[self._counts.table.find(self._keys)].tolist()):
            if place < 0:
                continue
            given = chance.multinomial(int(counted.rows[place]), self._chances(self._values[number]))
            all_given[number] = given
            workers = np.flatnonzero(given).tolist()
            whole[place] = workers[0]
            if len(workers) > 1:
                pieces[place] = [(worker, int(given[worker])) for worker in workers]
        return pieces, all_given

    def _chances(self, values: Floats) -> Floats:
        allowed = ~np.isnan(values)
        likely = np.where(allowed, np.exp((values - np.nanmax(values)) / self._options["temperature"]), 0.0)
        epsilon = self._options["epsilon"]
        return np.asarray((1 - epsilon) * likely / likely.sum() + epsilon * allowed / allowed.sum())

    def _learn(self, given: NDArray[np.int64]) -> None:
        shares = self._setting.weights / self._setting.weights.mean()
        used = shares > 0
        levels = np.zeros(len(shares))
        levels[used] = self._loads.rows()[used] / shares[used]
        average = levels[used].mean()
        over = (levels - average) / (1e-4 + np.maximum(levels, average))
        retained = (1 - self._options["a"]) ** given
        self._values = self._values * retained + (1 - over) / 2 * (1 - retained)
