"""The cost model: the predicted figures of a placement, and its objective.

The objective is ``latency * L/L0 + wan * W/W0 + cores * C/C0 + 10 * (sum of over-shares)``: the mean age
of results L, s, averaged over the compositions; WAN traffic W, bytes/s; cores C, at their price; each
against the placement with all jobs in the cloud.  An over-share is the excess over a target, as a share
of it.

How the figures come about.  The rates of all channels follow from those of the sources and the
selectivity of the jobs, and do not depend on the placement.  The placement decides where each message
costs something:

1. A job takes ``rate * cost + fixed`` reference cores of its site, a broker a share of a core for each
   message that it passes on (:func:`load`, :func:`broker_load`).  The Flink jobs of a site share an event
   loop, which takes cores as the root of all their messages (:meth:`Problem.loop_cores`): one more job adds
   the less, the more there are.
2. A channel has one home, the site of its broker.  Each writer elsewhere sends all its messages over the
   uplink of its site and the downlink of the home, each reader elsewhere the other way
   (:func:`crossings`).  A message on the wire is larger than its payload: headers, a stamp, an
   acknowledgement (:func:`wire`).
3. The age of a result is the sum along its path of the time in each job and on each link.  A Flink job
   or one in real time is a queue; a Spark job gathers messages for a batch, so that its time is mostly
   that of the period of its batches (:func:`service`).  A link adds latency, transmission and queueing
   (:func:`transfer`).  The 95th percentile adds variances along the slowest path and takes the sum as
   normal.
4. The multiplier is the factor by which all rates may grow until something is full: a site, a link, a
   job, the one thread of a broker, or the window of messages in flight of a writer or a session.  Below 1
   the placement does not keep up, whatever its ages say.

Simplifications (``benchmarks.placement gates`` compares the figures with real runs): loads are
means over time, queues are M/M/1 up to :data:`SATURATION` and linear in the over-share beyond it, what other
jobs of a site take is a constant, and a site has one Flink process.

:func:`evaluate` computes all figures from the beginning; :class:`~speck.placement.state.SearchState` keeps
the objective while jobs move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from speck.placement.problem import EngineModel, Load, PlacedJob, Placement, Problem, SiteModel

# An objective of 1 is that of all jobs in the cloud: 10% over a target outweighs all that latency can gain.
PENALTY = 10.0
# A queue grows without bound as its utilisation reaches 1; beyond this share the over-share counts.
SATURATION = 0.95
FLINK_DELAY = 1.6e-3  # s: connector, network buffers; benchmarks.hop
# Spark gathers messages for half of the last batch before it begins the next.
GATHERING = 1.5
P95 = 1.645  # standard deviations of a normal distribution
# Messages in flight between a process and a broker, and of a Flink session between checkpoints.
INFLIGHT = 1000
SESSION_INFLIGHT = 65_535  # MQTT's receive maximum
# Flink acknowledges with its checkpoints; this interval is that of `speck local` and the documented settings.
CHECKPOINT_SECONDS = 3.0
# Processor time of a broker under full load, s a message and reader, which takes many messages at a time.
BROKER_PASS = 10e-6
# Messages/s of a channel above which the broker finds several at each wake-up, so that what a message costs
# beyond BROKER_PASS falls with the root: 40 us at 400/s and 26 us at 1,840/s were measured, 24 is computed.
BROKER_BUSY = 400.0
# Each step halves the error of a site's growth at least.
_CORRECTIONS = 40


@dataclass(frozen=True, slots=True)
class SiteFigures:
    """The load of a site as shares of its capacity (``None``: it has no limit)."""

    cores: float
    memory: float | None
    slots: float | None
    up: float
    down: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The predicted figures of a placement.

    ``objective`` is that of :func:`combined`; ``age`` and ``age_p95``, s (the latter of the slowest sink);
    ``wan``, bytes/s; ``cores``, reference cores at their price; ``sites`` by index; ``over`` the sum of the
    shares by which targets are exceeded, 0 for none; ``multiplier`` the factor by which all sources may grow
    before ``bottleneck`` is full.
    """

    objective: float
    age: float
    age_p95: float
    wan: float
    cores: float
    sites: tuple[SiteFigures, ...]
    over: float
    multiplier: float
    bottleneck: str

    @property
    def feasible(self) -> bool:
        """True if no target is exceeded and the rates are sustained."""
        return self.over <= 1e-9 and self.multiplier >= 1


@dataclass(frozen=True, slots=True)
class Crossing:
    """A flow over the wide area: ``rate``, messages/s; ``size``, bytes; ``weight``, share of results.

    ``written`` is true for a flow from a writer to a broker, false for one from a broker to a reader.
    """

    source: int
    target: int
    rate: float
    size: float
    weight: float
    written: bool


@dataclass(frozen=True, slots=True)
class Reference:
    """The figures that the objective is relative to, as of :class:`Figures`; ``age`` by composition."""

    age: dict[int, float]
    wan: float
    cores: float


def load(job: PlacedJob, rate: float, site: SiteModel) -> float:
    """The cores of a site that a job uses at ``rate`` messages/s into it."""
    return (rate * job.cost + job.fixed) / site.speed


def service(job: PlacedJob, rate: float, site: SiteModel, utilisation: float) -> tuple[float, float]:
    """The mean time, s, of a message in a job with ``rate`` messages/s, and its variance, s².

    ``utilisation`` is the share of the cores of the site that is in use.
    """
    per_message = job.cost / site.speed
    if job.engine is EngineModel.FLINK or job.real_time:
        busy = min(SATURATION, max(utilisation, rate * per_message / job.parallelism))
        queueing = per_message * busy / (1 - busy)
        return FLINK_DELAY + per_message + queueing, queueing**2
    busy = min(SATURATION, GATHERING * rate * per_message / job.parallelism)
    work = job.batch_overhead / site.speed / (1 - busy)
    period = max(job.trigger, GATHERING * work)
    return period / 2 + work, period**2 / 12


def wire(problem: Problem, channel: int, written: bool) -> float:
    """The bytes of a message on the wire, from a job to a broker (``written``) or from there to a job."""
    found = problem.channels[channel]
    stamp = problem.stamp if found.stamp is None else found.stamp
    size = found.size + problem.overhead + (stamp if problem.writers[channel] else 0.0)
    return size + (problem.acknowledgement if written else 0.0)


def crossings(problem: Problem, channel: int, sites: Sequence[int], home: int) -> Iterator[Crossing]:
    """The flows of a channel between sites: of each writer to its home, and to each reader from there."""
    into, out, through = problem.rates
    to_home, from_home = (wire(problem, channel, written) for written in (True, False))
    for writer in problem.writers[channel]:
        if sites[writer] != home:
            yield Crossing(sites[writer], home, out[writer], to_home, problem.shares[writer], True)
    for reader in problem.readers[channel]:
        if sites[reader] != home:
            share = through[channel] / into[reader] if into[reader] else 0.0
            weight = problem.shares[reader] * share
            yield Crossing(home, sites[reader], through[channel], from_home, weight, False)


def broker_load(problem: Problem, channel: int, home: int) -> float:
    """The cores of a site that its broker uses for a channel."""
    return _broker_cores(problem, _passed(problem, channel)) / problem.sites[home].speed


def _broker_cores(problem: Problem, passed: float) -> float:
    """The reference cores that a broker uses to pass on these messages/s of a channel."""
    least = _least_broker_cost(problem)
    share = math.sqrt(BROKER_BUSY / passed) if passed > BROKER_BUSY else 1.0
    return (least + (problem.broker_cost - least) * share) * passed


def _least_broker_cost(problem: Problem) -> float:
    return min(BROKER_PASS, problem.broker_cost)


def _passed(problem: Problem, channel: int) -> float:
    """The messages/s that a broker passes on for a channel, each once for every reader."""
    through = problem.rates.through
    return through[channel] * max(1, len(problem.readers[channel]))


def transfer(size: float, bandwidth: float, traffic: float) -> tuple[float, float]:
    """The time, s, of ``size`` bytes at an end of a link (bytes/s), without its latency; its variance, s²."""
    busy = min(SATURATION, traffic / bandwidth)
    plain = size / bandwidth
    queueing = plain * busy / (1 - busy)
    return plain + queueing, queueing**2


class _Loads:
    """The sums over a placement from which all figures follow."""

    def __init__(self, problem: Problem, placement: Placement) -> None:
        """Sum up the loads of sites and links."""
        into = problem.rates.into
        others = problem.others
        self.summed, self.messages = list(others.cores), list(others.messages)
        self.memory, self.slots = list(others.memory), list(others.slots)
        self.up, self.down = list(others.up), list(others.down)
        for index, (job, site) in enumerate(zip(problem.jobs, placement.sites, strict=True)):
            self.summed[site] += load(job, into[index], problem.sites[site])
            self.messages[site] += problem.messages[index]
            self.memory[site] += job.memory + 2 * job.state
            self.slots[site] += job.parallelism
        self.crossings: list[list[Crossing]] = []
        for channel, home in enumerate(placement.homes):
            self.summed[home] += broker_load(problem, channel, home)
            flows = list(crossings(problem, channel, placement.sites, home))
            self.crossings.append(flows)
            for flow in flows:
                self.up[flow.source] += flow.rate * flow.size
                self.down[flow.target] += flow.rate * flow.size
        self.cores = problem.used_cores(self.load)

    @property
    def load(self) -> Load:
        """The sums by site; its cores are without the event loops."""
        slots = [float(each) for each in self.slots]
        return Load(self.summed, self.memory, slots, self.up, self.down, self.messages)

    @property
    def wan(self) -> float:
        """The traffic of the placed jobs over the wide area, bytes/s."""
        return sum(flow.rate * flow.size for flows in self.crossings for flow in flows)


def load_of(problem: Problem, placement: Placement) -> Load:
    """The load of a placement on each site, that of other jobs included."""
    return _Loads(problem, placement).load


def _hop(problem: Problem, loads: _Loads, flow: Crossing) -> tuple[float, float]:
    source, target = problem.sites[flow.source], problem.sites[flow.target]
    up, up_variance = transfer(flow.size, source.up, loads.up[flow.source])
    down, down_variance = transfer(flow.size, target.down, loads.down[flow.target])
    return source.latency + target.latency + up + down, up_variance + down_variance


def _ages(problem: Problem, placement: Placement, loads: _Loads) -> dict[int, float]:
    """The mean age of results by composition, s."""
    into = problem.rates.into
    found = dict.fromkeys(problem.compositions, 0.0)
    for index, (job, place) in enumerate(zip(problem.jobs, placement.sites, strict=True)):
        site = problem.sites[place]
        mean, _ = service(job, into[index], site, loads.cores[place] / site.cores)
        found[job.composition] += problem.shares[index] * mean
    for channel, flows in enumerate(loads.crossings):
        ends = problem.writers[channel] or problem.readers[channel]
        for flow in flows:
            found[problem.jobs[ends[0]].composition] += flow.weight * _hop(problem, loads, flow)[0]
    return found


def _p95(problem: Problem, placement: Placement, loads: _Loads) -> float:
    """The 95th percentile of the age of results along the slowest path, s."""
    into = problem.rates.into
    arrived: list[tuple[float, float]] = [(0.0, 0.0)] * len(problem.channels)

    def later(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
        return max(one, other, key=lambda each: each[0] + P95 * math.sqrt(each[1]))

    def across(
        start: tuple[float, float], source: int, target: int, channel: int, written: bool
    ) -> tuple[float, float]:
        if source == target:
            return start
        size = wire(problem, channel, written)
        mean, variance = _hop(problem, loads, Crossing(source, target, 0.0, size, 0.0, written))
        return start[0] + mean, start[1] + variance

    slowest = 0.0
    for index in problem.order:
        job, place = problem.jobs[index], placement.sites[index]
        site, start = problem.sites[place], (0.0, 0.0)
        for channel in job.inputs:
            start = later(start, across(arrived[channel], placement.homes[channel], place, channel, False))
        mean, variance = service(job, into[index], site, loads.cores[place] / site.cores)
        done = (start[0] + mean, start[1] + variance)
        if job.output is not None:
            done = across(done, place, placement.homes[job.output], job.output, True)
            arrived[job.output] = later(arrived[job.output], done)
        slowest = max(slowest, done[0] + P95 * math.sqrt(done[1]))
    return slowest


def site_over(
    problem: Problem, site: int, cores: float, memory: float, slots: float, up: float, down: float
) -> float:
    """The sum of the shares by which loads, in the units of :class:`Load`, exceed the targets of a site."""
    place = problem.sites[site]
    over = max(0.0, cores / place.cores / problem.utilisation - 1)
    over += max(0.0, up / (problem.link_utilisation * place.up) - 1)
    over += max(0.0, down / (problem.link_utilisation * place.down) - 1)
    if problem.max_wan is not None:
        over += max(0.0, (up - problem.others.up[site]) / problem.max_wan - 1)
    if place.memory is not None:
        over += max(0.0, memory / place.memory - 1)
    if place.slots is not None:
        over += max(0.0, slots / place.slots - 1) if place.slots else float(slots)
    return over


def _reference(problem: Problem) -> Reference:
    placement = problem.all_in_cloud
    loads = _Loads(problem, placement)
    ages = _ages(problem, placement, loads)
    wan = loads.wan
    born = sum(channel.rate * wire(problem, index, False) for index, channel in enumerate(problem.channels))
    cores = priced(problem, loads.cores)
    # With all data in the cloud already, crossings are measured against the data that are born.
    return Reference({name: age or 1.0 for name, age in ages.items()}, wan or born or 1.0, cores or 1.0)


def priced(problem: Problem, cores: Sequence[float]) -> float:
    """The reference cores at their price that the placed jobs use, of the cores in use at each site."""
    others = problem.cores_of_others
    return sum(
        site.price * (used - other) * site.speed
        for site, used, other in zip(problem.sites, cores, others, strict=True)
    )


def reference(problem: Problem) -> Reference:
    """The figures of the placement with all jobs in the cloud; computed once for each problem."""
    # Kept like a cached property of the problem, whose module cannot import this one.
    found: Reference | None = problem.__dict__.get("reference")
    if found is None:
        found = problem.__dict__["reference"] = _reference(problem)
    return found


def evaluate(problem: Problem, placement: Placement, *, slowest: bool = True) -> Figures:
    """The figures of a placement, computed from the beginning.

    Without ``slowest``, ``age_p95`` is NaN unless the problem bounds it: it takes two fifths of the time.
    """
    loads, base = _Loads(problem, placement), reference(problem)
    needed = slowest or problem.max_age is not None
    ages, p95 = _ages(problem, placement, loads), _p95(problem, placement, loads) if needed else math.nan
    wan, cores = loads.wan, priced(problem, loads.cores)
    over = sum(
        site_over(
            problem,
            site,
            loads.cores[site],
            loads.memory[site],
            loads.slots[site],
            loads.up[site],
            loads.down[site],
        )
        for site in range(len(problem.sites))
    )
    over += _age_over(problem, p95)
    relative = sum(age / base.age[name] for name, age in ages.items()) / max(1, len(ages))
    objective = combined(problem, relative, wan / base.wan, cores / base.cores, over)
    multiplier, bottleneck = _multiplier(problem, placement, loads)
    age = sum(ages.values()) / max(1, len(ages))
    return Figures(
        objective, age, p95, wan, cores, _site_figures(problem, loads), over, multiplier, bottleneck
    )


def _age_over(problem: Problem, p95: float) -> float:
    return 0.0 if problem.max_age is None else max(0.0, p95 / problem.max_age - 1)


def combined(problem: Problem, age: float, wan: float, cores: float, over: float) -> float:
    """The objective: figures as shares of the :class:`Reference`, ``over`` as of :class:`Figures`."""
    weights = problem.weights
    return weights.latency * age + weights.wan * wan + weights.cores * cores + PENALTY * over


def _site_figures(problem: Problem, loads: _Loads) -> tuple[SiteFigures, ...]:
    return tuple(
        SiteFigures(
            cores=loads.cores[index] / site.cores,
            memory=None if site.memory is None else loads.memory[index] / site.memory,
            slots=None if not site.slots else loads.slots[index] / site.slots,
            up=loads.up[index] / site.up,
            down=loads.down[index] / site.down,
        )
        for index, site in enumerate(problem.sites)
    )


def _multiplier(problem: Problem, placement: Placement, loads: _Loads) -> tuple[float, str]:
    """The factor by which the rates of all sources may grow, and its bottleneck."""
    return min(_limits(problem, placement, loads), default=(math.inf, ""))


def _limits(problem: Problem, placement: Placement, loads: _Loads) -> Iterator[tuple[float, str]]:
    into = problem.rates.into
    others = problem.others
    fixed = list(others.cores)
    for job, place in zip(problem.jobs, placement.sites, strict=True):
        fixed[place] += job.fixed / problem.sites[place].speed
    for index, site in enumerate(problem.sites):
        growth = _growth_of_site(problem, placement, loads, index, fixed[index])
        if growth < math.inf:
            yield growth, f"site {site.name}"
        for total, other, bandwidth in (
            (loads.up[index], others.up[index], site.up),
            (loads.down[index], others.down[index], site.down),
        ):
            if total - other > 1e-9:
                yield max(0.0, bandwidth - other) / (total - other), f"link {site.name}"
    for index, (job, place) in enumerate(zip(problem.jobs, placement.sites, strict=True)):
        if into[index] * job.cost > 0:
            yield problem.sites[place].speed * job.parallelism / (into[index] * job.cost), f"job {job.name}"
    yield from _broker_limits(problem, placement)
    yield from _window_limits(problem, placement, loads)


def _growth_of_site(problem: Problem, placement: Placement, loads: _Loads, site: int, fixed: float) -> float:
    """The factor by which the rates may grow until the site is full; ``fixed`` cores do not grow with them.

    Its broker takes less for a message the more there are, by which the factor is corrected step by step.
    """
    homed = (channel for channel, home in enumerate(placement.homes) if home == site)
    passed = [_passed(problem, channel) for channel in homed]
    place, steady = problem.sites[site], problem.others.messages[site]

    def brokers(factor: float) -> float:
        return sum(_broker_cores(problem, factor * each) for each in passed) / place.speed

    linear, factor = loads.summed[site] - fixed - brokers(1.0), 1.0
    for _ in range(_CORRECTIONS):
        before = factor
        factor = growth_within(
            place.cores - fixed,
            linear + brokers(factor) / factor,
            loads.messages[site] - steady,
            steady,
            problem.loop_cores(site, 1.0),
        )
        if factor in (0.0, math.inf) or abs(factor - before) <= 1e-9 * factor:
            break
    return factor


def growth_within(room: float, linear: float, messages: float, steady: float, constant: float) -> float:
    """The factor by which ``linear`` cores and ``messages``/s may grow within ``room`` cores.

    The event loop takes ``constant`` for the root of them and of ``steady`` messages/s, which do not grow.
    """
    if messages <= 1e-9 or constant <= 0:
        return (
            max(0.0, room - constant * math.sqrt(max(0.0, steady))) / linear if linear > 1e-12 else math.inf
        )
    # With root = sqrt(steady + messages * factor) it is slope * root**2 + constant * root = rest.
    slope = max(0.0, linear) / messages
    rest = room + slope * steady
    root = 2 * rest / (constant + math.sqrt(constant**2 + 4 * slope * rest)) if rest > 0 else 0.0
    return max(0.0, (root**2 - steady) / messages)


def _broker_limits(problem: Problem, placement: Placement) -> Iterator[tuple[float, str]]:
    """Limits of the brokers, which have one thread each."""
    cores = [0.0] * len(problem.sites)
    for channel, home in enumerate(placement.homes):
        cores[home] += _least_broker_cost(problem) * _passed(problem, channel) / problem.sites[home].speed
    for index, used in enumerate(cores):
        if used > 0:
            yield 1 / used, f"broker {problem.sites[index].name}"


def _window_limits(problem: Problem, placement: Placement, loads: _Loads) -> Iterator[tuple[float, str]]:
    """Limits of messages in flight: of all writers of a site towards a broker, and of each Flink session."""
    into = problem.rates.into
    sent: dict[tuple[int, int], float] = {}
    for flows in loads.crossings:
        for flow in flows:
            if flow.written:
                sent[flow.source, flow.target] = sent.get((flow.source, flow.target), 0.0) + flow.rate
    for (source, target), rate in sent.items():
        if rate > 0:
            window = INFLIGHT / max(1e-6, round_trip(problem, source, target))
            yield window / rate, f"window {problem.sites[source].name}-{problem.sites[target].name}"
    for index, job in enumerate(problem.jobs):
        if job.engine is EngineModel.FLINK and into[index] > 0:
            farthest = max(
                round_trip(problem, placement.homes[each], placement.sites[index]) for each in job.inputs
            )
            yield SESSION_INFLIGHT / (CHECKPOINT_SECONDS + farthest) / into[index], f"session {job.name}"


def round_trip(problem: Problem, one: int, other: int) -> float:
    """The round trip between two sites, s; 0 within one."""
    return 0.0 if one == other else 2 * (problem.sites[one].latency + problem.sites[other].latency)
