"""A composition with the mode ``auto`` over two edges and a cloud in memory, by the clock of a test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from speck.coordinator import Services, build
from speck.core.adaptation import AdaptationState
from speck.core.inventory import Engine, Inventory, Site, Uplink
from speck.core.job import Composition, Job
from speck.core.placement import PlacementOptions
from speck.core.settings import Settings
from speck.errors import StoreError
from speck.placement.profile import Inputs, JobProfile, Known, LinkProfile, Value
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import write_code
from testbed.benches.placement import NOW, Profiler, broker_at, engine_at, kinds, movable
from testbed.doubles.world import World
from testbed.faults.killed_coordinator import ShortLife

EDGES = ("A", "B")
NAME = "plant"
AUTO = PlacementOptions(mode="auto")


def inventory(declared: bool = True) -> Inventory:
    """Two edges and the cloud D, each with a Flink engine and a broker; the links are ``declared`` or not."""
    return Inventory({name: _site(name, declared) for name in (*EDGES, "D")})


def _site(name: str, declared: bool) -> Site:
    return Site(
        name=name,
        engines=(Engine(spe_address=engine_at(name)),),
        broker_address=broker_at(name),
        uplink=Uplink(bandwidth=1e9 if name == "D" else 20e6, latency=2 if name == "D" else 20)
        if declared
        else Uplink(),
        cores=16 if name == "D" else 4,
        tier="cloud" if name == "D" else "edge",
    )


def plant(options: PlacementOptions | None = AUTO, at: str = "D", **fields: Any) -> Composition:
    """Readings of each edge, cleaned, and counted for D; all topics have addresses, all jobs run at D."""
    jobs = []
    for edge in EDGES:
        low = edge.lower()
        jobs += [
            movable(f"clean-{low}", "sensors", f"clean/{low}", source=edge, sink=edge, **fields),
            movable(f"count-{low}", f"clean/{low}", f"counts/{low}", source=edge, sink="D", **fields),
        ]
    placed = {job.job_name: _at(job, at) for job in jobs}
    return Composition(NAME, placed, options)


def _at(job: Job, site: str) -> Job:
    return replace(job, site=site, spe_address=engine_at(site))


@dataclass
class Conditions:
    """The measured load, which a test changes; ``fresh`` (``None``: all) are the jobs with present figures.

    ``ages`` are those of the figures of others, s; ``factors`` multiply the measured cost of jobs.
    """

    rate: float = 900.0
    cost: float = 30e-6
    bandwidth: dict[str, float] = field(default_factory=dict)  # bytes/s of edges, measured
    fresh: set[str] | None = None
    ages: dict[str, float] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    pressed: set[str] = field(default_factory=set)
    speeds: dict[str, float] = field(default_factory=dict)  # that the coordinator counts with, measured
    factors: dict[str, float] = field(default_factory=dict)  # of a job's measured cost
    now: float = NOW
    declared: bool = True
    traffic: bool = False  # the jobs are those of road traffic

    def __call__(self) -> Inputs:
        if self.traffic:
            found = Profiler()()
            return replace(found, fresh=frozenset(found.jobs))
        jobs = {}
        for low in map(str.lower, EDGES):
            jobs[f"clean-{low}"] = self._job(f"clean-{low}", self.rate, 0.5)
            jobs[f"count-{low}"] = self._job(f"count-{low}", self.rate * 0.5, 0.01)
        known = {name: each for name, each in jobs.items() if name not in self.unknown}
        return Inputs(
            jobs=known,
            links=dict(self._links()),
            sites={},
            pressed=frozenset(self.pressed),
            fresh=frozenset(known if self.fresh is None else self.fresh & known.keys()),
            ages={name: age for name, age in self.ages.items() if name in known},
        )

    def _job(self, name: str, rate: float, selectivity: float) -> JobProfile:
        return JobProfile(
            rate_in=self._value(rate),
            rate_out=self._value(rate * selectivity),
            bytes_in=self._value(110),
            bytes_out=self._value(110),
            cost=self._value(self.cost * self.factors.get(name, 1.0)),
            fixed=self._value(0.009),
            selectivity=self._value(selectivity),
        )

    def _links(self) -> Iterator[tuple[tuple[str, str], LinkProfile]]:
        for edge, rate in self.bandwidth.items():
            for source, target in ((edge, "D"), ("D", edge)):
                trip, value = self._value(0.044), self._value(rate)
                yield (
                    (source, target),
                    LinkProfile(source=source, target=target, round_trip=trip, bandwidth=value),
                )

    def _value(self, value: float) -> Value:
        return Value(value, Known.MEASURED, self.now, 12)


@dataclass
class Bench:
    """One coordinator after the other on one store; the loop looks when a test says so."""

    world: World
    directory: Path
    conditions: Conditions
    services: Services = field(init=False)
    store: Store = field(init=False)
    life: ShortLife = field(init=False)
    place: Path = field(init=False)
    killed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.place = self.directory / "store"

    def begin(self) -> None:
        """Start a coordinator."""
        self.store, self.life = Store(self.place), ShortLife(self.world, self.place)
        self.life.writes(self.store._database)
        self.services = build(
            self.store,
            kinds(self.life),  # type: ignore[arg-type]  # it stands for its world
            inventory(self.conditions.declared),
            Settings(roots=(write_code(self.directory),), period=0, adapt=0),
            clock=lambda: self.conditions.now,
            inputs=self.conditions,
        )
        self.services.coordinator.start()
        self.services.adaptation.period = 60.0  # its thread does not run

    def end(self) -> None:
        """End the coordinator."""
        self.services.coordinator.close()
        self.store.close()

    def restart(self) -> None:
        """Begin another coordinator on the same store, or on what a killed one left."""
        with suppress(StoreError):
            self.end()
        if self.life.dead:
            self.place, self.killed = self.life.killed_store, True
        self.begin()

    def apply(self, desired: Composition, **how: Any) -> None:
        """Apply, and wait for the end."""
        operation, _ = user.apply(self.services.coordinator, desired, **how)
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()

    def round(self, seconds: float = 10.0, times: int = 1) -> None:
        """Let time pass and the loop look, and wait for what that began."""
        for _ in range(times):
            self.conditions.now += seconds
            self.services.adaptation.round()
            self.finish()

    def decide(self, times: int = 1) -> None:
        """Advance by this number of periods, with a decision in each."""
        self.round(60.0, times)

    def finish(self) -> None:
        """Wait for all operations."""
        for operation in self.services.coordinator.operations.running():
            assert operation.wait(30)

    @property
    def memory(self) -> AdaptationState:
        """The memory of the loop."""
        return self.store.adaptation(NAME)

    @property
    def reasons(self) -> list[str]:
        """The reasons of the decisions, oldest first."""
        return [each.reason for each in self.memory.entries]

    @property
    def where(self) -> dict[str, str]:
        """The site of each job that runs, by name."""
        sites = {engine_at(name): name for name in (*EDGES, "D")}
        return {job: sites[address] for job, address in self.world.where().items()}

    @property
    def steps(self) -> list[str]:
        """The outcomes of the steps, oldest first."""
        return [each.outcome.value for each in self.memory.steps]

    @property
    def events(self) -> list[str]:
        """The kinds of the loop's events, oldest first."""
        kinds = ("step", "back", "banned", "fell")
        return [each["kind"] for each in self.services.queries.events(1000) if each["kind"] in kinds]


@contextmanager
def bench_at(directory: Path, **conditions: Any) -> Iterator[Bench]:
    """A bench whose composition runs in the cloud."""
    world = World()
    bench = Bench(world, directory, Conditions(**conditions))
    bench.begin()
    try:
        bench.apply(plant())
        yield bench
    finally:
        bench.end()
    assert world.violations == []


@contextmanager
def untroubled(bench: Bench) -> Iterator[None]:
    """Fail at the end if a loop had an unexpected error in the meantime and ``bench`` was not killed."""
    troubles = _Troubles()
    log = logging.getLogger("speck.controller.adaptation")
    log.addHandler(troubles)
    try:
        yield
    finally:
        log.removeHandler(troubles)
    assert troubles.messages == [] or bench.killed


class _Troubles(logging.Handler):
    """The unexpected errors of the loop."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))
