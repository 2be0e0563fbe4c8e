"""Figures of benchmarks: the median of several runs, with minimum and maximum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """A measured quantity; its unit stands in its name."""

    median: float
    min: float
    max: float
    runs: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        """The figure of these runs (at least one)."""
        found = list(values)
        return cls(median(found), min(found), max(found), len(found))

    def named(self, name: str) -> Iterator[tuple[str, float]]:
        """Members for a JSON object: ``name`` (the median), ``name_min``, ``name_max``."""
        yield from ((name, self.median), (f"{name}_min", self.min), (f"{name}_max", self.max))

    def __str__(self) -> str:
        return f"{self.median:.4g} ({self.min:.4g} to {self.max:.4g}, {self.runs} runs)"
