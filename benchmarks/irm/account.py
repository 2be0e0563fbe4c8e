"""The account of a run over real engines: series of processor time, and the figures from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

RULES = ("speck", "published", "even")
ARRIVALS = ("singly", "bursts")
WINDOW = 20.0  # s at the end of a series, in which it is steady


@dataclass(frozen=True, slots=True)
class Sample:
    """At ``at`` (s) of a run, by engine: processor time (s), instances, and the cores counted for them."""

    at: float
    processor: tuple[float, ...]
    instances: tuple[int, ...]
    allocated: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One run: the samples, the ``cores`` of an engine, the true ``share`` of one that an instance takes.

    ``baseline`` are the cores of each engine without jobs.
    """

    rule: str
    arrivals: str
    cores: float
    share: float
    baseline: tuple[float, ...]
    samples: tuple[Sample, ...]

    def to_dict(self) -> dict[str, Any]:
        """The series as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Series:
        """The inverse of :meth:`to_dict`."""
        samples = (
            Sample(each["at"], *(tuple(each[name]) for name in ("processor", "instances", "allocated")))
            for each in data["samples"]
        )
        return cls(**{**data, "baseline": tuple(data["baseline"]), "samples": tuple(samples)})

    def busy(self, engine: int, begin: float, end: float) -> float:
        """The cores that an engine takes for its jobs between two times, s."""
        there = [each for each in self.samples if begin <= each.at <= end]
        if len(there) < 2:
            raise ValueError(f"{len(there)} samples from {begin:g} to {end:g} s (expected 2 or more)")
        used = there[-1].processor[engine] - there[0].processor[engine]
        return max(0.0, used / (there[-1].at - there[0].at) - self.baseline[engine])

    def shares(self, engine: int, width: float = 5.0) -> list[tuple[float, float]]:
        """The share of its cores that an engine takes, by time: means over ``width`` s."""
        times = [each.at for each in self.samples if each.at >= width]
        return [(at, self.busy(engine, at - width - 0.1, at) / self.cores) for at in times]


def figures(series: Series) -> dict[str, float]:
    """The figures of a run.

    ``reserved_before_next`` is the mean load, by the instances' true share, of the engines in use when
    another one gets its first; ``fill_before_next`` is the processor time that these engines take at the
    end, as a share of their cores; ``bins_over_least`` engines in use over the least number that has the
    cores which all instances take (or ask for, if that is more); ``cpu_error`` the error of the cores
    counted for an engine against those it takes, median over engines.
    """
    last = series.samples[-1]
    used = [index for index, count in enumerate(last.instances) if count]
    end, begin = last.at, last.at - WINDOW
    cores = {index: series.busy(index, begin, end) for index in used}
    first = used[:-1] if len(used) > 1 else used
    asked, taken = sum(last.instances) * series.share * series.cores, sum(cores.values())
    least = math.ceil(max(asked, taken) / series.cores - 0.02)
    return {
        "reserved_before_next": median(_loads_before_next(series) or [1.0]),
        "fill_before_next": median(cores[index] / series.cores for index in first),
        "bins_over_least": len(used) / least,
        "cpu_error": median(abs(last.allocated[index] - cores[index]) / cores[index] for index in used),
        "cores": taken,
        "cores_asked": asked,
    }


def _loads_before_next(series: Series) -> list[float]:
    found = []
    for before, after in zip(series.samples, series.samples[1:], strict=False):
        opened = [
            index for index, count in enumerate(after.instances) if count and not before.instances[index]
        ]
        # Those of the same burst are there at once: full by what came with the new one.
        there = _in_use(after.instances, opened)
        if opened and there:
            found.append(sum(there) * series.share / len(there))
    return found


def _in_use(instances: Sequence[int], opened: Sequence[int]) -> list[int]:
    return [count for index, count in enumerate(instances) if count and index not in opened]
