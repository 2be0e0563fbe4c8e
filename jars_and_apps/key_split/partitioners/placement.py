"""The workers of a batch's rows, from those of its keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.partitioners.counts import Counted

Pieces = dict[int, Sequence[tuple[int, int]]]


def workers_of(counted: Counted, whole: NDArray[np.int32], pieces: Pieces, size: int) -> NDArray[np.int32]:
    """The worker of each row.

    ``whole`` has the worker of each of ``counted.keys``; ``pieces``, for the places in it of keys that are
    split, pairs of worker and rows, which sum to the key's rows.  ``size``: of the table of keys.
    """
    by_slot = np.zeros(size + 1, np.int32)  # the last place is that of rows without a slot, -1
    by_slot[counted.keys] = whole
    workers = by_slot[counted.slots]
    if len(counted.others):
        workers[counted.slots < 0] = counted.others
    if pieces:
        _cut(workers, counted, pieces, size)
    return workers


def keys_of(whole: NDArray[np.int32], pieces: Pieces, workers: int) -> NDArray[np.int64]:
    """The keys of a batch at each worker; one that is split is at several."""
    found = np.bincount(np.delete(whole, list(pieces)), minlength=workers)
    for parts in pieces.values():
        found[[worker for worker, _ in parts]] += 1
    return found


def _cut(workers: NDArray[np.int32], counted: Counted, pieces: Pieces, size: int) -> None:
    """Give the rows of each split key out, in the order of the rows."""
    number = np.zeros(size + 1, np.int16 if len(pieces) < 2**15 - 1 else np.int32)
    number[counted.keys[list(pieces)]] = np.arange(1, len(pieces) + 1)
    numbers = number[counted.slots]
    rows = np.flatnonzero(numbers)
    rows = rows[np.argsort(numbers[rows], kind="stable")]
    pairs = np.array([pair for found in pieces.values() for pair in found], np.int64)
    workers[rows] = np.repeat(pairs[:, 0], pairs[:, 1])
