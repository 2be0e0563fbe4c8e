"""Large problems: a program for each composition in what the others leave, then for those that compete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from speck.placement import milp
from speck.placement.problem import Placement, Problem
from speck.placement.search import EPSILON, Deadline, descend, neighbours, restore
from speck.placement.state import SearchState

BLOCKS = (2, 4, 6)
LARGEST_BLOCK = 150  # units


def by_parts(
    problem: Problem, candidates: Mapping[int, Sequence[int]], deadline: Deadline, seed: int
) -> Placement:
    """The placement of a problem that is too large for one program; ``candidates`` are the sites by unit.

    It searches until the deadline at most; a placement is returned in any case.
    """
    total = deadline.remaining
    state, parts = SearchState(problem, problem.all_in_cloud.sites), parts_of(problem)
    solver = _PartSolver(state, neighbours(problem), candidates, deadline, seed)
    for units in _heaviest_first(state, parts):
        if not deadline.over():
            solver.place_again(units, always=True)
    descend(state, deadline.within(total / 4), largest=1)
    for size in BLOCKS:
        for block in _blocks(state, parts, size):
            if deadline.remaining < total / 10:
                return state.placement()
            solver.place_again([unit for each in block for unit in parts[each]])
    return state.placement()


@dataclass(frozen=True)
class _PartSolver:
    """Places some units of a state again, by a program with those ``beside`` them fixed where they are."""

    state: SearchState
    beside: Sequence[Sequence[int]]
    candidates: Mapping[int, Sequence[int]]
    deadline: Deadline
    seed: int

    def place_again(self, units: Sequence[int], *, always: bool = False) -> None:
        """Place units, and keep the result if it lowers the objective (``always``: in any case)."""
        state, problem = self.state, self.state.problem
        before, sites = state.objective, list(state.sites)
        chosen: dict[int, Sequence[int]] = {unit: self.candidates[unit] for unit in units}
        fixed = {other for unit in units for other in self.beside[unit]} - chosen.keys()
        chosen |= {unit: (state.site_of(unit),) for unit in fixed}
        background = state.load_without(chosen, milp.channels_of(problem, chosen))
        found = milp.solve(problem, sites, chosen, self.deadline.remaining, self.seed, background)
        if found is None or problem.faults(found.sites):
            return
        restore(state, found.sites)
        if not always and state.objective >= before - EPSILON:
            restore(state, sites)


def parts_of(problem: Problem) -> dict[int, list[int]]:
    """The units of each composition."""
    found: dict[int, list[int]] = {each: [] for each in problem.compositions}
    for unit, jobs in enumerate(problem.units):
        found[problem.jobs[jobs[0]].composition].append(unit)
    return found


def _heaviest_first(state: SearchState, parts: Mapping[int, Sequence[int]]) -> list[Sequence[int]]:
    into = state.problem.rates.into

    def weight(units: Sequence[int]) -> float:
        jobs = (job for unit in units for job in state.problem.units[unit])
        return sum(into[job] * state.problem.jobs[job].cost for job in jobs)

    return sorted(parts.values(), key=weight, reverse=True)


def _blocks(state: SearchState, parts: Mapping[int, Sequence[int]], size: int) -> Iterator[list[int]]:
    """Groups of compositions that meet at a site or link above its target, the most loaded first."""
    problem = state.problem
    for site in sorted(range(len(problem.sites)), key=state.over_at, reverse=True):
        if state.pressure(site) < 0.9:
            continue
        meeting = [part for part, units in parts.items() if any(state.touches(unit, site) for unit in units)]
        for start in range(0, len(meeting), size):
            block = meeting[start : start + size]
            if len(block) > 1 and sum(len(parts[each]) for each in block) <= LARGEST_BLOCK:
                yield block
