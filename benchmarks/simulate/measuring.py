"""The measurements of a composition, as SpecK has them of engines, taken from simulator (a).

They have the form of the product's profiles, so that its own functions derive links, sites and models.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from speck.core import inventory
from speck.core.draft import Draft
from speck.core.inventory import Engine, Inventory, Uplink
from speck.core.job import Composition, Job
from speck.core.placement import PlacementOptions
from speck.observe.links import Crossing, Crossings, declared_link, link_profile
from speck.placement.model import Model
from speck.placement.problem import Load, Placement, Problem
from speck.placement.profile import Inputs, JobProfile, Known, LinkProfile, SiteProfile, Value
from speck.placement.sites import site_table
from speck.store.profiles import MeasuredLink
from testbed.simulate.conditions import Floats
from testbed.simulate.fluid import Fluid

SPAN = 60.0  # s, of which rates are averages
LEAST = 1e-3  # messages/s, below which a job counts as one without input


@dataclass(frozen=True)
class Part:
    """The part of the true problem that belongs to one composition: indices of it, in order."""

    name: str
    problem: Problem
    jobs: tuple[int, ...]
    channels: tuple[int, ...]
    sites: tuple[int, ...]
    draft: Draft


def parts(problem: Problem, options: PlacementOptions) -> list[Part]:
    """The compositions of a problem, each with the sites that come into question for it."""
    found = []
    for composition in problem.compositions:
        jobs = [index for index, job in enumerate(problem.jobs) if job.composition == composition]
        ends = {channel for job in jobs for channel in problem.jobs[job].inputs}
        ends |= {output for job in jobs if (output := problem.jobs[job].output) is not None}
        sites = {site for job in jobs for site in problem.jobs[job].allowed} | {problem.cloud}
        sites |= {home for channel in ends for home in problem.channels[channel].homes}
        found.append(_part(problem, composition, jobs, sorted(ends), sorted(sites), options))
    return found


def _part(
    problem: Problem,
    composition: int,
    jobs: list[int],
    channels: list[int],
    sites: list[int],
    options: PlacementOptions,
) -> Part:
    site, channel = _numbers(sites), _numbers(channels)
    own = Problem(
        sites=[problem.sites[each] for each in sites],
        jobs=[
            replace(
                problem.jobs[each],
                allowed=tuple(site[at] for at in problem.jobs[each].allowed),
                inputs=tuple(channel[one] for one in problem.jobs[each].inputs),
                output=None if (output := problem.jobs[each].output) is None else channel[output],
            )
            for each in jobs
        ],
        channels=[
            replace(problem.channels[each], homes=tuple(site[at] for at in problem.channels[each].homes))
            for each in channels
        ],
    )
    name = f"composition{composition}"
    known = Inventory({each.name: _declared(each.name, own, index) for index, each in enumerate(own.sites)})
    named = Composition(name, {each.name: _job(each.name) for each in own.jobs}, options)
    return Part(name, own, tuple(jobs), tuple(channels), tuple(sites), Draft(named, known, {}, ()))


def _numbers(indices: list[int]) -> dict[int, int]:
    return {each: number for number, each in enumerate(indices)}


def _declared(name: str, problem: Problem, index: int) -> inventory.Site:
    site = problem.sites[index]
    return inventory.Site(
        name=name,
        engines=(Engine(spe_address=f"http://{name}:8081/", slots=site.slots),),
        broker_address=f"tcp://{name}:1883",
        uplink=Uplink(bandwidth=site.up * 8, downlink=site.down * 8, latency=site.latency * 1000),
        cores=site.cores,
        speed=site.speed,
        price=site.price,
        tier=site.tier.value,
    )


def _job(name: str) -> Job:
    return Job(
        job_name=name,
        spe_address="",
        source_broker="",
        source_topic="",
        sink_broker="",
        sink_topic="",
        entry_class="",
        job_path="",
        engine="flink",
    )


@dataclass
class Meter:
    """The counters of the last minute; ``noise`` is the standard deviation of measured values, as a share."""

    fluid: Fluid
    noise: float = 0.0
    seed: int = 0
    _samples: deque[tuple[float, Floats, Floats]] = field(default_factory=deque, init=False)
    _flows: tuple[float, Floats, Floats] | None = field(default=None, init=False)
    _crossings: dict[str, Crossings] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._chance = random.Random(self.seed)
        self.sample([])

    def sample(self, compositions: list[Part]) -> None:
        """Read the counters now."""
        fluid = self.fluid
        self._samples.append((fluid.time, fluid.taken.copy(), fluid.made.copy()))
        while len(self._samples) > 2 and self._samples[1][0] <= fluid.time - SPAN:
            self._samples.popleft()
        if self._flows is not None and fluid.time > self._flows[0]:
            self._cross(compositions, *self._flows)
        self._flows = fluid.time, fluid.crossed.copy(), fluid.full.copy()

    def _cross(self, compositions: list[Part], since: float, crossed: Floats, full: Floats) -> None:
        """Note the crossings of writers, of which alone acknowledgements are measured."""
        fluid, seconds = self.fluid, self.fluid.time - since
        sites = fluid.problem.sites
        for part in compositions:
            links = self._crossings.setdefault(part.name, Crossings())
            for job in part.jobs:
                flow = fluid.flow_of_writer.get(job)
                if flow is None or not fluid.crosses(flow):
                    continue
                rate = float(fluid.crossed[flow] - crossed[flow]) / seconds
                source, target = (sites[end] for end in fluid.ends(flow))
                trip = 2 * (source.latency + target.latency)
                busy = float(fluid.full[flow] - full[flow]) / seconds
                name = fluid.problem.jobs[job].name
                links.add((source.name, target.name), name, Crossing(fluid.time, rate, trip, busy))

    def _noisy(self, value: float) -> float:
        return value * max(0.1, self._chance.gauss(1.0, self.noise)) if self.noise else value

    def rates(self, job: int) -> tuple[float, float]:
        """Messages/s into and out of a job, over the last minute."""
        (begin, taken, made), (end, taken_now, made_now) = self._samples[0], self._samples[-1]
        seconds = max(1e-9, end - begin)
        return float(taken_now[job] - taken[job]) / seconds, float(made_now[job] - made[job]) / seconds

    def inputs(self, part: Part, speeds: Mapping[str, float], true_speed: Floats) -> Inputs:
        """The profiles of a composition; ``speeds`` are those which the coordinator counts with, by site."""
        now, fluid = self.fluid.time, self.fluid
        jobs = {}
        for index in part.jobs:
            job, (into, out) = fluid.problem.jobs[index], self.rates(index)
            site = fluid.problem.sites[fluid.site(index)]
            slower = speeds[site.name] / (site.speed * float(true_speed[fluid.site(index)]))
            if into > LEAST:
                jobs[job.name] = JobProfile(
                    rate_in=self._value(into, now),
                    rate_out=self._value(out, now),
                    cost=self._value(job.cost * slower, now),
                    fixed=Value(job.fixed * slower, Known.MEASURED, now, 12),
                    selectivity=self._value(out / into, now),
                    batch_overhead=Value(job.batch_overhead * slower, Known.MEASURED, now, 12),
                )
        sites = {
            each.name: SiteProfile(name=each.name, speed=Value(speeds[each.name], Known.MEASURED, now, 12))
            for each in part.problem.sites
        }
        links = dict(self._links(part, now))
        return Inputs(jobs=jobs, links=links, sites=sites, fresh=frozenset(jobs))

    def _value(self, value: float, now: float) -> Value:
        return Value(self._noisy(value), Known.MEASURED, now, 12)

    def _links(self, part: Part, now: float) -> Iterator[tuple[tuple[str, str], LinkProfile]]:
        known = part.draft.inventory
        passive = self._crossings.get(part.name, Crossings()).measured(now)
        for link, found in passive.items():
            if found.bandwidth is not None:
                found = replace(
                    found, bandwidth=replace(found.bandwidth, value=self._noisy(found.bandwidth.value))
                )
            yield link, link_profile(link, MeasuredLink(passive=found), declared_link(known, link), now)


def modelled(
    part: Part, inputs: Inputs, placement: Placement, background: Load, *, homes_stay: bool
) -> Model:
    """The model of a composition as it runs, of measured values; ``placement`` is of the true problem."""
    own, site = part.problem, _numbers(list(part.sites))
    sites = tuple(site[placement.sites[job]] for job in part.jobs)
    homes = tuple(site[placement.homes[channel]] for channel in part.channels)
    table = site_table(part.draft.inventory, inputs, ())
    jobs = [
        job
        if (known := inputs.jobs.get(job.name)) is None
        else replace(
            job,
            cost=_number(known.cost, job.cost),
            fixed=_number(known.fixed, job.fixed),
            selectivity=_number(known.selectivity, job.selectivity),
            batch_overhead=_number(known.batch_overhead, job.batch_overhead),
        )
        for job in own.jobs
    ]
    into, _, through = own.rates
    channels = []
    for index, channel in enumerate(own.channels):
        rate = 0.0
        for reader in own.readers[index] if channel.rate else ():
            known = inputs.jobs.get(own.jobs[reader].name)
            taken = 0.0 if known is None else _number(known.rate_in, 0.0)
            # As in the product, the rate of born messages is that of the reader that takes in most.
            rate = max(rate, taken * through[index] / into[reader])
        stays = (homes[index],) if homes_stay else channel.homes
        channels.append(replace(channel, rate=rate, homes=stays))
    problem = Problem(sites=table.sites, jobs=jobs, channels=channels, background=background)
    names, keys = tuple(job.name for job in jobs), tuple(channel.name for channel in channels)
    return Model(part.draft, table, problem, names, keys, sites, homes, {}, {})


def _number(value: Value | None, otherwise: float) -> float:
    return otherwise if value is None else value.value
