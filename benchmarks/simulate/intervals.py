"""Statistics over seeds, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from testbed.simulate.conditions import Floats

_RESAMPLES = 2000


def q_error(one: float, other: float) -> float:
    """The factor between two figures, at least 1; infinite if just one is 0."""
    if one == other:
        return 1.0
    return float("inf") if min(one, other) <= 0 else max(one / other, other / one)


def interval(values: Sequence[float], share: float = 0.5) -> dict[str, Any]:
    """A quantile over seeds with its 95% interval, by the bootstrap's percentiles (Efron, 1979)."""
    found: Floats = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(1).integers(0, len(found), (_RESAMPLES, len(found)))
    resampled = np.quantile(found[drawn], share, axis=1, method="higher")
    low, high = np.quantile(resampled, (0.025, 0.975), method="nearest")
    value = float(np.quantile(found, share, method="higher"))
    return {"value": value, "low": float(low), "high": float(high), "seeds": len(found)}


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Median, 90th percentile and worst of some seeds."""
    return {"median": interval(values), "p90": interval(values, 0.9), "worst": max(values)}


def mean(values: Sequence[float]) -> dict[str, Any]:
    """The mean over seeds with its 95% interval."""
    found: Floats = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(1).integers(0, len(found), (_RESAMPLES, len(found)))
    low, high = np.quantile(found[drawn].mean(axis=1), (0.025, 0.975))
    return {"value": float(found.mean()), "low": float(low), "high": float(high), "seeds": len(found)}


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """The rank correlation; equal values share their mean rank."""
    first, second = _ranks(one), _ranks(other)
    if first.std() == 0 or second.std() == 0:
        return 1.0 if first.std() == second.std() else 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Sequence[float]) -> Floats:
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ends: Floats = np.cumsum(counts, dtype=np.float64)
    return np.asarray((ends - (counts - 1) / 2)[inverse])
