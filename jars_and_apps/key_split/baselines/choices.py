"""A second worker for each key, beside its home."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jars_and_apps.key_split.hashing import Hashes, mix64

_SECOND = 0xD1B54A32D192ED03


def second(
    hashes: Hashes, first: NDArray[np.int32], weights: NDArray[np.float64], seed: int
) -> NDArray[np.int32]:
    """Another worker than ``first`` for each key, by the weights; ``first`` if it is the only one."""
    used = np.flatnonzero(weights)
    if len(used) == 1:
        return first
    shares = weights / weights.sum()
    edges = np.cumsum(shares)
    mixed = mix64(hashes ^ np.uint64((seed ^ _SECOND) % 2**64))
    place = (mixed >> np.uint64(11)).astype(np.float64) / 2**53 * (1 - shares[first])
    place += np.where(place >= edges[first] - shares[first], shares[first], 0.0)
    found: NDArray[np.int32] = np.searchsorted(edges, place, side="right").clip(0, used[-1]).astype(np.int32)
    wrong = (found == first) | (weights[found] == 0)  # by rounding, at an edge
    found[wrong] = used[(np.searchsorted(used, first[wrong]) + 1) % len(used)]
    return found
