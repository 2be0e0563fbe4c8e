"""Cost of planning when nothing changed: ``python -m benchmarks.plan [--json] [--jobs N ...]``.

For each size, a composition of that many Spark jobs is read from YAML (checked as the server does it, with
the installed binders), is taken as deployed, and is read and planned again.  ``seconds`` is the planning
alone, ``load_seconds`` the reading; both are processor time, medians over the runs, with minimum and maximum.
The jobs that are compared are different objects with equal values, as those of a store and of a file are.
``load_peak_bytes_per_job`` is the growth of the resident memory while the text is read by a process
of its own, text included.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import Figure
from speck.binder import installed
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job
from speck.core.plan import Deployed, make_plan
from speck.schema.compositions import load_composition
from testbed.results import add_output_options, published
from testbed.termination import alone, run

SIZES = (1_000, 10_000, 100_000)
RUNS = 5
JOBS_A_SITE = 10
PROGRAM = "def clean(messages):\n    return messages\n"


def text_of(count: int) -> str:
    """The YAML of a composition: at each site a chain of ten jobs, the last of which feeds the next site."""
    return "name: city\njobs:\n" + "".join(_job(number) for number in range(count))


def _job(number: int) -> str:
    site, place = divmod(number, JOBS_A_SITE)
    here, there = (_host(site), _host(site + 1 if place == JOBS_A_SITE - 1 else site))
    return (
        f"- job_name: clean-{number}\n  spe_address: sc://{here}:15002\n"
        f"  source_broker: tcp://{here}:1883\n  source_topic: city/{number}\n"
        f"  sink_broker: tcp://{there}:1883\n  sink_topic: city/{number + 1}\n"
        "  entry_class: clean\n  job_path: clean.py\n"
    )


def _host(site: int) -> str:
    return f"10.{site // 62_500}.{site // 250 % 250}.{site % 250 + 1}"


def measure(count: int, runs: int, root: Path) -> dict[str, Any]:
    """One row of the result."""
    text = text_of(count)
    stored = {name: Deployed(_copy(job)) for name, job in _load(text, root).jobs.items()}
    loads, plans = [], []
    for _ in range(runs):
        seconds, desired = _timed(lambda: _load(text, root))
        loads.append(seconds)
        seconds, plan = _timed(lambda jobs=desired.jobs: make_plan("city", 1, jobs, stored))  # type: ignore[misc]
        plans.append(seconds)
        assert plan.changes == () and len(plan.actions) == count
    row: dict[str, Any] = {"jobs": count, "runs": runs, "yaml_bytes": len(text)}
    row["load_peak_bytes_per_job"] = alone(peak_bytes, count, root) // count
    return row | dict(Figure.of(plans).named("seconds")) | dict(Figure.of(loads).named("load_seconds"))


def peak_bytes(count: int, root: Path) -> int:
    """The growth of the most resident memory of this process by the reading of a composition, in bytes."""
    _load(text_of(1), root)
    before = most_resident()
    _load(text_of(count), root)
    return most_resident() - before


def most_resident() -> int:
    """The most memory that this process had resident so far, in bytes."""
    # Of Linux; getrusage() would count the process that this one was forked from.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _copy(job: Job) -> Job:
    """An equal job that shares no text, as one that was stored and read again."""
    return Job.from_dict(json.loads(json.dumps(job.to_dict())))


def _load(text: str, root: Path) -> Composition:
    loaded = load_composition(
        text,
        inventory=Inventory(),
        registry=installed(),
        root=root,
        default_name="city",
        max_bytes=len(text),
    )
    return loaded.composition


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description="the cost of planning unchanged jobs")
    add_output_options(parser)
    parser.add_argument("--jobs", type=int, nargs="+", default=SIZES, metavar="N", help="sizes to measure")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help="runs of each size")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "clean.py").write_text(PROGRAM, encoding="utf-8")
        rows = [measure(count, options.runs, root) for count in options.jobs]
    if published(options, "plan", {"plan": rows}):
        return
    print(
        f"{'jobs':>9}  {'plan s':>8} {'(min, max)':>18}  {'load s':>8} {'(min, max)':>18}  {'bytes/job':>9}"
    )
    for row in rows:
        plan, load = (
            f"{row[name]:>8.4f} {'({:.4f}, {:.4f})'.format(row[f'{name}_min'], row[f'{name}_max']):>18}"
            for name in ("seconds", "load_seconds")
        )
        print(f"{row['jobs']:>9,}  {plan}  {load}  {row['load_peak_bytes_per_job']:>9,}")


if __name__ == "__main__":
    run(main)
