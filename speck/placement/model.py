"""The placement problem of a composition: jobs, topics and sites with their profiles, by index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from speck.core.draft import FREE, Draft
from speck.core.graph import Endpoint, sinks_of, source_of
from speck.core.job import Job
from speck.core.profile import mean_event_loop
from speck.core.topic import SQL_TOPICS
from speck.core.trigger import REAL_TIME, interval_seconds
from speck.errors import Fault, InvalidInput
from speck.placement.cost import load_of
from speck.placement.problem import (
    Channel,
    EngineModel,
    Load,
    PlacedJob,
    Placement,
    Problem,
    Tier,
    Weights,
)
from speck.placement.profile import (
    BATCH_OVERHEAD,
    FIXED,
    Inputs,
    JobProfile,
    Known,
    Value,
)
from speck.placement.rates import Rates, highest, profile_of, value_or
from speck.placement.sites import SiteTable

# Assumed of a job that nothing is known of; costs are those of benchmarks/README.md.
COST = {EngineModel.FLINK: 8e-6, EngineModel.SPARK: 12e-6}  # s a message
# Bytes a message, by the form of stamps.  Texts: as counted by the rig; the binary form, with names of topics
# sent once a connection: benchmarks.wire.
STAMP_BYTES = {"text": 78.0, "compact": 19.0}
_KAFKA = "kafka://"  # where stamps have one form
_SHORT = "compact"  # the form between the parts of a query, whatever the engines are set to
SIZE = 110.0  # bytes of a message
RATE = 100.0  # messages/s of a source
MEMORY = {EngineModel.FLINK: 3e6, EngineModel.SPARK: 2.5e6}  # bytes of a job without state

NO_RATE = "its rate is neither measured (speck profile) nor declared (expects: {rate: ...})"


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the values of a job: of the least certain, its name, and the oldest sample."""

    known: Known
    until: float
    value: str


@dataclass(frozen=True)
class Model:
    """The problem of one composition with the names behind its indices.

    ``sites_now`` and ``homes_now`` are those of the jobs and channels that have a place already (``None``:
    not yet).  ``fixed`` has the reasons of jobs that no policy may move, by index, ``sources`` how each job's
    values are known.
    """

    draft: Draft
    table: SiteTable
    problem: Problem
    jobs: tuple[str, ...]
    channels: tuple[str, ...]
    sites_now: tuple[int | None, ...]
    homes_now: tuple[int | None, ...]
    fixed: Mapping[int, str]
    sources: Mapping[str, Source]

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The indices of the jobs by name."""
        return {name: index for index, name in enumerate(self.jobs)}

    @property
    def complete(self) -> bool:
        """True if every job and every channel has a place already."""
        return None not in self.sites_now and None not in self.homes_now

    def before(self, after: Placement) -> Placement:
        """The present placement, in which what has no place yet is where ``after`` has it."""
        sites = [new if old is None else old for old, new in zip(self.sites_now, after.sites, strict=True)]
        homes = [new if old is None else old for old, new in zip(self.homes_now, after.homes, strict=True)]
        return Placement(tuple(sites), tuple(homes))

    @property
    def incumbent(self) -> Placement:
        """The present placement, with what has no place yet in the cloud."""
        return self.before(self.problem.all_in_cloud)

    def sites(self, placement: Placement) -> dict[str, str]:
        """The names of the movable jobs' sites."""
        return {
            name: self.table.name(site)
            for name, site in zip(self.jobs, placement.sites, strict=True)
            if self.draft.jobs[name].movable
        }

    def homes(self, placement: Placement) -> dict[str, str]:
        """The names of the homes of the draft's channels."""
        found = self.homes_by_name(placement.homes)
        return {name: home for name, home in found.items() if home is not None}

    def homes_by_name(self, homes: Sequence[int | None]) -> dict[str, str | None]:
        """The names of the homes (by channel index) of the draft's channels."""
        by_key = dict(zip(self.channels, homes, strict=True))
        found = {name: by_key[_channel_key(name)] for name in self.draft.channels}
        return {name: None if home is None else self.table.name(home) for name, home in found.items()}

    def load(self) -> Load:
        """The load of the composition as it runs, without that of others and of idle engines."""
        return load_of(self.problem, self.incumbent) - self.problem.others


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The surroundings of a composition, on which its problem depends besides its draft.

    ``running`` are the names of its jobs that run; ``unprofiled`` those at engines whose binder reports no
    profile; ``pinned`` are fixed by the request, ``constraints`` allow a job some sites (names) alone.
    ``hold`` keeps all running jobs and topics where they are, ``homes_stay`` the topics alone.
    ``background`` is the load of other compositions.
    """

    table: SiteTable
    inputs: Inputs
    running: Collection[str] = ()
    unprofiled: Collection[str] = ()
    pinned: Collection[str] = ()
    constraints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hold: bool = False
    homes_stay: bool = False
    background: Load | None = None


def model_of(draft: Draft, around: Surroundings) -> Model:
    """The model of a draft.

    Raises :class:`~speck.errors.InvalidInput` for a job without a site to run at.
    """
    return _Builder(draft, around).model()


def stamp_at(written: Endpoint) -> float | None:
    """The bytes of a stamp in a topic between the parts of a query; ``None`` for another topic."""
    between = written.topic.startswith(SQL_TOPICS) and not written.broker.startswith(_KAFKA)
    return STAMP_BYTES[_SHORT] if between else None


class _Builder:
    def __init__(self, draft: Draft, around: Surroundings) -> None:
        self._draft, self._around, self._table = draft, around, around.table
        self._names = tuple(sorted(draft.jobs))
        self._keys: dict[str, int] = {}  # the indices of the channels
        self._free: dict[str, str] = {}  # the keys of free topics
        self._channels: list[Channel] = []
        self._inputs: dict[str, tuple[int, ...]] = {}
        self._rates = Rates(draft, around.inputs)
        self._fixed: dict[int, str] = {}

    def model(self) -> Model:
        self._add_channels()
        jobs = [self._job(index, name) for index, name in enumerate(self._names)]
        options, number = self._draft.options, {name: index for index, name in enumerate(self._names)}
        problem = Problem(
            sites=self._table.sites,
            jobs=jobs,
            channels=self._channels,
            weights=Weights(latency=options.latency, wan=options.wan, cores=options.cores),
            together=[tuple(number[each] for each in group) for group in self._draft.groups],
            apart=[(number[one], number[other]) for one, other in self._draft.pairs],
            utilisation=options.utilisation,
            max_age=options.max_age,
            max_wan=options.max_wan,
            stamp=STAMP_BYTES[options.stamps],
            background=self._around.background,
            event_loop=self._event_loop(),
            history=self._history(),
            history_step=self._around.inputs.interval,
        )
        sources = {name: self._source(name) for name in self._names}
        keys = tuple(self._keys)
        return Model(
            draft=self._draft,
            table=self._table,
            problem=problem,
            jobs=self._names,
            channels=keys,
            sites_now=tuple(map(self._site_now, self._names)),
            homes_now=tuple(map(self._home_now, keys, self._channels)),
            fixed=self._fixed,
            sources=sources,
        )

    def _event_loop(self) -> float:
        """The mean of the measured jobs, by their rates."""
        measured = ((name, self._profile(name).event_loop) for name in self._names)
        return mean_event_loop(
            (None if constant is None else constant.value, value_or(self._rates.of(name), 0.0))
            for name, constant in measured
        )

    # --- channels

    def _add_channels(self) -> None:
        """Add a channel for each free channel, each topic with an address, and each topic born outside."""
        graph, draft = self._draft.graph, self._draft
        for name in draft.channels:
            self._add_free(name)
        for written, writers in graph.writers.items():
            if written.broker != FREE:
                self._add_written(written, writers)
        for name, job in draft.jobs.items():
            source = source_of(job)
            matched = graph.matched.get(source)
            if matched and name in draft.reads:
                topics = [each.topic for each in matched]
                keys = dict.fromkeys(self._free[topic] for topic in topics)
                self._inputs[name] = tuple(self._keys[key] for key in keys)
            elif matched:
                self._inputs[name] = tuple(self._keys[_key(each)] for each in matched)
            else:
                if _key(source) not in self._keys:
                    self._add_born(source, graph.readers[source], draft.reads.get(name))
                self._inputs[name] = (self._keys[_key(source)],)

    def _add_written(self, written: Endpoint, writers: Sequence[str]) -> None:
        """Add a topic with an address.

        A job of the model writes one channel.  The parts of a split write several: their further topics
        carry what the readers there take, as far as that is known.
        """
        first = [name for name in writers if sinks_of(self._draft.jobs[name])[0] == written]
        self._add(_key(written), (self._broker(written.broker),), first)
        self._channels[-1] = replace(self._channels[-1], stamp=stamp_at(written))
        if not first:
            readers = self._draft.graph.readers_at(written)
            rate = highest(map(self._rates.of, readers), 0.0)
            self._channels[-1] = replace(self._channels[-1], rate=rate)

    def _add_free(self, name: str) -> None:
        """Add the topics of a free channel: as one, or one by one if a job reads some of them alone.

        In the latter case their home stays where it is, or is the cloud: a home of its own for each would
        keep the filter from taking them in.
        """
        channel, graph = self._draft.channels[name], self._draft.graph
        topics = [each for each in channel.topics if Endpoint(FREE, each) in graph.writers]
        homes = self._free_homes(name)
        read = [graph.matched.get(source_of(self._draft.jobs[each])) for each in channel.readers]
        apart = any(len(each) < len(topics) for each in read if each)
        if apart and len(homes) > 1:
            homes = (self._former_home(name, homes),)
        for topic in topics:
            self._free[topic] = _channel_key(topic if apart else name)
        for key in dict.fromkeys(self._free[topic] for topic in topics):
            jobs = [each for each in channel.writers if self._free[self._draft.jobs[each].sink_topic] == key]
            self._add(key, homes, jobs)

    def _former_home(self, name: str, homes: Sequence[int]) -> int:
        """The present home of a channel, which may have these; the cloud, if it may, for one without."""
        if (present := self._draft.homes.get(name)) is not None:
            return self._table.index(present)
        return next((each for each in homes if self._table.sites[each].tier is Tier.CLOUD), homes[0])

    def _add(self, key: str, homes: tuple[int, ...], writers: Sequence[str]) -> None:
        size = max((self._size(name) for name in writers), default=SIZE)
        self._keys[key] = len(self._channels)
        self._channels.append(Channel(name=key, homes=homes, size=size, rate=self._unknown_part(writers)))

    def _add_born(self, source: Endpoint, readers: Sequence[str], channel: str | None) -> None:
        """Add a topic to which no job writes results.

        A parking topic is at the present home of its ``channel``, which is chosen for the results alone.
        """
        sizes = [size.value for name in readers if (size := self._profile(name).bytes_in) is not None]
        homes = self._all_sites()
        if channel is not None:
            homes = (self._former_home(channel, self._free_homes(channel)),)
        if source.broker != FREE:
            homes = (self._broker(source.broker),)
        rate = highest(map(self._rates.of, readers), RATE)
        key = _key(source)
        self._keys[key] = len(self._channels)
        self._channels.append(Channel(name=key, homes=homes, size=max(sizes, default=SIZE), rate=rate))

    def _unknown_part(self, writers: Sequence[str]) -> float:
        """The rate of a channel, as its readers have it, if those of its writers are unknown."""
        if any(self._rates.of(name) is not None for name in writers):
            return 0.0
        readers = {
            reader for name in writers for reader in self._draft.graph.readers_of(self._draft.jobs[name])
        }
        return highest(map(self._rates.of, readers), 0.0)

    def _free_homes(self, name: str) -> tuple[int, ...]:
        present = self._draft.homes.get(name)
        stays = self._around.hold or self._around.homes_stay or self._draft.options.mode == "off"
        if present is not None and stays:
            return (self._table.index(present),)
        if homes := tuple(map(self._table.index, self._draft.brokers_of(name))):
            return homes
        message = f"topic {name!r} has no home: no site has a broker that all engines of its jobs can reach"
        raise InvalidInput([Fault(f"{message} (expected other sites, or a broker)")], "placement problem")

    def _all_sites(self) -> tuple[int, ...]:
        return tuple(range(self._table.number))

    def _broker(self, address: str) -> int:
        return self._table.brokers[address]

    def _size(self, name: str) -> float:
        """The bytes of a message that a job writes, with its topic."""
        return value_or(self._profile(name).bytes_out, SIZE)

    # --- jobs

    def _job(self, index: int, name: str) -> PlacedJob:
        job, profile = self._draft.jobs[name], self._profile(name)
        model = EngineModel.FLINK if job.engine == "flink" else EngineModel.SPARK
        known = self._rates.of(name) is not None
        free = self._free[job.sink_topic] if name in self._draft.writes else None
        sinks = sinks_of(job)
        output = self._keys[free or _key(sinks[0])]
        state = value_or(profile.state, 0.0)
        return PlacedJob(
            name=name,
            allowed=self._allowed(index, name),
            inputs=self._inputs[name],
            output=output,
            engine=model,
            cost=value_or(profile.cost, COST[model]),
            fixed=value_or(profile.fixed, FIXED),
            # The messages of a job without a known rate are born in its channel: see _unknown_part.
            selectivity=self._rates.selectivity(name) / len(sinks)
            if known or not self._running(name)
            else 0.0,
            parallelism=job.parallelism or 1,
            memory=MEMORY[model],
            state=state,
            stateful=state > 0,
            batch_overhead=value_or(profile.batch_overhead, BATCH_OVERHEAD),
            trigger=interval_seconds(job.trigger),
            real_time=job.trigger == REAL_TIME,
        )

    def _allowed(self, index: int, name: str) -> tuple[int, ...]:
        """The sites that may run a job; notes the reason if it is fixed."""
        job, present = self._draft.jobs[name], self._draft.sites.get(name)
        candidates = tuple(self._table.index(each) for each in self._draft.candidates[name])
        if not job.movable:
            self._fixed[index] = "its site is fixed in the file"
            return (self._fixed_site(name),)
        if (requested := self._around.constraints.get(name)) is not None:
            candidates = tuple(
                self._table.index(each) for each in requested if each in self._draft.candidates[name]
            )
        if present is None:
            return candidates
        here = self._table.index(present)
        why = self._why_fixed(name, job)
        if why is None or (name in self._around.constraints and here not in candidates):
            return candidates
        self._fixed[index] = why
        return (here,)

    def _fixed_site(self, name: str) -> int:
        """The site of a job whose file has its place."""
        own = next(iter(self._draft.candidates[name]), None)
        if own is None:
            return self._table.engines[self._draft.jobs[name].spe_address]
        return self._table.index(own)

    def _why_fixed(self, name: str, job: Job) -> str | None:
        """The reason why a running, movable job stays where it is; ``None`` if it may move."""
        reasons = {
            "it is already running, and only new jobs are placed": self._around.hold,
            "placement is off in its file (placement: {mode: off})": self._draft.options.mode == "off",
            "it is pinned": job.pin or name in self._around.pinned,
            f"its engine's binder ({job.engine}) reports no profile": name in self._around.unprofiled,
            NO_RATE: (self._rates.of(name) or _UNKNOWN).known is Known.ASSUMED,
        }
        return next((why for why, applies in reasons.items() if applies), None)

    def _running(self, name: str) -> bool:
        return name in self._around.running

    def _profile(self, name: str) -> JobProfile:
        return profile_of(self._draft.jobs[name], self._around.inputs)

    def _source(self, name: str) -> Source:
        """The source of the values that decide most: rate, size and cost."""
        profile = self._profile(name)
        values = {
            "rate": self._rates.of(name) or _UNKNOWN,
            "bytes": profile.bytes_out or _UNKNOWN,
            "cost": profile.cost or _UNKNOWN,
        }
        order = list(Known)
        worst = max(values, key=lambda each: order.index(values[each].known))
        until = min((each.until for each in values.values() if each.known is Known.MEASURED), default=0.0)
        return Source(values[worst].known, until, worst)

    def _history(self) -> Sequence[Sequence[float]]:
        """Past rates of the channels that are born outside, as their first reader with a history has them."""
        found: list[Sequence[float]] = [()] * len(self._channels)
        for name, inputs in self._inputs.items():
            rates = self._around.inputs.history_of(self._draft.jobs[name])
            if rates and len(inputs) == 1 and self._channels[inputs[0]].rate > 0 and not found[inputs[0]]:
                found[inputs[0]] = tuple(rates)
        return found if any(found) else ()

    def _site_now(self, name: str) -> int | None:
        job, present = self._draft.jobs[name], self._draft.sites.get(name)
        if not job.movable:
            return self._fixed_site(name)
        return None if present is None else self._table.index(present)

    def _home_now(self, key: str, channel: Channel) -> int | None:
        if len(channel.homes) == 1:
            return channel.homes[0]
        present = self._draft.homes.get(self._draft.topics.get(key.removeprefix(_PREFIX), ""))
        return None if present is None else self._table.index(present)


_PREFIX = "free "  # no address has a space


def _channel_key(name: str) -> str:
    return _PREFIX + name


def _key(endpoint: Endpoint) -> str:
    return f"{endpoint.broker} {endpoint.topic}"


_UNKNOWN = Value(0.0, Known.ASSUMED)
