"""The verdict on a step: whether it meets its prediction, in windows of time after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from speck.core.adaptation import StepRecord
from speck.placement.adaptation.situation import Realised, is_overloaded
from speck.placement.cost import evaluate
from speck.placement.model import Model
from speck.placement.move import after_moving
from speck.placement.problem import PlacedJob, Placement, Problem

DELAY, LONGEST_DELAY = 30.0, 300.0  # s after a step before it is judged
WINDOWS, WINDOW = 3, 20.0  # their number, and s
NEEDED = 2  # windows that hold, of a step that is retained
REALISED = 0.5  # share of the predicted gain
WORSE = 1.1  # times the age of results before
RELIEF = 1.05  # times the multiplier before
MIN_SPEED, MAX_SPEED = 0.2, 5.0  # of an observed speed, relative to the one counted with


def due(ended: float, catch_up: float) -> float:
    """The time from which a step is judged, whose operation has ``ended``; ``catch_up`` is s."""
    return ended + min(LONGEST_DELAY, max(DELAY, 2 * catch_up))


def predicted_gain(step: StepRecord) -> float:
    """The predicted fall of the objective as a share of it."""
    return (step.objective - step.predicted) / step.objective if step.objective else 0.0


def shortfall(step: StepRecord, found: Realised) -> str:
    """The reason why a step does not hold its prediction; empty if it does."""
    predicted = predicted_gain(step)
    oldest = max(step.age_p95, found.age_p95_without)
    # What is full without the step has lagged before it, too, and more: the step is no reason for that.
    overloaded = is_overloaded(found.multiplier_without, lag_grows=bool(step.lagging))
    relieves = overloaded and found.multiplier >= RELIEF * found.multiplier_without
    if found.lag_grows and not relieves:
        return "jobs have fallen behind since the step"
    # A growth of the load that overloads both placements is no fault of the step.
    if found.multiplier < min(1.0, found.multiplier_without):
        return f"the rates are not sustained (multiplier {found.multiplier:.2g})"
    if not found.gain >= REALISED * predicted:
        return f"it gains {found.gain:.0%} of the objective, {predicted:.0%} was predicted"
    if not (relieves or found.age_p95 <= WORSE * oldest):
        return f"the age of results (p95) is {found.age_p95:.3g} s, it was {oldest:.3g} s"
    return ""


def judged_jobs(model: Model, step: StepRecord) -> set[str]:
    """The jobs whose backlog decides on a step: its own, and those at its target that kept up before it."""
    places = (model.table.name(site) for site in model.incumbent.sites)
    there = {name for name, place in zip(model.jobs, places, strict=True) if place == step.target}
    return set(step.jobs) | (there - set(step.lagging))


def realised(model: Model, step: StepRecord, costs: Mapping[str, float], *, lag_grows: bool) -> Realised:
    """The effect of a step; ``model`` has the present rates, ``costs`` are measured ones (s) by job.

    A job at the target costs as much as its processor time there says, at the speed that is counted with.  If
    that is more than it cost at the source, the target is slower: its speed is corrected by the ratio, and
    the costs of the jobs there, in units of the reference core, are less by it.
    """
    problem, here = model.problem, model.incumbent
    ratio = _speed_ratio(model, step, costs)
    jobs = [model.number[name] for name in step.jobs if name in model.number]
    source, target = (model.table.index(name) for name in (step.source, step.target))
    corrected = _with_speed(problem, here, target, ratio)
    now = evaluate(corrected, here)
    without = Placement(after_moving(corrected, here, jobs, source), here.homes)
    then = evaluate(corrected, without)
    return Realised(
        objective=now.objective,
        without=then.objective,
        age_p95=now.age_p95,
        age_p95_without=then.age_p95,
        multiplier=now.multiplier,
        multiplier_without=then.multiplier,
        speed_ratio=ratio,
        lag_grows=lag_grows,
    )


def _speed_ratio(model: Model, step: StepRecord, costs: Mapping[str, float]) -> float:
    """The predicted load of the moved jobs over the observed one; 1 where neither is measured."""
    rates = dict(zip(model.jobs, model.problem.rates.into, strict=True))
    known = [name for name in step.jobs if step.costs.get(name) and costs.get(name) and rates.get(name)]
    before = sum(rates[name] * step.costs[name] for name in known)
    after = sum(rates[name] * costs[name] for name in known)
    return min(MAX_SPEED, max(MIN_SPEED, before / after)) if before and after else 1.0


def _with_speed(problem: Problem, here: Placement, target: int, ratio: float) -> Problem:
    sites = [
        replace(site, speed=site.speed * ratio) if index == target else site
        for index, site in enumerate(problem.sites)
    ]
    jobs = [
        _scaled(job, ratio) if place == target else job
        for job, place in zip(problem.jobs, here.sites, strict=True)
    ]
    return replace(problem, sites=sites, jobs=jobs)


def _scaled(job: PlacedJob, ratio: float) -> PlacedJob:
    return replace(
        job, cost=job.cost * ratio, fixed=job.fixed * ratio, batch_overhead=job.batch_overhead * ratio
    )
