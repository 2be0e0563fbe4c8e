"""Dalton by measured busy times."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.dalton import Dalton
from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.partitioners.counts import Counts
from jars_and_apps.key_split.partitioners.holders import Holders
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Setting


class DaltonMetrics(Dalton):
    """Reward ``(avg - b) / max(avg, b)``, b being the worker's busy time in the last metrics window.

    avg: the mean of the workers that reported.  A worker that did not has reward 0.  Exploration draws among
    all workers.
    """

    def __init__(self, setting: Setting, counts: Counts, loads: Loads, holders: Holders) -> None:
        super().__init__(setting, counts, loads, holders)
        self._busy = np.full(setting.workers, np.nan)

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        found = super().load(setting, arrays)
        found._busy[:] = arrays["busy"]
        return found

    def dump(self) -> Arrays:
        """As of :class:`Dalton`, and the busy times (s), one a worker."""
        return {**super().dump(), "busy": self._busy.copy()}

    def observe(self, window: MetricsWindow) -> None:
        """Take the busy times."""
        self._busy = np.array(window.busy, np.float64)

    def reward(self, worker: int, load: float, mean: float, holders: int) -> float:
        """The reward for a row at a worker, by its busy time."""
        if np.isnan(self._busy[worker]):
            return 0.0
        busy, average = float(self._busy[worker]), float(np.nanmean(self._busy))
        return (average - busy) / max(average, busy) if average > 0 else 0.0

    def explored(self, holders: list[int]) -> NDArray[np.int64]:
        """The workers among which exploration draws: all of them."""
        return self._used
