"""Hashes of keys, mixed differently for each purpose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
_SHARD = 0x9E3779B97F4A7C15


def mix64(values: Hashes) -> Hashes:
    """Each value's bits, mixed: splitmix64's finaliser (Steele, Lea and Flood, OOPSLA 2014, figure 16)."""
    mixed = values ^ (values >> np.uint64(30))
    mixed = np.multiply(mixed, np.uint64(0xBF58476D1CE4E5B9))
    mixed ^= mixed >> np.uint64(27)
    mixed = np.multiply(mixed, np.uint64(0x94D049BB133111EB))
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def homes(hashes: Hashes, weights: NDArray[np.float64], seed: int) -> NDArray[np.int32]:
    """The worker of each key by its hash alone, in proportion to the weights; one of weight 0 gets none."""
    return workers_at(mix64(hashes ^ np.uint64(seed % 2**64)), weights)


def workers_at(points: Hashes, weights: NDArray[np.float64]) -> NDArray[np.int32]:
    """The workers at these points of 0 to 2**64, in which each has a part in proportion to its weight."""
    edges = np.cumsum(weights / weights.sum())
    edges[np.flatnonzero(weights)[-1] :] = np.inf
    uniform = (points >> np.uint64(11)).astype(np.float64) / 2**53
    return np.searchsorted(edges, uniform, side="right").astype(np.int32)


def shards_of(hashes: Hashes, shards: int | NDArray[np.int64]) -> NDArray[np.int32]:
    """The shard of each key, independent of its home; ``shards``: their number, for all keys or one a key."""
    mixed = mix64(hashes + np.uint64(_SHARD))
    return (mixed % np.asarray(shards).astype(np.uint64)).astype(np.int32)
