"""Vectorised partitioners against references that take one row at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.dagreedy import DaGreedy
from jars_and_apps.key_split.baselines.dalton_original import DaltonOriginal
from jars_and_apps.key_split.hashing import homes, mix64
from jars_and_apps.key_split.partitioners.protocol import Partitioner, Setting
from testbed.key_split.sequential import SequentialDaGreedy, SequentialDalton
from tests.support.trials import trial

pytestmark = pytest.mark.slow("120,000 rows, one at a time, in each test")

WORKERS, SLIDES, KEYS, ROWS, BATCH = 32, 5, 2_000, 10_000, 1_250
HASHES = mix64(np.arange(1, KEYS + 1, dtype=np.uint64))
HOMES = homes(HASHES, np.ones(WORKERS), 1).tolist()
# With each, more than one key is too large for a worker.
SKEWS = pytest.mark.parametrize("z", [pytest.param(1.0, marks=trial("[1.5]")), 1.5])


def imbalances(route: Callable[[NDArray[np.int64]], NDArray[np.int64]], z: float) -> float:
    """The greatest load over the mean, less 1, of a window: the mean of three windows after nine slides."""
    shares = np.arange(1, KEYS + 1) ** -z
    random = np.random.default_rng(3)
    loads = [route(random.choice(KEYS, ROWS, p=shares / shares.sum())) for _ in range(12)]
    windows = [np.sum(loads[end - SLIDES : end], axis=0) for end in (10, 11, 12)]
    return float(np.mean([window.max() / window.mean() - 1 for window in windows]))


def vectorised(partitioner: Partitioner) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """A slide by batches; the rows of each worker."""

    def route(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        loads = np.zeros(WORKERS, np.int64)
        for start in range(0, ROWS, BATCH):
            routing = partitioner.route(HASHES[ranks[start : start + BATCH]], start // BATCH)
            loads += np.bincount(routing.workers, minlength=WORKERS)
        partitioner.advance(1)
        return loads

    return route


def one_by_one(reference: SequentialDaGreedy | SequentialDalton) -> Callable[..., NDArray[np.int64]]:
    """A slide row by row; the rows of each worker."""

    def route(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        loads = np.bincount([reference.row(rank) for rank in ranks.tolist()], minlength=WORKERS)
        reference.advance()
        return loads

    return route


@SKEWS
def test_dagreedy_levels_windows_as_row_by_row(z: float) -> None:
    partitioner = DaGreedy.begin(Setting(np.ones(WORKERS), 1, SLIDES))
    expected = imbalances(one_by_one(SequentialDaGreedy(HOMES, WORKERS, SLIDES)), z)
    assert imbalances(vectorised(partitioner), z) == pytest.approx(expected, abs=0.1)


@SKEWS
def test_dalton_levels_windows_as_row_by_row(z: float) -> None:
    partitioner = DaltonOriginal.begin(Setting(np.ones(WORKERS), 1, SLIDES, {"cap": 0}))
    expected = imbalances(one_by_one(SequentialDalton(HOMES, WORKERS, SLIDES, 1)), z)
    assert imbalances(vectorised(partitioner), z) == pytest.approx(expected, abs=0.1)
