"""The inputs of a placement that have changed since it was computed, in words."""

from __future__ import annotations

from collections.abc import Iterator

from speck.placement.model import Model
from speck.placement.problem import Load, Problem

# An input that differs by more than this share makes a proposal stale.
TOLERANCE = 0.2
# Differences below these are noise: of a rate (messages/s), of a share of a site's cores, of a latency (s).
LEAST_RATE, LEAST_SHARE, LEAST_LATENCY = 1.0, 0.05, 5e-3


def changed_inputs(before: Model, now: Model) -> Iterator[str]:
    """The inputs that differ by more than :data:`TOLERANCE`, in words."""
    old, new = before.problem, now.problem
    for name, one, other in zip(before.channels, old.channels, new.channels, strict=True):
        topic = name.split(" ", 1)[1]
        if _differs(one.rate, other.rate, LEAST_RATE):
            yield f"the rate of topic {topic!r} was {one.rate:.3g}/s and is {other.rate:.3g}/s"
        if _differs(one.size, other.size, 1.0):
            yield f"a message of topic {topic!r} had {one.size:.3g} and has {other.size:.3g} bytes"
    slowest = min((site.cores * site.speed for site in old.sites), default=1.0)
    for index, job in enumerate(old.jobs):
        load, later = _cores(old, index), _cores(new, index)
        if _differs(load, later, LEAST_SHARE * slowest):
            yield f"job {job.name!r} took {load:.3g} cores and takes {later:.3g}"
    yield from _changed_load(old, new)
    sites = {site.name: site for site in new.sites}
    for site in old.sites:
        other_site = sites.get(site.name, site)
        for what, one_value, other_value, least in (
            ("uplink (bytes/s)", site.up, other_site.up, 0.0),
            ("downlink (bytes/s)", site.down, other_site.down, 0.0),
            ("latency (s)", site.latency, other_site.latency, LEAST_LATENCY),
            ("speed", site.speed, other_site.speed, 0.0),
        ):
            if _differs(one_value, other_value, least):
                yield f"the {what} of site {site.name!r} was {one_value:.3g} and is {other_value:.3g}"


def _changed_load(old: Problem, new: Problem) -> Iterator[str]:
    """The sites whose cores other compositions use to another extent, in words."""
    before, later = _used_elsewhere(old), _used_elsewhere(new)
    for site in old.sites:
        cores = before[site.name]
        if _differs(cores, now := later.get(site.name, cores), LEAST_SHARE * site.cores):
            yield (f"other compositions took {cores:.3g} cores of site {site.name!r} and take {now:.3g}")


def _used_elsewhere(problem: Problem) -> dict[str, float]:
    """The cores that other compositions use, by site."""
    used = problem.used_cores(problem.background or Load.none(len(problem.sites)))
    return {site.name: cores for site, cores in zip(problem.sites, used, strict=True)}


def _cores(problem: Problem, index: int) -> float:
    """The reference cores of a job, of which a line through more samples makes more or less a message's."""
    job = problem.jobs[index]
    return problem.rates.into[index] * job.cost + job.fixed


def _differs(one: float, other: float, least: float) -> bool:
    return abs(one - other) > max(least, TOLERANCE * max(abs(one), 1e-12))
