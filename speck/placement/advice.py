"""Advice: the placement that a policy finds, less what is not worth a move, with its steps and figures."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from speck.errors import InvalidInput
from speck.placement.cost import Figures, evaluate
from speck.placement.explain import WORTH
from speck.placement.graph import Model
from speck.placement.groups import Step, steps
from speck.placement.move import MoveCost, break_even, move_cost, rewired
from speck.placement.policies import Budget, Policy, place
from speck.placement.problem import Placement, Problem
from speck.placement.search import EPSILON, Deadline

# A policy of a comparison gets this fraction of the time that is left.
SHARES = 3


@dataclass(frozen=True, slots=True)
class Advice:
    """A placement of all jobs, and the way there from what runs.

    ``now`` are the present figures (``None``: not all of it runs yet).  ``gap`` is the proven distance from
    the optimum as a share of the objective (``None``: unknown), ``seconds`` the policy's processor time.
    """

    placement: Placement
    steps: tuple[Step, ...]
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
    way, placement = _worthwhile(problem, before, found, shared)
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
        kept = evaluate(problem, Placement(found.sites, tuple(homes))).objective
        if kept > least * (1 + WORTH / 2) + EPSILON:
            homes[channel] = new
        else:
            least = min(least, kept)
    return Placement(found.sites, tuple(homes), found.bound)


def _worthwhile(
    problem: Problem, before: Placement, found: Placement, shared: Collection[int]
) -> tuple[list[Step], Placement]:
    """The first steps of the way, up to where the others together gain less than the model's own error."""
    way = steps(problem, before, found, shared=shared)
    least = evaluate(problem, found).objective * WORTH
    taken = len(way)
    while taken and sum(step.gain for step in way[taken - 1 :]) < least:
        former = way[taken - 2].after if taken > 1 else before
        if problem.faults(former.sites):
            break  # what runs is not allowed any more
        taken -= 1
    return way[:taken], way[taken - 1].after if taken else before


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
