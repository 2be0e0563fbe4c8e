"""The steps that advice names, each with its figures alone and the reason why it may not be taken."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from speck.core.job import Job
from speck.placement.adaptation.knowledge import OLDEST, unknown_loads, within_bounds
from speck.placement.adaptation.situation import Candidate
from speck.placement.cost import evaluate
from speck.placement.groups import steps
from speck.placement.links import link_known, used_links
from speck.placement.model import Model
from speck.placement.move import after_moving, break_even, move_cost
from speck.placement.problem import Placement, Problem
from speck.placement.profile import Inputs, Known, with_expected

DOUBT = 10.0  # times an assumed cost, for which a target must have room


def candidates(
    model: Model, after: Placement, inputs: Inputs, shared: Collection[int] = ()
) -> list[Candidate]:
    """The steps from what runs to a placement, those of a better gain for their cost first.

    ``shared`` is as of :func:`~speck.placement.move.move_cost`.  Groups have at most as many jobs as the
    composition's options say.
    """
    problem, before = model.problem, model.before(after)
    way = steps(problem, before, after, largest=model.draft.options.group, shared=shared)
    problems, unknown = within_bounds(model, inputs), unknown_loads(model, inputs, before)
    return [
        _candidate(model, problems, before, each.jobs, each.target, inputs, shared, unknown)
        for each in way
        if each.jobs
    ]


def relative_gain(problem: Problem, before: Placement, after: Placement) -> float:
    """The fall of the objective by another placement, as a share of it."""
    now, then = (evaluate(problem, each, slowest=False).objective for each in (before, after))
    return share_of(now - then, now)


def share_of(fall: float, objective: float) -> float:
    """The fall of an objective as a share of it.

    0 of an objective of 0, as of WAN traffic alone with all jobs at one site: nothing is better.
    """
    return fall / objective if objective > 0 else 0.0


def _candidate(
    model: Model,
    problems: Sequence[Problem],
    before: Placement,
    jobs: tuple[int, ...],
    target: int,
    inputs: Inputs,
    shared: Collection[int],
    unknown: Mapping[int, str],
) -> Candidate:
    """The candidate with the worst figures of the problems, of which the first has the last rates."""
    problem = problems[0]
    # The homes of topics stay: a step moves jobs alone.
    following = Placement(after_moving(problem, before, jobs, target), before.homes)
    then = evaluate(problem, following)
    cost = move_cost(problem, before, following, then, shared)
    found = [_figures(each, before, following, target, shared) for each in problems]
    names = [model.jobs[job] for job in jobs]
    doubt = _doubt(model, jobs, inputs) / (problem.sites[target].speed * problem.sites[target].cores)
    refusals = [
        *problem.faults(following.sites),
        *_assumed_links(model, before, following, inputs),
        *_unknown_target(model, target, unknown),
    ]
    return Candidate(
        jobs=tuple(sorted(names)),
        source=model.table.name(before.sites[jobs[0]]),
        target=model.table.name(target),
        gain=min(each.gain for each in found),
        objective=then.objective,
        age_p95=then.age_p95,
        multiplier=min(each.multiplier for each in found),
        utilisation=max(each.utilisation for each in found) + doubt,
        pays_after=max(each.pays_after for each in found),
        standstill=cost.standstill,
        catch_up=cost.catch_up,
        state=cost.state,
        costs={
            name: problem.jobs[job].cost
            for name, job in zip(names, jobs, strict=True)
            if _is_cost_measured(inputs, model.draft.jobs[name])
        },
        refused=next(iter(refusals), ""),
    )


@dataclass(frozen=True, slots=True)
class _StepFigures:
    """The figures of a step that decide on it, as in :class:`Candidate`."""

    gain: float
    multiplier: float
    utilisation: float
    pays_after: float


def _figures(
    problem: Problem, before: Placement, following: Placement, target: int, shared: Collection[int]
) -> _StepFigures:
    now, then = (evaluate(problem, each, slowest=False) for each in (before, following))
    cost, fall = move_cost(problem, before, following, then, shared), now.objective - then.objective
    return _StepFigures(
        gain=share_of(fall, now.objective),
        multiplier=then.multiplier,
        utilisation=then.sites[target].cores,
        pays_after=break_even(problem, cost, fall),
    )


def _doubt(model: Model, jobs: Collection[int], inputs: Inputs) -> float:
    """The reference cores for which a site must have room besides, as the costs of jobs are assumed."""
    total = 0.0
    for job in jobs:
        name, placed = model.jobs[job], model.problem.jobs[job]
        desired = model.draft.jobs[name]
        cost = with_expected(inputs.of(desired), desired.expects).cost
        if cost is None or cost.known is Known.ASSUMED:
            total += (DOUBT - 1) * placed.cost * model.problem.rates.into[job]
    return total


def _is_cost_measured(inputs: Inputs, job: Job) -> bool:
    cost = inputs.of(job).cost
    return cost is not None and cost.known is Known.MEASURED


def _unknown_target(model: Model, target: int, unknown: Mapping[int, str]) -> Iterator[str]:
    """The reason why nothing moves to a site whose load is not known."""
    if target in unknown:
        yield (
            f"the load of {model.table.name(target)} is not known: job {unknown[target]!r} has had no rate "
            f"for {OLDEST / 60:.0f} minutes (see speck profile)"
        )


def _assumed_links(model: Model, before: Placement, after: Placement, inputs: Inputs) -> Iterator[str]:
    """The links, used by one of two placements alone, of which nothing is measured or declared."""
    pairs = set(used_links(model, [before])) ^ set(used_links(model, [after]))
    for one, other in sorted(pairs):
        if link_known(model, inputs, one, other) is Known.ASSUMED:
            yield (
                f"the link {one}-{other} is assumed "
                "(expected: declared in the inventory, or measured: speck profile --links)"
            )
