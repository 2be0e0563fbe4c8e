"""Placements as graphs of typed nodes: jobs by class, with an edge where one reads another, and their sites.

The arrays of several placements are joined into one :class:`Batch`, whose jobs are computed level by level
along the data flow.  The features are those of :mod:`speck_baselines.learned.features`, with the logarithms
of those that are no logarithms yet, as a network needs both a load near 1 and one of a thousandth resolved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from speck.placement.problem import Placement, Problem
from speck_baselines.learned.features import JOB, JobClass, job_class, link_loads, nodes
from speck_baselines.learned.targets import offered

Array = NDArray[np.float32]
Indices = NDArray[np.int64]

CLASSES = tuple(JobClass)
_LINEAR = tuple(
    index
    for index, name in enumerate(JOB)
    if name.endswith(("load", "load_in", "load_out", "selectivity", "share", "site_jobs", "batch_overhead"))
    or name.startswith("latency")
)
_MOST = 3.0  # of a load or the like: beyond it, its logarithm is the better feature
_LEAST = 1e-4  # below it the logarithm is constant
SITE = ("cores", "speed", "up", "down", "latency", "load_up", "load_down", "log_load_up", "log_load_down")
JOB_WIDTH, SITE_WIDTH = len(JOB) + len(_LINEAR), len(SITE)


@dataclass(frozen=True, slots=True)
class Graph:
    """One placement.

    ``jobs`` is a row a job, ``classes`` indexes :data:`CLASSES`, ``sites`` is a row a site, ``places`` the
    site of each job, ``edges`` two rows (writers, readers), ``levels`` the number of edges on the longest
    path to each job, ``sinks`` the jobs whose results leave, ``weights`` their shares of all offered results.
    """

    jobs: Array
    classes: Indices
    sites: Array
    places: Indices
    edges: Indices
    levels: Indices
    sinks: Indices
    weights: Array


@dataclass(frozen=True, slots=True)
class Level:
    """The next ``count`` jobs, all at one distance from the sources, and the edges into them.

    ``writers`` are indices of jobs of the batch, ``readers`` positions among the jobs of the level.
    """

    count: int
    writers: Indices
    readers: Indices


@dataclass(frozen=True, slots=True)
class Batch:
    """Several placements as one graph, with the jobs in the order of their levels.

    ``job_of`` and ``sink_of`` are the placements of jobs and sinks.
    """

    count: int
    jobs: Array
    classes: Indices
    sites: Array
    places: Indices
    levels: tuple[Level, ...]
    sinks: Indices
    weights: Array
    job_of: Indices
    sink_of: Indices


def graph_of(problem: Problem, placement: Placement) -> Graph:
    """The graph of a placement."""
    jobs = nodes(problem, placement)
    linear = jobs[:, _LINEAR]
    jobs[:, _LINEAR] = np.minimum(linear, _MOST)
    levels = [0] * len(problem.jobs)
    edges = []
    for job in problem.order:
        for channel in problem.jobs[job].inputs:
            for writer in problem.writers[channel]:
                edges.append((writer, job))
                levels[job] = max(levels[job], levels[writer] + 1)
    rates = offered(problem)
    names = [job.name if job.output is None else problem.channels[job.output].name for job in problem.jobs]
    sinks = [index for index, name in enumerate(names) if name in rates and _leaves(problem, index)]
    weights = np.array([rates[names[each]] for each in sinks])
    return Graph(
        jobs=np.hstack([jobs, np.log10(np.maximum(linear, _LEAST))]).astype(np.float32),
        classes=np.array([CLASSES.index(job_class(problem, each)) for each in range(len(problem.jobs))]),
        sites=_sites(problem, placement),
        places=np.array(placement.sites),
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2).T,
        levels=np.array(levels),
        sinks=np.array(sinks),
        weights=(weights / (weights.sum() or 1.0)).astype(np.float32),
    )


def _leaves(problem: Problem, job: int) -> bool:
    output = problem.jobs[job].output
    return output is None or not problem.readers[output]


def _sites(problem: Problem, placement: Placement) -> Array:
    loads = np.array(link_loads(problem, placement)).T
    own = [(each.cores, each.speed, each.up, each.down, max(each.latency, _LEAST)) for each in problem.sites]
    found = [np.log10(np.array(own)), np.minimum(loads, _MOST), np.log10(np.maximum(loads, _LEAST))]
    return np.hstack(found).astype(np.float32)


def batch_of(graphs: Iterable[Graph]) -> Batch:
    """The batch of some graphs (at least one), in their order."""
    found = list(graphs)
    first = _starts(len(each.jobs) for each in found)
    site = _starts(len(each.sites) for each in found)
    depth = np.concatenate([each.levels for each in found])
    order = np.argsort(depth, kind="stable")
    place = np.argsort(order)  # of each job in that order
    writers, readers = np.hstack([each.edges + at for each, at in zip(found, first, strict=True)])
    levels = []
    start = 0
    for level, count in enumerate(np.bincount(depth)):
        into = depth[readers] == level
        levels.append(Level(int(count), place[writers[into]], place[readers[into]] - start))
        start += int(count)
    numbers = np.arange(len(found))
    return Batch(
        count=len(found),
        jobs=np.vstack([each.jobs for each in found])[order],
        classes=np.concatenate([each.classes for each in found])[order],
        sites=np.vstack([each.sites for each in found]),
        places=np.concatenate([each.places + at for each, at in zip(found, site, strict=True)])[order],
        levels=tuple(levels),
        sinks=place[np.concatenate([each.sinks + at for each, at in zip(found, first, strict=True)])],
        weights=np.concatenate([each.weights for each in found]),
        job_of=np.repeat(numbers, [len(each.jobs) for each in found])[order],
        sink_of=np.repeat(numbers, [len(each.sinks) for each in found]),
    )


def _starts(lengths: Iterable[int]) -> list[int]:
    """The index at which each part of a concatenation begins."""
    return [0, *accumulate(lengths)][:-1]
