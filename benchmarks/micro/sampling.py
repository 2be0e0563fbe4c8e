"""Cost of measuring the load of jobs: ``python -m benchmarks.sampling [--json]``.

A composition of 500 jobs runs on engines in memory that report counts as Flink's do.  ``cpu_share`` is the
processor time of measuring them, as a share of a core: samples every 10 s, estimates and a write to the
store once a minute.  ``store_bytes_per_job`` is the size of the keys and values of the profiles in the
store.  ``profile_seconds`` is the processor time of an answer to ``GET /profile``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.common import Figure
from speck.coordinator import Services, build
from speck.core.inventory import Inventory, Uplink
from speck.core.profile import AckSample, JobSample
from speck.core.settings import Settings
from speck.observe.measures import PERIOD
from speck.store import Store
from tests.support.doubles import World
from tests.support.examples import one_site
from tests.support.jobs_by_hand import composition, make_job, write_code
from tests.support.profiled_engines import Profiled
from tests.support.samples import BEGIN, flink_stream

SITES = 10
MINUTE = 60.0  # s
CENTRE = "tcp://b0:1883"


@dataclass
class Bench:
    """Jobs whose rates change each minute; ``now`` is Unix time, s."""

    jobs: int
    now: float = BEGIN
    streams: list[JobSample] = field(default_factory=list)

    def __post_init__(self) -> None:
        rates = [100 + 100 * (minute % 2) for minute in range(200) for _ in range(6)]
        self.streams = flink_stream(rates, 1e-4, begin=BEGIN)

    def counts(self, name: str, engine_id: str, now: float) -> JobSample:
        """The counts of a job: the numbers of all jobs are the same."""
        acks = (AckSample(broker=CENTRE, least=0.02, median=0.03),)
        return replace(self.streams[round((now - BEGIN) / 10)], engine_id=engine_id, acks=acks)

    def run(self, minutes: int) -> dict[str, Any]:
        """Measure the jobs for some minutes."""
        profiled = Profiled(lambda: self.now, self.counts)
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
        operation, _ = services.coordinator.apply(composition(*_jobs(self.jobs)))
        assert operation.wait(600) and operation.state == "succeeded"
        sampler = services.coordinator.sampler
        sampler.now = lambda: self.now
        sampler._begin_thread = lambda: None  # type: ignore[method-assign]  # rounds begin here
        services.profiles.measure("", (minutes + 1) * MINUTE)
        self._minute(services)  # the first one makes connections and caches
        shares = [_time(lambda: self._minute(services)) / MINUTE for _ in range(minutes)]
        answers = [_time(lambda: json.dumps(services.profiles.profile())) for _ in range(5)]
        known = services.profiles.profile()["jobs"]
        assert all(each["fresh"] and each["cost"]["known"] == "measured" for each in known)
        stored = [each for each in services.coordinator.store.records() if each[0].startswith(b"profile/job")]
        assert len(stored) == self.jobs
        return {
            "jobs": self.jobs,
            **dict(Figure.of(shares).named("cpu_share")),
            **dict(Figure.of(answers).named("profile_seconds")),
            "store_bytes_per_job": sum(len(key) + len(value) for key, value in stored) / self.jobs,
        }

    def _minute(self, services: Services) -> None:
        """The rounds of the sampler in a minute."""
        sampler = services.coordinator.sampler
        for _ in range(round(MINUTE / PERIOD)):
            self.now += PERIOD
            sampler.sample()
            sampler.await_answers()
            services.profiles.measures.write()


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
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--jobs", type=int, default=500, metavar="N")
    parser.add_argument("--minutes", type=int, default=10, metavar="N", help="of simulated time")
    options = parser.parse_args()
    row = Bench(options.jobs).run(options.minutes)
    if options.json:
        print(json.dumps({"sampling": row}))
        return
    for name, value in row.items():
        print(f"{name:>24}  {value:.3g}" if isinstance(value, float) else f"{name:>24}  {value}")


if __name__ == "__main__":
    main()
