"""CAM: a key stays with the worker that has it."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.partitioners.choices import second
from jars_and_apps.key_split.partitioners.counts import Counted, Counts
from jars_and_apps.key_split.partitioners.loads import Loads
from jars_and_apps.key_split.partitioners.placement import workers_of
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Routing, Setting


class Cam:
    """A key that has rows in the window stays at its worker; any other goes to the lower of two.

    Katsipoulakis et al., "A holistic view of stream partitioning costs", VLDB 2017.  That worker becomes the
    key's owner, until the key is silent for a window.
    """

    def __init__(self, setting: Setting, counts: Counts, loads: Loads) -> None:
        self._setting, self._counts, self._loads = setting, counts, loads

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        """A partitioner that has seen no row."""
        return cls(setting, Counts(setting), Loads(setting))

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        return cls(setting, Counts.load(setting, arrays), Loads.load(setting, arrays))

    def dump(self) -> Arrays:
        """Keys, and the rows of each worker by slide."""
        return {**self._counts.dump(), **self._loads.dump()}

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers of the rows with these hashes of keys."""
        counted = self._counts.take(hashes)
        moved = self._choose(counted)
        whole = self._counts.owner[counted.keys]
        workers = workers_of(counted, whole, {}, self._counts.table.size)
        self._loads.add(np.bincount(workers, minlength=self._setting.workers))
        hashes, owners = self._counts.moves(moved)
        return Routing(workers, moved=hashes, owners=owners)

    def advance(self, slides: int) -> None:
        """Let event time pass by so many slides."""
        self._counts.advance(slides)
        self._loads.advance(slides)

    def observe(self, window: MetricsWindow) -> None:
        """Take no notice of what was measured."""

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
