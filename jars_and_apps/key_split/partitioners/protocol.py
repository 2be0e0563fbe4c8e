"""The interface of the partitioners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of a partitioner that are constant while it runs.

    ``weights`` (float64, one a worker, at least one above 0) are the workers' shares, in any unit; ``slides``
    the slides of a window; ``options`` the partitioner's own; ``policies`` trained ones, files as Base64.
    """

    weights: NDArray[np.float64]
    seed: int
    slides: int = 1
    options: Mapping[str, float] = field(default_factory=dict)
    policies: tuple[str, ...] = ()

    @property
    def workers(self) -> int:
        """The number of workers."""
        return len(self.weights)


@dataclass(frozen=True, slots=True)
class Routing:
    """The workers of the rows of one batch.

    ``workers`` (int32, one a row, 0 to n - 1).  ``threshold``: the rows a slide above which a key is hot.
    ``moved`` (uint64, hashes of keys) and ``owners`` (int32, their new owners), of keys whose owner changes.
    """

    workers: NDArray[np.int32]
    threshold: float = float("inf")
    moved: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    owners: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class MetricsWindow:
    """The measured work of each worker over a window of time, NaN where a worker did not report.

    ``rows`` (float64, rows), ``busy`` and ``wall`` (float64, s), one a worker; ``end``: Unix time, s.
    """

    rows: NDArray[np.float64]
    busy: NDArray[np.float64]
    wall: NDArray[np.float64]
    end: float = 0.0


class Partitioner(Protocol):
    """Gives rows to workers, deterministically in its state and the rows.

    One whose workers' shares are not those of the setting has a method ``shares()``: float64, one a worker.
    One that takes policies has a method ``policy()``: the name of that in force, or the reason for none.
    """

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        """A partitioner that has seen no row."""

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""

    def dump(self) -> Arrays:
        """The state, as arrays without objects."""

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The workers of the rows with these hashes of keys, in batch number ``batch``."""

    def advance(self, slides: int) -> None:
        """Advance event time by this number of slides."""

    def observe(self, window: MetricsWindow) -> None:
        """Take what was measured; it counts from the next batch on."""
