"""Cost of measuring the load of jobs: ``python -m benchmarks.sampling [--json]``.

A composition of 500 jobs runs on engines in memory that report counts as Flink's do.  ``cpu_share`` is the
processor time of measuring them, as a share of a core: samples at the interval that the budget leaves (10 s
at least), estimates and a write to the store once a minute.  ``store_bytes_per_job`` is the size of the keys
and values of the profiles in the store.  ``profile_seconds`` is the processor time of an answer to
``GET /profile``.

The same with engines whose binders read each sample over HTTP, from a program that answers as Flink does, has
the names ``http_...``; ``job_seconds`` is the processor time of a sample of one job, with its share of the
rest, and ``interval`` the time between two samples.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.common import Figure
from benchmarks.micro.flink_answers import job_ids
from binders.flink.engine import FlinkEngine
from speck.binder import Registry
from speck.coordinator import Services, build
from speck.core.inventory import Inventory, Uplink
from speck.core.profile import AckSample, JobSample
from speck.core.runtime import Handle
from speck.core.settings import Settings
from speck.errors import BinderError
from speck.observe.pace import LEAST
from speck.store import Store
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.profiled_engines import Profiled, ProfilingEngine
from testbed.doubles.samples import BEGIN, flink_stream
from testbed.doubles.world import World
from testbed.results import add_output_options, published
from testbed.termination import run

SITES = 10
MINUTE = 60.0  # s
CENTRE = "tcp://b0:1883"


@dataclass
class Bench:
    """Jobs whose rates change each minute; ``now`` is Unix time, s."""

    jobs: int
    flink: str = ""  # the address of a program that answers as Flink does; empty: nothing is read over HTTP
    now: float = BEGIN
    engines: list[FlinkEngine] = field(default_factory=list)
    streams: list[JobSample] = field(default_factory=list)
    samples: int = 0

    def __post_init__(self) -> None:
        rates = [100 + 100 * (minute % 2) for minute in range(200) for _ in range(6)]
        self.streams = flink_stream(rates, 1e-4, begin=BEGIN)

    def counts(self, name: str, engine_id: str, now: float) -> JobSample:
        """The counts of a job: the numbers of all jobs are the same."""
        self.samples += 1
        acks = (AckSample(broker=CENTRE, least=0.02, median=0.03),)
        return replace(self.streams[round((now - BEGIN) / 10)], engine_id=engine_id, acks=acks)

    def run(self, minutes: int) -> dict[str, Any]:
        """Measure the jobs for some minutes."""
        profiled = Reading(lambda: self.now, self.counts, bench=self)
        with tempfile.TemporaryDirectory() as directory:
            root = write_code(Path(directory))
            with Store(root / "store") as store:
                settings = Settings(roots=(root,), period=0)
                services = build(
                    store, profiled.registry(World()), _sites(), settings, clock=lambda: self.now
                )
                try:
                    return self._measured(services, minutes)
                finally:
                    services.coordinator.close()

    def _measured(self, services: Services, minutes: int) -> dict[str, Any]:
        operation, _ = user.apply(services.coordinator, composition(*_jobs(self.jobs)))
        assert operation.wait(600) and operation.state == "succeeded"
        sampler = services.coordinator.sampler
        sampler.now = lambda: self.now
        sampler.loop.start = lambda: None  # type: ignore[method-assign]  # rounds begin here
        services.profiles.measure("", (minutes + 1) * MINUTE)
        self._minute(services)  # the first one makes connections and caches
        self.samples = 0
        shares = [_time(lambda: self._minute(services)) / MINUTE for _ in range(minutes)]
        answers = [_time(lambda: json.dumps(services.profiles.profile())) for _ in range(5)]
        known = services.profiles.profile()["jobs"]
        assert all(each["fresh"] and each["cost"]["known"] == "measured" for each in known)
        stored = [each for each in services.coordinator.store.records() if each[0].startswith(b"profile/job")]
        assert len(stored) == self.jobs
        return {
            "jobs": self.jobs,
            "interval": services.profiles.measures.pace.interval,
            "job_seconds": sum(shares) * MINUTE / max(1, self.samples),
            **dict(Figure.of(shares).named("cpu_share")),
            **dict(Figure.of(answers).named("profile_seconds")),
            "store_bytes_per_job": sum(len(key) + len(value) for key, value in stored) / self.jobs,
        }

    def _minute(self, services: Services) -> None:
        """The rounds of the sampler in a minute."""
        sampler = services.coordinator.sampler
        for _ in range(round(MINUTE / LEAST)):
            self.now += LEAST
            sampler.sample()
            sampler.await_answers()
            sampler.write()
        for engine in self.engines:  # its jobs' checkpoints are read once a minute
            for series in engine._cluster.metrics._series.values():
                series.checkpoints_at = 0.0


@dataclass
class Reading(Profiled):
    """Engines that read the counts of their jobs over HTTP, if the bench has an address for that."""

    bench: Bench = field(kw_only=True)

    def registry(self, world: World) -> Registry:
        """The kinds of engines and brokers."""

        def connect(address: str, inventory: Inventory) -> ProfilingEngine:
            return ReadingEngine(world, address, self)

        kinds = super().registry(world)
        return replace(
            kinds,
            engines=tuple(
                replace(each, connect=connect) if each.name == "flink" else each for each in kinds.engines
            ),
        )


class ReadingEngine(ProfilingEngine):
    """An engine in memory, and Flink's binder at the address of the bench."""

    def __init__(self, world: World, address: str, reading: Reading) -> None:
        super().__init__(world, address, reading)
        self._flink: FlinkEngine | None = None
        if reading.bench.flink:
            self._flink = FlinkEngine(reading.bench.flink, Inventory())
            reading.bench.engines.append(self._flink)

    def profile(self, handles: Iterable[Handle]) -> dict[str, JobSample | BinderError]:
        """The counts, after those of as many jobs were read over HTTP."""
        handles = list(handles)
        if self._flink is not None:
            read = self._flink.profile(
                Handle(self._flink.address, each, {}) for each in job_ids(len(handles))
            )
            assert all(isinstance(each, JobSample) and each.vertices for each in read.values())
        return super().profile(handles)


@contextmanager
def _flink(jobs: int) -> Iterator[str]:
    """The address of a program that answers as Flink does until the block ends."""
    command = [sys.executable, "-m", "benchmarks.micro.flink_answers", str(jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
        finally:
            process.terminate()


def _sites() -> Inventory:
    sites = [one_site(f"s{each}", f"http://e{each}:1", f"tcp://b{each}:1883") for each in range(SITES)]
    uplink = Uplink(bandwidth=25e6, latency=40)
    return Inventory({site.name: replace(site, uplink=uplink) for site in sites})


def _jobs(count: int) -> list[Any]:
    return [
        make_job(
            f"clean-{number:04d}",
            f"in/{number}",
            f"out/{number}",
            engine="flink",
            spe_address=f"http://e{number % SITES}:1",
            source_broker=f"tcp://b{number % SITES}:1883",
            sink_broker=CENTRE,
        )
        for number in range(count)
    ]


def _time(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    """Measure, and print lines or one JSON object."""
    parser = argparse.ArgumentParser(description="the cost of measuring the load of jobs")
    add_output_options(parser)
    parser.add_argument("--jobs", type=int, default=500, metavar="N")
    parser.add_argument("--minutes", type=int, default=10, metavar="N", help="of simulated time")
    options = parser.parse_args()
    row = Bench(options.jobs).run(options.minutes)
    with _flink(options.jobs // SITES + 1) as address:
        read = Bench(options.jobs, address).run(options.minutes)
    row |= {f"http_{name}": read[name] for name in read if name.startswith(("cpu", "interval", "job_"))}
    if published(options, "sampling", {"sampling": row}):
        return
    for name, value in row.items():
        print(f"{name:>24}  {value:.3g}" if isinstance(value, float) else f"{name:>24}  {value}")


if __name__ == "__main__":
    run(main)
