"""A query in parts whose cut changes under load, while engines and the coordinator are killed.

The table of a query is published at two edges, A with Flink and B with Spark; its windows are at the cloud D,
a Flink cluster. Each round changes the cuts of both inputs three times. In every second one an engine or the
coordinator is killed in the midst of a change, and in every fourth one the rest moves to A and back. A second
query begins or ends to merge at A (``partials``) with each change that no harm is done to, and SpecK chooses
the cuts of a third one at each (``cut: auto``). In the end each window must have come once, with the totals
of the rows that were sent, and no change of a cut alone may have started a rest again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import yaml

from testbed.faults.flow import Listener, Sender, await_true, client
from testbed.faults.servers import insist
from testbed.faults.splits import PATIENCE, Bed, check
from testbed.results import add_output_options, published
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer

BEGIN = 1_700_000_000_000  # ms
SIZE, SLIDE = 4_000, 2_000  # ms
KEYS = 23
LATER = 1_750_000_000_000  # ms: the time of the rows that close all windows
NAME = "recut"
_QUEUES = "max_queued_messages 0"  # while an engine is away, its input waits at the broker
STATELESS = ("columns", "filter", "rows")
QUERIES = ("plain", "merged", "chosen")
SQL = """
SELECT window_end, UPPER(word) AS word, COUNT(*) AS n, SUM(amount) AS total,
       MIN(amount) AS least, MAX(amount) AS most
FROM HOP(readings, time, INTERVAL '2' SECOND, INTERVAL '4' SECOND)
WHERE amount >= -500
GROUP BY window_start, window_end, UPPER(word)
"""

Window = tuple[int, str]
Totals = tuple[int, int, int, int]


def row(number: int, rate: float) -> str:
    """A row by its number, in the order of their times."""
    word, amount = f"w{number * 2654435761 % 2**32 % KEYS}", number * 7919 % 1999 - 999
    return json.dumps({"time": BEGIN + int(number / rate * 1000), "word": word, "amount": amount})


def expected(texts: Iterable[str]) -> dict[Window, Totals]:
    """The windows of all words, one row after the other."""
    amounts: dict[Window, list[int]] = defaultdict(list)
    for text in texts:
        found = json.loads(text)
        if found["amount"] < -500:
            continue
        newest = found["time"] // SLIDE * SLIDE
        for start in range(newest, newest - SIZE, -SLIDE):
            amounts[start + SIZE, found["word"].upper()].append(found["amount"])
    return {window: (len(found), sum(found), min(found), max(found)) for window, found in amounts.items()}


@dataclass(frozen=True)
class RecutAccount:
    """Windows that were to come, did not, came more than once, or with other totals.

    ``restarted`` are starts of a rest at a change of a cut alone.
    """

    rows: int
    windows: int
    lost: int
    doubled: int
    wrong: int
    restarted: int = 0

    @classmethod
    def of(cls, texts: Sequence[str], results: Iterable[str], restarted: int = 0) -> Self:
        """Compare the results of a query with the rows that were sent."""
        awaited = expected(texts)
        found: dict[Window, list[Totals]] = defaultdict(list)
        for text in results:
            value = json.loads(text)
            end = round(datetime.fromisoformat(value["window_end"]).timestamp() * 1000)
            if end < LATER:
                totals = (value["n"], value["total"], value["least"], value["most"])
                found[end, value["word"]].append(totals)
        return cls(
            rows=len(texts),
            windows=len(awaited),
            lost=len(awaited.keys() - found.keys()),
            doubled=sum(len(each) - 1 for each in found.values()),
            wrong=sum(each[0] != awaited.get(window) for window, each in found.items()),
            restarted=restarted,
        )

    @property
    def broken(self) -> bool:
        """True if a window was not right, or a rest was started again."""
        return bool(self.lost or self.doubled or self.wrong or self.restarted)


class RecutBed(Bed):
    """The edges A and B, and the cloud D."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "B")
        self.brokers = {name: MosquittoServer(directory / f"broker-{name}", _QUEUES) for name in "ABD"}
        self.clusters = {name: FlinkServer(directory / f"flink-{name}", slots=12) for name in "AD"}

    def attempts(self) -> dict[str, int]:
        """The number of the attempt of each job."""
        jobs = self.client.jobs()
        return {each["job_name"]: each["attempt"] or 0 for each in jobs if each["composition"] == NAME}

    def chosen_cuts(self) -> dict[str, str]:
        """The cuts that SpecK has chosen."""
        last = insist(lambda: self.client.composition(NAME))["revisions"][-1]["number"]
        jobs = {each["job_name"]: each for each in insist(lambda: self.client.revision(NAME, last))["jobs"]}
        names = ("chosen.readings-a", "chosen.readings-b")
        sent = {name: json.loads(jobs[name]["query"]["program"])["sends"] for name in names}
        return {name.removeprefix("chosen."): each["cut"] for name, each in sent.items()}


def composition(cuts: Sequence[str], rest: str, *, merges: bool) -> bytes:
    """The queries; ``cuts`` are those of the inputs at A and B, ``merges`` is of the second query at A."""
    first, second = cuts
    schema = {"time": "timestamp(ms) not null", "word": "string not null", "amount": "bigint"}
    topic = {"as": "readings", "at": ["A", "B"], "schema": schema, "event_time": "time", "watermark": "1 s"}
    merged = "partials" if merges else "filter"
    by_query = {
        "plain": {"readings-a": first, "readings-b": second},
        "merged": {"readings-a": merged, "readings-b": second},
        "chosen": "auto",
    }
    jobs = [
        {"job_name": name, "cut": by_query[name], "rest": rest, "sql": SQL}
        | {"sink_topic": f"out/{name}", "sink_broker": "D"}
        for name in QUERIES
    ]
    return yaml.safe_dump({"name": NAME, "topics": {"in/+": topic}, "jobs": jobs}).encode()


class RecutTrial:
    """All rounds, one after the other, on one composition."""

    def __init__(self, bed: RecutBed, rate: float, pause: float) -> None:
        self.bed, self._pause = bed, pause
        self._cuts, self._rest = ("columns", "columns"), "D"
        self._merges = False
        self._restarted = 0
        self._senders = [
            Sender(bed.brokers[name].address, "in/x", rate / 2, lambda number: row(number, rate / 2))
            for name in "AB"
        ]

    def run(self, first: int, rounds: int) -> dict[str, RecutAccount]:
        """Take the rounds from number ``first`` on; answers what came of the rows, by query."""
        with ExitStack() as stack:
            outputs = {
                name: Listener(stack.enter_context(client(self.bed.brokers["D"].address)), f"out/{name}")
                for name in QUERIES
            }
            try:
                self._apply()
                for sender in self._senders:
                    sender.start()
                await_true("first results", lambda: all(each.received for each in outputs.values()), PATIENCE)
                for number in range(first, first + rounds):
                    self._round(number)
                return self._accounts(outputs)
            finally:
                for sender in self._senders:
                    sender.stop()
                insist(lambda: self.bed.client.delete_composition(NAME, wait=PATIENCE))

    def _accounts(self, outputs: dict[str, Listener]) -> dict[str, RecutAccount]:
        texts = [text for sender in self._senders for text in sender.stop()]
        for site in "AB":
            with client(self.bed.brokers[site].address) as connection:
                last = json.dumps({"time": LATER, "word": "last", "amount": 0})
                connection.publish("in/x", last, 1).wait_for_publish(30)
        awaited = len(expected(texts))
        try:
            await_true(
                "all windows",
                lambda: all(len(each.received) >= awaited for each in outputs.values()),
                PATIENCE,
            )
            time.sleep(3)  # what comes once too often comes soon
        except TimeoutError as error:
            print(error, file=sys.stderr)
        return {
            name: RecutAccount.of(texts, [text for _, text in list(each.received)], self._restarted)
            for name, each in outputs.items()
        }

    def _round(self, number: int) -> None:
        for step in self._steps(number):
            step()
            shown = f"round {number + 1}: {self._cuts}, chosen {self.bed.chosen_cuts()}, rest at {self._rest}"
            print(shown, file=sys.stderr, flush=True)
            time.sleep(self._pause)

    def _steps(self, number: int) -> Iterator[Callable[[], None]]:
        """Three changes of the cuts, with the harm that the number of the round gives."""
        kills = {1: self.kill_edge, 3: self.kill_coordinator, 5: self.kill_spark, 7: self.kill_cloud}
        for at in range(3):
            self._cuts = (STATELESS[(number + at + 1) % 3], STATELESS[(number * 2 + at) % 3])
            harm = kills.get(number % 8) if at == 1 else None
            yield harm or self.change
        if number % 4 == 2:
            yield from (self.move_rest, self.move_rest)

    def change(self) -> None:
        """Change the cuts alone; the rests run as before."""
        self._merges = not self._merges
        before = self.bed.attempts()
        self._apply()
        after = self.bed.attempts()
        self._restarted += sum(
            after[name] != attempt for name, attempt in before.items() if name.endswith(".rest")
        )

    def move_rest(self) -> None:
        """Move both rests, with their windows and the topics before them, to A or back."""
        self._rest = "A" if self._rest == "D" else "D"
        self._apply()

    def kill_edge(self) -> None:
        """Kill the JobManager of A while the cuts change."""
        self._while_changing(self.bed.clusters["A"].kill_job_manager)

    def kill_spark(self) -> None:
        """Kill the engine of B while the cuts change."""

        def kill() -> None:
            self.bed.servers["B"].kill()
            self.bed.servers["B"].start()

        self._while_changing(kill)

    def kill_cloud(self) -> None:
        """Kill the TaskManager of D while the cuts change."""
        self._while_changing(self.bed.clusters["D"].kill_task_manager)

    def kill_coordinator(self) -> None:
        """Kill the coordinator while the cuts change."""

        def kill() -> None:
            self.bed.kill_coordinator()
            self.bed.start_coordinator()

        self._while_changing(kill)

    def _while_changing(self, harm: Callable[[], None]) -> None:
        insist(lambda: self.bed.client.apply(self._composition(), NAME, wait=0))
        time.sleep(0.7)
        harm()
        self.bed.await_running(NAME)
        self._apply()  # the change may have failed, or have been killed before it was accepted

    def _composition(self) -> bytes:
        return composition(self._cuts, self._rest, merges=self._merges)

    def _apply(self) -> None:
        text = self._composition()
        check(insist(lambda: self.bed.client.apply(text, NAME, wait=PATIENCE)))
        self.bed.await_running(NAME)


def main(arguments: Sequence[str]) -> int:
    """Run the rounds; the result is 1 when a window was lost, doubled or wrong, or a rest restarted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises recut", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="number of the first round (default 1)")
    parser.add_argument("--rate", type=float, default=500.0, help="rows/s of both edges (default 500)")
    parser.add_argument("--pause", type=float, default=1.0, help="s, after each step (default 1)")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    with TemporaryDirectory(prefix="speck-recut-") as folder, RecutBed(Path(folder)) as bed:
        found = RecutTrial(bed, options.rate, options.pause).run(options.first - 1, options.rounds)
    accounts = found.values()
    result: dict[str, int] = {"first": options.first, "rounds": options.rounds} | {
        each.name: max(getattr(account, each.name) for account in accounts)
        if each.name in ("rows", "restarted")
        else sum(getattr(account, each.name) for account in accounts)
        for each in fields(RecutAccount)
    }
    if not published(options, "promises-recut", result):
        print(yaml.safe_dump(result, sort_keys=False))
    return 1 if any(each.broken for each in accounts) else 0
