"""A split by keys over two sites under load: combiners moved and added, servers and coordinator killed.

Each round has a composition of its own: a combiner is moved, the Connect server of its site is killed and
started again, the coordinator is killed while it adds a combiner, and the first one is moved back.  In the
end every window of every key must have come out once, as it follows from the rows that were sent.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import yaml

from speck.client import Client
from testbed import ROOT
from testbed.faults.flow import Listener, Sender, await_true, client
from testbed.faults.served import Served
from testbed.faults.servers import insist
from testbed.results import add_output_options, published
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.servers.uplink import Way

CODE = "testbed/programs/spark/key_split.py"
BEGIN = 1_700_000_000  # s
WINDOW, SLIDE = 10, 5  # s
PATIENCE = 300.0  # s, for an operation, and for the last window

Window = tuple[str, int]
Sums = dict[str, int]


def row(number: int, rate: float) -> str:
    """A row by its number, in the order of their times: one key has a third of them, 40 have the others."""
    key = 0 if number % 3 == 0 else 1 + number * 2654435761 % 2**32 % 40
    return f"k{key},{BEGIN + number / rate:.6f},{number % 1999 - 999}"


def closing_row(texts: Sequence[str]) -> str:
    """A row so late that it closes the windows of all others."""
    return f"last,{float(texts[-1].split(',')[1]) + WINDOW + SLIDE + 1:.6f},0"


def expected(texts: Iterable[str]) -> dict[Window, Sums]:
    """The windows of all keys, one row after the other."""
    amounts: dict[Window, list[int]] = defaultdict(list)
    for text in texts:
        key, seconds, amount = text.split(",")
        newest = int(float(seconds)) // SLIDE * SLIDE
        for start in range(newest, newest - WINDOW, -SLIDE):
            amounts[key, start].append(int(amount))
    return {
        window: {"count": len(found), "sum": sum(found), "least": min(found), "greatest": max(found)}
        for window, found in amounts.items()
    }


@dataclass(frozen=True)
class SplitAccount:
    """Windows of a round: those that were to come, did not, came more than once, or with other sums."""

    rows: int
    windows: int
    lost: int
    doubled: int
    wrong: int

    @classmethod
    def of(cls, texts: Sequence[str], results: Iterable[str]) -> SplitAccount:
        """Compare the results with the rows that were sent."""
        awaited = expected(texts)
        found: dict[Window, list[Sums]] = defaultdict(list)
        for text in results:
            value = json.loads(text)
            fields = ("count", "sum", "least", "greatest")
            start = round(datetime.fromisoformat(value["start"]).timestamp())
            found[value["key"], start].append({name: value[name] for name in fields})
        return cls(
            rows=len(texts),
            windows=len(awaited),
            lost=len(awaited.keys() - found.keys()),
            doubled=sum(len(each) - 1 for each in found.values()),
            wrong=sum(found[window][0] != sums for window, sums in awaited.items() if window in found),
        )


class Bed:
    """Sites, each a broker and a Spark Connect server, and a coordinator that heals.

    A site in ``clusters`` has Flink instead.
    """

    def __init__(self, directory: Path, names: str = "AB") -> None:
        self.directory = directory
        self.brokers = {name: MosquittoServer(directory / f"broker-{name}") for name in names}
        self.servers = {name: SparkServer(directory / f"spark-{name}", heap="700m") for name in names}
        self.clusters: dict[str, FlinkServer] = {}
        self.ways: dict[str, Way] = {}  # to brokers that other sites reach by an uplink
        self._served: Served | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for each in (*self.brokers.values(), *self.servers.values(), *self.clusters.values()):
                stack.enter_context(each)
            for way in self.ways.values():
                stack.enter_context(way)
            sites = {name: self._site(name) for name in self.brokers}
            (self.directory / "sites.yaml").write_text(yaml.safe_dump({"sites": sites}), encoding="utf-8")
            stack.callback(self.kill_coordinator)
            self.start_coordinator()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _site(self, name: str) -> dict[str, str]:
        """The entry of a site in the inventory."""
        broker, checkpoints = self.ways.get(name, self.brokers[name]), self.directory / f"checkpoints-{name}"
        found = {"broker_address": broker.address, "checkpoint_dir": str(checkpoints)}
        if name in self.servers:
            return found | {"spe_address": self.servers[name].address}
        savepoints = self.directory / f"savepoints-{name}"
        of_flink = {"checkpoint_dir": checkpoints.as_uri(), "savepoint_dir": savepoints.as_uri()}
        return found | of_flink | {"spe_address": self.clusters[name].address}

    def start_coordinator(self) -> None:
        """Start it on the store that is there."""
        log = self.directory / "serve.log"
        sites = self.directory / "sites.yaml"
        self._served = Served(self.directory / "store", sites, ROOT, log, further={"period": 2})
        found = self._served.client()
        if found is None:
            raise RuntimeError(f"speck serve does not start: {log.read_text()[-2000:]}")
        self.client: Client = found

    def kill_coordinator(self) -> None:
        """End it by SIGKILL."""
        if self._served is not None:
            self._served.kill()

    def await_running(self, composition: str) -> None:
        """Wait until all jobs of a composition run."""

        def running() -> bool:
            states = {each["state"] for each in self.client.jobs() if each["composition"] == composition}
            return states == {"running"}

        await_true("all jobs running", running, PATIENCE)


def check(operation: dict[str, Any]) -> None:
    """Raise :class:`RuntimeError` for an operation that failed."""
    if operation["state"] != "succeeded":
        raise RuntimeError(f"the apply {operation['state']}: {operation}")


class SplitRound:
    """One composition under load."""

    def __init__(self, bed: Bed, name: str, rate: float) -> None:
        self.bed, self.name = bed, name
        self.combiners = ["A", "B"]
        source = bed.brokers["A"].address
        self.sender = Sender(source, f"in/{name}", rate, lambda number: row(number, rate))

    def run(self, pause: float) -> SplitAccount:
        """Take all steps, with a pause between them; returns the counts of the rows."""
        with client(self.bed.brokers["A"].address) as connection:
            output = Listener(connection, f"out/{self.name}")
            try:
                check(self.apply())
                self.sender.start()
                await_true("first results", lambda: bool(output.received), PATIENCE)
                for step in (self.move, self.kill_server, self.add_and_kill_coordinator, self.move_back):
                    print(f"{self.name}: {step.__name__}", file=sys.stderr, flush=True)
                    step()
                    time.sleep(pause)
                texts = list(self.sender.stop())
                connection.publish(f"in/{self.name}", closing_row(texts), 1).wait_for_publish(30)
                awaited = len(expected(texts))
                try:
                    await_true("all windows", lambda: len(output.received) >= awaited, PATIENCE)
                    time.sleep(3)  # what comes once too often comes soon
                except TimeoutError as error:
                    print(error, file=sys.stderr)
                return SplitAccount.of(texts, [text for _, text in list(output.received)])
            finally:
                self.sender.stop()
                insist(lambda: self.bed.client.delete_composition(self.name, wait=PATIENCE))

    def move(self) -> None:
        """Move the second combiner to the other site."""
        self.combiners[1] = "A"
        check(self.apply())

    def move_back(self) -> None:
        """Move it back."""
        self.combiners[1] = "B"
        check(self.apply())

    def kill_server(self) -> None:
        """Kill the server of the partitioner and two combiners; the coordinator heals the jobs."""
        self.bed.servers["A"].kill()
        self.bed.servers["A"].start()
        self.bed.await_running(self.name)

    def add_and_kill_coordinator(self) -> None:
        """Add a combiner, and kill the coordinator while it is about it."""
        self.combiners.append("B")
        self.apply(wait=0)
        time.sleep(1.0)
        self.bed.kill_coordinator()
        self.bed.start_coordinator()
        self.bed.await_running(self.name)
        check(self.apply())  # it may have been killed before it accepted the change

    def apply(self, wait: float = PATIENCE) -> dict[str, Any]:
        """Apply the composition as it is to be now."""
        return insist(lambda: self.bed.client.apply(self._text(), self.name, wait=wait))

    def _text(self) -> bytes:
        job = {
            "job_name": self.name,
            "site": "A",
            "source_topic": f"in/{self.name}",
            "sink_topic": f"out/{self.name}",
            "job_path": CODE,
            "entry_class": "Sums",
            "key_split": {
                "combiners": self.combiners,
                "reducer": "B",
                "partitioner": "balanced",
                "window": f"{WINDOW} seconds",
                "slide": f"{SLIDE} seconds",
            },
        }
        return yaml.safe_dump({"name": self.name, "jobs": [job]}).encode()


def main(arguments: Sequence[str]) -> int:
    """Run the rounds; the result is 1 when a window was lost, doubled or wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises splits", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rate", type=float, default=300.0, help="rows/s (default 300)")
    parser.add_argument("--pause", type=float, default=3.0, help="s, after each step (default 3)")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    accounts: list[SplitAccount] = []
    with TemporaryDirectory(prefix="speck-splits-") as folder, Bed(Path(folder)) as bed:
        for number in range(options.rounds):
            accounts.append(SplitRound(bed, f"split-{number}", options.rate).run(options.pause))
            print(accounts[-1], file=sys.stderr, flush=True)
    names = ("rows", "windows", "lost", "doubled", "wrong")
    result = {"rounds": len(accounts)} | {
        name: sum(getattr(each, name) for each in accounts) for name in names
    }
    if not published(options, "promises-splits", result):
        print(yaml.safe_dump(result, sort_keys=False))
    return 1 if result["lost"] or result["doubled"] or result["wrong"] else 0
