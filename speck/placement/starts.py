"""Simple placement rules, from whose answers the search starts."""

from __future__ import annotations

from collections.abc import Sequence

from speck.placement.problem import Placement, Problem
from speck.placement.state import SearchState


def in_cloud(problem: Problem) -> Placement:
    """All jobs in the cloud tier."""
    return problem.all_in_cloud


def at_source(problem: Problem) -> Placement:
    """Each job at the site where most of its bytes are born."""
    born = _born_bytes(problem)
    state = SearchState(problem, problem.all_in_cloud.sites)
    for unit, jobs in enumerate(problem.units):
        permitted = state.permitted(unit) or [state.site_of(unit)]
        state.move(unit, max(permitted, key=lambda site: sum(born[job][site] for job in jobs)))
    return state.placement()


def _born_bytes(problem: Problem) -> list[list[float]]:
    """Bytes/s of each job's input by the site at which their origin was born."""
    out = problem.rates.out
    zero = [0.0] * len(problem.sites)
    by_channel = [list(zero) for _ in problem.channels]
    by_job = [list(zero) for _ in problem.jobs]
    for index, born in enumerate(problem.channels):
        by_channel[index][born.homes[0]] += born.rate * born.size
    for job in problem.order:
        for channel in problem.jobs[job].inputs:
            by_job[job] = [one + other for one, other in zip(by_job[job], by_channel[channel], strict=True)]
        output, total = problem.jobs[job].output, sum(by_job[job])
        if output is not None and total:
            share = out[job] * problem.channels[output].size / total
            by_channel[output] = [
                one + share * other for one, other in zip(by_channel[output], by_job[job], strict=True)
            ]
    return by_job


def light_offload(problem: Problem) -> Placement:
    """All in the cloud, then stateless prefixes that shrink their data to the edges.

    In the order of the WAN bytes saved for each core of the edge, while a slot is free and its cores stay
    below the target.
    """
    state = SearchState(problem, problem.all_in_cloud.sites)
    into, out, _ = problem.rates
    source = at_source(problem).sites
    offloaded: set[int] = set()
    candidates = set(range(len(problem.units)))
    while candidates:
        gains: list[tuple[float, int]] = []
        for unit in candidates:
            jobs = problem.units[unit]
            ready = all(_is_light(problem, job, into, out) for job in jobs) and all(
                set(problem.writers[channel]) <= offloaded
                for job in jobs
                for channel in problem.jobs[job].inputs
            )
            if ready and source[jobs[0]] in state.permitted(unit):
                gains.append((sum(_saved_per_core(problem, job, into, out) for job in jobs), unit))
        if not gains:
            break
        _, unit = max(gains, key=lambda each: (each[0], -each[1]))
        candidates.discard(unit)
        here = state.site_of(unit)
        state.move(unit, source[problem.units[unit][0]])
        if _overfull(state, state.site_of(unit)):
            state.move(unit, here)
        else:
            offloaded.update(problem.units[unit])
    return state.placement()


def _is_light(problem: Problem, job: int, into: Sequence[float], out: Sequence[float]) -> bool:
    placed = problem.jobs[job]
    return not placed.stateful and _bytes_out(problem, job, out) < _bytes_in(problem, job)


def _bytes_in(problem: Problem, job: int) -> float:
    through = problem.rates.through
    return sum(through[each] * problem.channels[each].size for each in problem.jobs[job].inputs)


def _bytes_out(problem: Problem, job: int, out: Sequence[float]) -> float:
    output = problem.jobs[job].output
    return 0.0 if output is None else out[job] * problem.channels[output].size


def _saved_per_core(problem: Problem, job: int, into: Sequence[float], out: Sequence[float]) -> float:
    saved = _bytes_in(problem, job) - _bytes_out(problem, job, out)
    return saved / max(1e-9, into[job] * problem.jobs[job].cost + problem.jobs[job].fixed)


def _overfull(state: SearchState, site: int) -> bool:
    slots, used = state.problem.sites[site].slots, state.slots(site)
    return state.utilisation(site) > state.problem.utilisation or (slots is not None and used > slots)


def amnis(problem: Problem) -> Placement:
    """Each job, from the sources on, where most of its input bytes are, else at the nearest site with room.

    Xu, Palanisamy, Ludwig and Wang, "Amnis: optimized stream processing for edge computing", JPDC 160 (2022);
    without its control of rates.
    """
    through = problem.rates.through
    state = SearchState(problem, problem.all_in_cloud.sites)
    for job in problem.order:
        unit = problem.unit_of[job]
        permitted = state.permitted(unit) or [state.site_of(unit)]
        local = [0.0] * len(problem.sites)
        for channel in problem.jobs[job].inputs:
            local[state.homes[channel]] += through[channel] * problem.channels[channel].size
        nearest = max(range(len(local)), key=lambda site: local[site])
        ranked = sorted(permitted, key=lambda site: (-local[site], _distance(problem, nearest, site), site))
        for site in ranked:
            state.move(unit, site)
            if not _overfull(state, site):
                break
        else:
            state.move(unit, ranked[0])
    return state.placement()


def _distance(problem: Problem, one: int, other: int) -> float:
    return 0.0 if one == other else problem.sites[one].latency + problem.sites[other].latency
