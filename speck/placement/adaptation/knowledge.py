"""The rates that a decision rests on, where not all of them are fresh.

A group of jobs is decided on while its own rates, and those of the jobs beside it, are fresh: of the last
minute, or of the last three samples.  All other jobs count with the last rate that was measured, within
bounds that widen with its age.  A rate older than :data:`OLDEST` bounds nothing: no job moves to a site where
it would count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from speck.placement.model import Model
from speck.placement.problem import Placement, Problem
from speck.placement.profile import Inputs

OLDEST = 900.0  # s, the age at which a rate is no longer known
WIDEST = 2.0  # times a rate at that age: the upper bound, and its inverse is the lower one


def undecidable(model: Model, inputs: Inputs) -> dict[str, str]:
    """The jobs that are not to be moved now: each with the job, itself or beside it, without a fresh rate."""
    problem, fresh = model.problem, inputs.fresh
    found = {name: name for name in model.jobs if name not in fresh}
    for writers, readers in zip(problem.writers, problem.readers, strict=True):
        for ends, others in ((writers, readers), (readers, writers)):
            cause = next((model.jobs[each] for each in ends if model.jobs[each] not in fresh), None)
            if cause is not None:
                for other in others:
                    found.setdefault(model.jobs[other], cause)
    return found


def idle(rates: Mapping[str, float], waiting: Mapping[str, int]) -> list[str]:
    """The jobs that no message reaches, whose place makes no difference to the objective.

    A job is not idle while messages wait for it: it is stuck.
    """
    return sorted(name for name, rate in rates.items() if not rate and not waiting.get(name))


def bound(age: float) -> float:
    """The factor by which a rate may have grown or fallen that was measured ``age`` seconds ago."""
    return 1 + (WIDEST - 1) * min(1.0, max(0.0, age) / OLDEST)


def within_bounds(model: Model, inputs: Inputs) -> list[Problem]:
    """The problem at the last rates; where some are not fresh, also at the upper and at the lower bounds."""
    factors = {
        index: bound(inputs.ages.get(name, math.inf))
        for index, name in enumerate(model.jobs)
        if name not in inputs.fresh
    }
    if not factors:
        return [model.problem]
    lower = {index: 1 / factor for index, factor in factors.items()}
    return [model.problem, _scaled(model.problem, factors), _scaled(model.problem, lower)]


def _scaled(problem: Problem, factors: Mapping[int, float]) -> Problem:
    """The problem where the rates that only these jobs tell are that many times as high.

    They tell the rate of what is born outside if no other job reads it; else the ratio of their output.
    """
    told = {
        channel: _farthest([factors[job] for job in readers])
        for channel, readers in enumerate(problem.readers)
        if problem.channels[channel].rate and readers and all(job in factors for job in readers)
    }
    channels = [
        replace(each, rate=each.rate * told.get(channel, 1.0))
        for channel, each in enumerate(problem.channels)
    ]
    jobs = [
        replace(each, selectivity=each.selectivity * factors[index])
        if index in factors and not any(channel in told for channel in each.inputs)
        else each
        for index, each in enumerate(problem.jobs)
    ]
    return replace(problem, channels=channels, jobs=jobs)


def _farthest(factors: Sequence[float]) -> float:
    return max(factors, key=lambda each: abs(math.log(each)))


def unknown_loads(model: Model, inputs: Inputs, placement: Placement) -> dict[int, str]:
    """The sites (by index) with a load that is not known, each with the job that is the reason.

    The job runs there, or reads or writes a topic there, and has no rate that is younger than :data:`OLDEST`.
    """
    found: dict[int, str] = {}
    for index, name in enumerate(model.jobs):
        if name not in inputs.fresh and not inputs.ages.get(name, math.inf) <= OLDEST:
            for site in _sites_of(model.problem, placement, index):
                found.setdefault(site, name)
    return found


def _sites_of(problem: Problem, placement: Placement, index: int) -> Iterator[int]:
    job = problem.jobs[index]
    yield placement.sites[index]
    yield from (placement.homes[channel] for channel in job.inputs)
    if job.output is not None:
        yield placement.homes[job.output]
