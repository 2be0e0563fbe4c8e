"""The placement problem: sites, jobs and channels as frozen values, which refer to each other by index.

A **channel** is a topic of the composition with its home, the site of the broker that holds it.  Units are
SI: seconds, bytes, messages a second; processor time is that of a reference core.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from speck.core.profile import event_loop_cores
from speck.errors import Fault, InvalidInput
from speck.placement.profile import BATCH_OVERHEAD, FIXED


class Tier(StrEnum):
    """The tier of a site in the topology."""

    EDGE = "edge"
    REGION = "region"
    CLOUD = "cloud"


class EngineModel(StrEnum):
    """The way in which an engine takes messages: one by one, or in batches."""

    FLINK = "flink"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteModel:
    """A site with its engine, broker and link to the wide area network.

    ``cores`` is a number of cores of ``speed`` (1: the reference core) and ``price`` each; ``slots`` a number
    of tasks, ``memory`` bytes (``None``: unlimited); ``up`` and ``down`` the link's bandwidths, bytes/s;
    ``latency`` the one-way delay to the middle of the network, s.  ``idle`` is the number of cores that its
    engine and broker use without any job.
    """

    name: str
    cores: float
    speed: float = 1.0
    price: float = 1.0
    tier: Tier = Tier.EDGE
    slots: int | None = None
    memory: float | None = None
    up: float = 12.5e6
    down: float = 12.5e6
    latency: float = 0.01
    idle: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedJob:
    """A job with its measured or declared load.

    ``allowed`` are the indices of the sites that may run it, ``inputs`` and ``output`` those of its channels.
    ``cost`` is processor time per message, s; ``fixed`` a number of cores that it uses without messages;
    ``selectivity`` messages out per message in; ``memory`` and ``state`` bytes.  Spark runs batches every
    ``trigger`` seconds at least, each with an overhead of ``batch_overhead`` seconds.  A
    ``real_time`` one works on each message as it arrives, as all jobs on Flink do.
    """

    name: str
    allowed: tuple[int, ...]
    inputs: tuple[int, ...]
    output: int | None = None
    composition: int = 0
    engine: EngineModel = EngineModel.FLINK
    cost: float = 8e-6
    fixed: float = FIXED
    selectivity: float = 1.0
    parallelism: int = 1
    memory: float = 3e6
    state: float = 0.0
    stateful: bool = False
    batch_overhead: float = BATCH_OVERHEAD
    trigger: float = 0.0
    real_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A topic: ``size`` is bytes of payload and topic of a message, ``rate`` that of messages born here.

    ``homes`` are the indices of the sites whose broker may hold it; one: its home is fixed.  ``stamp`` is
    the bytes of a stamp, if they are not those of the problem.
    """

    name: str
    homes: tuple[int, ...]
    size: float = 110.0
    rate: float = 0.0
    stamp: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The shares of age, WAN traffic and cores in the objective."""

    latency: float = 0.5
    wan: float = 0.4
    cores: float = 0.1


@dataclass(frozen=True, slots=True)
class Placement:
    """A site for each job and a home for each channel, by index.

    ``bound`` is a proven lower bound of the objective (``None``: unknown).
    """

    sites: tuple[int, ...]
    homes: tuple[int, ...]
    bound: float | None = None


class MessageRates(NamedTuple):
    """Messages/s ``into`` each job, ``out`` of each job, and ``through`` each channel, by index."""

    into: tuple[float, ...]
    out: tuple[float, ...]
    through: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Loads by site: ``cores``, ``memory`` in bytes, ``slots``, and bytes/s of a link's two directions.

    ``messages`` are those into and out of its Flink jobs, 1/s, whose event loop ``cores`` do not include: it
    is no sum over jobs.  :meth:`Problem.used_cores` adds it.
    """

    cores: list[float]
    memory: list[float]
    slots: list[float]
    up: list[float]
    down: list[float]
    messages: list[float]

    @classmethod
    def none(cls, count: int) -> Load:
        """No load at ``count`` sites."""
        return cls(*([0.0] * count for _ in range(6)))

    def __add__(self, other: Load) -> Load:
        """Both loads together."""
        return self._with(other, 1.0)

    def __sub__(self, other: Load) -> Load:
        """The load without another one that is part of it."""
        return self._with(other, -1.0)

    def _with(self, other: Load, sign: float) -> Load:
        pairs = (
            (self.cores, other.cores),
            (self.memory, other.memory),
            (self.slots, other.slots),
            (self.up, other.up),
            (self.down, other.down),
            (self.messages, other.messages),
        )
        return Load(*([a + sign * b for a, b in zip(one, two, strict=True)] for one, two in pairs))


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Sites, jobs and channels, and the objective.

    ``together`` are groups of jobs to be at one site, ``apart`` pairs to be at two.  ``utilisation`` and
    ``link_utilisation`` are targets (shares); ``max_age`` bounds the 95th percentile of each result's age, s,
    ``max_wan`` the bytes/s that these jobs send from each site.  ``background`` is the load of all other jobs
    at the sites.  ``history`` has past rates of each channel's born messages, messages/s, the newest last,
    one every ``history_step`` s (empty: unknown).

    Everywhere jobs, channels, sites and units are numbers: the indices here, and in :attr:`units`.  Where
    ``sites`` is a parameter, it has the site of each job.

    Raises :class:`~speck.errors.InvalidInput` for a cycle of jobs, and for a job without a site to run at.
    """

    sites: Sequence[SiteModel]
    jobs: Sequence[PlacedJob]
    channels: Sequence[Channel]
    weights: Weights = Weights()
    together: Sequence[tuple[int, ...]] = ()
    apart: Sequence[tuple[int, int]] = ()
    utilisation: float = 0.7
    link_utilisation: float = 0.8
    max_age: float | None = None
    # Bytes on the wire beside payload and topic, a message, both directions together: headers of MQTT and
    # TCP/IP; the stamp of a message that a job has written; its PUBACK on the way to its broker.  Counted by
    # the rig at 200 to 400 messages/s (benchmarks.placement gates).
    overhead: float = 72.0
    stamp: float = 78.0
    acknowledgement: float = 27.0
    # Processor time of a broker, s a message and reader, where it wakes up for each: up to BROKER_BUSY
    # messages/s of a channel (speck.placement.cost).
    broker_cost: float = 40e-6
    # Reference cores per root of the messages/s into and out of all Flink jobs of a site (its event loop).
    event_loop: float = 0.0
    max_wan: float | None = None
    background: Load | None = None
    history: Sequence[Sequence[float]] = ()
    history_step: float = 10.0

    def __post_init__(self) -> None:
        """Check what the algorithms rely on."""
        faults = [
            Fault(f"job {self.jobs[unit[0]].name!r} has no site to run at", field="sites")
            for unit in self.units
            if not self.allowed(unit)
        ]
        if faults:
            raise InvalidInput(faults, "placement problem")
        self.order  # noqa: B018 - raises for a cycle

    @cached_property
    def others(self) -> Load:
        """The load of all other jobs at the sites, and of their idle engines."""
        none = Load.none(len(self.sites))
        idle = replace(none, cores=[site.idle for site in self.sites])
        return (self.background or none) + idle

    @cached_property
    def cores_of_others(self) -> tuple[float, ...]:
        """The cores of each site that all other jobs and the idle engines use."""
        return tuple(self.used_cores(self.others))

    def used_cores(self, load: Load) -> list[float]:
        """The cores of each site that a load uses, with the event loop of its messages."""
        pairs = enumerate(zip(load.cores, load.messages, strict=True))
        return [cores + self.loop_cores(site, messages) for site, (cores, messages) in pairs]

    def loop_cores(self, site: int, messages: float) -> float:
        """The cores of a site's event loop, by the messages/s into and out of its Flink jobs."""
        return event_loop_cores(messages, self.event_loop) / self.sites[site].speed

    @cached_property
    def messages(self) -> tuple[float, ...]:
        """The messages/s into and out of each job, by which it loads an event loop; 0 on Spark."""
        into, out, _ = self.rates
        return tuple(
            into[index] + out[index] if job.engine is EngineModel.FLINK else 0.0
            for index, job in enumerate(self.jobs)
        )

    @cached_property
    def units(self) -> tuple[tuple[int, ...], ...]:
        """The jobs in groups that move together, in the order of their first job."""
        group = list(range(len(self.jobs)))
        for members in self.together:
            first = min(group[each] for each in members)
            merged = {group[each] for each in members}
            group = [first if each in merged else each for each in group]
        by_first: dict[int, list[int]] = {}
        for job, first in enumerate(group):
            by_first.setdefault(first, []).append(job)
        return tuple(tuple(jobs) for jobs in by_first.values())

    @cached_property
    def unit_of(self) -> tuple[int, ...]:
        """The index in :attr:`units` of each job."""
        found = {job: index for index, unit in enumerate(self.units) for job in unit}
        return tuple(found[job] for job in range(len(self.jobs)))

    def allowed(self, unit: Sequence[int]) -> tuple[int, ...]:
        """The sites that may run all jobs of a unit."""
        first, *others = (self.jobs[job].allowed for job in unit)
        return tuple(site for site in first if all(site in each for each in others))

    @cached_property
    def opponents(self) -> tuple[frozenset[int], ...]:
        """The units that each unit must not share a site with."""
        found: list[set[int]] = [set() for _ in self.units]
        for one, other in self.apart:
            found[self.unit_of[one]].add(self.unit_of[other])
            found[self.unit_of[other]].add(self.unit_of[one])
        return tuple(map(frozenset, found))

    @cached_property
    def writers(self) -> tuple[tuple[int, ...], ...]:
        """The jobs that write to each channel."""
        return self._attached([() if job.output is None else (job.output,) for job in self.jobs])

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """The jobs that read each channel."""
        return self._attached([job.inputs for job in self.jobs])

    def _attached(self, channels_by_job: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.channels]
        for job, channels in enumerate(channels_by_job):
            for channel in channels:
                found[channel].append(job)
        return tuple(map(tuple, found))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The jobs from the sources to the sinks."""
        before = {
            index: [writer for channel in job.inputs for writer in self.writers[channel]]
            for index, job in enumerate(self.jobs)
        }
        try:
            return tuple(TopologicalSorter(before).static_order())
        except CycleError as error:
            names = " -> ".join(repr(self.jobs[index].name) for index in reversed(error.args[1]))
            message = f"the jobs {names} form a cycle (expected none: their rates would grow without bound)"
            raise InvalidInput([Fault(message, field="jobs")], "placement problem") from error

    @cached_property
    def rates(self) -> MessageRates:
        """The rates at which messages flow.

        Propagated from the sources in topological order, unrounded (Kalavri et al., "Three steps is all you
        need", OSDI 2018, section 3).
        """
        into, out = [0.0] * len(self.jobs), [0.0] * len(self.jobs)
        through = [channel.rate for channel in self.channels]
        for index in self.order:
            job = self.jobs[index]
            into[index] = math.fsum(through[channel] for channel in job.inputs)
            out[index] = into[index] * job.selectivity
            if job.output is not None:
                through[job.output] += out[index]
        return MessageRates(tuple(into), tuple(out), tuple(through))

    @cached_property
    def fixed_homes(self) -> Mapping[int, Set[int]]:
        """The sites of the channels with a fixed home that jobs read or write, by composition."""
        found: dict[int, set[int]] = {each: set() for each in self.compositions}
        for job in self.jobs:
            for channel in (*job.inputs, *(() if job.output is None else (job.output,))):
                if len(homes := self.channels[channel].homes) == 1:
                    found[job.composition].update(homes)
        return found

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The share of a composition's results that pass each job; all its sinks count the same."""
        into, out, _ = self.rates
        found = [0.0] * len(self.jobs)
        ends = [
            index for index, job in enumerate(self.jobs) if job.output is None or not self.readers[job.output]
        ]
        sinks: dict[int, int] = {}
        for index in ends:
            sinks[self.jobs[index].composition] = sinks.get(self.jobs[index].composition, 0) + 1
        for index in ends:
            found[index] = 1.0 / sinks[self.jobs[index].composition]
        for index in reversed(self.order):
            for channel in self.jobs[index].inputs:
                for writer in self.writers[channel]:
                    found[writer] += found[index] * out[writer] / into[index] if into[index] else 0.0
        return tuple(found)

    @cached_property
    def compositions(self) -> tuple[int, ...]:
        """The indices of the compositions."""
        return tuple(sorted({job.composition for job in self.jobs}))

    def home(self, channel: int, sites: Sequence[int]) -> int:
        """The home of a channel that costs the fewest WAN bytes; on a tie the site of its first writer."""
        homes = self.channels[channel].homes
        if len(homes) == 1:
            return homes[0]
        _, out, through = self.rates
        local = dict.fromkeys(homes, 0.0)
        for writer in self.writers[channel]:
            if sites[writer] in local:
                local[sites[writer]] += out[writer]
        for reader in self.readers[channel]:
            if sites[reader] in local:
                local[sites[reader]] += through[channel]
        first = sites[self.writers[channel][0]] if self.writers[channel] else homes[0]
        return max(homes, key=lambda home: (local[home], home == first))

    def placement(self, sites: Sequence[int], bound: float | None = None) -> Placement:
        """The jobs at these sites, with the best home of each channel; ``bound`` as of :class:`Placement`."""
        homes = tuple(self.home(channel, sites) for channel in range(len(self.channels)))
        return Placement(tuple(sites), homes, bound)

    def faults(self, sites: Sequence[int]) -> list[str]:
        """The hard constraints that a placement of the jobs breaks, in words."""
        found = [
            f"job {job.name!r} is not allowed at site {self.sites[site].name!r}"
            for job, site in zip(self.jobs, sites, strict=True)
            if site not in job.allowed
        ]
        for group in self.together:
            if len({sites[job] for job in group}) > 1:
                found.append(
                    f"jobs {', '.join(repr(self.jobs[job].name) for job in group)} are not at one site"
                )
        for one, other in self.apart:
            if sites[one] == sites[other]:
                found.append(f"jobs {self.jobs[one].name!r} and {self.jobs[other].name!r} are at one site")
        return found

    @cached_property
    def cloud(self) -> int:
        """The site with the most computing power of the cloud tier (of all tiers, if none is of it)."""
        clouds = [index for index, site in enumerate(self.sites) if site.tier is Tier.CLOUD]
        return max(
            clouds or range(len(self.sites)),
            key=lambda index: self.sites[index].cores * self.sites[index].speed,
        )

    @cached_property
    def all_in_cloud(self) -> Placement:
        """The reference: each job in the cloud, or else at its first allowed site without an opponent."""
        sites = [0] * len(self.jobs)
        placed: dict[int, int] = {}
        for unit, jobs in enumerate(self.units):
            taken = {placed[other] for other in self.opponents[unit] if other in placed}
            allowed = self.allowed(jobs)
            free = [site for site in allowed if site not in taken] or allowed
            placed[unit] = self.cloud if self.cloud in free else free[0]
            for job in jobs:
                sites[job] = placed[unit]
        return self.placement(sites)
