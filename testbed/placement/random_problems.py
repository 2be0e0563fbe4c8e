"""Random placement problems: compositions over edges and a cloud, made from a seed."""

from __future__ import annotations

import random

from speck.placement.problem import Channel, EngineModel, PlacedJob, Problem, SiteModel, Tier

BANDWIDTHS = (2e6 / 8, 25e6 / 8, 100e6 / 8)  # bytes/s
LOADS = (1.0, 4.0, 12.0)


def make(
    seed: int,
    *,
    jobs: int,
    sites: int = 4,
    load: float | None = None,
    compositions: int = 1,
    event_loop: float = 0.0,
) -> Problem:
    """A problem with ``jobs`` jobs in all, and one site in four (at least one) in the cloud or a region.

    ``event_loop`` is that of :class:`~speck.placement.problem.Problem`.
    """
    chance = random.Random(seed)
    factor = chance.choice(LOADS) if load is None else load
    places = _sites(chance, sites)
    placed: list[PlacedJob] = []
    channels: list[Channel] = []
    for index in range(compositions):
        count = jobs // compositions + (index < jobs % compositions)
        _composition(chance, index, count, places, factor, placed, channels)
    return Problem(sites=places, jobs=placed, channels=channels, event_loop=event_loop)


def _sites(chance: random.Random, count: int) -> list[SiteModel]:
    regions = count // 8
    found = [
        SiteModel(
            name=f"edge{number}", cores=2.0, speed=0.4, tier=Tier.EDGE, slots=16,
            up=chance.choice(BANDWIDTHS), down=chance.choice(BANDWIDTHS), latency=chance.uniform(0.005, 0.04),
        )
        for number in range(count - 1 - regions)
    ]  # fmt: skip
    found += [
        SiteModel(
            name=f"region{number}",
            cores=8.0,
            speed=0.8,
            tier=Tier.REGION,
            up=125e6 / 8,
            down=125e6 / 8,
            latency=0.005,
        )
        for number in range(regions)
    ]
    scale = max(1.0, count / 8)
    found.append(
        SiteModel(
            name="cloud",
            cores=16.0 * scale,
            tier=Tier.CLOUD,
            up=125e6 * scale,
            down=125e6 * scale,
            latency=0.002,
        )
    )
    return found


def _composition(
    chance: random.Random,
    composition: int,
    count: int,
    sites: list[SiteModel],
    load: float,
    jobs: list[PlacedJob],
    channels: list[Channel],
) -> None:
    """Add a random DAG: one to three sources at edges, and three in four sinks in the cloud."""
    edges = [index for index, site in enumerate(sites) if site.tier is Tier.EDGE]
    everywhere = tuple(range(len(sites)))
    born = chance.sample(edges, min(len(edges), chance.randint(1, 3)))
    available: list[int] = []
    for edge in born:
        rate = load * chance.uniform(100, 1500)
        available.append(
            _channel(channels, f"source{composition}-{edge}", (edge,), chance.uniform(60, 400), rate)
        )
    for number in range(count):
        fan_in = 2 if len(available) > 1 and chance.random() < 0.25 else 1
        recent = available[-4:]
        inputs = tuple(sorted(set(chance.choices(recent, k=fan_in))))
        stateful = chance.random() < 0.4
        output = _channel(channels, f"topic{composition}-{number}", everywhere, chance.uniform(40, 300), 0.0)
        spark = chance.random() < 0.3
        jobs.append(
            PlacedJob(
                name=f"job{composition}-{number}",
                allowed=everywhere,
                inputs=inputs,
                output=output,
                composition=composition,
                engine=EngineModel.SPARK if spark else EngineModel.FLINK,
                cost=chance.uniform(10e-6, 120e-6),
                selectivity=chance.choice((0.02, 0.2, 0.8))
                if stateful
                else chance.choice((0.1, 0.5, 0.95, 1.0)),
                stateful=stateful,
                state=chance.uniform(0, 20e6) if stateful else 0.0,
            )
        )
        available.append(output)
    _fix_sinks(chance, jobs, channels, sites, composition)


def _channel(channels: list[Channel], name: str, homes: tuple[int, ...], size: float, rate: float) -> int:
    channels.append(Channel(name=name, homes=homes, size=size, rate=rate))
    return len(channels) - 1


def _fix_sinks(
    chance: random.Random,
    jobs: list[PlacedJob],
    channels: list[Channel],
    sites: list[SiteModel],
    composition: int,
) -> None:
    read = {channel for job in jobs for channel in job.inputs}
    for job in jobs:
        if job.composition == composition and job.output is not None and job.output not in read:
            old = channels[job.output]
            home = len(sites) - 1 if chance.random() < 0.75 else chance.randrange(len(sites))
            channels[job.output] = Channel(name=old.name, homes=(home,), size=old.size)
