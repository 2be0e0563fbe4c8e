"""The partitioners without a view of loads: hash, shuffle and random."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.hashing import homes, workers_at
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Routing, Setting


class Hash:
    """Every row goes to its key's home."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        """A partitioner that has seen no row."""
        return cls(setting)

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        return cls(setting)

    def dump(self) -> Arrays:
        """No state."""
        return {}

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The homes."""
        return Routing(homes(hashes, self._setting.weights, self._setting.seed))

    def advance(self, slides: int) -> None:
        """Nothing depends on event time."""

    def observe(self, window: MetricsWindow) -> None:
        """Nothing depends on what was measured."""


class Shuffle(Hash):
    """Round robin; with other than equal weights, row i goes where their sum passes i golden ratios, mod 1.

    The multiples of an irrational number modulo 1 are spread as evenly as any (Steinhaus's three-gap
    theorem).
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._count = 0

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        partitioner = cls(setting)
        partitioner._count = int(arrays["count"][0])
        return partitioner

    def dump(self) -> Arrays:
        """The number of rows so far."""
        return {"count": np.array([self._count])}

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The next workers in turn."""
        numbers = np.arange(self._count, self._count + len(hashes), dtype=np.uint64)
        self._count += len(hashes)
        weights = self._setting.weights
        if (weights == weights[0]).all():
            return Routing((numbers % np.uint64(len(weights))).astype(np.int32))
        return Routing(workers_at(numbers * _GOLDEN, weights))


class Random(Hash):
    """Any worker for any row and any owner for any key: results must not depend on the routing."""

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """Workers and moves at random."""
        random = np.random.Generator(np.random.Philox(key=self._setting.seed, counter=batch))
        usable = np.flatnonzero(self._setting.weights)
        workers = homes(hashes, self._setting.weights, self._setting.seed)
        share = self._setting.options.get("share", 0.5)
        elsewhere = random.random(len(hashes)) < share
        workers[elsewhere] = random.choice(usable, int(elsewhere.sum()))
        distinct = np.unique(hashes)
        moved = distinct[random.random(len(distinct)) < self._setting.options.get("moves", 0.2)]
        return Routing(workers, 2.0, moved, random.choice(usable, len(moved)).astype(np.int32))


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
