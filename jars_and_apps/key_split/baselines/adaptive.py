"""SaSPartitioner by the policy whose training was nearest to the keys that come."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.policy import Policy
from jars_and_apps.key_split.baselines.saspartitioner import SasPartitioner
from jars_and_apps.key_split.partitioners.counts import Counts
from jars_and_apps.key_split.partitioners.options import Options
from jars_and_apps.key_split.partitioners.protocol import Arrays, Setting

_NEARER = 0.9  # of the distance of the policy in force
_SLIDES = 3


class Adaptive(SasPartitioner):
    """As ``saspartitioner``, by one of several policies.

    Each slide the shares of the hottest keys are compared with those that each policy had in training (the
    Euclidean distance).  Another policy than the one in force takes over when it was nearer by a tenth, the
    same one in three slides in turn.
    """

    OPTIONS: ClassVar[Options] = SasPartitioner.OPTIONS

    def __init__(self, setting: Setting, counts: Counts) -> None:
        super().__init__(setting, counts)
        self._chosen, self._nearest, self._slides = -1, -1, 0

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        found = super().load(setting, arrays)
        found._chosen, found._nearest, found._slides = np.asarray(arrays["choice"], np.int64).tolist()
        return found

    def dump(self) -> Arrays:
        """As of ``saspartitioner``, and the policy in force, the nearest other one, and its slides."""
        choice = np.array([self._chosen, self._nearest, self._slides], np.int64)
        return {**super().dump(), "choice": choice}

    def advance(self, slides: int) -> None:
        """Advance event time by this number of slides."""
        super().advance(slides)
        if self._policies and self._counts.total_before:
            self._choose()

    def _policy(self) -> Policy | None:
        return self._policies[max(self._chosen, 0)] if self._policies else None

    def _choose(self) -> None:
        rows = self._counts.before[self._counts.table.find(self._keys)]
        shares = rows / self._counts.total_before
        distances = np.array([_distance(shares, each.ranks) for each in self._policies])
        nearest = int(distances.argmin())
        if self._chosen < 0:
            self._chosen = nearest
        if nearest == self._chosen or distances[nearest] >= _NEARER * distances[self._chosen]:
            self._nearest, self._slides = -1, 0
            return
        self._slides = self._slides + 1 if nearest == self._nearest else 1
        self._nearest = nearest
        if self._slides == _SLIDES:
            self._chosen, self._nearest, self._slides = nearest, -1, 0


def _distance(shares: NDArray[np.float64], ranks: NDArray[np.float64]) -> float:
    """The distance of the shares of the hottest keys; those that are not there count as 0."""
    found = np.zeros(len(ranks))
    found[: len(shares)] = shares[: len(ranks)]
    return float(np.linalg.norm(found - ranks))
