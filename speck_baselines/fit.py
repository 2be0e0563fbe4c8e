"""First-fit and best-fit: sites are filled up to their capacity, in the order of the jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from speck.placement.problem import Placement, Problem
from speck.placement.state import SearchState

# A site is filled up to this share above its capacity.
FIT_SLACK = 0.02


def first_fit(problem: Problem) -> Placement:
    """Each job, in order, at the first site with room (HarmonicIO's intelligent resource manager)."""
    return _fit(problem, lambda free, fitting: fitting[0])


def best_fit(problem: Problem) -> Placement:
    """Each job, in order, at the fullest site with room."""
    return _fit(problem, lambda free, fitting: min(fitting, key=lambda site: free[site]))


def _fit(problem: Problem, choose: Callable[[Sequence[float], Sequence[int]], int]) -> Placement:
    into = problem.rates.into
    free = [1.0] * len(problem.sites)
    state = SearchState(problem, problem.all_in_cloud.sites)
    for unit, jobs in enumerate(problem.units):
        cores = sum(into[job] * problem.jobs[job].cost + problem.jobs[job].fixed for job in jobs)
        need = [cores / (site.speed * site.cores) for site in problem.sites]
        permitted = state.permitted(unit) or [state.site_of(unit)]
        fitting = [site for site in permitted if need[site] <= free[site] + FIT_SLACK]
        site = choose(free, fitting) if fitting else max(permitted, key=lambda each: free[each])
        free[site] -= need[site]
        state.move(unit, site)
    return state.placement()
