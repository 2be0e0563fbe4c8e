"""Random placements without ping-pong: no data return to a site that they have left.

The rule is that of Costream's enumeration of placements (Heinrich et al., ICDE 2024).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from speck.placement.problem import Placement, Problem

COUNT = 25
# Draws of a placement that may end without a site for some job, before the rule is dropped for it.
DRAWS = 20


def candidates(problem: Problem, seed: int, count: int = COUNT) -> Iterator[Placement]:
    """Random placements that break no hard constraint, at most ``count`` of them; repetitions are possible.

    A problem in which no draw avoids ping-pong (data that are born at a site which may not run the first job)
    gets placements that break this rule alone.
    """
    chance = random.Random(seed)  # noqa: S311
    for _ in range(count):
        for draw in range(2 * DRAWS):
            sites = _drawn(problem, chance, strict=draw < DRAWS)
            if sites is not None:
                yield problem.placement(sites)
                break


def _drawn(problem: Problem, chance: random.Random, *, strict: bool) -> list[int] | None:
    """A site for each job, from the sources to the sinks; ``None`` if some unit has none."""
    sites: dict[int, int] = {}
    for job in problem.order:
        if job in sites:
            continue
        unit = problem.unit_of[job]
        members = problem.units[unit]
        taken = {
            sites[problem.units[each][0]]
            for each in problem.opponents[unit]
            if problem.units[each][0] in sites
        }
        free = [site for site in problem.allowed(members) if site not in taken]
        if strict:
            free = [site for site in free if not any(returns(problem, sites, each, site) for each in members)]
        if not free:
            return None
        sites |= dict.fromkeys(members, chance.choice(free))
    return [sites[job] for job in range(len(problem.jobs))]


def returns(problem: Problem, sites: dict[int, int], job: int, site: int) -> bool:
    """True if a job at ``site`` gets data that were at ``site`` and left it; of the jobs placed so far."""
    waiting = [(writer, False) for writer in _writers(problem, job)]
    seen = set(waiting)
    while waiting:
        writer, away = waiting.pop()
        if writer not in sites:
            continue
        here = sites[writer] == site
        if here and away:
            return True
        for each in ((other, not here) for other in _writers(problem, writer)):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return False


def _writers(problem: Problem, job: int) -> list[int]:
    return [writer for channel in problem.jobs[job].inputs for writer in problem.writers[channel]]
