"""A composition at two edges and a cloud in memory, whose load and links change by a clock that runs fast.

The coordinator, the loop, its store and the solver are the real ones; engines and brokers are those of the
tests, in memory.  What is measured follows from the true conditions: a link or a site that is full holds the
rates back, and measured values are means of the last minute with noise.  The age of results is that of the
cost model under the true conditions: no figure from here is measured with an engine.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from speck.coordinator.placing.request import PlacementRequest
from speck.core.job import Composition
from speck.core.placement import PlacementOptions
from speck.placement.cost import Figures
from speck.placement.profile import Inputs, JobProfile, LinkProfile, SiteProfile
from testbed.benches.adaptation import EDGES, NAME, Bench, Conditions
from testbed.benches.placement import engine_at, movable
from testbed.doubles.world import World

# Bytes of a message on the wire, as the model counts them: of a device, and of a job, with its stamp.
WIRE, STAMPED = 209.0, 287.0
SELECTIVITY = 0.3  # of the jobs that clean
CATCHING_UP = 1.2  # times the rate, of a job for which messages wait
SPAN = 6  # samples of 10 s in a measured mean
NEAR = 1.2  # times the optimum's age of results
LATENCY_FIRST = PlacementOptions(mode="auto", latency=0.9, wan=0.05, cores=0.05)


@dataclass
class Truth:
    """The true conditions: messages/s of each edge, bytes/s of their links, processor time of a message (s).

    ``speeds`` are those of sites (1 where not given); ``noise`` is the standard deviation of measured values
    as a share of them.
    """

    rate: float = 400.0
    bandwidth: dict[str, float] = field(default_factory=lambda: dict.fromkeys(EDGES, 250_000.0))
    cost: float = 30e-6
    speeds: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0


class Plant:
    """The composition, its coordinator, and the conditions; :meth:`run` lets time pass."""

    def __init__(self, directory: Path, truth: Truth, seed: int, options: PlacementOptions) -> None:
        self.truth, self.random = truth, random.Random(seed)
        self.seconds, self.silent = 0.0, set[str]()
        self.rates: dict[str, deque[float]] = {edge: deque(maxlen=SPAN) for edge in EDGES}
        self.bandwidths: dict[str, deque[float]] = {edge: deque(maxlen=SPAN) for edge in EDGES}
        self.conditions = _Measured(self)
        self.bench = Bench(World(), directory, self.conditions)
        self.bench.begin()
        self.bench.apply(_composition(options))
        self.waiting = dict.fromkeys(self.bench.where, 0.0)
        self._show_waiting()

    def _show_waiting(self) -> None:
        """Let the coordinator see the messages that wait, as its sampler would."""
        sampler = self.bench.services.coordinator.sampler
        sampler.waiting = lambda: {  # type: ignore[method-assign]
            name: round(count) for name, count in self.waiting.items()
        }

    def restart(self) -> None:
        """Begin another coordinator on what the last one left."""
        self.bench.restart()
        self._show_waiting()

    def run(self, seconds: float) -> Iterator[float]:
        """Let time pass in looks of 10 s; yields the seconds so far after each."""
        for _ in range(round(seconds / 10)):
            self.seconds += 10
            self._sample()
            self.bench.round()
            yield self.seconds

    def _sample(self) -> None:
        for edge in EDGES:
            carried, name = self._carried(edge), f"clean-{edge.lower()}"
            self.waiting[name] = max(0.0, self.waiting[name] + 10 * (self.truth.rate - carried))
            self.rates[edge].append(self._noisy(carried))
            self.bandwidths[edge].append(self._noisy(self.truth.bandwidth[edge]))

    def _noisy(self, value: float) -> float:
        return value * max(0.1, self.random.gauss(1.0, self.truth.noise))

    def _carried(self, edge: str) -> float:
        """The messages/s that the jobs of an edge get done, by the link and by the cores."""
        where, low = self.bench.where, edge.lower()
        catching_up = self.waiting[f"clean-{low}"] > 0
        rate = self.truth.rate * (CATCHING_UP if catching_up else 1.0)
        remote = where.get(f"clean-{low}") != edge
        rate = min(rate, self.truth.bandwidth[edge] / (WIRE if remote else SELECTIVITY * STAMPED))
        site = where.get(f"clean-{low}", "D")
        cores = (16.0 if site == "D" else 4.0) * self.truth.speeds.get(site, 1.0)
        return min(rate, cores / self.truth.cost / 1.5)

    @property
    def steps(self) -> list[str]:
        """The outcomes of the steps."""
        return [each.outcome.value for each in self.bench.memory.steps if not each.back]

    def figures(self) -> tuple[Figures, Figures]:
        """The figures of what runs and of the optimum, under the true conditions."""
        services, conditions = self.bench.services, self.conditions
        conditions.true = True
        try:
            desired = services.coordinator.deployments.composition(NAME)
            advice = services.coordinator.placer.place(desired, PlacementRequest(homes_stay=True)).advice
        finally:
            conditions.true = False
        return advice.now or advice.after, advice.after

    def is_near_optimum(self) -> bool:
        """True if the rates are sustained, and the age of results (p95) is at most 1.2 of the optimum's."""
        now, best = self.figures()
        return now.feasible >= best.feasible and now.age_p95 <= NEAR * best.age_p95


class _Measured(Conditions):
    """The profiles as they would be measured; ``true``: without noise, delay, and what is full."""

    def __init__(self, plant: Plant) -> None:
        super().__init__()
        self.plant, self.true = plant, False

    def __call__(self) -> Inputs:
        plant, truth = self.plant, self.plant.truth
        counted = plant.bench.services.profiles.measures.sites()
        jobs, links = {}, {}
        for edge in EDGES:
            low = edge.lower()
            rate = truth.rate if self.true else _mean(plant.rates[edge], truth.rate)
            jobs[f"clean-{low}"] = self._profile(f"clean-{low}", rate, SELECTIVITY, counted)
            jobs[f"count-{low}"] = self._profile(f"count-{low}", rate * SELECTIVITY, 0.01, counted)
            bandwidth = truth.bandwidth[edge]
            if not self.true:
                bandwidth = _mean(plant.bandwidths[edge], bandwidth)
            trip, value = self._value(0.044), self._value(bandwidth)
            for ends in ((edge, "D"), ("D", edge)):
                links[ends] = LinkProfile(source=ends[0], target=ends[1], round_trip=trip, bandwidth=value)
        sites = counted
        if self.true:
            sites = {
                name: replace(each, speed=self._value(truth.speeds.get(name, 1.0)))
                for name, each in counted.items()
            }
        silent = {job for job, site in plant.bench.where.items() if site in plant.silent}
        return Inputs(jobs=jobs, links=links, sites=sites, fresh=frozenset(jobs.keys() - silent))

    def _profile(
        self, name: str, rate: float, selectivity: float, counted: Mapping[str, SiteProfile]
    ) -> JobProfile:
        truth, site = self.plant.truth, self.plant.bench.where.get(name, "D")
        speed = counted[site].speed
        # Busy time at a slow site, in units of the reference core as it is counted with.
        factor = 1.0 if self.true or speed is None else speed.value / truth.speeds.get(site, 1.0)
        cost = truth.cost * factor
        self.cost, self.factors = cost, {}
        return self._job(name, rate, selectivity)


def _mean(values: deque[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _composition(options: PlacementOptions) -> Composition:
    """Readings of each edge, cleaned and counted; their cleaned form is at the cloud's broker."""
    jobs = []
    for edge in EDGES:
        low = edge.lower()
        jobs += [
            movable(f"clean-{low}", "sensors", f"clean/{low}", source=edge, sink="D"),
            movable(f"count-{low}", f"clean/{low}", f"counts/{low}", source="D", sink="D"),
        ]
    placed = {each.job_name: replace(each, site="D", spe_address=engine_at("D")) for each in jobs}
    return Composition(NAME, placed, options)


@contextmanager
def plant_at(truth: Truth, seed: int = 1, options: PlacementOptions = LATENCY_FIRST) -> Iterator[Plant]:
    """A plant whose jobs all run in the cloud."""
    with TemporaryDirectory() as name:
        plant = Plant(Path(name), truth, seed, options)
        try:
            yield plant
        finally:
            plant.bench.end()
