"""Cost of the reconciler, and its time to detection: ``python -m benchmarks.reconcile [--json]``.

A composition of 1,000 jobs runs on engines in memory, with the period of ``speck serve``.
``cpu_percent_of_a_core`` is the processor time of this whole process over the time, while nothing happens.
Then jobs fail at random times; ``detection_seconds`` is the time from a failure to its event in the
audit log.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import Figure
from speck.coordinator import Coordinator, build
from speck.core.settings import Settings
from speck.server.collector import collected_seldom
from speck.store import Event, Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.results import add_output_options, published
from testbed.termination import run

ENGINES = 10
POLL = 0.02  # s


def measure(jobs: int, deaths: int, rounds: int, period: float) -> dict[str, Any]:
    """One run."""
    world = World()
    with tempfile.TemporaryDirectory() as directory:
        root = write_code(Path(directory))
        with Store(root / "store") as store:
            coordinator = build(
                store, double_kinds(world), settings=Settings(roots=(root,), period=period)
            ).coordinator
            desired = [
                make_job(
                    f"j{number}", f"in{number}", f"out{number}", spe_address=f"sc://e{number % ENGINES}:1"
                )
                for number in range(jobs)
            ]
            operation, _ = user.apply(coordinator, composition(*desired))
            assert operation.wait(600) and operation.state == "succeeded"
            coordinator.start()
            time.sleep(period / 2)  # the first round comes at once
            cpu = _idle(rounds * period)
            found = [_detection(world, coordinator, f"j{number}", period) for number in range(deaths)]
            coordinator.close()
    return {
        "jobs": jobs,
        "engines": ENGINES,
        "period_seconds": period,
        "cpu_percent_of_a_core": round(cpu, 3),
        **dict(Figure.of(found).named("detection_seconds")),
    }


def _idle(seconds: float) -> float:
    """Processor time of this process while it waits, percent of a core."""
    wall, used = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    return 100 * (time.process_time() - used) / (time.perf_counter() - wall)


def _detection(world: World, coordinator: Coordinator, name: str, period: float) -> float:
    """Seconds from a failure at a random time to its event."""
    time.sleep(random.uniform(0, period))
    died = time.time()
    world.crash(name)
    while not (found := [each for each in coordinator.store.events(50) if _is_drift_of(each, name)]):
        time.sleep(POLL)
    return found[0].at - died


def _is_drift_of(event: Event, name: str) -> bool:
    return event.kind == "drift" and event.job == name


def main() -> None:
    """Measure, and print lines or one JSON object."""
    parser = argparse.ArgumentParser(description="the cost of the reconciler")
    add_output_options(parser)
    parser.add_argument("--jobs", type=int, default=1000, metavar="N")
    parser.add_argument("--deaths", type=int, default=10, metavar="N", help="jobs that fail")
    parser.add_argument("--rounds", type=int, default=6, metavar="N", help="rounds without an event")
    parser.add_argument("--period", type=float, default=Settings().period, metavar="SECONDS")
    options = parser.parse_args()
    with collected_seldom():  # as in the server
        row = measure(options.jobs, options.deaths, options.rounds, options.period)
    if published(options, "reconcile", {"reconcile": row}):
        return
    for name, value in row.items():
        print(f"{name:>24}  {value:.3f}" if isinstance(value, float) else f"{name:>24}  {value}")


if __name__ == "__main__":
    run(main)
