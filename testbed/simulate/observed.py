"""Figures that a simulator observes over some time; the same for both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from speck.placement.cost import combined, reference, site_over
from speck.placement.problem import Placement, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Figures of a placement over ``seconds``.

    By sink, which is a channel without readers, or a job without an output (named after it): ``delivered``
    results/s, ``age`` their mean age, s, ``p95`` its 95th percentile where messages are simulated one by one.
    ``wan`` bytes/s over the wide area.  By site, as shares of what it has: ``cores``, ``up`` and ``down``.
    ``waiting`` is the number of messages in all queues at the end, less that at the beginning.
    """

    seconds: float
    delivered: Mapping[str, float]
    age: Mapping[str, float]
    wan: float
    cores: Sequence[float]
    up: Sequence[float]
    down: Sequence[float]
    waiting: float = 0.0
    p95: Mapping[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Results of all sinks, messages/s."""
        return math.fsum(self.delivered.values())


def sinks(problem: Problem) -> dict[str, int]:
    """The composition of each sink, by the sink's name."""
    found = {}
    for job in problem.jobs:
        if job.output is None:
            found[job.name] = job.composition
        elif not problem.readers[job.output]:
            found[problem.channels[job.output].name] = job.composition
    return found


def mean_age(problem: Problem, observed: Observed) -> dict[int, float]:
    """The mean age of results by composition, s; each sink counts the same, as in the cost model."""
    ages: dict[int, list[float]] = {}
    for name, composition in sinks(problem).items():
        if name in observed.age:
            ages.setdefault(composition, []).append(observed.age[name])
    return {composition: math.fsum(each) / len(each) for composition, each in ages.items()}


def objective(problem: Problem, placement: Placement, observed: Observed) -> float:
    """The objective, of observed figures.

    It is a definition and no prediction, so it is the product's own: its weights, targets and references.
    Slots and memory are not simulated; their over-shares are those of the placement.
    """
    base = reference(problem)
    ages = mean_age(problem, observed)
    relative = math.fsum(age / base.age[name] for name, age in ages.items()) / max(1, len(ages))
    cores = math.fsum(
        site.price * share * site.cores * site.speed
        for site, share in zip(problem.sites, observed.cores, strict=True)
    )
    slots = [0.0] * len(problem.sites)
    memory = [0.0] * len(problem.sites)
    for job, site in zip(problem.jobs, placement.sites, strict=True):
        slots[site] += job.parallelism
        memory[site] += job.memory + 2 * job.state
    over = math.fsum(
        site_over(
            problem,
            index,
            observed.cores[index] * site.cores,
            memory[index],
            slots[index],
            observed.up[index] * site.up,
            observed.down[index] * site.down,
        )
        for index, site in enumerate(problem.sites)
    )
    return combined(problem, relative, observed.wan / base.wan, cores / base.cores, over)
