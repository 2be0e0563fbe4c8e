"""Scores of predictions against measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence


def q_error(predicted: float, measured: float) -> float:
    """The factor between two values, at least 1; infinite if only one of them is positive.

    G. Moerkotte et al., "Preventing Bad Plans by Bounding the Impact of Cardinality Estimation Errors",
    VLDB 2009, section 2.
    """
    if predicted <= 0 and measured <= 0:
        return 1.0
    if predicted <= 0 or measured <= 0:
        return math.inf
    return max(predicted / measured, measured / predicted)


def quantile(values: Iterable[float], share: float) -> float:
    """The value that so great a share of the values does not exceed (the nearest rank)."""
    found = sorted(values)
    return found[max(0, math.ceil(share * len(found)) - 1)]


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1; equal ones share the mean of theirs."""
    order = sorted(values)
    first = {value: order.index(value) for value in order}
    return [first[value] + (order.count(value) + 1) / 2 for value in values]


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """The correlation of the ranks of two series, -1 to 1; 0 if all values of one are equal."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return 0.0
    return statistics.correlation(ranks(one), ranks(other))


def top_loss(predicted: Mapping[str, float], measured: Mapping[str, float]) -> float:
    """The excess, as a share, of the measured cost of the choice that is predicted to cost least."""
    chosen = min(predicted, key=lambda each: predicted[each])
    return measured[chosen] / min(measured.values()) - 1
