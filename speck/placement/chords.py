"""Chords of the event loop's root, for a linear program: never above the root, and near it.

On each piece the loop is replaced by the line through both ends.  From one piece to the next, the messages at
the site double, so that a chord is at most 1.5% of the loop below it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from speck.placement.problem import Problem

MOST = 8  # pieces of a site; where its messages may grow by more than 2**MOST, they are longer


@dataclass(frozen=True, slots=True)
class Chord:
    """A piece from ``lower`` to ``upper`` messages/s: cores are ``fixed + slope * messages``."""

    lower: float
    upper: float
    fixed: float
    slope: float


def chord(problem: Problem, site: int, present: float, lower: float, upper: float) -> Chord:
    """The chord of what ``lower`` to ``upper`` messages/s add to a site's loop with ``present`` ones."""
    base = problem.loop_cores(site, present)
    low, high = (problem.loop_cores(site, present + each) - base for each in (lower, upper))
    slope = (high - low) / (upper - lower) if upper > lower else 0.0
    return Chord(lower, upper, low - slope * lower, slope)


def chords(problem: Problem, site: int, present: float, possible: Sequence[float]) -> list[Chord]:
    """The chords for the messages/s of units that may be at a site, any of them or none.

    ``present`` are the messages/s that are there in any case.
    """
    more = [each for each in possible if each > 0]
    if not more or not problem.loop_cores(site, 1.0):
        return []
    total = sum(more)
    # Below the least unit there is nothing but 0, and both ends of a chord are exact.
    first = 0.0 if present > min(more) else min(more)
    start, end = present + first, present + total
    count = min(MOST, max(1, math.ceil(math.log2(end / start)))) if end > start else 0
    points = [start * (end / start) ** (number / count) - present for number in range(1, count)]
    found = sorted({0.0, first, *points, total})
    return [chord(problem, site, present, lower, upper) for lower, upper in pairwise(found)]
