"""Dalton as published: rewarded for low load and low fan-out."""

from __future__ import annotations

from typing import ClassVar

from jars_and_apps.key_split.baselines.dalton import Dalton
from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.partitioners.counts import Counts
from jars_and_apps.key_split.partitioners.holders import Holders
from jars_and_apps.key_split.partitioners.options import Option, Options, read
from jars_and_apps.key_split.partitioners.protocol import Setting


class DaltonOriginal(Dalton):
    """Reward ``-(alpha * (L - avg) / max(L, avg) + (1 - alpha) * workers of the key / all workers)``.

    L: the worker's rows in the window by its weight; avg: their mean.
    """

    OPTIONS: ClassVar[Options] = {
        **Dalton.OPTIONS,
        "alpha": Option("weight of fan-out against load", 0.5, 0, 1),
    }

    def __init__(self, setting: Setting, counts: Counts, loads: Loads, holders: Holders) -> None:
        super().__init__(setting, counts, loads, holders)
        self._alpha = read(self.OPTIONS, setting.options)["alpha"]

    def reward(self, worker: int, load: float, mean: float, holders: int) -> float:
        """The reward for a row at a worker with this load, and a key at ``holders`` workers."""
        over = (load - mean) / max(load, mean)
        return -(self._alpha * over + (1 - self._alpha) * holders / self._setting.workers)
