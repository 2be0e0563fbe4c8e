"""Fits of a straight line through points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

Point = tuple[float, float]

NORMAL = 1.96  # standard deviations that hold 95% of a normal distribution


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


@dataclass(frozen=True, slots=True)
class RobustLine:
    """A line by medians; its true slope lies between ``low`` and ``high`` with a confidence of 95%."""

    intercept: float
    slope: float
    low: float
    high: float


def theil_sen(points: Sequence[Point]) -> RobustLine | None:
    """A line whose intercept and slope are medians, so that up to 29% of outliers have no effect.

    The slope is the median of the slopes of all pairs, the intercept the median of the residuals, and the
    interval of the slope is that of Kendall's tau (P. K. Sen, "Estimates of the regression coefficient based
    on Kendall's tau", 1968, section 6).  ``None``: as :func:`least_squares`.  Quadratic in the number of
    points.
    """
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2)
    if not slopes:
        return None
    slope, count = median(slopes), len(points)
    deviation = NORMAL * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low, high = (round((len(slopes) + each) / 2) for each in (-deviation, deviation))
    return RobustLine(
        intercept=median(y - slope * x for x, y in points),
        slope=slope,
        low=slopes[max(0, low)],
        high=slopes[min(len(slopes) - 1, high)],
    )
