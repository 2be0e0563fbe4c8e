"""Features of a placement: the flat vector of Costream's baseline, and typed features of the placed jobs.

Flat: 11 numbers of a composition, whatever its rates, links and assignment.  The names are those of the flat
features of a job's plan, summed up over the jobs.

Graph: each job is a node with features of itself, of its site, and of the paths between the site and the
brokers of its topics.  Two rounds of messages from the sources to the sinks append the mean and the maximum
of the writers' features to each reader's; the readout is their mean and maximum over the jobs, and the sum of
the first features weighted by the share of results that pass each job.  R. Heinrich, C. Binnig, H. Kornmayer
and M. Luthra, "Costream: Learned Cost Models for Operator Placement in Edge-Cloud Environments", ICDE 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from speck.placement.cost import crossings, wire
from speck.placement.features import FLAT as COLUMNS
from speck.placement.problem import EngineModel, Placement, Problem, Tier

Floats = NDArray[np.float64]

FLAT = tuple(each.name for each in COLUMNS)
# Logarithms (of base 10) where a magnitude is meant: bytes a message, messages/s, cores, bytes/s.
JOB = (
    "rate_in",
    "rate_out",
    "bytes_in",
    "bytes_out",
    "cost",
    "need",
    "selectivity",
    "stateful",
    "spark",
    "batch_overhead",
    "parallelism",
    "share",
    "site_cores",
    "site_speed",
    "site_tier",
    "site_jobs",
    "site_load",
    "own_load",
    "latency_in",
    "bandwidth_in",
    "link_load_in",
    "latency_out",
    "bandwidth_out",
    "link_load_out",
)
ROUNDS = 2
# A running aggregation answers each message; one over windows answers few of them.
RUNNING = 0.5
_TINY = 1e-9
_FREE = 1e12  # bytes/s, the bandwidth within a site
_TIERS = (Tier.EDGE, Tier.REGION, Tier.CLOUD)


class JobClass(StrEnum):
    """The class of a job by its main operator, as far as a placement problem shows it."""

    FILTER = "filter"
    AGGREGATION = "aggregation"
    WINDOWED_AGGREGATION = "windowed_aggregation"
    JOIN = "join"


def job_class(problem: Problem, job: int) -> JobClass:
    """The class of a job: a join reads several channels, an aggregation has state, others are filters."""
    placed = problem.jobs[job]
    if len(placed.inputs) > 1:
        return JobClass.JOIN
    if not placed.stateful:
        return JobClass.FILTER
    return JobClass.AGGREGATION if placed.selectivity >= RUNNING else JobClass.WINDOWED_AGGREGATION


def flat(problem: Problem, placement: Placement) -> Floats:
    """The flat features, in the order of :data:`FLAT`; a mean selectivity is 0 without a job of the class."""
    selectivities: dict[JobClass, list[float]] = {each: [] for each in JobClass}
    for index, job in enumerate(problem.jobs):
        selectivities[job_class(problem, index)].append(job.selectivity)
    found = [
        float(len(set(placement.sites))),
        float(sum(bool(channel.rate) for channel in problem.channels)),
    ]
    for values in selectivities.values():
        found += [float(len(values)), math.fsum(values) / len(values) if values else 0.0]
    sinks = sum(job.output is None or not problem.readers[job.output] for job in problem.jobs)
    return np.array([*found, float(sinks)])


def nodes(problem: Problem, placement: Placement) -> Floats:
    """The features of the placed jobs, one row a job and one column a name of :data:`JOB`."""
    into, out, through = problem.rates
    need = [rate * job.cost + job.fixed for rate, job in zip(into, problem.jobs, strict=True)]
    power = [site.cores * site.speed for site in problem.sites]
    load = [each / total for each, total in zip(problem.cores_of_others, power, strict=True)]
    jobs = [0] * len(problem.sites)
    for place, cores in zip(placement.sites, need, strict=True):
        load[place] += cores / power[place]
        jobs[place] += 1
    links = link_loads(problem, placement)
    found = np.empty((len(problem.jobs), len(JOB)))
    for index, (job, place) in enumerate(zip(problem.jobs, placement.sites, strict=True)):
        site = problem.sites[place]
        mean = math.fsum(through[each] * wire(problem, each, False) for each in job.inputs) / (
            into[index] or 1
        )
        outputs = () if job.output is None else (job.output,)
        found[index] = (
            _log(into[index]),
            _log(out[index]),
            _log(mean),
            _log(math.fsum(wire(problem, each, True) for each in outputs)),
            _log(job.cost),
            _log(need[index]),
            job.selectivity,
            job.stateful,
            job.engine is EngineModel.SPARK,
            job.batch_overhead,
            job.parallelism,
            problem.shares[index],
            _log(site.cores),
            site.speed,
            _TIERS.index(site.tier),
            jobs[place],
            load[place],
            need[index] / power[place],
            *_paths(problem, placement, links, place, job.inputs),
            *_paths(problem, placement, links, place, outputs),
        )
    return found


def _log(value: float) -> float:
    return math.log10(max(value, _TINY))


def link_loads(problem: Problem, placement: Placement) -> tuple[list[float], list[float]]:
    """The traffic of each site's link as a share of its bandwidth, up and down."""
    up = [load / site.up for load, site in zip(problem.others.up, problem.sites, strict=True)]
    down = [load / site.down for load, site in zip(problem.others.down, problem.sites, strict=True)]
    for channel, home in enumerate(placement.homes):
        for flow in crossings(problem, channel, placement.sites, home):
            up[flow.source] += flow.rate * flow.size / problem.sites[flow.source].up
            down[flow.target] += flow.rate * flow.size / problem.sites[flow.target].down
    return up, down


def _paths(
    problem: Problem,
    placement: Placement,
    links: tuple[list[float], list[float]],
    place: int,
    channels: Iterable[int],
) -> tuple[float, float, float]:
    """The longest latency (s), the least bandwidth and the highest load of the paths to channels' homes."""
    up, down = links
    latency, bandwidth, load = 0.0, _FREE, 0.0
    site = problem.sites[place]
    for home in (placement.homes[each] for each in channels):
        if home != place:
            other = problem.sites[home]
            latency = max(latency, site.latency + other.latency)
            bandwidth = min(bandwidth, site.up, site.down, other.up, other.down)
            load = max(load, up[place], down[place], up[home], down[home])
    return latency, math.log10(bandwidth), load


def graph(problem: Problem, placement: Placement) -> Floats:
    """The features of the whole graph, in the order of :data:`GRAPH`."""
    first = nodes(problem, placement)
    writers = [
        [writer for channel in job.inputs for writer in problem.writers[channel]] or [index]
        for index, job in enumerate(problem.jobs)
    ]
    parts = [first]
    for _ in range(ROUNDS):
        parts.append(np.array([_message(parts[-1][each]) for each in writers]))
    state, weighted = np.hstack(parts), np.array(problem.shares) @ first
    return np.concatenate([state.mean(axis=0), state.max(axis=0), weighted])


def _message(senders: Floats) -> Floats:
    """The mean and the maximum of the features of a job's writers (of its own, if it has none)."""
    return np.concatenate([senders.mean(axis=0), senders.max(axis=0)])


def _names() -> tuple[str, ...]:
    last = list(JOB)
    names = list(JOB)
    for _ in range(ROUNDS):
        last = [f"{way}_{name}" for way in ("mean", "max") for name in last]
        names += last
    return (*(f"{way}.{name}" for way in ("mean", "max") for name in names), *(f"sum.{each}" for each in JOB))


GRAPH = _names()

Extractor = Callable[[Problem, Placement], Floats]
