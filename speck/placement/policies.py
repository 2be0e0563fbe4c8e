"""Placement policies behind one interface, found by the entry points of the group ``speck.policies``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol

from speck.errors import Fault, InvalidInput
from speck.placement import baselines
from speck.placement.cost import evaluate
from speck.placement.exhaustive import exhaustive
from speck.placement.forecast import forecast_greedy
from speck.placement.problem import Placement, Problem, Tier
from speck.placement.search import EPSILON, Deadline, search

GROUP = "speck.policies"

# Up to this number of units one program is solved; more are solved in parts.
WHOLE = 150
REGIONS = 8
RECREATIONS = 40
POLISHING = 5
# An excess over the bound that no further search is worth.
PROVEN = 1e-3


@dataclass(frozen=True, slots=True)
class Budget:
    """The time that a policy may take, s, by a clock that is passed in; ``seed`` makes it repeatable."""

    seconds: float = 10.0
    seed: int = 0
    clock: Callable[[], float] = time.process_time


class Policy(Protocol):
    """A rule that places jobs: the same problem and seed give the same placement."""

    @property
    def name(self) -> str:
        """The name by which it is chosen."""

    @property
    def about(self) -> str:
        """A description in one line."""

    def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
        """The placement of all jobs; ``incumbent`` is the present one, and wins ties."""


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


class Search:
    """Local search from the simple rules."""

    name = "search"
    about = "descent by jobs and groups from four rules, then ruin and recreate"

    def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
        """Search until nothing improves, or the budget is spent."""
        starts = [incumbent, *(rule(problem) for rule in _STARTS)]
        permitted = [each for each in starts if not problem.faults(each.sites)]
        deadline = Deadline(budget.clock, budget.seconds)
        return search(problem, permitted or starts, deadline, rounds=RECREATIONS, seed=budget.seed)


_STARTS: Sequence[Callable[[Problem], Placement]] = (
    baselines.light_offload,
    baselines.in_cloud,
    baselines.amnis,
    baselines.at_source,
)


class ExactSearch:
    """HiGHS with local search around it: the default."""

    name = "speck"
    about = "integer programming (HiGHS) with local search on the exact objective, and a proven bound"

    def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
        """The best placement found, with the program's bound if one program covers all jobs."""
        if not solver_available():  # policy() answers with `search` then
            message = "policy 'speck' needs HiGHS, which cannot be loaded (expected the package highspy)"
            raise InvalidInput([Fault(message, field="policy", value=self.name)], "placement")
        from speck.placement import milp
        from speck.placement.parts import by_parts

        deadline = Deadline(budget.clock, budget.seconds)
        units = range(len(problem.units))
        if len(problem.units) > WHOLE:
            candidates = {unit: _candidates(problem, unit) for unit in units}
            return _preferred(problem, by_parts(problem, candidates, deadline, budget.seed), incumbent, None)
        # All sites, since the bound would else hold for the candidates alone.
        everywhere = {unit: problem.allowed(problem.units[unit]) for unit in units}
        solved = milp.solve(problem, incumbent.sites, everywhere, deadline.remaining, budget.seed)
        if solved is None or problem.faults(solved.sites):
            return Search().place(problem, incumbent, budget)
        bound = solved.bound
        placement = search(problem, [solved], deadline, rounds=0, seed=budget.seed)
        if bound is None or evaluate(problem, placement).objective > bound * (1 + PROVEN):
            placement = search(problem, [placement], deadline, rounds=POLISHING, seed=budget.seed)
        return _preferred(problem, placement, incumbent, bound)


def _preferred(problem: Problem, found: Placement, incumbent: Placement, bound: float | None) -> Placement:
    """The placement found, unless the incumbent is as good."""
    stays = not problem.faults(incumbent.sites) and (
        evaluate(problem, incumbent).objective <= evaluate(problem, found).objective + EPSILON
    )
    return problem.placement((incumbent if stays else found).sites, bound)


def _candidates(problem: Problem, unit: int) -> tuple[int, ...]:
    """The sites worth trying: the cloud, the homes of its composition's channels, and the largest regions."""
    allowed = problem.allowed(problem.units[unit])
    composition = problem.jobs[problem.units[unit][0]].composition
    near = _homes(problem)[composition] | {problem.cloud} | set(_regions(problem))
    return tuple(site for site in allowed if site in near) or allowed


def _homes(problem: Problem) -> dict[int, set[int]]:
    found: dict[int, set[int]] | None = problem.__dict__.get("_candidate_homes")
    if found is None:
        found = problem.__dict__["_candidate_homes"] = {each: set() for each in problem.compositions}
        for job in problem.jobs:
            ends = (*job.inputs, *(() if job.output is None else (job.output,)))
            for channel in ends:
                if len(homes := problem.channels[channel].homes) == 1:
                    found[job.composition].update(homes)
    return found


def _regions(problem: Problem) -> list[int]:
    regions = [index for index, site in enumerate(problem.sites) if site.tier is Tier.REGION]
    return sorted(regions, key=lambda each: -problem.sites[each].cores * problem.sites[each].speed)[:REGIONS]


def policies() -> dict[str, Policy]:
    """All installed policies by name, the built-in ones first."""
    return dict(_installed())


# Each decision asks for them, and the records of all installed packages take some 10 ms to read.
@cache
def _installed() -> Mapping[str, Policy]:
    found: dict[str, Policy] = {each.name: each for each in _BUILT_IN}
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        if entry.name not in found:
            found[entry.name] = entry.load()
    return found


def policy(name: str) -> Policy:
    """The policy of a name; ``search`` for ``speck`` where HiGHS cannot be loaded.

    Raises :class:`~speck.errors.InvalidInput` for a name that is not installed.
    """
    found = policies()
    if name not in found:
        near = " or ".join(map(repr, get_close_matches(name, found, n=2)))
        meant = f"did you mean {near}? " if near else ""
        message = f"there is no placement policy {name!r} ({meant}expected one of: {', '.join(found)})"
        raise InvalidInput([Fault(message, field="policy", value=name)], "placement")
    if name == ExactSearch.name and not solver_available():
        return found[Search.name]
    return found[name]


def solver_available() -> bool:
    """True if HiGHS can be loaded."""
    try:
        import highspy  # noqa: F401
    except ImportError:
        return False
    return True


def place(problem: Problem, incumbent: Placement, chosen: Policy, budget: Budget) -> Placement:
    """The placement by a policy.

    Raises :class:`~speck.errors.InvalidInput` if it breaks a hard constraint, naming policy, job and site.
    """
    placement = chosen.place(problem, incumbent, budget)
    faults = problem.faults(placement.sites)
    if faults:
        raise InvalidInput(
            [Fault(f"policy {chosen.name!r}: {each}", field="policy") for each in faults], "placement"
        )
    return placement


_BUILT_IN: tuple[Policy, ...] = (
    ExactSearch(),
    Search(),
    Exhaustive(),
    RulePolicy("cloud", "all jobs at the cloud tier", baselines.in_cloud),
    RulePolicy("source", "each job where most of its bytes are born", baselines.at_source),
    RulePolicy(
        "light-offload", "stateless jobs that shrink their data at the edges", baselines.light_offload
    ),
    RulePolicy("first-fit", "each job at the first site with room", baselines.first_fit),
    RulePolicy("best-fit", "each job at the fullest site with room", baselines.best_fit),
    RulePolicy(
        "amnis", "each job where most of its input is, else at the nearest site with room", baselines.amnis
    ),
    ForecastGreedy(),
)
