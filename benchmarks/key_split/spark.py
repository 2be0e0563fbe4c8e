"""``python -m benchmarks.key_split spark``: splits on real Spark, in processor seconds.

``one_job.*``: eight workers in one job, beside ``applyInPandasWithState`` by key and Spark's own ``groupBy``.
``sites.*`` and ``hot_towns.*``: four combiners at four sites, a real day, ``add`` of some 50 us a row.

``in_memory_ratio`` is that of two batches of 8,000 rows without Spark, each worker's part timed alone.

The critical path of a batch is the seconds of its busiest worker, as the parts report them.  Over sites it is
that of the run: the partitioner's seconds, those of the busiest combiner, and the reducer's.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.key_split import in_memory, one_job
from benchmarks.key_split.day import DATA, WINDOWS, Account, Day
from benchmarks.key_split.hot_towns import Outcome, Run, measured
from benchmarks.key_split.parts import Parts, critical_path
from testbed import ROOT
from testbed.results import add_output_options, published

SITES = ("A", "B", "C", "D")
KEY_COST = 30  # rows: what a digest costs beside its rows
IN_ONE_JOB: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "shuffle": ("shuffle", {}),
    "balanced": ("balanced", {}),
    "balanced-key-cost": ("balanced", {"key_cost": KEY_COST}),
    "hash": ("hash", {}),
}
ADD_US = 50.0  # of a row
Figures = Iterator[tuple[str, float]]


def main(arguments: Sequence[str]) -> int:
    """Measure and print; the result is 1 when a window was not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.key_split spark", description=__doc__)
    parser.add_argument("--only", choices=("one_job", "sites"), help="one half of the figures")
    parser.add_argument("--partitioner", choices=IN_ONE_JOB, action="append", help="in one job (all)")
    parser.add_argument("--z", type=float, nargs="+", default=[1.5], help="Zipf exponents (default: 1.5)")
    parser.add_argument("--workload", type=int, nargs="+", default=[1, 1000], help="repetitions of add")
    parser.add_argument("--limit", type=int, default=60_000, help="readings of the day (default: 60,000)")
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder of the day (default: {DATA})")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    found: dict[str, float] = {}
    if options.only != "sites":
        found |= _noted(_one_job(options.z, options.workload, options.partitioner or list(IN_ONE_JOB)))
    if options.only != "one_job":
        found |= _noted(_sites(Day.read(options.data, options.limit)))
    if not published(options, "key_split-spark", found):
        print("\n".join(f"{name}: {found[name]:.4g}" for name in found))
    return 1 if any(value for name, value in found.items() if name.endswith(".wrong_windows")) else 0


def _noted(figures: Figures) -> Figures:
    for name, value in figures:
        print(f"{name}: {value:.4g}", file=sys.stderr, flush=True)
        yield name, value


def _one_job(exponents: Sequence[float], workloads: Sequence[int], names: Sequence[str]) -> Figures:
    with one_job.bench() as bench:
        for z in exponents:
            for workload in workloads:
                for name in names:
                    partitioner, options = IN_ONE_JOB[name]
                    key = f"one_job.{name}.z{z:g}.w{workload}"
                    yield from _figures(key, bench.split(partitioner, z, workload, options))
                    alone = in_memory.critical_path_ratio(partitioner, options, z, workload)
                    yield f"{key}.in_memory_ratio", alone
                key = f"one_job.keyed_pandas.z{z:g}.w{workload}"
                yield from _figures(key, bench.keyed_pandas(z, workload))
            yield from _figures(f"one_job.native_groupby.z{z:g}", bench.native_groupby(z))


def _figures(key: str, found: one_job.Measured) -> Figures:
    values = {
        "critical_path_ratio": found.critical_path_ratio,
        "rows_ratio": found.rows_ratio,
        "cpu_us_per_row": found.cpu_us_per_row,
        "partials": found.partials,
    }
    yield from ((f"{key}.{name}", value) for name, value in values.items() if value is not None)


def _sites(day: Day) -> Figures:
    workload = max(1, round(ADD_US / add_us(day, 200) * 200))
    yield "hot_towns.add_us", add_us(day, workload)
    paths = {}
    for partitioner in ("hash", "balanced"):
        run = Run(day=day, combiners=SITES, partitioner=partitioner, workload=workload, rate=4000)
        outcome = measured(run)
        paths[partitioner] = path(outcome.parts)
        yield from _of_sites(f"sites.{partitioner}.n4", day, outcome)
    yield "hot_towns.times_hash", paths["hash"] / paths["balanced"]


def _of_sites(key: str, day: Day, outcome: Outcome) -> Figures:
    parts, rows = outcome.parts, day.rows()
    yield (
        f"{key}.critical_path_ratio",
        critical_path([parts.busy(each) for each in parts.combiners()]),
    )
    yield f"{key}.path_s", path(parts)
    yield f"{key}.cpu_us_per_row", outcome.cpu / rows * 1e6
    elsewhere = [f"rows/{number}" for number, site in enumerate(SITES) if site != "D"]
    sent = sum(parts.bytes[topic] for topic in (*elsewhere, "partials"))
    yield f"{key}.bytes_per_row_wan", sent / rows
    yield f"{key}.end_to_end_p50_ms", median(outcome.latencies) * 1000
    yield f"{key}.wrong_windows", Account.of(day.speeds, outcome.counts, outcome.results).faults()


def path(parts: Parts) -> float:
    """The processor seconds on the longest way through a split over sites."""
    return parts.busy("partitioner") + max(map(parts.busy, parts.combiners())) + parts.busy("reducer")


def add_us(day: Day, workload: int) -> float:
    """The processor microseconds that ``add`` takes for a row, in groups by town and slide."""
    code = runpy.run_path(str(ROOT / "jars_and_apps" / "road_traffic" / "hot_towns.py"))
    aggregation = code["SpeedPercentiles"](workload=workload)
    groups = [speeds for (_, end), speeds in day.speeds.items() if end % WINDOWS.slides == 0][:500]
    columns = [{"speed": np.array(speeds)} for speeds in groups]
    began = time.process_time()
    for each in columns:
        aggregation.add(each)
    return (time.process_time() - began) / sum(map(len, groups)) * 1e6
