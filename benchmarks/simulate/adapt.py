"""The loop over simulated days, against placements that never move and that move at every gain.

Each variant meets the same conditions, per seed.  The objective of each minute is compared with that of the
``best``: what the policy ``speck`` answers to the true figures every few minutes, with topics free to move
and without any standstill, which nothing real can reach.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.simulate.driving import INTERVAL, PERIOD, Driven, World, budget, observe, steps_of
from benchmarks.simulate.intervals import mean
from speck.placement.cost import evaluate, load_of
from speck.placement.policies import Budget, place, policy
from speck.placement.problem import Placement, Problem, Tier
from testbed.simulate.conditions import Scenario, Spell, Surge, changing
from testbed.simulate.observed import objective
from testbed.simulate.worlds import large

VARIANTS = ("never", "every-gain", "loop")
HOUR = 3600.0
BEST_EVERY = 600.0  # s
_MINUTE = 60.0
_LEAST_GAIN = 1e-6  # share of the objective; below it is rounding
_BUDGET = 120.0  # tries, as of :func:`~benchmarks.simulate.driving.budget`


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Conditions over ``hours``; ``cloud``: all jobs begin in the cloud, not where the policy has them.

    ``change`` makes the problem what the trial needs.
    """

    hours: float
    scenario: Callable[[Problem, Placement], Scenario]
    noise: float = 0.06
    cloud: bool = False
    change: Callable[[Problem], Problem] = lambda problem: problem


def _busiest(problem: Problem, placement: Placement) -> int:
    """The edge that sends the most."""
    load = load_of(problem, placement)
    edges = [index for index, site in enumerate(problem.sites) if site.tier is Tier.EDGE]
    return max(edges, key=lambda site: load.up[site] + load.down[site])


def _day(problem: Problem, placement: Placement) -> Scenario:
    """Three hours with the load of a day, 45 min of a link at a quarter, and an outage of a minute."""
    site = _busiest(problem, placement)
    spells = (Spell(site, 1.25 * HOUR, 2 * HOUR, 0.25), Spell(site, 2.5 * HOUR, 2.5 * HOUR + 60, 1e-6))
    return changing(problem, amplitude=0.5, period=3 * HOUR, spells=spells)


def _liar(problem: Problem, placement: Placement) -> Scenario:
    """The edge where the policy places most has 0.3 of its declared speed."""
    load = load_of(problem, _by_policy(problem, placement))
    edges = [index for index, site in enumerate(problem.sites) if site.tier is Tier.EDGE]
    return changing(problem, speeds={max(edges, key=lambda site: load.cores[site]): 0.3})


def _by_policy(problem: Problem, incumbent: Placement) -> Placement:
    chosen = Budget(_BUDGET, clock=itertools.count().__next__)
    return place(problem, incumbent, policy("speck"), chosen)


def _tight(problem: Problem) -> Problem:
    """Edges with just the cores for what the policy places there, so that their speed matters."""
    load = load_of(problem, _by_policy(problem, problem.all_in_cloud))
    sites = [
        replace(site, cores=max(0.05, load.cores[index] / 0.45)) if site.tier is Tier.EDGE else site
        for index, site in enumerate(problem.sites)
    ]
    return replace(problem, sites=sites)


TRIALS: Mapping[str, Trial] = {
    "noise": Trial(hours=0.5, scenario=lambda problem, _: changing(problem)),
    "day": Trial(hours=3.0, scenario=_day),
    "from-cloud": Trial(hours=1.0, scenario=lambda problem, _: changing(problem), cloud=True),
    "halved": Trial(
        hours=1.0,
        scenario=lambda problem, placement: changing(
            problem, spells=(Spell(_busiest(problem, placement), 600.0, 1e9, 0.5),)
        ),
    ),
    "surge": Trial(
        hours=1.0, scenario=lambda problem, _: changing(problem, surges=(Surge(0, 600.0, 1e9, 3.0),))
    ),
    "outage": Trial(
        hours=0.4,
        scenario=lambda problem, placement: changing(
            problem, spells=(Spell(_busiest(problem, placement), 600.0, 660.0, 1e-6),)
        ),
    ),
    "liar": Trial(hours=1.0, scenario=_liar, cloud=True, change=_tight),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One variant under one seed: the objective of each minute, and the steps of each composition."""

    objectives: Sequence[float]
    steps: Sequence[int]
    backs: int
    returned: int
    seconds: float


def measure(
    names: Sequence[str], variants: Sequence[str], seeds: int, jobs: int, sites: int, load: float, step: float
) -> dict[str, Any]:
    """Figures by trial and variant."""
    found: dict[str, Any] = {"seeds": seeds, "jobs": jobs, "sites": sites, "load": load, "step": step}
    for name in names:
        runs: dict[str, list[Run]] = {variant: [] for variant in ("best", *variants)}
        for seed in range(seeds):
            for variant in runs:
                runs[variant].append(run(TRIALS[name], variant, seed, jobs, sites, load, step))
        found[name] = {
            variant: _figures(of_variant, runs["best"], TRIALS[name].hours)
            for variant, of_variant in runs.items()
            if variant != "best"
        }
    return found


def _figures(runs: Sequence[Run], best: Sequence[Run], hours: float) -> dict[str, Any]:
    excess = [
        np.asarray(one.objectives) / np.asarray(other.objectives) - 1
        for one, other in zip(runs, best, strict=True)
    ]
    return {
        "excess": mean([float(np.median(each)) for each in excess]),
        "excess_mean": mean(
            [sum(one.objectives) / sum(other.objectives) - 1 for one, other in zip(runs, best, strict=True)]
        ),
        "excess_p95": mean([float(np.quantile(each, 0.95)) for each in excess]),
        "steps": mean([sum(each.steps) / len(each.steps) for each in runs]),
        "steps_most": max(max(each.steps) for each in runs),
        "steps_most_seed": max(range(len(runs)), key=lambda seed: max(runs[seed].steps)),
        "backs": sum(each.backs for each in runs),
        "returned": sum(each.returned for each in runs),
        "returned_seed": max(range(len(runs)), key=lambda seed: runs[seed].returned),
        "hours": hours,
        "seconds": sum(each.seconds for each in runs) / len(runs),
    }


def run(trial: Trial, variant: str, seed: int, jobs: int, sites: int, load: float, step: float) -> Run:
    """Simulate one variant."""
    world, _ = begin(trial, seed, jobs, sites, load, step)
    began, objectives = time.process_time(), []
    moves = [0] * len(world.compositions)
    for _ in range(round(trial.hours * HOUR / _MINUTE)):
        world.fluid.reset()
        for _ in range(round(_MINUTE / INTERVAL)):
            if variant == "best" and world.now % BEST_EVERY < INTERVAL / 2:
                _place_best(world)
            world.pass_time(INTERVAL)
            for number, driven in enumerate(world.compositions):
                if variant == "loop":
                    observe(world, driven)
                elif variant == "every-gain" and world.now % PERIOD < INTERVAL / 2:
                    moves[number] += _move_all(world, driven)
        objectives.append(objective(world.problem, world.placement, world.fluid.observed()))
    outcomes = [steps_of(each) for each in world.compositions]
    if variant == "loop":
        moves = [sum(each.values()) for each in outcomes]
    return Run(
        objectives=objectives,
        steps=moves,
        backs=sum(each["back"] for each in outcomes),
        returned=sum(each.back_and_forth for each in world.compositions),
        seconds=time.process_time() - began,
    )


def begin(
    trial: Trial, seed: int, jobs: int, sites: int, load: float, step: float
) -> tuple[World, Placement]:
    """The world of a trial at its beginning, and its first placement."""
    problem = trial.change(large(seed, jobs, sites, load))
    placement = problem.all_in_cloud
    if not trial.cloud:
        placement = place(
            problem, placement, policy("speck"), Budget(_BUDGET, clock=itertools.count().__next__)
        )
    scenario = trial.scenario(problem, placement)
    return World(problem, placement, scenario, noise=trial.noise, seed=seed, step=step), placement


def _place_best(world: World) -> None:
    """Place all by the true figures, at once."""
    now, problem = world.scenario(world.now + 1.0), world.problem
    true = replace(
        problem,
        sites=[
            replace(
                site,
                up=max(1.0, site.up * float(now.link[index])),
                down=max(1.0, site.down * float(now.link[index])),
                speed=site.speed * float(now.speed[index]),
            )
            for index, site in enumerate(problem.sites)
        ],
        channels=[
            replace(channel, rate=channel.rate * float(now.rates[index]))
            for index, channel in enumerate(problem.channels)
        ],
    )
    world.placement = place(
        true, world.placement, policy("speck"), Budget(_BUDGET, clock=itertools.count().__next__)
    )
    world.fluid.place(world.placement)


def _move_all(world: World, driven: Driven) -> int:
    """Move all that the policy moves by measured figures, if it gains at all; returns the number of moves."""
    part, now = driven.part, world.now
    inputs = world.inputs(part)
    if now < driven.operation_ends or world.cut(part) or len(inputs.fresh) < len(part.jobs):
        return 0
    model = world.model(part, inputs, homes_stay=False)
    after = place(model.problem, model.incumbent, world.policy, budget())
    old, new = (evaluate(model.problem, each).objective for each in (model.incumbent, after))
    if old - new <= _LEAST_GAIN * old:
        return 0
    count, ends = 0, now
    homes = {channel: part.sites[home] for channel, home in zip(part.channels, after.homes, strict=True)}
    for target in sorted(set(after.sites)):
        jobs = [
            job
            for job, site in zip(part.jobs, after.sites, strict=True)
            if site == target and world.placement.sites[job] != part.sites[target]
        ]
        if jobs:
            ends = max(ends, world.move(driven, jobs, part.sites[target], {}))
            count += 1
    if any(world.placement.homes[channel] != home for channel, home in homes.items()):
        ends = max(ends, world.move(driven, (), 0, homes))
        count += not count
    driven.operation_ends = ends
    return count
