"""Random problems for the simulators."""

from __future__ import annotations

import random
from dataclasses import replace

from speck.placement.problem import Channel, Placement, Problem, Tier
from testbed.placement.random_problems import make
from testbed.simulate.conditions import channel_compositions

REGIONS = 4


def small(seed: int) -> Problem:
    """6 to 8 jobs at 4 sites, of which some links and processors are scarce."""
    problem = make(seed, jobs=6 + seed % 3, load=0.5)
    chance = random.Random(seed)
    sites = []
    for site in problem.sites:
        link, cores = chance.choice((1.0, 1.0, 0.3)), chance.choice((1.0, 1.0, 0.1))
        sites.append(replace(site, up=site.up * link, down=site.down * link, cores=site.cores * cores))
    return replace(problem, sites=sites)


def large(seed: int, jobs: int, sites: int, load: float = 0.3) -> Problem:
    """Compositions of 17 jobs, each of which may run where its data are born or needed, or in larger sites.

    The choice is that of a composition's author, and keeps the problem in proportion to the jobs.
    """
    problem = make(seed, jobs=jobs, sites=sites, load=load, compositions=max(1, jobs // 17))
    regions = [index for index, site in enumerate(problem.sites) if site.tier is Tier.REGION]
    chance = random.Random(seed)
    owner = channel_compositions(problem)
    near: dict[int, set[int]] = {}
    for composition in problem.compositions:
        chosen = chance.sample(regions, min(REGIONS, len(regions)))
        near[composition] = {problem.cloud, *chosen}
    for index, channel in enumerate(problem.channels):
        if len(channel.homes) == 1:
            near[owner[index]].add(channel.homes[0])
    return replace(
        problem,
        jobs=[replace(job, allowed=tuple(sorted(near[job.composition]))) for job in problem.jobs],
        channels=[
            channel if len(channel.homes) == 1 else _free(channel, near[owner[index]])
            for index, channel in enumerate(problem.channels)
        ],
    )


def _free(channel: Channel, homes: set[int]) -> Channel:
    return replace(channel, homes=tuple(sorted(homes)))


def scattered(problem: Problem, seed: int) -> Placement:
    """A random placement that breaks no hard constraint of these problems."""
    chance = random.Random(seed)
    return problem.placement([chance.choice(job.allowed) for job in problem.jobs])
