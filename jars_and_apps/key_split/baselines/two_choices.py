"""Two choices: each key at the lower of two workers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.choices import second
from jars_and_apps.key_split.baselines.counting import Counting
from jars_and_apps.key_split.partitioners.counts import Counted
from jars_and_apps.key_split.partitioners.placement import Pieces, workers_of
from jars_and_apps.key_split.partitioners.protocol import Routing


class TwoChoices(Counting):
    """Each row goes to that of its key's home and second choice which has fewer rows of the window.

    Nasir et al., "The power of both choices", ICDE 2015.  The rows that a key has in a batch are placed at
    once, the largest key first.
    """

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers of the rows with these hashes of keys."""
        counted = self._counts.take(hashes)
        first = self._counts.owner[counted.keys]
        keys = self._counts.hashes[counted.keys]
        other = second(keys, first, self._setting.weights, self._setting.seed)
        whole, pieces = self._place(counted, first.tolist(), other.tolist())
        workers = workers_of(counted, whole, pieces, self._counts.table.size)
        self._loads.add(np.bincount(workers, minlength=self._setting.workers))
        return Routing(workers)

    def _place(
        self, counted: Counted, firsts: list[int], others: list[int]
    ) -> tuple[NDArray[np.int32], Pieces]:
        rows = (self._loads.rows() + np.bincount(counted.others, minlength=self._setting.workers)).tolist()
        weights = self._setting.weights.tolist()
        whole: list[int] = []
        pieces: Pieces = {}
        known = zip(firsts, others, counted.rows.tolist(), strict=True)
        for place, (one, two, count) in enumerate(known):
            even = weights[one] * (rows[two] + count) - weights[two] * rows[one]
            even /= weights[one] + weights[two]
            given = min(max(int(even + 0.5), 0), count) if one != two else count
            rows[one] += given
            rows[two] += count - given
            whole.append(one if given else two)
            if 0 < given < count:
                pieces[place] = [(one, given), (two, count - given)]
        return np.array(whole, np.int32), pieces
