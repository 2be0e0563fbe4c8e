"""The way from one placement to another: steps that each move a connected group of jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from speck.placement.cost import evaluate
from speck.placement.move import MoveCost, after_moving, break_even, move_cost
from speck.placement.problem import Placement, Problem
from speck.placement.search import LARGEST_GROUP, neighbours

# A cost below this (s x s) is counted as this: a quotient needs one.
LEAST_COST = 1e-3
# More groups than this are ordered by what each gains alone, without regard to the ones before.
COMPARED = 24


@dataclass(frozen=True, slots=True)
class MoveStep:
    """A move of ``jobs`` from one site to another, with its cost.

    ``jobs`` is empty for topics that get another home without a move of jobs; both sites are 0 then.
    ``gain`` is the fall of the objective, ``pays_after`` the time, s, until it has paid for the cost.
    ``after`` is the placement with this step and those before it.
    """

    jobs: tuple[int, ...]
    source: int
    target: int
    gain: float
    cost: MoveCost
    pays_after: float
    after: Placement


def steps(
    problem: Problem,
    before: Placement,
    after: Placement,
    *,
    largest: int = LARGEST_GROUP,
    shared: Collection[int] = (),
) -> list[MoveStep]:
    """The steps in the order of their gain per cost, each computed where the ones before have been taken.

    A step that gains by itself goes before one that gains only with those that follow.  Channels get the home
    that ``after`` gives them with the step that moves the last of their jobs.
    """
    waiting = groups(problem, before, after, largest)
    found: list[MoveStep] = []
    present, objective = before, evaluate(problem, before, slowest=False).objective

    def taken(group: tuple[int, ...]) -> MoveStep:
        following = _after_group(problem, present, after, group, waiting)
        return _step(problem, present, objective, following, group, shared)

    if len(waiting) > COMPARED:
        waiting.sort(key=lambda group: _rank(taken(group)), reverse=True)
    while waiting:
        choices = waiting if len(waiting) <= COMPARED else waiting[:1]
        step = max(map(taken, choices), key=_rank)
        present, objective = step.after, objective - step.gain
        waiting.remove(step.jobs)
        found.append(step)
    if present.homes != after.homes:
        found.append(_step(problem, present, objective, after, (), shared))
    return found


def groups(problem: Problem, before: Placement, after: Placement, largest: int) -> list[tuple[int, ...]]:
    """The jobs that move, as connected groups of the same two sites, at most ``largest`` jobs each.

    Units stay whole: one of more jobs than that is a group of its own.
    """
    beside = neighbours(problem)
    moving = [
        unit for unit, jobs in enumerate(problem.units) if before.sites[jobs[0]] != after.sites[jobs[0]]
    ]
    found, taken = [], set[int]()
    for unit in moving:
        if unit in taken:
            continue
        ends = _ends(before, after, problem.units[unit])
        group, frontier = list(problem.units[unit]), list(beside[unit])
        taken.add(unit)
        while frontier:
            other = frontier.pop(0)
            jobs = problem.units[other]
            fits = len(group) + len(jobs) <= largest
            if other in moving and other not in taken and fits and _ends(before, after, jobs) == ends:
                taken.add(other)
                group.extend(jobs)
                frontier.extend(beside[other])
        found.append(tuple(sorted(group)))
    return found


def _ends(before: Placement, after: Placement, jobs: Sequence[int]) -> tuple[int, int]:
    return before.sites[jobs[0]], after.sites[jobs[0]]


def _after_group(
    problem: Problem,
    present: Placement,
    after: Placement,
    group: Sequence[int],
    waiting: Sequence[tuple[int, ...]],
) -> Placement:
    """The placement with a group moved, and new homes of the channels that no waiting job reads or writes."""
    sites = after_moving(problem, present, group, after.sites[group[0]])
    still = {job for each in waiting if each != tuple(group) for job in each}
    homes = list(present.homes)
    for channel, home in enumerate(after.homes):
        ends = {*problem.writers[channel], *problem.readers[channel]}
        if ends & set(group) and not ends & still:
            homes[channel] = home
    return Placement(sites, tuple(homes))


def _step(
    problem: Problem,
    present: Placement,
    objective: float,
    following: Placement,
    group: tuple[int, ...],
    shared: Collection[int],
) -> MoveStep:
    """The step from the present placement, whose ``objective`` this is, to the following one."""
    source, target = _ends(present, following, group) if group else (0, 0)
    then = evaluate(problem, following, slowest=False)
    cost = move_cost(problem, present, following, then, shared)
    gain = objective - then.objective
    return MoveStep(group, source, target, gain, cost, break_even(problem, cost, gain), following)


def _rank(step: MoveStep) -> tuple[bool, float, int]:
    return step.gain > 0, step.gain / max(LEAST_COST, step.cost.late), -step.jobs[0]
