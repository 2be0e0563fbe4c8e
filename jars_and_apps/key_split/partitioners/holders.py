"""The workers that have rows of a key in the window."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.partitioners.protocol import Arrays


class Holders:
    """For keys that were given to several workers: each worker with the last slide in which it got rows.

    A worker is a holder of a key for a window after its last row of it; the other holders are not touched
    when it ceases to be one.
    """

    def __init__(self) -> None:
        self._of: dict[int, dict[int, int]] = {}

    @classmethod
    def load(cls, arrays: Arrays) -> Self:
        """The holders that were dumped."""
        holders = cls()
        columns = (arrays[f"holders.{name}"].tolist() for name in ("hash", "worker", "slide"))
        for key, worker, slide in zip(*columns, strict=True):
            holders._of.setdefault(key, {})[worker] = slide
        return holders

    def dump(self) -> dict[str, NDArray[np.generic]]:
        """Three columns: key, worker, slide."""
        rows = [(key, *pair) for key, found in self._of.items() for pair in found.items()]
        keys, workers, slides = zip(*rows, strict=True) if rows else ((), (), ())
        return {
            "holders.hash": np.array(keys, np.uint64),
            "holders.worker": np.array(workers, np.int32),
            "holders.slide": np.array(slides, np.int64),
        }

    def __len__(self) -> int:
        return len(self._of)

    def of(self, key: int) -> list[int]:
        """The workers, the first to get the key first; none for a key that one worker has whole."""
        return list(self._of.get(key, ()))

    def mark(self, key: int, workers: Iterable[int], slide: int) -> None:
        """Note that these workers get rows of the key in this slide."""
        found = self._of.setdefault(key, {})
        for worker in workers:
            found[worker] = slide

    def expire(self, before: int) -> None:
        """Forget each holder whose last slide is before this one."""
        retained = (
            (key, {worker: slide for worker, slide in found.items() if slide >= before})
            for key, found in self._of.items()
        )
        self._of = {key: found for key, found in retained if found}
