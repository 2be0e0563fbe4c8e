"""The demo's 17 jobs over a real day: ``python -m benchmarks.day --data FILE [--sensors FILE] [--json]``.

It is ``speck demo --data FILE --rate 0`` with its edit, and further figures: ``start_seconds`` from the
beginning until all jobs run, by stage; ``seconds`` from the first reading sent to the last one counted;
processor time meanwhile by kind of process, in all for a reading (``core_microseconds_per_reading``), and of
the engines for a batch; for each job its number of batches, rows a batch, and the mean milliseconds of the
phases of a batch; the proportional memory (PSS) when all is counted.

The phases come from the latest report of each job, read every :data:`SAMPLE` seconds: a long batch is more
likely to be among them than a short one.  The number of batches is exact, but for those of a job that the
edit removes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
from rich.console import Console

from speck.cli.demo.stages import Demo, DemoOptions
from speck.cli.demo.view import View
from speck.errors import SpeckError
from testbed.results import add_output_options, published
from testbed.termination import run

SAMPLE = 2.0  # s
PHASES = {
    "triggerExecution": "batch_ms",
    "latestOffset": "wait_ms",
    "queryPlanning": "planning_ms",
    "walCommit": "offset_log_ms",
    "commitOffsets": "commit_log_ms",
    "addBatch": "processing_ms",
}
Times = Mapping[str, float]


class MeasuredDemo(Demo):
    """A demo that takes its figures while it runs."""

    def __init__(self, options: DemoOptions, directory: Path, view: View, cleanup: ExitStack) -> None:
        super().__init__(options, directory, view, cleanup)
        self.figures: dict[str, Any] = {}
        self._sampled = 0.0
        self._rows: Counter[str] = Counter()
        self._batches: Counter[str] = Counter()
        self._phases: dict[str, dict[int, dict[str, float]]] = defaultdict(dict)

    def _feed_and_edit(self) -> None:
        begun = time.monotonic() - self._begun
        self.figures["start_seconds"] = round(begun, 2)
        self._before = self._processor_seconds()
        super()._feed_and_edit()

    def _is_final(self, since: float) -> bool:
        self._sample()
        return super()._is_final(since)

    def _all_sent(self) -> bool:
        self._sample()
        return super()._all_sent()

    def _sample(self) -> None:
        """Read the latest report of each job, if the last time is long enough ago."""
        if time.monotonic() < self._sampled + SAMPLE:
            return
        for name in [job["job_name"] for job in self._client.jobs()]:
            with contextlib.suppress(SpeckError):
                self._note(name, self._client.job(name).get("metrics") or {})
        self._sampled = time.monotonic()

    def _note(self, name: str, metrics: Mapping[str, Any]) -> None:
        details = metrics.get("details") or {}
        batch, rows = metrics.get("batch_id"), details.get("batch_rows")
        if batch is None:
            return
        self._batches[name] = max(self._batches[name], batch + 1)
        self._rows[name] = max(self._rows[name], metrics.get("input_rows") or 0)
        if rows:
            self._phases[name][batch] = {
                figure: details.get(f"duration_ms.{phase}", 0) for phase, figure in PHASES.items()
            }

    def _conclude(self) -> int:
        self._sampled = 0.0
        self._sample()
        after = self._processor_seconds()
        used = {kind: round(seconds - self._before.get(kind, 0), 2) for kind, seconds in after.items()}
        counts, readings = self._counts, max(1, self._counts.sent["readings"])
        batches = sum(self._batches.values())
        self.figures |= {
            "stages": {name: counts.seconds[name] for name in ("input", "sites", "server", "deploy")},
            "seconds": counts.seconds["feed"],
            "readings": counts.sent["readings"],
            "core_seconds": used,
            "core_microseconds_per_reading": round(1e6 * sum(used.values()) / readings),
            "batches": batches,
            "engine_core_ms_per_batch": round(1e3 * used["engines"] / max(1, batches), 1),
            "jobs": {name: self._of_job(name) for name in sorted(self._batches)},
            "memory_mb": {kind: round(size / 1e6) for kind, size in self._memory().items()},
        }
        return super()._conclude()

    def _of_job(self, name: str) -> dict[str, float]:
        sampled = list(self._phases[name].values())
        figures = (
            {figure: round(mean(each[figure] for each in sampled), 1) for figure in PHASES.values()}
            if sampled
            else {}
        )
        batches = self._batches[name]
        return {"batches": batches, "rows_per_batch": round(self._rows[name] / batches, 1), **figures}

    # --- processes

    def _families(self) -> dict[str, list[psutil.Process]]:
        """The processes that are there, by kind."""
        found: dict[str, list[psutil.Process]] = defaultdict(list)
        for server in self._sites.servers:
            found["engines" if server.role == "engine" else "brokers"] += _family(server.pid)
        found["coordinator"] += _family(self._server.process.pid)
        return found

    def _processor_seconds(self) -> dict[str, float]:
        """Processor time so far by kind; ``demo`` is this process with the feeders that have ended."""
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        seconds = {"demo": sum(each.ru_utime + each.ru_stime for each in own)}
        for kind, processes in (self._families() | {"watcher": _family(self._watcher.process.pid)}).items():
            seconds[kind] = sum(_seconds(each) for each in processes)
        return seconds

    def _memory(self) -> dict[str, int]:
        found = {}
        for kind, processes in self._families().items():
            found[kind] = sum(_pss(each) for each in processes)
        return found


def _family(pid: int | None) -> list[psutil.Process]:
    if pid is None:
        return []
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    return []


def _seconds(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def _pss(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.NoSuchProcess):
        return int(process.memory_full_info().pss)
    return 0


def measure(options: DemoOptions) -> tuple[int, dict[str, Any]]:
    """Run the demo; answers its exit code (0: all counts agree), and the figures.  Raises SpeckError."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="speck-day-"))
    with ExitStack() as cleanup:
        demo = MeasuredDemo(options, directory, View(console), cleanup)
        return demo.run(), demo.figures


def main() -> int:
    """Measure, and print one JSON object; the result is 1 if the counts do not agree."""
    parser = argparse.ArgumentParser(description="the demo over a real day, with its figures")
    parser.add_argument("--data", type=Path, help="CityPulse readings (default: a generated day)")
    parser.add_argument("--sensors", type=Path, help="CSV of sensors with the site of each")
    parser.add_argument("--limit", type=int, help="only the first N readings")
    add_output_options(parser)
    options = parser.parse_args()
    code, figures = measure(
        DemoOptions(data=options.data, sensors=options.sensors, limit=options.limit, rate=0.0)
    )
    if not published(options, "day", {"day": figures}):
        print(json.dumps({"day": figures}, indent=2))
    return code


if __name__ == "__main__":
    run(main)
