"""The cost of a move: how long jobs stand still, how long they catch up, and how late results are.

While a job stands still, the results that pass it get older by up to the standstill D, and by less and less
while it catches up, which takes T: their mean age grows by D/2 over D + T.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from speck.placement.cost import Figures, reference, round_trip
from speck.placement.problem import EngineModel, Placement, Problem

# Shortest times between the last message at one site and the first at the other; benchmarks.hop, s.
STANDSTILL = {EngineModel.FLINK: 0.3, EngineModel.SPARK: 1.1}
# What a reader waits for whose topic gets another home, s, and round trips to the farthest of its homes.
REWIRING, ROUND_TRIPS = 2.5, 20
# Processor time of a start beyond that of the one job on a core of its own that the above was measured with:
# jobs that start together share the cores of their site, while others wait for their topics.  These three are
# fitted to the fan-in and the road traffic of benchmarks.placement gates, and judged by the chain.
START = 0.4  # core-s a job


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCost:
    """The cost of moving ``jobs`` jobs.

    ``standstill`` and ``catch_up`` are those of the slowest job, s (infinite: it never catches up); ``late``
    is the additional mean age of results over time, s x s; ``state`` the bytes carried.
    """

    jobs: int = 0
    standstill: float = 0.0
    catch_up: float = 0.0
    late: float = 0.0
    state: float = 0.0

    def __add__(self, other: MoveCost) -> MoveCost:
        """The cost of both."""
        return MoveCost(
            jobs=self.jobs + other.jobs,
            standstill=max(self.standstill, other.standstill),
            catch_up=max(self.catch_up, other.catch_up),
            late=self.late + other.late,
            state=self.state + other.state,
        )


def rewired(problem: Problem, before: Placement, after: Placement) -> list[int]:
    """The channels whose home changes."""
    return [
        channel for channel in range(len(problem.channels)) if before.homes[channel] != after.homes[channel]
    ]


def move_cost(
    problem: Problem,
    before: Placement,
    after: Placement,
    figures: Figures,
    shared: Collection[int] = (),
) -> MoveCost:
    """The cost of the way from one placement to another, of which ``figures`` are those after.

    ``shared`` are the jobs whose state is at storage that both sites reach, so that none is carried.
    """
    changed = set(rewired(problem, before, after))
    started = Counter(new for old, new in zip(before.sites, after.sites, strict=True) if old != new)
    total = MoveCost()
    for job, placed in enumerate(problem.jobs):
        moved = before.sites[job] != after.sites[job]
        reads_elsewhere = any(channel in changed for channel in placed.inputs)
        if moved or reads_elsewhere:
            change = _JobChange(
                carried=placed.state if moved and placed.stateful and job not in shared else 0.0,
                reads_elsewhere=reads_elsewhere,
                starts=started[after.sites[job]] if moved else 0,
            )
            total += _job_cost(problem, job, before, after, figures, change)
    return total


def restart_cost(problem: Problem, placement: Placement, jobs: Collection[int], figures: Figures) -> MoveCost:
    """The cost of starting jobs in another form where they run, with ``figures`` afterwards."""
    costs = (_job_cost(problem, job, placement, placement, figures, _JobChange()) for job in jobs)
    return sum(costs, MoveCost())


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobChange:
    """The part of a move that concerns one job, beside its sites.

    ``carried`` are the bytes of its state that move.  ``reads_elsewhere``: one of its inputs gets another
    home.  ``starts`` are the jobs that start at its new site, itself among them.
    """

    carried: float = 0.0
    reads_elsewhere: bool = False
    starts: int = 0


def _job_cost(
    problem: Problem, job: int, before: Placement, after: Placement, figures: Figures, change: _JobChange
) -> MoveCost:
    placed, rate = problem.jobs[job], problem.rates.into[job]
    source, target = problem.sites[before.sites[job]], problem.sites[after.sites[job]]
    starting = START * max(0.0, change.starts / (target.cores * target.speed) - 1)
    waiting = _rewiring(problem, job, after) if change.reads_elsewhere else 0.0
    standstill = STANDSTILL[placed.engine] + max(starting, waiting)
    if change.carried:  # through the coordinator, hence over both links
        standstill += change.carried * (1 / source.up + 1 / target.down)
    own = target.speed * placed.parallelism / (rate * placed.cost) if rate * placed.cost > 0 else math.inf
    spare = min(figures.multiplier, own) - 1
    catch_up = 0.0 if not rate else standstill / spare if spare > 0 else math.inf
    late = problem.shares[job] * standstill * (standstill + catch_up) / 2 if rate else 0.0
    return MoveCost(jobs=1, standstill=standstill, catch_up=catch_up, late=late, state=change.carried)


def _rewiring(problem: Problem, job: int, after: Placement) -> float:
    """The time, s, that a reader waits for whose topic gets another home."""
    placed, site = problem.jobs[job], after.sites[job]
    ends = (*placed.inputs, *(() if placed.output is None else (placed.output,)))
    return REWIRING + ROUND_TRIPS * max(round_trip(problem, after.homes[each], site) for each in ends)


def break_even(problem: Problem, cost: MoveCost, gain: float) -> float:
    """The time, s, after which a gain in the objective has paid for a move; infinite if it never has.

    The late results count as the age of results does in the objective.
    """
    if not cost.late:
        return 0.0
    ages = reference(problem).age.values()
    age = math.fsum(ages) / max(1, len(ages))
    return problem.weights.latency * cost.late / age / gain if gain > 0 else math.inf


def after_moving(problem: Problem, before: Placement, jobs: Sequence[int], site: int) -> tuple[int, ...]:
    """The sites of all jobs when some have moved to a site."""
    sites = list(before.sites)
    for job in jobs:
        sites[job] = site
    return tuple(sites)
