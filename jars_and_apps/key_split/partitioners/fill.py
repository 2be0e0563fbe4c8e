"""Water-filling: rows given to the workers with the lowest level, many at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def level(loads: Floats, rows: float, shares: Floats) -> float:
    """The level, in rows per share, of the workers that ``rows`` fill up; those above it get none.

    ``loads`` (float64, rows) and ``shares`` (float64, not negative, at least one above 0) are one a worker.
    """
    used = np.flatnonzero(shares > 0)
    heights = loads[used] / shares[used]
    order = np.argsort(heights, kind="stable")
    filled = (rows + np.cumsum(loads[used][order])) / np.cumsum(shares[used][order])
    below = np.flatnonzero(heights[order] < filled)
    return float(filled[below[-1]] if len(below) else filled[0])


def fill(loads: Floats, rows: int, shares: Floats | None = None) -> Ints:
    """The part of ``rows`` of each worker with which the levels, loads by shares, end up even.

    With equal shares this is what giving each row to the worker with the lowest load comes to.  Fractions go
    to the largest remainders, ties to the lower number.
    """
    shares = np.ones(len(loads)) if shares is None else shares
    exact = np.maximum(level(loads, rows, shares) * shares - loads, 0.0)
    return rounded(exact, rows)


def deficit(shares: Floats, counts: NDArray[np.number], rows: int) -> Ints:
    """The part of ``rows`` of each worker with which all counts come nearest to the shares.

    Each row goes to the worker with the greatest ``share * (all rows) - count``; ``shares`` sum to 1.
    """
    desired = shares * (counts.sum() + rows)
    missing = counts - desired
    missing[shares <= 0] = np.inf
    usable = np.isfinite(missing)
    found = np.zeros(len(shares), np.int64)
    found[usable] = fill(missing[usable], rows)
    return found


def rounded(exact: Floats, rows: int) -> Ints:
    """Whole numbers that sum to ``rows``, by largest remainder, of amounts that sum to it nearly."""
    whole = np.floor(exact).astype(np.int64)
    remaining = rows - int(whole.sum())
    if remaining > 0:
        whole[np.argsort(whole - exact, kind="stable")[:remaining]] += 1
    return whole
