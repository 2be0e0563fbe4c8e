"""Dalton: Q-learning over the workers of each hot key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.hot_keys import Floats, HotKey, HotKeys, Parts
from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.partitioners.counts import Counts
from jars_and_apps.key_split.partitioners.holders import Holders
from jars_and_apps.key_split.partitioners.options import Option, Options, read
from jars_and_apps.key_split.partitioners.protocol import Arrays, Setting

Ints = NDArray[np.int64]
_FIRST_CAP = 2
_FIRST_VALUE = -2.0
_CROWDED = 0.7  # of the hot keys at the cap: it rises
_BLOCK, _LEAST_BLOCK, _MOST_BLOCK = 100, 16, 1024  # rows of a key placed at once, by the mean load


class Dalton(HotKeys):
    """Hot keys go where their value for a worker is greatest, which is learned from rewards.

    Zapridou, Mytilinis and Ailamaki, "Dalton: learned partitioning for distributed data streams", VLDB 2022.
    A key is hot above 1 / (``hot`` * workers) of a slide, and in the slide after it.  Its rows go to the
    worker of the greatest value, a share ``epsilon`` of them to any.  A key has at most ``cap`` workers in a
    window; that grows from 2 by one with each batch in which 70% of the hot keys are at it.  Rows are placed
    in blocks, the keys in turn, and a value moves by ``a`` towards the reward with each row.
    """

    OPTIONS: ClassVar[Options] = {
        "a": Option("learning rate", 0.1, 0.001, 1),
        "epsilon": Option("share of rows that explore", 0.1, 0, 1),
        "cap": Option("most workers of a key, from 2; 0: all", 6, 0, 1000, whole=True),
        "hot": Option("a key is hot above 1/(hot * workers) of a slide", 1, 0.1, 1000),
    }

    def __init__(self, setting: Setting, counts: Counts, loads: Loads, holders: Holders) -> None:
        super().__init__(setting, counts, loads, holders)
        self._used = np.flatnonzero(setting.weights)
        options = read(self.OPTIONS, setting.options)
        self._a, self._epsilon, self._hot = options["a"], options["epsilon"], options["hot"]
        self._most = min(int(options["cap"]) or len(self._used), len(self._used))
        self._cap = min(_FIRST_CAP, self._most)
        self._values: dict[int, Floats] = {}

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        found = super().load(setting, arrays)
        found._cap = int(arrays["cap"][0])
        keys = arrays["values.hash"].tolist()
        found._values = dict(zip(keys, np.array(arrays["values"], np.float64), strict=True))
        return found

    def dump(self) -> Arrays:
        """Keys, loads, holders, the present cap, and the values of the hot keys by worker."""
        values = np.array(list(self._values.values())).reshape(len(self._values), self._setting.workers)
        learned = {
            "cap": np.array([self._cap], np.int64),
            "values.hash": np.array(list(self._values), np.uint64),
            "values": values,
        }
        return {**super().dump(), **learned}

    def advance(self, slides: int) -> None:
        """Advance event time by this number of slides."""
        threshold = self._counts.threshold(self._hot)
        counts = self._counts
        hot = set(counts.hashes[np.maximum(counts.rows, counts.before) > threshold].tolist())
        retained = slides == 1
        self._values = {key: values for key, values in self._values.items() if retained and key in hot}
        super().advance(slides)

    def reward(self, worker: int, load: float, mean: float, holders: int) -> float:
        """The reward for a row at a worker with this load, by weight, and a key at ``holders`` workers."""
        raise NotImplementedError

    def explored(self, holders: list[int]) -> Ints:
        """The workers among which exploration draws."""
        return np.array(holders) if len(holders) >= self._cap else self._used

    def _place(self, keys: Sequence[HotKey], rows: Floats, batch: int) -> list[Parts]:
        """Place a block of each key in turn."""
        chance = np.random.Generator(np.random.Philox(key=self._setting.seed, counter=batch))
        placed = [_Key(self, key) for key in keys]
        open_keys = placed
        while open_keys:
            for key in open_keys:
                block = min(max(int(rows.mean()) // _BLOCK, _LEAST_BLOCK), _MOST_BLOCK, key.remaining)
                key.place(block, rows, chance)
            open_keys = [key for key in open_keys if key.remaining]
        if sum(len(key.holders) >= self._cap for key in placed) >= _CROWDED * len(placed) > 0:
            self._cap = min(self._cap + 1, self._most)
        for key in placed:
            if len(key.holders) > 1:
                first = () if self._holders.of(key.hash) else key.holders
                self._holders.mark(key.hash, (*first, *key.given), self._counts.slide)
        return [list(key.given.items()) for key in placed]


class _Key:
    """A hot key of a batch, while its rows are placed."""

    def __init__(self, of: Dalton, key: HotKey) -> None:
        self.hash, self.remaining = key.hash, key.rows
        self.given: dict[int, int] = {}
        self._of, self._owner = of, key.owner
        self.holders = of._holders.of(key.hash) or [key.owner]
        fresh = np.where(of._setting.weights > 0, _FIRST_VALUE, -math.inf)
        self._values = of._values.setdefault(key.hash, fresh)

    def place(self, block: int, rows: Floats, chance: np.random.Generator) -> None:
        """Place this number of its rows: some explore, each separately, the rest go to the greatest value."""
        self.remaining -= block
        exploring = int(chance.binomial(block, self._of._epsilon))
        if exploring:
            workers = self._of.explored(self.holders)
            drawn = workers[chance.integers(len(workers), size=exploring)]
            counts = np.bincount(drawn)
            for worker in np.flatnonzero(counts).tolist():
                self._assign(worker, int(counts[worker]), rows)
        if block > exploring:
            self._assign(self._best(), block - exploring, rows)

    def _best(self) -> int:
        values = self._values
        if len(self.holders) >= self._of._cap:
            return max(self.holders, key=lambda worker: (values[worker], worker == self._owner, -worker))
        best = int(values.argmax())
        return self._owner if values[self._owner] == values[best] else best

    def _assign(self, worker: int, count: int, rows: Floats) -> None:
        of = self._of
        if worker not in self.holders:
            self.holders.append(worker)
        self.given[worker] = self.given.get(worker, 0) + count
        rows[worker] += count
        load = float(rows[worker] / of._shares[worker])
        reward = of.reward(worker, load, float(rows.mean()), len(self.holders))
        retained = (1 - of._a) ** count
        self._values[worker] = self._values[worker] * retained + reward * (1 - retained)
