"""Local search: descent by units and connected groups, then ruin and recreate (Schrimpf et al., 2000)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from speck.placement.problem import Placement, Problem
from speck.placement.state import SearchState

# A smaller gain is rounding: nothing moves for nothing.
EPSILON = 1e-9
LARGEST_GROUP = 6  # jobs that are moved together; the number of groups grows with it exponentially

Clock = Callable[[], float]


class Deadline:
    """A time at which a search ends; ``clock`` gives seconds."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        """Begin now."""
        self._clock = clock
        self._end = clock() + seconds

    def within(self, seconds: float) -> Deadline:
        """A deadline ``seconds`` from now, or this one if it is earlier."""
        return Deadline(self._clock, min(seconds, self.remaining))

    def over(self) -> bool:
        """True if the time is over."""
        return self._clock() >= self._end

    @property
    def remaining(self) -> float:
        """The seconds left."""
        return max(0.0, self._end - self._clock())


def neighbours(problem: Problem) -> list[list[int]]:
    """The units that share a channel with each unit, in order."""
    found: list[set[int]] = [set() for _ in problem.units]
    for channel in range(len(problem.channels)):
        ends = {problem.unit_of[job] for job in (*problem.writers[channel], *problem.readers[channel])}
        for unit in ends:
            found[unit] |= ends
    return [sorted(each - {unit}) for unit, each in enumerate(found)]


def groups(
    beside: Sequence[Sequence[int]], state: SearchState, unit: int, largest: int
) -> Iterable[tuple[int, ...]]:
    """Connected groups around a unit that are at its site, each one unit larger than the one before.

    ``beside`` is the result of :func:`neighbours`; a group has at most ``largest`` units.
    """
    group, site = [unit], state.site_of(unit)
    frontier = list(beside[unit])
    while frontier and len(group) < largest:
        member = frontier.pop(0)
        if member not in group and state.site_of(member) == site:
            group.append(member)
            frontier.extend(each for each in beside[member] if each not in group)
            yield tuple(group)


def descend(
    state: SearchState, deadline: Deadline, *, largest: int = LARGEST_GROUP, only: Sequence[int] | None = None
) -> None:
    """Take the best move of each unit, or of a group around it, until none lowers the objective.

    ``only`` are the units whose moves are tried (``None``: all), ``largest`` is that of :func:`groups`.
    """
    problem = state.problem
    beside = neighbours(problem)
    units = list(range(len(problem.units)) if only is None else only)
    improved = True
    while improved and not deadline.over():
        improved = False
        for unit in units:
            if deadline.over():
                return
            improved |= _best_move(state, (unit,))
        if not improved and largest > 1:
            for unit in units:
                for group in groups(beside, state, unit, largest):
                    if deadline.over():
                        return
                    if _best_move(state, group):
                        improved = True
                        break  # the larger groups around the unit are others now


def _best_move(state: SearchState, group: Sequence[int]) -> bool:
    """Move a group from one site to the best one; false if it is there already."""
    here = state.site_of(group[0])
    best, best_site = state.objective - EPSILON, here
    for site in _common_sites(state, group):
        if site != here:
            state.move_all(group, site)
            if state.objective < best:
                best, best_site = state.objective, site
            state.move_all(group, here)
    if best_site != here:
        state.move_all(group, best_site)
    return best_site != here


def _common_sites(state: SearchState, group: Sequence[int]) -> list[int]:
    first, *others = (state.permitted(unit) for unit in group)
    return [site for site in first if all(site in each for each in others)]


def ruin_and_recreate(state: SearchState, deadline: Deadline, rounds: int, seed: int) -> None:
    """Scatter a few connected units and place them again; keep what lowers the objective.

    That is done ``rounds`` times, until the deadline at most; ``seed`` makes it repeatable.
    """
    problem, chance = state.problem, random.Random(seed)  # noqa: S311 - no secret
    beside = neighbours(problem)
    if not problem.units:
        return
    for _ in range(rounds):
        if deadline.over():
            return
        before, sites = state.objective, list(state.sites)
        removed = _region(beside, chance.randrange(len(problem.units)), chance.randint(2, LARGEST_GROUP))
        for unit in removed:
            permitted = state.permitted(unit)
            if permitted:
                state.move(unit, chance.choice(permitted))
        descend(state, deadline, largest=3, only=removed)
        if state.objective >= before - EPSILON:
            restore(state, sites)


def _region(beside: Sequence[Sequence[int]], start: int, size: int) -> list[int]:
    found, queue = [start], list(beside[start])
    while queue and len(found) < size:
        unit = queue.pop(0)
        if unit not in found:
            found.append(unit)
            queue.extend(beside[unit])
    return found


def restore(state: SearchState, sites: Sequence[int]) -> None:
    """Move all units back to the ``sites`` of an earlier placement, one for each job."""
    for unit, jobs in enumerate(state.problem.units):
        if state.site_of(unit) != sites[jobs[0]]:
            state.move(unit, sites[jobs[0]])


def search(
    problem: Problem, starts: Iterable[Placement], deadline: Deadline, *, rounds: int, seed: int
) -> Placement:
    """The best placement found from several starts; of equals the one from the first.

    Raises ``ValueError`` without a start.
    """
    best: SearchState | None = None
    for start in starts:
        state = SearchState(problem, start.sites)
        descend(state, deadline)
        if best is None or state.objective < best.objective - EPSILON:
            best = state
    if best is None:
        raise ValueError("a search needs at least one start")
    ruin_and_recreate(best, deadline, rounds, seed)
    return best.placement()
