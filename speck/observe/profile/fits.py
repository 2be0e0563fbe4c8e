"""Fits of a straight line through points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, median

Point = tuple[float, float]


def least_squares(points: Sequence[Point]) -> tuple[float, float] | None:
    """Intercept and slope of the line with the least sum of squares; ``None`` if all abscissas are equal."""
    mean_x, mean_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread <= 0:
        return None
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return mean_y - slope * mean_x, slope


def through_origin(points: Sequence[Point]) -> float | None:
    """The slope of the line through the origin with the least sum of squares."""
    squares = sum(x * x for x, _ in points)
    return sum(x * y for x, y in points) / squares if squares > 0 else None


def theil_sen(points: Sequence[Point]) -> tuple[float, float] | None:
    """Intercept and slope as medians, so that up to 29% of outliers have no effect.

    The slope is the median of the slopes of all pairs, the intercept the median of the residuals (P. K. Sen,
    "Estimates of the regression coefficient based on Kendall's tau", 1968).  ``None``: as
    :func:`least_squares`.  Quadratic in the number of points.
    """
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2]
    if not slopes:
        return None
    slope = median(slopes)
    return median(y - slope * x for x, y in points), slope
