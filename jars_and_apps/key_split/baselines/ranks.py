"""The hottest keys of a slide by rank, and the workers that each of them may have."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.partitioners.counts import Counts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def hottest(counts: Counts, number: int) -> Ints:
    """The slots of ``number`` keys with most rows in the last slide, the most first; ties by hash."""
    found = np.flatnonzero(counts.before)
    order = np.lexsort((counts.hashes[found], -counts.before[found]))
    return np.asarray(found[order[:number]])


def true_hot(rows: Ints, workers: int) -> int:
    """The number of the hottest keys to be split: all before the first whose part of them is no worker's.

    ``rows``, falling: key k is the first with ``workers * rows[k] <= rows[0] + ... + rows[k]``.
    """
    enough = workers * rows <= np.cumsum(rows)
    return int(enough.argmax()) if enough.any() else len(rows)


def masks(rows: Ints, used: Ints, spread: int = 0) -> list[Ints]:
    """The workers of each key: contiguous slices of ``used`` in proportion to the rows, their ends shared.

    ``spread``: the number of workers of each, 0: by proportion.
    """
    ends = np.cumsum(rows) * len(used) / max(rows.sum(), 1)
    found = []
    for start, end in itertools.pairwise([0.0, *ends.tolist()]):
        first = min(math.floor(start + 1e-9), len(used) - 1)
        size = min(spread or max(math.ceil(end - 1e-9) - first, 1), len(used))
        first = min(first, len(used) - size)
        found.append(used[first : first + size])
    return found
