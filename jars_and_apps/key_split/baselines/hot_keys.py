"""The base of partitioners that spread hot keys over several workers."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.partitioners.counts import Counted, Counts
from jars_and_apps.key_split.partitioners.holders import Holders
from jars_and_apps.key_split.partitioners.placement import Pieces, workers_of
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Routing, Setting

Floats = NDArray[np.float64]


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
        pieces = self._place(counted, np.flatnonzero(hot), rows, whole, batch)
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
        self,
        counted: Counted,
        places: NDArray[np.int64],
        rows: Floats,
        whole: NDArray[np.int32],
        batch: int,
    ) -> Pieces:
        """Place the keys at these ``places`` of ``counted``, and add their rows to those of the workers.

        ``whole`` contains the worker of each key that is not split; the pieces returned are of the others.
        """
        raise NotImplementedError
