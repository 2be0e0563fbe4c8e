"""Queries that get a cut and lose it while data flows, on real engines."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from speck.errors import InvalidInput
from speck.testing.waiting import eventually
from testbed.faults.flow import Listener, Sender, client
from tests.sql.on_engines import BUILT, PATIENCE, Bench

BEGIN = 1_700_000_000_000  # ms
STEP, SIZE = 50, 1_000  # ms: from row to row, and of a window
RATE = 40.0  # rows/s
MARGIN = 40  # rows: what the results of a window are behind, and what is on its way when a change ends
TOPIC = """
  moved/{name}/+:
    as: {name}
    at: {at}
    schema: {{time: timestamp(ms) not null, number: bigint not null}}
    event_time: time
    watermark: 1 s"""
COUNT = (
    "SELECT window_end, COUNT(*) AS n, SUM(number) AS total FROM TUMBLE({}, time, INTERVAL '1' SECOND) "
    "GROUP BY window_start, window_end"
)
NAMES = ("spark", "flink", "plain")


def composition(*, cut: bool, upgrade: str = "stateless") -> str:
    """Windows on each engine, in one job each or with a cut; and a query without, at one site or at two."""
    sites = {"spark": "S", "flink": "F", "plain": "[F, G]" if cut else "F"}
    topics = "".join(TOPIC.format(name=name, at=sites[name]) for name in NAMES)
    jobs = [
        {"job_name": f"moved-{name}", "upgrade": upgrade, "sink_topic": f"moved/out/{name}"}
        | ({"cut": "columns", "rest": sites[name]} if cut else {"site": sites[name]})
        | {"sql": COUNT.format(name)}
        for name in ("spark", "flink")
    ]
    plain = {"job_name": "moved-plain", "sink_topic": "moved/out/plain", "sql": "SELECT number FROM plain"}
    jobs.append(plain if cut else plain | {"site": "F"})
    jobs[-1] |= {"sink_broker": "F"}
    return f"name: sql-moved\ntopics:{topics}\njobs: {json.dumps(jobs)}\n"


def row(number: int) -> str:
    return json.dumps({"time": BEGIN + STEP * number, "number": number})


@dataclass(frozen=True)
class Change:
    """The newest row that results had reached before a change, and the number of rows sent by its end.

    What was sent before is no measure: on a busy machine, jobs are seconds behind it.
    """

    before: int
    after: int

    @property
    def during(self) -> range:
        return range(self.before - MARGIN, self.after + MARGIN)


def windows(rows: int) -> dict[int, tuple[int, int]]:
    """Count and sum of the rows of each window that is closed, by its end in ms."""
    found: dict[int, list[int]] = defaultdict(list)
    for number in range(rows):
        found[(BEGIN + STEP * number) // SIZE * SIZE + SIZE].append(number)
    newest = BEGIN + STEP * (rows - 1)
    return {end: (len(each), sum(each)) for end, each in found.items() if end + 1000 <= newest}


def end_of(result: str) -> int:
    """The end of the window of a result, ms."""
    return round(datetime.fromisoformat(json.loads(result)["window_end"]).timestamp() * 1000)


def faults_of_windows(results: Sequence[str], rows: int, changes: Sequence[Change]) -> Iterator[str]:
    """A sentence for each window that is not as the documentation says."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for text in results:
        value = json.loads(text)
        found[end_of(text)].append((value["n"], value["total"]))
    for end, right in windows(rows).items():
        first = (end - SIZE - BEGIN) // STEP
        # Behind its end by the watermark, and by a margin, a window is closed.
        touched = any(first < each.during.stop and first + 40 > each.during.start for each in changes)
        if not touched and found[end] != [right]:
            yield f"window {end} is {found[end]} (expected {right} once)"
        if touched and (len(found[end]) > 2 or max(found[end], default=right) > right):
            yield f"window {end} is {found[end]} (expected at most {right} in at most two results)"


def faults_of_rows(results: Sequence[str], rows: int, changes: Sequence[Change]) -> Iterator[str]:
    """A sentence for each row that is lost, or comes twice though no change was under way."""
    found: dict[int, int] = defaultdict(int)
    for text in results:
        found[json.loads(text)["number"]] += 1
    for number in range(rows):
        most = 2 if any(number in each.during for each in changes) else 1
        if not 1 <= found[number] <= most:
            yield f"row {number} came {found[number]} times (expected 1 to {most})"


def reached(name: str, results: Sequence[str]) -> int:
    """The number of the newest row that a result is about."""
    if name == "plain":
        return max((json.loads(each)["number"] for each in results), default=0)
    return max(((end_of(each) - BEGIN) // STEP for each in results), default=0)


@pytest.mark.engine
@BUILT
def test_a_query_gets_its_cut_and_loses_it_while_data_flows(bench: Bench) -> None:
    """Results are complete and come once, but those of windows and rows at the change, as the plan says."""
    broker = bench.inventory.sites["F"].broker_address
    with ExitStack() as stack:
        outputs = {name: Listener(stack.enter_context(client(broker)), f"moved/out/{name}") for name in NAMES}
        senders = [Sender(broker, f"moved/{name}/x", RATE, row) for name in NAMES]

        def results(name: str) -> list[str]:
            return [text for _, text in list(outputs[name].received)]

        def await_results(rows: int) -> None:
            """Wait until the results have reached a row, so that a change meets a running query."""
            for name in NAMES:
                eventually(lambda name=name: reached(name, results(name)), lambda row: row >= rows, PATIENCE)

        bench.apply(composition(cut=False))
        for sender in senders:
            stack.callback(sender.stop)
            sender.start()
        changes = []
        for cut in (True, False):
            await_results(len(senders[0].sent) + 2 * MARGIN)
            with pytest.raises(InvalidInput, match=f"the query {'gets a' if cut else 'loses its'} cut"):
                bench.change(composition(cut=cut, upgrade="stateful"))
            before = min(reached(name, results(name)) for name in NAMES)
            actions = bench.change(composition(cut=cut))
            assert set(actions.values()) == {"start", "stop"}, actions
            changes.append(Change(before, max(len(each.sent) for each in senders)))
        await_results(changes[-1].after + 4 * MARGIN)
        sent = {name: len(sender.stop()) for name, sender in zip(NAMES, senders, strict=True)}
        for name, faults in (
            ("spark", faults_of_windows),
            ("flink", faults_of_windows),
            ("plain", faults_of_rows),
        ):
            left = eventually(
                lambda name=name, faults=faults: [*faults(results(name), sent[name], changes)],
                lambda found: not found,
                PATIENCE,
            )
            assert left == [], name


def test_the_account_finds_what_is_not_right() -> None:
    change = Change(200, 300)
    right = [
        json.dumps(
            {"window_end": datetime.fromtimestamp(end / 1000, UTC).isoformat(), "n": n, "total": total}
        )
        for end, (n, total) in windows(600).items()
    ]
    assert [*faults_of_windows(right, 600, [change])] == []
    assert len([*faults_of_windows([*right, right[0]], 600, [change])]) == 1
    assert len([*faults_of_windows(right[:-1], 600, [change])]) == 1
    assert [*faults_of_windows([*right, right[12]], 600, [change])] == []
    assert len([*faults_of_windows([*right, right[12], right[12]], 600, [change])]) == 1
    rows = [row(number) for number in range(600)]
    assert [*faults_of_rows([*rows, rows[250]], 600, [change])] == []
    assert len([*faults_of_rows([*rows[1:], rows[400]], 600, [change])]) == 2
