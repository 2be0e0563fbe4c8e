"""One key to the first worker, all others to the rest: a stress."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.hashing import homes
from jars_and_apps.key_split.partitioners.options import Option, Options, read
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Routing, Setting


class DriftingKey:
    """The hottest key of the first batch with rows goes to worker 0, all others by hash to the rest.

    That key stays there when the hot keys change, which is what this partitioner is for: a load that drifts.
    With one usable worker it has all rows.
    """

    OPTIONS: ClassVar[Options] = {
        "key": Option("rank of that key at the start, 0: the hottest", 0, 0, 1_000_000, whole=True)
    }

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._rank = int(read(self.OPTIONS, setting.options)["key"])
        self._key = np.empty(0, np.uint64)
        rest = np.array(setting.weights)
        self._first = int(np.flatnonzero(rest)[0])
        rest[self._first] = 0
        self._rest = rest if rest.any() else setting.weights

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        """A partitioner that has seen no row."""
        return cls(setting)

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        found = cls(setting)
        found._key = np.array(arrays["key"], np.uint64)
        return found

    def dump(self) -> Arrays:
        """The hash of the key, once there is one."""
        return {"key": self._key.copy()}

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers of the rows with these hashes of keys."""
        if not len(self._key) and len(hashes):
            keys, rows = np.unique(hashes, return_counts=True)
            ranked = keys[np.argsort(-rows, kind="stable")]
            self._key = ranked[min(self._rank, len(keys) - 1)][None]
        workers = homes(hashes, self._rest, self._setting.seed)
        if len(self._key):
            workers[hashes == self._key[0]] = self._first
        return Routing(workers)

    def advance(self, slides: int) -> None:
        """Nothing depends on event time."""

    def observe(self, window: MetricsWindow) -> None:
        """Nothing depends on what was measured."""
