"""``python -m benchmarks.key_split hot-towns``: a real day through ``pipelines/hot_towns.yaml``.

Sites of this machine are brought up (``speck local up``), the composition is applied with ``combiners`` as
given, and all readings are sent to D.  Each window must come once, with the count and percentiles of the
tests' reference, and the count of Spark's own ``groupBy``.

``--combiners 4`` is one Spark job at one site; ``--combiners A,B,C,D`` a job at each of four sites.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import paho.mqtt.client as paho
import yaml
from pyspark.sql.connect.session import SparkSession

from benchmarks.key_split.day import DATA, READINGS, WINDOWS, Account, Day
from benchmarks.key_split.parts import Parts, cpu_seconds
from speck import local
from testbed import ROOT
from testbed.faults.flow import Listener, client
from testbed.faults.served import Served
from testbed.results import add_output_options, published

NAME = "hot-towns"
PATIENCE = 240.0  # s without a result
_OUTSTANDING = 1000  # messages that the broker has not acknowledged
_LATE = 3.0  # s for what comes once too often


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run: ``combiners`` is a number or names of sites; ``rate`` in readings/s, 0: no bound."""

    day: Day
    combiners: int | Sequence[str]
    partitioner: str | None = None
    workload: int = 1
    rate: float = 0.0

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that it needs; the job is at the last one."""
        return ("A",) if isinstance(self.combiners, int) else tuple(sorted({*self.combiners, "D"}))

    def composition(self) -> dict[str, Any]:
        """The composition that is shipped, with these combiners."""
        found: dict[str, Any] = yaml.safe_load((ROOT / "pipelines" / "hot_towns.yaml").read_text())
        (job,) = found["jobs"]
        job["site"], job["key_split"]["combiners"] = self.sites[-1], self.combiners
        del job["key_split"]["partitioner"]
        if self.partitioner:
            job["key_split"]["partitioner"] = self.partitioner
        if self.workload != 1:
            job["arguments"]["workload"] = self.workload
        return found


@dataclass(frozen=True)
class Outcome:
    """The results, the reports of the parts, and what the run took."""

    results: list[str]
    parts: Parts
    counts: dict[tuple[str, int], int]
    seconds: float
    cpu: float
    latencies: list[float] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    """Run the trial; the result is 1 when a window is not as it should be, 2 without the data."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.key_split hot-towns", description=__doc__)
    parser.add_argument("--combiners", default="4", help="a number, or sites: A,B,C,D (default: 4)")
    parser.add_argument("--partitioner", help="by default that of the form: shuffle, or balanced at sites")
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder of {READINGS} (default: {DATA})")
    parser.add_argument("--limit", type=int, help="the first readings only (default: all)")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    try:
        day = Day.read(options.data, options.limit)
    except FileNotFoundError as error:
        print(f"no data: {error} (expected --data FOLDER)", file=sys.stderr)
        return 2
    if not day.speeds:
        parser.error(f"--limit {options.limit}: no window ends within these readings (2000 are enough)")
    given = options.combiners
    combiners = int(given) if given.isdigit() else given.split(",")
    outcome = measured(Run(day=day, combiners=combiners, partitioner=options.partitioner))
    account = Account.of(day.speeds, outcome.counts, outcome.results)
    found = {"readings": len(day.lines), "rows": day.rows(), **account._asdict()}
    found |= {"faults": outcome.parts.faults(), "seconds": round(outcome.seconds, 1)}
    if not published(options, "key_split-hot-towns", found):
        print(yaml.safe_dump(found, sort_keys=False))
    return 1 if account.faults() else 0


def measured(run: Run) -> Outcome:
    """Bring the sites up, apply, send the day, and await its windows."""
    with TemporaryDirectory(prefix="speck-towns-") as folder, _sites(Path(folder), run) as (sites, url):
        _apply(run, Path(folder), url)
        servers = [server.pid for server in sites.servers if server.pid is not None]
        broker = sites.sites[-1].broker.address
        with client(broker) as results, client(broker) as reports:
            output, parts = Listener(results, NAME), Parts(reports, NAME)
            began, used = time.monotonic(), cpu_seconds(servers)
            sent = send(broker, run.day.lines, run.rate)
            _await_results(output, len(run.day.speeds))
            seconds, used = output.received[-1][0] - began, cpu_seconds(servers) - used
            time.sleep(_LATE)
        session = SparkSession.builder.remote(sites.sites[-1].engine.address).create()
        try:
            counts = run.day.counts_of_spark(session)
        finally:
            session.stop()
        latencies = list(_latencies(sent, output.received))
        return Outcome([text for _, text in output.received], parts, counts, seconds, used, latencies)


@contextmanager
def _sites(folder: Path, run: Run) -> Iterator[tuple[local.LocalSites, str]]:
    """Sites and a server on them."""
    with local.up(folder / "local", run.sites) as sites:
        server = Served(folder / "store", sites.inventory, ROOT, folder / "serve.log")
        with server:
            found = server.client()
            if found is None:
                raise RuntimeError(
                    f"speck serve does not start: {(folder / 'serve.log').read_text()[-2000:]}"
                )
            yield sites, found.url
            found.delete_composition(NAME, wait=60)


def _apply(run: Run, folder: Path, url: str) -> None:
    """``speck apply``; it answers when all jobs run."""
    path = folder / "hot_towns.yaml"
    path.write_text(yaml.safe_dump(run.composition(), sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "speck.cli", "--server", url, "apply", "--yes", str(path)]
    environment = os.environ | {"TOWNS": run.day.argument(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    print(done.stdout, done.stderr, file=sys.stderr, flush=True)
    if done.returncode:
        raise RuntimeError(f"speck apply ended with {done.returncode}")


def send(broker: str, lines: Sequence[str], rate: float) -> dict[str, float]:
    """Send the lines in order; when the first one of each time was sent, by that time."""
    sent: dict[str, float] = {}
    with client(broker) as sender:
        began, under_way = time.monotonic(), list[paho.MQTTMessageInfo]()
        for number, line in enumerate(lines):
            if rate and number % 100 == 0:
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
            sent.setdefault(line.split(",")[5], time.monotonic())
            under_way.append(sender.publish("readings", line, 1))
            if len(under_way) > _OUTSTANDING:
                under_way.pop(0).wait_for_publish(60)
        for each in under_way:
            each.wait_for_publish(60)
    return sent


def _await_results(output: Listener, awaited: int) -> None:
    """Return when this number of windows has come, or none for a while."""
    changed, count = time.monotonic(), 0
    while count < awaited and time.monotonic() < changed + PATIENCE:
        time.sleep(0.2)
        if len(output.received) > count:
            changed, count = time.monotonic(), len(output.received)


def _latencies(sent: Mapping[str, float], received: Sequence[tuple[float, str]]) -> Iterator[float]:
    """Seconds from the reading that closes a window to each of its results."""
    first: defaultdict[int, float] = defaultdict(lambda: float("inf"))
    for text, moment in sent.items():
        end = WINDOWS.closed(_micros(text))
        first[end] = min(first[end], moment)
    for moment, text in received:
        end = _micros(json.loads(text)["end"].removesuffix("Z")) // WINDOWS.slide_us
        closing = [at for closed, at in first.items() if closed >= end]
        if closing:
            yield moment - min(closing)


def _micros(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000
