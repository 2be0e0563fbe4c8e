"""The number of workers for the jobs of an engine: first-fit packing, spare workers, predicted load.

Pure: no clock, no calls.  After the intelligent resource manager of HarmonicIO (Stein et al., *Smart Resource
Management for Data Streaming using an Online Bin-packing Strategy*, IEEE Big Data 2020), with another rule of
fit: the published one (:func:`strict_fit`) leaves a quarter of a worker empty where all items are quarters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from speck.core.inventory import Predictor

MARGIN = 0.02  # by which the load of a worker may exceed it: rounding, and noise of measuring
STRICT_MARGIN = 0.05  # of the published rule, in the other direction
DEFAULT_SHARE = 0.125  # of a worker, for an item that was never measured
WINDOW = 10  # samples of the moving average

Fit = Callable[[float, float], bool]  # the share of an item and the free share of a worker


def loose_fit(share: float, free: float) -> bool:
    """True if an item goes into the free share of a worker, or exceeds it by 2 % of the worker at most."""
    return share <= free + MARGIN


def strict_fit(share: float, free: float) -> bool:
    """True by the published rule: the item is smaller than the free share less 5 % of the worker."""
    return share < free - STRICT_MARGIN


@dataclass(frozen=True, slots=True)
class Item:
    """One instance of a job: the share of a worker's processor time that it takes, 0 or more."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Packing:
    """The items of each worker, by its index, and the load of each, as a share of it."""

    bins: tuple[tuple[str, ...], ...] = ()
    loads: tuple[float, ...] = ()


def first_fit(items: Iterable[Item], slots: int | None = None, fit: Fit = loose_fit) -> Packing:
    """Give each item, in the order of arrival, to the first worker with room for it.

    A worker takes ``slots`` items at most (``None``: any number).  An item larger than a worker has one for
    itself, since no other would have more room for it.
    """
    bins: list[list[str]] = []
    loads: list[float] = []
    for item in items:
        index = next(
            (at for at in range(len(bins)) if _has_room(bins[at], loads[at], item, slots, fit)), None
        )
        if index is None:
            index = len(bins)
            bins.append([])
            loads.append(0.0)
        bins[index].append(item.name)
        loads[index] += item.share
    return Packing(tuple(map(tuple, bins)), tuple(loads))


def _has_room(taken: Sequence[str], load: float, item: Item, slots: int | None, fit: Fit) -> bool:
    return (slots is None or len(taken) < slots) and fit(item.share, 1.0 - load)


def spare_workers(bins: int) -> int:
    """The number of workers that are kept free for jobs to come; none where there is no job."""
    if bins < 10:
        return min(bins, 1)
    return math.ceil(0.5 * math.log(bins)) if bins < 100 else math.floor(math.log(bins))


def target_workers(bins: int, least: int, most: int) -> int:
    """The desired number of workers for this number of full ones, within the bounds."""
    return max(least, min(most, bins + spare_workers(bins)))


@dataclass(frozen=True, slots=True)
class Average:
    """An exponentially weighted moving average over :data:`WINDOW` samples."""

    value: float
    count: int = 1

    def with_next(self, sample: float) -> Average:
        """The average with one more sample; the first ones count equally."""
        count = min(self.count + 1, WINDOW)
        return Average(self.value + (sample - self.value) / count, count)


def further_instances(rules: Predictor, growth: float, waiting: int) -> int:
    """The number of further instances for a job with ``waiting`` messages, which grow by ``growth``/s."""
    if growth > rules.steep:
        return 2
    if growth > rules.rise:
        return 1
    if waiting > rules.waiting:
        return 2 if growth > -rules.fall else 1
    return 0
