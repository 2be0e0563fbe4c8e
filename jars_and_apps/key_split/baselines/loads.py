"""The rows of each worker in each slide of a window."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.partitioners.protocol import Arrays, Setting


class Loads:
    """The rows that each worker got in the slides of the last window, the present slide included."""

    def __init__(self, setting: Setting) -> None:
        self._ring = np.zeros((setting.slides, setting.workers), np.int64)

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The loads that were dumped."""
        loads = cls(setting)
        loads._ring[:] = arrays["loads"]
        return loads

    def dump(self) -> dict[str, NDArray[np.generic]]:
        """The rows by slide, the present one last, and worker."""
        return {"loads": self._ring.copy()}

    def add(self, rows: NDArray[np.int64]) -> None:
        """Count rows, one number a worker, in the present slide."""
        self._ring[-1] += rows

    def advance(self, slides: int) -> None:
        """Begin this number of slides."""
        retained = max(len(self._ring) - slides, 0)
        self._ring[:retained] = self._ring[len(self._ring) - retained :].copy()
        self._ring[retained:] = 0

    def rows(self) -> NDArray[np.int64]:
        """The rows of the window, one number a worker."""
        rows: NDArray[np.int64] = self._ring.sum(axis=0)
        return rows
