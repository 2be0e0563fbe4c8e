"""The runs of one query: the placements of all policies over each profile of links, measured.

A run begins with the jobs started anew, since a placement that the links do not suffice for leaves a backlog.
First the events come at their own pace, 2,000/s at each edge: age, WAN and cores are of this time.  Then,
over the slowest links, they come faster, and the progress of the results' times against the clock is
``alpha``, the sustained multiple of the rate; at most the multiple that is sent.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.nexmark.traffic import SPAN
from benchmarks.placement.gates import (
    CALIBRATED,
    PREDICTED_PROFILES,
    idle_cores,
    links,
    objective,
    places,
    predicted,
    predicted_objective,
)
from benchmarks.wan.platform import Platform, Read
from benchmarks.wan.servers import BROKER
from binders.common.java import java
from speck.coordinator.placing.placer import PlacementResult
from speck.core.job import Composition
from speck.placement.policies import policies
from speck.placement.profile import Inputs
from testbed import ROOT

QUERIES = ("q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8", "q11", "q12")
EDGES, CLOUD = ("A", "B"), "D"
SLOWEST, FASTEST = PREDICTED_PROFILES[0], PREDICTED_PROFILES[-1]
RATE = 4000  # events/s, of both edges together
JAR = ROOT / "jars_and_apps" / "nexmark" / "speck-nexmark.jar"
PIPELINES = ROOT / "pipelines" / "nexmark"
_LEAD = 1.0  # s, between the start of a feed and its first event
_LEFT_OUT = ("exhaustive",)
_PROFILES = 4  # at most, until all jobs have a measured cost

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Seconds: to warm up, measured, with more events, and of the measuring of jobs; and how many more.

    Jobs are measured when they have run for ``settled``, s: a young process compiles its code, which doubled
    their cost.
    """

    warm: float = 30.0
    measured: float = 60.0
    flooded: float = 30.0
    profiled: float = 45.0
    settled: float = 90.0
    flood: float = 4.0

    @property
    def most(self) -> float:
        """The seconds of event time that a run takes at most."""
        profiling = self.settled + _PROFILES * self.profiled
        return max(self.warm + self.measured, profiling, self.flood * self.flooded) + 30


def write_events(directory: Path, seconds: float) -> dict[str, Path]:
    """The events of each edge in a file of its own."""
    options = {"seed": 1, "start": 0, "rate": RATE, "events": int(seconds * RATE), "edges": len(EDGES)}
    command = [java("Flink"), "-cp", str(JAR), "io.speck.nexmark.Generate"]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    files = {site.lower(): directory / f"events-{site.lower()}" for site in EDGES}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as generator:
        assert generator.stdout is not None
        opened = {edge: file.open("w", encoding="ascii") for edge, file in files.items()}
        for line in generator.stdout:
            opened[line.partition(" ")[0][-1]].write(line)
        for each in opened.values():
            each.close()
    if generator.returncode:
        raise RuntimeError(f"the generator ended with {generator.returncode}")
    return {site: files[site.lower()] for site in EDGES}


@dataclass
class Bench:
    """A platform, its events, and the profiles of the jobs of the query at hand."""

    platform: Platform
    files: Mapping[str, Path]
    lengths: Lengths
    idle: Mapping[str, float] = field(init=False)

    def __post_init__(self) -> None:
        time.sleep(self.lengths.warm)  # the engines load their classes
        self.idle = idle_cores(self.platform)

    def rows(self, query: str, profiles: Sequence[str]) -> Iterator[Row]:
        """A row for each profile."""
        text = (PIPELINES / f"{query}.yaml").read_text(encoding="utf-8")
        composition = self.platform.composition(text, query)
        inputs, stays = self._calibrate(query, composition)
        for profile in profiles:
            self.set_links(profile)
            row = self._row(query, profile, composition, inputs)
            yield row | {"advice_keeps_cloud": stays, "costs": _costs(inputs)}

    # --- what the model predicts

    def _calibrate(self, query: str, composition: Composition) -> tuple[Inputs, bool]:
        """The profiles as measured in the cloud, and whether advice leaves all jobs there."""
        self.set_links(CALIBRATED)
        in_cloud = self.platform.placed(composition, {}, None, "cloud")
        with self._running(query, in_cloud.composition, 1.0):
            time.sleep(self.lengths.settled)
            inputs = self._measured_inputs(query)
            advised = self.platform.placed(composition, {}, inputs)
            return inputs, not advised.advice.steps

    def _measured_inputs(self, query: str) -> Inputs:
        """The profiles once all jobs have a measured cost; without it, a policy decides on assumed ones."""
        for _ in range(_PROFILES):
            inputs = self.platform.profile(self.lengths.profiled)
            if not (missing := self.platform.unmeasured()):
                break
        else:
            print(f"{query}: without a measured cost: {missing}", file=sys.stderr, flush=True)
        return inputs

    def _placements(
        self, composition: Composition, inputs: Inputs
    ) -> dict[str, tuple[list[str], PlacementResult]]:
        """Each different placement, and the policies that choose it."""
        found: dict[str, tuple[list[str], PlacementResult]] = {}
        for name in policies():
            if name in _LEFT_OUT:
                continue
            placed = self.platform.placed(composition, {}, inputs, name)
            found.setdefault(_key(placed), ([], placed))[0].append(name)
        return found

    # --- what is measured

    def _row(self, query: str, profile: str, composition: Composition, inputs: Inputs) -> Row:
        runs = []
        for names, placed in self._placements(composition, inputs).values():
            run = self._run(query, placed, flooded=profile == SLOWEST)
            run |= {"policies": names, "profile": profile, "predicted": predicted(placed)}
            print(f"{query} {profile} {names}: {run['measured']}", file=sys.stderr, flush=True)
            runs.append(run)
        return scored({"query": query, "profile": profile, "runs": runs})

    def _run(self, query: str, placed: PlacementResult, *, flooded: bool) -> Row:
        measured, _ = self.measured(query, placed.composition)
        if flooded:
            measured["alpha"] = self.sustained(query, placed.composition)
        return {"sites": placed.model.sites(placed.advice.placement), "measured": measured}

    def measured(self, query: str, composition: Composition) -> tuple[Row, dict[str, float]]:
        """The figures of the jobs at the events' own pace, and the checksums of the results."""
        lengths = self.lengths
        with self._running(query, composition, 1.0) as reader:
            time.sleep(lengths.warm)
            before = self.platform.counters()
            reader.taken()
            time.sleep(lengths.measured)
            found, counted = reader.taken(), self.platform.counters().since(before)
        results = found[query]
        cores = {site: used / place.cores for site, used, place in self._used(counted["cores"])}
        figures = {
            "messages": results["messages"],
            # Without any result in all that time, the age is at least that time.
            "age": results.get("mean", lengths.warm + lengths.measured),
            "p95": results.get("p95", lengths.warm + lengths.measured),
            "wan": counted["wan"],
            "up": counted["up"],
            "down": counted["down"],
            "cores": cores,
            "brokers": counted["brokers"],
            "idle": dict(self.idle),
        }
        return figures, found["rows"]

    def _used(self, cores: Mapping[str, float]) -> Iterator[tuple[str, float, Any]]:
        for site, place in self.platform.servers.places.items():
            yield site, cores[site], place

    def sustained(self, query: str, composition: Composition) -> float:
        """The progress of the results against the clock, while more events come than at their own pace.

        It is measured between the arrivals of two results: those of windows come in bursts.
        """
        lengths = self.lengths
        with self._running(query, composition, lengths.flood) as reader:
            began = first = time.time()  # of the first event
            time.sleep(lengths.flooded / 3)
            if (found := reader.taken()[query])["messages"]:
                began, first = found["reached"], found["until"]
            time.sleep(lengths.flooded * 2 / 3)
            found = reader.taken()[query]
        return max(0.0, found["until"] - first) / max(1.0, found["reached"] - began)

    # --- running

    def set_links(self, profile: str) -> None:
        """Give all links the quality of a profile."""
        for site, link in links(profile).items():
            self.platform.network.set_link(site, link)

    @contextmanager
    def _running(self, query: str, composition: Composition, speed: float) -> Iterator[Read]:
        """While the block runs, newly started jobs run, events come, and results are read.

        The first event is at the begin of a window, so that all runs have the same rows in each.
        """
        self.platform.servers.without_bounds()
        self.platform.apply(composition)
        self.platform.servers.bound()
        start = -int(-(time.time() + _LEAD) * 1000 // SPAN) * SPAN
        network, topic = self.platform.network, f"results/{query}"
        try:
            with process(
                network.command(CLOUD, _end("read", network.address(CLOUD), query, topic, str(start)))
            ) as reading:
                feeds = [
                    _end("feed", network.address(site), str(file), str(start), str(speed))
                    for site, file in self.files.items()
                ]
                with (
                    process(network.command(EDGES[0], feeds[0])),
                    process(network.command(EDGES[1], feeds[1])),
                ):
                    time.sleep(max(0.0, start / 1000 - time.time()))
                    yield Read(reading)
        finally:
            self.platform.servers.without_bounds()
            self.platform.delete(composition.name)


def _end(what: str, address: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.nexmark.traffic", what, address, str(BROKER), *arguments]


@contextmanager
def process(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process with pipes, killed when the block ends."""
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def _key(placed: PlacementResult) -> str:
    placement = placed.advice.placement
    return str((placed.model.sites(placement), placed.model.homes_by_name(placement.homes)))


# --- scoring


def scored(row: Row) -> Row:
    """The row with the objective of each run relative to ``cloud``, and that ``expected`` by the model."""
    reference = run_of(row, "cloud")
    for run in row["runs"]:
        run["objective"] = objective(run, reference)
        run["expected"] = predicted_objective(run, reference)
    return row


def run_of(row: Row, policy: str) -> Row:
    """The run of a policy's placement."""
    found: Row = next(run for run in row["runs"] if policy in run["policies"])
    return found


@contextmanager
def bench(
    directory: Path, lengths: Lengths, remote: Mapping[str, tuple[str, str]] | None = None
) -> Iterator[Bench]:
    """A platform with two edges and a cloud; ``remote`` is that of the servers."""
    files = write_events(directory, lengths.most)
    with Platform(links(CALIBRATED), places(), directory / "platform", remote or {}) as platform:
        yield Bench(platform, files, lengths)


def _costs(inputs: Inputs) -> dict[str, list[float | None]]:
    """The measured cost of a message of each job, s of processor time, and its fixed share, cores."""
    return {
        name: [None if each is None else each.value for each in (found.cost, found.fixed)]
        for name, found in inputs.jobs.items()
    }
