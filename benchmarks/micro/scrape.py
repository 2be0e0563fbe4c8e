"""Cost of observation: ``python -m benchmarks.scrape [--json]``.

A composition of 500 jobs runs on engines in memory, each of which reports rates.  ``metrics_seconds`` and
``rates_seconds`` are the processor time that an answer to ``GET /metrics`` and ``GET /rates`` takes,
``metrics_bytes`` and ``metrics_series`` the size of the former, after requests of every route with and
without success.  ``sampling_seconds`` is that of sampling all engines once, which happens every 5 s while
a client follows, ``counting_seconds`` that of counting one request.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import Figure
from speck.coordinator import Coordinator, build
from speck.core.runtime import JobMetrics
from speck.core.settings import Settings
from speck.observe.metrics import Metrics
from speck.server.api import create_app, exposition
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.results import add_output_options, published
from testbed.termination import run

ENGINES = 10
REQUESTS = 10_000


def measure(jobs: int, runs: int) -> dict[str, Any]:
    """Observe one deployment ``runs`` times."""
    world = World()
    with tempfile.TemporaryDirectory() as directory:
        root = write_code(Path(directory))
        with Store(root / "store") as store:
            services = build(store, double_kinds(world), settings=Settings(roots=(root,), period=0))
            coordinator = services.coordinator
            operation, _ = user.apply(coordinator, composition(*_jobs(world, jobs)))
            assert operation.wait(600) and operation.state == "succeeded"
            coordinator.reconciler.round()
            routes = [rule.rule for rule in create_app(services).url_map.iter_rules()]
            counting = [_time(lambda: _count(services.metrics, routes)) / REQUESTS for _ in range(runs)]
            coordinator.sampler.period = 0.0  # each engine is due at once
            sampling = [_time(lambda: _sample(coordinator)) for _ in range(runs)]
            coordinator.sampler.period = 3600.0  # and none any more
            answers = [_time(lambda: exposition.exposition(services)) for _ in range(runs)]
            rates = [_time(lambda: json.dumps(services.queries.rates())) for _ in range(runs)]
            text = exposition.exposition(services).decode()
            coordinator.close()
    assert text.count("speck_job_waiting_messages{") == min(jobs, exposition.MOST_JOBS)
    return {
        "jobs": jobs,
        **dict(Figure.of(answers).named("metrics_seconds")),
        **dict(Figure.of(rates).named("rates_seconds")),
        **dict(Figure.of(sampling).named("sampling_seconds")),
        **dict(Figure.of(counting).named("counting_seconds")),
        "metrics_bytes": len(text.encode()),
        "metrics_series": sum(not line.startswith("#") for line in text.splitlines()),
    }


def _jobs(world: World, count: int) -> list[Any]:
    reported = JobMetrics(
        time.time(), input_rate=500.0, output_rate=250.0, waiting=17, batch_duration_ms=210.0
    )
    world.metrics = {f"j{number}": reported for number in range(count)}
    return [
        make_job(name, f"in-{name}", f"out-{name}", spe_address=f"sc://e{number % ENGINES}:1")
        for number, name in enumerate(world.metrics)
    ]


def _sample(coordinator: Coordinator) -> None:
    """Sample all engines now, and wait for their answers."""
    coordinator.sampler.sample()
    coordinator.sampler.await_answers()


def _count(metrics: Metrics, routes: Sequence[str]) -> None:
    """Requests of every route, as if they had been answered."""
    for number in range(REQUESTS):
        status = "2xx" if number % 2 else "4xx"
        metrics.requested(routes[number // 2 % len(routes)], "GET", status, 0.01)


def _time(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    """Measure, and print lines or one JSON object."""
    parser = argparse.ArgumentParser(description="the cost of observation")
    add_output_options(parser)
    parser.add_argument("--jobs", type=int, default=500, metavar="N")
    parser.add_argument("--runs", type=int, default=20, metavar="N")
    options = parser.parse_args()
    row = measure(options.jobs, options.runs)
    if published(options, "scrape", {"scrape": row}):
        return
    for name, value in row.items():
        print(f"{name:>24}  {value:.3g}" if isinstance(value, float) else f"{name:>24}  {value}")


if __name__ == "__main__":
    run(main)
