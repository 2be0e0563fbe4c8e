"""A count-min sketch, for the keys that a table has no room for."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.hashing import mix64
from jars_and_apps.key_split.partitioners.protocol import Arrays

DEPTH = 4


class Sketch:
    """Upper bounds of the rows of each key in a slide (Cormode and Muthukrishnan, 2005).

    ``width`` columns of 4 rows: with probability ``1 - exp(-4)`` a count is at most ``e / width`` of all rows
    too high.
    """

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.counts = counts

    @classmethod
    def begin(cls, workers: int) -> Self:
        """A sketch that errs by at most a quarter of a worker's share of the rows."""
        return cls(np.zeros((DEPTH, math.ceil(math.e * 4 * workers)), np.int64))

    @classmethod
    def load(cls, workers: int, arrays: Arrays) -> Self:
        """The sketch that was dumped."""
        sketch = cls.begin(workers)
        sketch.counts[:] = arrays["sketch"]
        return sketch

    def add(self, hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the rows of distinct keys; their estimates."""
        width = np.uint64(self.counts.shape[1])
        estimates = np.full(len(hashes), np.iinfo(np.int64).max)
        for number, row in enumerate(self.counts):
            places = (mix64(hashes ^ np.uint64(number + 1)) % width).astype(np.int64)
            np.add.at(row, places, rows)
            np.minimum(estimates, row[places], out=estimates)
        return estimates

    def clear(self) -> None:
        """Begin the next slide."""
        self.counts[:] = 0
