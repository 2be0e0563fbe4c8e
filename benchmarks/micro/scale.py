"""Costs of a long composition at many sites: ``python -m benchmarks.scale [--json] [--jobs N ...]``.

A composition of that many jobs, a hundred a site, runs on engines in memory.  Each size is measured in a
process of its own: ``apply_seconds`` for all jobs, ``change_seconds`` for an apply that changes 100 of them,
``round_seconds`` for a round of the reconciler in which nothing happens, ``restart_seconds`` for the opening
of the store and the first round over it.  All are processor time, rounds the median of five.
``peak_bytes_per_job`` is the growth of the resident memory, engines in memory included;
``store_bytes_per_job`` the size of the store.  The figures of a linear cost are the same for each size when
they are divided by the number of jobs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.micro.plan import most_resident
from benchmarks.micro.store import size
from speck.controller.reconciler import Reconciler
from speck.coordinator import Coordinator, build
from speck.core.job import Composition, Job
from speck.core.settings import Quotas, Settings
from speck.server.collector import collected_seldom
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.results import add_output_options, published
from testbed.termination import alone, run

SIZES = (1_000, 10_000)
JOBS_A_SITE = 100
CHANGED = 100
ROUNDS = 5
PATIENCE = 3600.0  # s
UNBOUNDED = Quotas(jobs=1_000_000)


def measure(count: int) -> dict[str, Any]:
    """One row of the result; for a process of its own."""
    before, world = most_resident(), World()
    with tempfile.TemporaryDirectory() as directory:
        root = write_code(Path(directory))
        jobs = [_job(number) for number in range(count)]
        with Store(root / "store") as store:
            coordinator, reconciler = _built(store, world, root)
            row = {"apply_seconds": _timed(lambda: _apply(coordinator, composition(*jobs)))}
            changed = [
                replace(job, trigger="2 seconds") for job in jobs[:: max(1, count // CHANGED)][:CHANGED]
            ]
            after = composition(*(jobs + changed))
            row["change_seconds"] = _timed(lambda: _apply(coordinator, after))
            reconciler.round()
            row["round_seconds"] = median(_timed(reconciler.round) for _ in range(ROUNDS))
            coordinator.close()
        row["store_bytes_per_job"] = round(size(root / "store") / count)
        row["restart_seconds"] = _timed(lambda: _restart(world, root))
    row["peak_bytes_per_job"] = round((most_resident() - before) / count)
    return {"jobs": count, "sites": -(-count // JOBS_A_SITE)} | row


def _measured_alone(count: int) -> dict[str, Any]:
    with collected_seldom():  # as in the server
        return measure(count)


def _job(number: int) -> Job:
    site = f"s{number // JOBS_A_SITE}"
    return make_job(
        f"clean-{number}",
        f"in/{number}",
        f"out/{number}",
        spe_address=f"sc://{site}:15002",
        source_broker=f"tcp://{site}:1883",
        sink_broker=f"tcp://{site}:1883",
    )


def _built(store: Store, world: World, root: Path) -> tuple[Coordinator, Reconciler]:
    coordinator = build(
        store, double_kinds(world), settings=Settings(roots=(root,), quotas=UNBOUNDED)
    ).coordinator
    return coordinator, coordinator.reconciler


def _apply(coordinator: Coordinator, desired: Composition) -> None:
    operation, _ = user.apply(coordinator, desired)
    assert operation is not None and operation.wait(PATIENCE) and operation.state == "succeeded"


def _restart(world: World, root: Path) -> None:
    with Store(root / "store") as store:
        coordinator, reconciler = _built(store, world, root)
        reconciler.round()
        coordinator.close()


def _timed(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description="the cost of long compositions")
    add_output_options(parser)
    parser.add_argument("--jobs", type=int, nargs="+", default=SIZES, metavar="N", help="sizes to measure")
    options = parser.parse_args()
    rows = [alone(_measured_alone, count) for count in options.jobs]
    if published(options, "scale", {"scale": rows}):
        return
    for row in rows:
        print(
            ", ".join(
                f"{name} {value:,.3f}" if isinstance(value, float) else f"{name} {value:,}"
                for name, value in row.items()
            )
        )


if __name__ == "__main__":
    run(main)
