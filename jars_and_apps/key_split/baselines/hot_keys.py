"""The base of partitioners that spread hot keys over several workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.partitioners.counts import Counted, Counts
from jars_and_apps.key_split.partitioners.holders import Holders
from jars_and_apps.key_split.partitioners.placement import Pieces, workers_of
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Routing, Setting

Floats = NDArray[np.float64]
Parts = list[tuple[int, int]]
"""The workers that get rows of a key, each with the number of its rows; at least one."""


class HotKey(NamedTuple):
    """A hot key in a batch: its hash, the worker that owns it, and its rows."""

    hash: int
    owner: int
    rows: int


class HotKeys:
    """Sends the rows of each key to its owner, except those of hot keys, which a subclass places.

    A key is hot above 1 / (``hot`` * workers) of a slide, and in the slide after it.  The rows that it has in
    a batch are placed together.
    """

    _hot: float

    def __init__(self, setting: Setting, counts: Counts, loads: Loads, holders: Holders) -> None:
        self._setting, self._counts, self._loads, self._holders = setting, counts, loads, holders
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
        cold = np.bincount(whole[~hot], weights=counted.rows[~hot], minlength=self._setting.workers)
        rows = np.asarray(self._loads.rows() + cold, np.float64)
        rows += np.bincount(counted.others, minlength=len(rows))
        places = np.flatnonzero(hot)
        parts = self._place(self._hot_keys(counted, places), rows, batch)
        whole[places] = [each[0][0] for each in parts]
        pieces: Pieces = {
            place: each for place, each in zip(places.tolist(), parts, strict=True) if len(each) > 1
        }
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

    def _hot_keys(self, counted: Counted, places: NDArray[np.int64]) -> list[HotKey]:
        """The keys at these places of ``counted.keys``."""
        slots = counted.keys[places]
        hashes, owners = self._counts.hashes[slots].tolist(), self._counts.owner[slots].tolist()
        return list(map(HotKey, hashes, owners, counted.rows[places].tolist()))

    def _place(self, keys: Sequence[HotKey], rows: Floats, batch: int) -> list[Parts]:
        """The parts of each of these keys, which are added to the ``rows`` of the workers."""
        raise NotImplementedError
