"""The predicted quantities: age and rate of the results, and whether a placement fails or is back-pressured.

Magnitudes are predicted as logarithms of base 10, so that a squared error is one of factors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from speck.placement.problem import Problem

if TYPE_CHECKING:
    from speck_baselines.learned.records import Record

MAGNITUDES = ("age", "rate")
CLASSES = ("failed", "pressed")
TARGETS = MAGNITUDES + CLASSES

# Queues that grow by more than this share of all born messages show back pressure.
PRESSED = 0.02


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for a placement.

    ``age`` is the mean age of its results, s; ``rate`` that of its results, messages/s; ``failed`` and
    ``pressed`` are the probabilities that it fails, and that its queues grow.
    """

    age: float
    rate: float
    failed: float
    pressed: float

    @property
    def sustained(self) -> bool:
        """True if the placement is likely to deliver its results without back pressure."""
        return self.failed < 0.5 and self.pressed < 0.5


def offered(problem: Problem) -> dict[str, float]:
    """The results/s of each sink if nothing holds them up, by the sink's name."""
    _, out, through = problem.rates
    found = {}
    for index, job in enumerate(problem.jobs):
        if job.output is None:
            found[job.name] = out[index]
        elif not problem.readers[job.output]:
            found[problem.channels[job.output].name] = through[job.output]
    return found


def scale(problem: Problem, relative: bool) -> float:
    """The unit of predicted rates, messages/s: 1, or (``relative``) all results that are offered."""
    return (math.fsum(offered(problem).values()) or 1.0) if relative else 1.0


def labels(record: Record, relative: bool) -> Mapping[str, float]:
    """The labels of a record by target, of those that were measured.

    Runs of engines have no label of the rate, as theirs is that of messages into the last jobs.
    """
    measured, found = record.measured, dict[str, float]()
    if (age := measured.get("age", 0.0)) > 0:
        found["age"] = math.log10(age)
    if (rate := measured.get("rate", 0.0)) > 0 and record.origin == "simulator":
        found["rate"] = math.log10(rate / scale(record.problem, relative))
    if "failed" in measured:
        found["failed"] = float(measured["failed"])
    if "growth" in measured:
        born = math.fsum(channel.rate for channel in record.problem.channels)
        found["pressed"] = float(measured["growth"] > PRESSED * born)
    return found
