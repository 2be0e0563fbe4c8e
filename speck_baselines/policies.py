"""The rules as policies, each for comparison with SpecK's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from speck.placement import starts
from speck.placement.policies import Budget
from speck.placement.problem import Placement, Problem
from speck.placement.search import Deadline
from speck_baselines.exhaustive import exhaustive
from speck_baselines.fit import best_fit, first_fit
from speck_baselines.forecast import forecast_greedy


@dataclass(frozen=True, slots=True)
class RulePolicy:
    """A policy without a budget: a function of the problem."""

    name: str
    about: str
    rule: Callable[[Problem], Placement]

    def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
        """Apply the rule."""
        return self.rule(problem)


class Exhaustive:
    """All placements."""

    name = "exhaustive"
    about = "every placement compared, for small compositions"

    def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
        """Compare all placements; refuses more than the budget allows."""
        return exhaustive(problem, Deadline(budget.clock, budget.seconds).over)


class ForecastGreedy:
    """Steps for the rates of the near future; stands in for PredictivePPM, which has no public definition."""

    name = "forecast-greedy"
    about = "at most three moves, for the sources' rates forecast ten minutes ahead (Holt's trend)"

    def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
        """Descend from the incumbent."""
        return forecast_greedy(problem, incumbent)


EXHAUSTIVE = Exhaustive()
FORECAST_GREEDY = ForecastGreedy()
CLOUD = RulePolicy("cloud", "all jobs at the cloud tier", starts.in_cloud)
SOURCE = RulePolicy("source", "each job where most of its bytes are born", starts.at_source)
LIGHT_OFFLOAD = RulePolicy(
    "light-offload", "stateless jobs that shrink their data at the edges", starts.light_offload
)
FIRST_FIT = RulePolicy("first-fit", "each job at the first site with room", first_fit)
BEST_FIT = RulePolicy("best-fit", "each job at the fullest site with room", best_fit)
AMNIS = RulePolicy(
    "amnis", "each job where most of its input is, else at the nearest site with room", starts.amnis
)
