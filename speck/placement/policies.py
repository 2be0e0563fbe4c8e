"""Placement policies behind one interface, found by entry points.

``speck`` and ``search`` are built in.  Policies of other packages are in the group ``speck.policies``, those
that only serve for comparison in ``speck.policies.comparison``.  A policy is imported when it is first used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from speck.errors import Fault, InvalidInput, one_line
from speck.placement import starts
from speck.placement.cost import evaluate
from speck.placement.problem import Placement, Problem, Tier
from speck.placement.search import EPSILON, Deadline, search

GROUP = "speck.policies"
COMPARISON_GROUP = "speck.policies.comparison"

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
class ListedPolicy:
    """A policy in the list of those that are installed; ``comparison``: it only serves for comparison."""

    name: str
    about: str
    comparison: bool


@dataclass(frozen=True, slots=True)
class UnloadablePolicy:
    """A policy whose package is installed and cannot be imported."""

    name: str
    about: str

    def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
        """Raise :class:`~speck.errors.InvalidInput` with the reason."""
        right = "expected a package that can be imported; repair or remove it"
        message = f"policy {self.name!r} {self.about} ({right})"
        raise InvalidInput([Fault(message, field="policy", value=self.name)], "placement")


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
    starts.light_offload,
    starts.in_cloud,
    starts.amnis,
    starts.at_source,
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
    near = problem.fixed_homes[composition] | {problem.cloud} | set(_regions(problem))
    return tuple(site for site in allowed if site in near) or allowed


def _regions(problem: Problem) -> list[int]:
    regions = [index for index, site in enumerate(problem.sites) if site.tier is Tier.REGION]
    return sorted(regions, key=lambda each: -problem.sites[each].cores * problem.sites[each].speed)[:REGIONS]


def policy_names() -> tuple[str, ...]:
    """The names of all policies: the built-in ones, those of other packages, those for comparison."""
    return (*_BUILT_IN, *_installed())


def policies() -> dict[str, Policy]:
    """All installed policies by name, in the order of :func:`policy_names`."""
    return {name: _loaded(name) for name in policy_names()}


def is_for_comparison(name: str) -> bool:
    """True for a policy that only serves for comparison."""
    return name in _installed() and _installed()[name].group == COMPARISON_GROUP


def catalogue() -> list[ListedPolicy]:
    """All installed policies, in the order of :func:`policy_names`."""
    found = policies().items()
    return [ListedPolicy(name, each.about, is_for_comparison(name)) for name, each in found]


def listed_policies() -> str:
    """The names for a message: those for comparison after the others, and as such."""
    names = policy_names()
    own = [each for each in names if not is_for_comparison(each)]
    others = [each for each in names if is_for_comparison(each)]
    return ", ".join(own) + (f"; for comparison: {', '.join(others)}" if others else "")


def policy(name: str) -> Policy:
    """The policy of a name; ``search`` for ``speck`` where HiGHS cannot be loaded.

    Raises :class:`~speck.errors.InvalidInput` for a name that is not installed.
    """
    names = policy_names()
    if name not in names:
        near = " or ".join(map(repr, get_close_matches(name, names, n=2)))
        meant = f"did you mean {near}? " if near else ""
        message = f"there is no placement policy {name!r} ({meant}expected one of: {listed_policies()})"
        raise InvalidInput([Fault(message, field="policy", value=name)], "placement")
    if name == ExactSearch.name and not solver_available():
        return _BUILT_IN[Search.name]
    return _loaded(name)


# Each decision asks for them, and the records of all installed packages take some 10 ms to read.
@cache
def _installed() -> Mapping[str, EntryPoint]:
    """The policies of other packages, in the order of groups and names; the first of a name counts."""
    found: dict[str, EntryPoint] = {}
    for group in (GROUP, COMPARISON_GROUP):
        for entry in sorted(entry_points(group=group), key=lambda each: each.name):
            if entry.name not in _BUILT_IN:
                found.setdefault(entry.name, entry)
    return found


@cache
def _loaded(name: str) -> Policy:
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    try:
        loaded: Policy = _installed()[name].load()
    except Exception as error:  # code of another package: the other policies stay usable
        return UnloadablePolicy(name, f"cannot be loaded: {one_line(error)}")
    return loaded


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


_BUILT_IN: Mapping[str, Policy] = {each.name: each for each in (ExactSearch(), Search())}
