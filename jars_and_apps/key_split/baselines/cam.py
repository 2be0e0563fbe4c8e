"""CAM: a key stays with the worker that has it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.choices import second
from jars_and_apps.key_split.baselines.counting import Counting
from jars_and_apps.key_split.partitioners.counts import Counted
from jars_and_apps.key_split.partitioners.placement import workers_of
from jars_and_apps.key_split.partitioners.protocol import Routing


class Cam(Counting):
    """A key that has rows in the window stays at its worker; any other goes to the lower of two.

    Katsipoulakis et al., "A holistic view of stream partitioning costs", VLDB 2017.  That worker becomes the
    key's owner, until the key is silent for a window.
    """

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers of the rows with these hashes of keys."""
        counted = self._counts.take(hashes)
        moved = self._choose(counted)
        whole = self._counts.owner[counted.keys]
        workers = workers_of(counted, whole, {}, self._counts.table.size)
        self._loads.add(np.bincount(workers, minlength=self._setting.workers))
        hashes, owners = self._counts.moves(moved)
        return Routing(workers, moved=hashes, owners=owners)

    def _choose(self, counted: Counted) -> NDArray[np.int64]:
        """Give each new key the lower of its two choices, the largest first; those that left their homes."""
        weights, owner = self._setting.weights, self._counts.owner
        new = counted.keys >= counted.first_new
        old = counted.keys[~new]
        rows = self._loads.rows() + np.bincount(counted.others, minlength=len(weights))
        rows = rows + np.bincount(owner[old], weights=counted.rows[~new], minlength=len(weights))
        keys = counted.keys[new]
        first = owner[keys]
        other = second(self._counts.hashes[keys], first, weights, self._setting.seed)
        levels = np.divide(rows, weights, out=np.full(len(weights), np.inf), where=weights > 0).tolist()
        steps = np.divide(1, weights, out=np.zeros(len(weights)), where=weights > 0).tolist()
        chosen: list[int] = []
        for one, two, count in zip(first.tolist(), other.tolist(), counted.rows[new].tolist(), strict=True):
            worker = one if levels[one] <= levels[two] else two
            levels[worker] += count * steps[worker]
            chosen.append(worker)
        owner[keys] = chosen
        remaining: NDArray[np.int64] = keys[owner[keys] != first]
        return remaining
