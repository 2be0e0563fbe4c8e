"""A split in one Spark job, beside what one writes without it: the critical path and the processor time.

Each run has a query of its own on one Connect server: a first batch warms it up, then ROWS messages are sent
as fast as the broker takes them.  Eight workers; windows of ten seconds, in order.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.key_split.parts import Parts, cpu_seconds
from speck.core.job import Job, Scalar
from speck.core.runtime import JobState
from speck.core.split import Split, expand
from speck.testing.waiting import attempt_of, await_state
from testbed import ROOT
from testbed.benches.spark import SparkBench
from testbed.faults.flow import client
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer

WORKERS = 8
KEYS = 1000
ROWS, WARM_UP = 60_000, 8_000
SECONDS = 10  # of a window
ROWS_A_SECOND = 500  # of event time
JOBS = ROOT / "benchmarks" / "key_split" / "jobs.py"
AGGREGATIONS = ROOT / "jars_and_apps" / "key_split" / "aggregations.py"
_PATIENCE = 180.0  # s


@dataclass(frozen=True)
class Measured:
    """The figures of a run; ``partials``: states to merge for each key and slide of a batch.

    ``rows_ratio`` is the critical path as it would be if each row cost the same, and nothing else cost.
    """

    cpu_us_per_row: float
    critical_path_ratio: float | None = None
    rows_ratio: float | None = None
    partials: float | None = None


class Bench:
    """A Connect server with a broker."""

    def __init__(self, site: SparkBench, folder: Path) -> None:
        self._site, self._folder, self._number = site, folder, 0

    def split(
        self, partitioner: str, z: float, workload: int, options: Mapping[str, float] | None = None
    ) -> Measured:
        """The run of a split in one job, with these options of the partitioner."""
        self._number += 1
        job = self._site.job(f"split-{self._number}", "Percentiles", AGGREGATIONS, workload=workload)
        window = SECONDS * 1_000_000
        split = Split(combiners=WORKERS, partitioner=partitioner, window_us=window, slide_us=window)
        (job,) = expand(job, replace(split, options=options or {}))
        with client(job.sink_broker) as connection:
            parts = Parts(connection, job.job_name)
            before, cpu = self._run(job, z, lambda: len(parts.reports["whole"]))
            reports = parts.reports["whole"][before:]
        batches = [report["workers"] for report in reports if report["workers"]]
        groups = sum(report["groups"] for report in reports)
        return Measured(
            cpu,
            _ratio([[each["busy"] for each in workers] for workers in batches]),
            _ratio([[each["rows"] for each in workers] for workers in batches]),
            sum(report["partials"] for report in reports) / groups,
        )

    def keyed_pandas(self, z: float, workload: int) -> Measured:
        """The run of ``applyInPandasWithState`` by key, in as many tasks as there are workers."""
        self._number += 1
        log = self._folder / f"busy-{self._number}"
        arguments: dict[str, Scalar] = {"seconds": SECONDS, "workload": workload, "log": str(log)}
        job = self._site.job(f"keyed-{self._number}", "keyed_pandas", JOBS, **arguments)
        before, cpu = self._run(replace(job, parallelism=WORKERS), z, lambda: len(log.read_text().split()))
        busy, rows = _Batches(), _Batches()
        for line in log.read_text().split()[before:]:
            batch, task, count, seconds = line.split(",")
            busy.add(batch, task, float(seconds))
            rows.add(batch, task, float(count))
        return Measured(cpu, busy.ratio(), rows.ratio())

    def native_groupby(self, z: float) -> Measured:
        """The run of Spark's own ``groupBy``."""
        self._number += 1
        job = self._site.job(f"native-{self._number}", "native_groupby", JOBS, seconds=SECONDS)
        _, cpu = self._run(replace(job, parallelism=WORKERS), z, lambda: 0)
        return Measured(cpu)

    def _run(self, job: Job, z: float, noted: Callable[[], int]) -> tuple[int, float]:
        """The notes made by the end of the warm-up, and the processor microseconds of a row after it."""
        engine = self._site.binder()
        handle = engine.submit(job, attempt_of(job))
        await_state(engine, handle, JobState.RUNNING)

        def await_rows(count: int) -> None:
            deadline = time.monotonic() + _PATIENCE
            while (engine.metrics(handle).input_rows or 0) < count:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{job.job_name}: {engine.metrics(handle).input_rows} rows")
                time.sleep(0.2)

        try:
            texts = list(messages(z, WARM_UP + ROWS))
            self._site.mqtt.send(job.source_topic, texts[:WARM_UP])
            await_rows(WARM_UP)
            time.sleep(2)
            before, used = noted(), self._cpu()
            for first in range(WARM_UP, len(texts), 1000):
                self._site.mqtt.send(job.source_topic, texts[first : first + 1000])
            await_rows(len(texts))
            time.sleep(1)
            return before, (self._cpu() - used) / ROWS * 1e6
        finally:
            engine.stop(handle, keep_state=False)

    def _cpu(self) -> float:
        return cpu_seconds([self._site.server.pid])


@contextmanager
def bench() -> Iterator[Bench]:
    """A bench with servers of its own."""
    with TemporaryDirectory(prefix="speck-one-job-") as name:
        folder = Path(name)
        with (
            SparkServer(folder / "spark", heap="900m") as server,
            MosquittoServer(folder / "broker") as broker,
        ):
            site = SparkBench(server, broker, folder)
            try:
                yield Bench(site, folder)
            finally:
                site.close()


def messages(z: float, count: int, seed: int = 1) -> Iterator[str]:
    """Rows in the order of their times, their keys by Zipf's law."""
    chance = np.random.default_rng(seed)
    shares = np.arange(1, KEYS + 1) ** -float(z)
    keys = chance.choice(KEYS, count, p=shares / shares.sum())
    values = chance.lognormal(3, 1, count)
    for number, (key, value) in enumerate(zip(keys.tolist(), values.tolist(), strict=True)):
        moment = 1_700_000_000 + number / ROWS_A_SECOND
        yield json.dumps({"key": f"k{key}", "time": moment, "value": round(value, 3)})


class _Batches:
    """The amounts that each task of each batch took."""

    def __init__(self) -> None:
        self._of: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, batch: str, task: str, amount: float) -> None:
        self._of[batch][task] += amount  # type: ignore[assignment]  # typeshed has whole numbers alone

    def ratio(self) -> float:
        return _ratio([[*tasks.values()] for tasks in self._of.values()])


def _ratio(batches: Sequence[Sequence[float]]) -> float:
    """The amounts of the busiest worker of each batch, in all, over those of the mean worker."""
    return sum(map(max, batches)) * WORKERS / sum(map(sum, batches))
