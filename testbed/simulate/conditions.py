"""The conditions over time: rates, bandwidths and true speeds, as factors of the declared ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from speck.placement.problem import Problem

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Conditions:
    """Factors: ``rates`` by channel, ``link`` and ``speed`` by site."""

    rates: Floats
    link: Floats
    speed: Floats


Scenario = Callable[[float], Conditions]  # of the simulated time, s


def steady(problem: Problem) -> Scenario:
    """All as declared."""
    fixed = Conditions(*(np.ones(len(each)) for each in (problem.channels, problem.sites, problem.sites)))
    return lambda _: fixed


@dataclass(frozen=True, slots=True)
class Spell:
    """A time from ``begin`` until ``end``, s, in which a site's link has ``factor`` of its bandwidth."""

    site: int
    begin: float
    end: float
    factor: float


@dataclass(frozen=True, slots=True)
class Surge:
    """A time from ``begin`` until ``end``, s, in which a composition's sources send ``factor`` as much."""

    composition: int
    begin: float
    end: float
    factor: float


def changing(
    problem: Problem,
    *,
    amplitude: float = 0.0,
    period: float = 86_400.0,
    spells: Sequence[Spell] = (),
    surges: Sequence[Surge] = (),
    speeds: Mapping[int, float] | None = None,
) -> Scenario:
    """A load that rises and falls by ``amplitude`` each ``period``, each composition at its own hour.

    ``speeds`` are the true speeds of sites that are not what they declare, as factors of it.
    """
    owner = np.array(channel_compositions(problem))
    phase = 2 * math.pi * ((owner * 0.6180339887498949) % 1.0)  # spread evenly, whatever their number
    speed = np.ones(len(problem.sites))
    for site, factor in (speeds or {}).items():
        speed[site] = factor

    def at(time: float) -> Conditions:
        rates = 1 + amplitude * np.sin(2 * math.pi * time / period + phase)
        link = np.ones(len(problem.sites))
        for spell in spells:
            if spell.begin <= time < spell.end:
                link[spell.site] *= spell.factor
        for surge in surges:
            if surge.begin <= time < surge.end:
                rates = np.where(owner == surge.composition, rates * surge.factor, rates)
        return Conditions(rates, link, speed)

    return at


def channel_compositions(problem: Problem) -> list[int]:
    """The composition of each channel: that of its first writer, else of its first reader."""
    ends = [problem.writers[channel] or problem.readers[channel] for channel in range(len(problem.channels))]
    return [problem.jobs[each[0]].composition if each else 0 for each in ends]
