"""Regret of the policies: the excess of the simulated objective over the best policy of the same problem."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.simulate.intervals import interval, mean, summary
from speck.placement.cost import evaluate
from speck.placement.policies import Budget, place, policy
from speck.placement.problem import Placement, Problem
from testbed.simulate.observed import objective
from testbed.simulate.runs import by_fluid
from testbed.simulate.worlds import large

SMALL = (
    "cloud",
    "source",
    "light-offload",
    "first-fit",
    "best-fit",
    "amnis",
    "forecast-greedy",
    "search",
    "speck",
)
LARGE = ("cloud", "amnis", "speck")
WARM, SECONDS = 20.0, 40.0
SUSTAINED = 0.98  # of the results that the best policy delivers; a policy with less is overloaded


@dataclass(frozen=True, slots=True)
class _Row:
    objective: float
    rate: float
    predicted: float
    seconds: float


def measure(
    seeds: int, jobs: int, sites: int, names: Sequence[str], load: float, budget: float = 10.0
) -> dict[str, Any]:
    """Figures by policy, over random problems of this size."""
    rows: dict[str, list[_Row]] = {name: [] for name in names}
    for seed in range(seeds):
        problem = large(seed, jobs, sites, load)
        for name in names:
            rows[name].append(_row(problem, name, budget, seed))
    best = [min(each.objective for each in of_seed) for of_seed in zip(*rows.values(), strict=True)]
    most = [max(each.rate for each in of_seed) for of_seed in zip(*rows.values(), strict=True)]
    return {
        "seeds": seeds,
        "jobs": jobs,
        "sites": sites,
        "load": load,
        "policies": {
            name: {
                "regret": summary(
                    [each.objective / least - 1 for each, least in zip(found, best, strict=True)]
                ),
                "best": mean(
                    [float(each.objective <= least) for each, least in zip(found, best, strict=True)]
                ),
                "overloaded": sum(
                    each.rate < SUSTAINED * rate for each, rate in zip(found, most, strict=True)
                ),
                "predicted_over_simulated": interval([each.predicted / each.objective for each in found]),
                "seconds": interval([each.seconds for each in found]),
            }
            for name, found in rows.items()
        },
    }


def _row(problem: Problem, name: str, budget: float, seed: int) -> _Row:
    began = time.process_time()
    placement: Placement = place(problem, problem.all_in_cloud, policy(name), Budget(budget, seed))
    seconds = time.process_time() - began
    observed = by_fluid(problem, placement, WARM, SECONDS)
    figures = evaluate(problem, placement)
    return _Row(objective(problem, placement, observed), observed.rate, figures.objective, seconds)
