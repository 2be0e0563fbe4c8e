"""Advice: the placement that a policy finds, less what is not worth a move, with its steps and figures."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from speck.errors import InvalidInput
from speck.placement.cost import Figures, evaluate
from speck.placement.explain import WORTH
from speck.placement.groups import MoveStep, groups, steps
from speck.placement.model import Model
from speck.placement.move import MoveCost, break_even, move_cost, rewired
from speck.placement.policies import Budget, Policy, place
from speck.placement.problem import Placement, Problem
from speck.placement.search import EPSILON, LARGEST_GROUP, Deadline

# A group of jobs that gains a smaller share of the objective stays.
LEAST_STEP = 0.002
# A policy of a comparison gets this fraction of the time that is left.
SHARES = 3


@dataclass(frozen=True, slots=True)
class Advice:
    """A placement of all jobs, and the way there from what runs.

    ``now`` are the present figures (``None``: not all of it runs yet).  ``gap`` is the proven distance from
    the optimum as a share of the objective (``None``: unknown), ``seconds`` the policy's processor time.
    """

    placement: Placement
    steps: tuple[MoveStep, ...]
    now: Figures | None
    after: Figures
    cost: MoveCost
    pays_after: float
    gap: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of one policy (``None``: it has no answer, for the reason ``error``), and its moves."""

    policy: str
    figures: Figures | None
    moves: int
    seconds: float
    error: str = ""


def advise(model: Model, policy: Policy, budget: Budget, shared: Collection[int] = ()) -> Advice:
    """The advice of a policy for a model; ``shared`` as of :func:`~speck.placement.move.move_cost`.

    Raises :class:`~speck.errors.InvalidInput` if the policy has no answer, or one that is not allowed.
    """
    problem, begun = model.problem, budget.clock()
    found = place(problem, model.incumbent, policy, budget)
    seconds = budget.clock() - begun
    before = model.before(found)
    found = _with_former_homes(problem, before, found)
    placement = _worthwhile(problem, before, found)
    way = steps(problem, before, placement, shared=shared)
    now, after = evaluate(problem, before), evaluate(problem, placement)
    cost = move_cost(problem, before, placement, after, shared)
    return Advice(
        placement=placement,
        steps=tuple(way),
        now=now if model.complete else None,
        after=after,
        cost=cost,
        pays_after=break_even(problem, cost, now.objective - after.objective),
        gap=None if found.bound is None else _gap(after.objective, found.bound),
        seconds=seconds,
    )


def _gap(objective: float, bound: float) -> float:
    return max(0.0, objective - bound) / max(objective, 1e-12)


def _with_former_homes(problem: Problem, before: Placement, found: Placement) -> Placement:
    """The placement with the former home of each topic that gains nothing by another one.

    Another home interrupts all readers of a topic, so that it must be worth that by itself.
    """
    homes = list(found.homes)
    least = evaluate(problem, found).objective
    for channel in rewired(problem, before, found):
        new = homes[channel]
        homes[channel] = before.homes[channel]
        unchanged = evaluate(problem, Placement(found.sites, tuple(homes))).objective
        if unchanged > least * (1 + WORTH / 2) + EPSILON:
            homes[channel] = new
        else:
            least = min(least, unchanged)
    return Placement(found.sites, tuple(homes), found.bound)


def _worthwhile(problem: Problem, before: Placement, found: Placement) -> Placement:
    """The placement found, less the moves whose effect is below the model's own error.

    A group of jobs stays that changes the objective by less than :data:`LEAST_STEP`, and all jobs stay if
    the moves together change it by less than :data:`~speck.placement.explain.WORTH`.  A policy that has
    another aim than the objective may raise it by more.
    """
    present = found
    for group in groups(problem, before, found, LARGEST_GROUP):
        objective = evaluate(problem, present).objective
        without = _without(problem, before, present, group)
        loss = evaluate(problem, without).objective - objective
        if abs(loss) < LEAST_STEP * objective and not problem.faults(without.sites):
            present = without
    now, then = evaluate(problem, before).objective, evaluate(problem, present).objective
    if abs(now - then) < WORTH * now and not problem.faults(before.sites):
        return Placement(before.sites, before.homes, found.bound)
    return present


def _without(problem: Problem, before: Placement, found: Placement, group: Collection[int]) -> Placement:
    """The placement without the move of a group; with the best homes of its topics."""
    sites = list(found.sites)
    for job in group:
        sites[job] = before.sites[job]
    beside = {
        channel
        for channel in range(len(problem.channels))
        if not {*problem.writers[channel], *problem.readers[channel]}.isdisjoint(group)
    }
    former = [
        before.homes[channel] if channel in beside else home for channel, home in enumerate(found.homes)
    ]
    best = [
        problem.home(channel, sites) if channel in beside else home
        for channel, home in enumerate(found.homes)
    ]
    choices = [Placement(tuple(sites), tuple(homes), found.bound) for homes in (former, found.homes, best)]
    return min(choices, key=lambda each: evaluate(problem, each).objective)


def compare(model: Model, policies: Collection[Policy], budget: Budget) -> list[Comparison]:
    """The figures of each policy for one model; the budget is that of all together."""
    found = []
    deadline = Deadline(budget.clock, budget.seconds)
    for policy in policies:
        begun, share = budget.clock(), replace(budget, seconds=deadline.remaining / SHARES)
        try:
            placement = place(model.problem, model.incumbent, policy, share)
        except InvalidInput as error:
            found.append(Comparison(policy.name, None, 0, budget.clock() - begun, str(error)))
            continue
        seconds = budget.clock() - begun
        before = model.before(placement)
        moves = sum(old != new for old, new in zip(before.sites, placement.sites, strict=True))
        found.append(Comparison(policy.name, evaluate(model.problem, placement), moves, seconds))
    return found


def finite(value: float) -> float | None:
    """The value, or ``None`` for one without bounds."""
    return value if math.isfinite(value) else None
