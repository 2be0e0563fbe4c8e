"""Queries of Nexmark as SQL against the Java programs: whole and under every cut, on Flink and on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pytest
import yaml

from binders.flink import QUERIES
from speck.testing.waiting import eventually
from testbed.benches.examples import PIPELINES
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.flink import FlinkServer
from testbed.servers.spark import SparkServer
from tests.apps.test_nexmark import (
    EDGES,
    EVENTS,
    JAR,
    LEAST,
    PATIENCE,
    RATE,
    Bench,
    Event,
    await_end,
    counted,
    generate,
    mqtt_clients,
    one_job,
    rows,
    running,
    send,
)
from tests.support.trials import trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (JAR.exists() and QUERIES.path.exists()), reason="the programs are not built (make jars)"
    ),
]

BIDS = """  events/bid/+:
    as: bids
    {at}format: csv
    schema:
      kind: string
      time: timestamp(ms) not null
      auction: bigint
      bidder: bigint
      price: bigint
      extra: string
    event_time: time
    watermark: 0 s
"""
PERSONS_AND_AUCTIONS = """  events/person/+:
    as: persons
    {at}format: csv
    schema:
      kind: string
      time: timestamp(ms) not null
      id: bigint not null
      name: string
      email: string
      card: string
      city: string
      state: string
    event_time: time
    watermark: 0 s
  events/auction/+:
    as: auctions
    {at}format: csv
    schema:
      kind: string
      time: timestamp(ms) not null
      id: bigint not null
      item: string
      description: string
      initial: bigint
      reserve: bigint
      expires: bigint
      seller: bigint not null
      category: bigint
    event_time: time
    watermark: 0 s
"""


def text_of(query: str) -> str:
    """The query of a composition of the pipelines, in one line."""
    data = yaml.safe_load((PIPELINES / "nexmark" / "sql" / f"{query}.yaml").read_text(encoding="utf-8"))
    return " ".join(data["jobs"][0]["sql"].split())


SQL = {
    "q0": "SELECT kind, EPOCH_MS(time) AS time, auction, bidder, price, extra FROM bids",
    "q1": text_of("q1"),
    "q2": text_of("q2"),
    "q3": text_of("q3"),
    "q5": text_of("q5"),
    "q7": text_of("q7"),
    "q8": text_of("q8"),
    "q11": text_of("q11"),
}
STATELESS = ("q0", "q1", "q2")
CUTS = {
    "q0": ("columns",),
    "q1": ("columns", "rows"),
    "q2": ("filter", "rows"),
    "q3": ("columns", "filter"),
    "q5": ("columns", "filter", "partials"),
    "q7": ("columns", "filter", "rows", "partials"),
    "q8": ("columns",),
    "q11": ("columns", "filter", "partials"),
}
JOINS = ("q3", "q8")
GROUPS = (STATELESS, ("q5", "q7"), ("q3", "q8", "q11"))  # that fit into one cluster
LATER = 1_750_000_000_000
# Events behind all windows, of which no result is one of the Java programs.
LAST = {
    "bid": f"B,{LATER},0,0,0,last",
    "person": f"P,{LATER},-1,last,,,,",
    "auction": f"A,{LATER},-2,,,,,,-3,0",
}


@pytest.fixture(scope="module", name="bench")
def bench_fixture(
    flink_server: FlinkServer, spark_server: SparkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Beside the sites of the programs one with Spark at each broker: SA, SB and SD."""
    with running(tmp_path_factory.mktemp("nexmark-sql"), flink_server, S=spark_server.address) as bench:
        yield bench


def whole(engine: str) -> str:
    """The queries of one table as one job each, at D; the table is that of the topics there."""
    site = "D" if engine == "flink" else "SD"
    jobs = (
        f"- {{job_name: {engine}-{name}, site: {site}, engine: {engine}, format: csv, "
        f'sink_topic: {engine}/{name}, sql: "{text}"}}\n'
        for name, text in SQL.items()
        if name not in JOINS
    )
    return f"name: sql-{engine}\ntopics:\n{BIDS.format(at='')}jobs:\n{''.join(jobs)}"


@dataclass(frozen=True)
class Parts:
    """A way to run the queries in parts: the sites of the inputs, and that of the rest."""

    name: str
    inputs: tuple[str, str]
    rest: str

    def forms(self, queries: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The queries and their cuts, as far as the engines run them."""
        for query in queries:
            if query == "q3" and self.rest != "D":
                continue
            for cut in CUTS.get(query, ()):
                if cut != "partials" or self.inputs == ("A", "B"):
                    yield query, cut

    def composition(self, queries: Sequence[str]) -> str:
        jobs = [
            f"- {{job_name: {self.name}-{query}-{cut}, rest: {self.rest}, cut: {cut}, format: csv, "
            f'sink_topic: {self.name}/{query}-{cut}, sql: "{SQL[query]}"}}\n'
            for query, cut in self.forms(queries)
        ]
        jobs += [
            f"- {{job_name: {self.name}-{query}, sink_broker: D, format: csv, "
            f'sink_topic: {self.name}/{query}, sql: "{SQL[query]}"}}\n'
            for query in STATELESS
            if query in queries
        ]
        topics = f"{BIDS}{PERSONS_AND_AUCTIONS}".format(at=f"at: [{', '.join(self.inputs)}]\n    ")
        return f"name: sql-{self.name}\ntopics:\n{topics}jobs:\n{''.join(jobs)}"


WAYS = (
    Parts("flinks", ("A", "B"), "D"),
    Parts("sparks", ("SA", "SB"), "SD"),
    Parts("to-spark", ("A", "B"), "SD"),
    Parts("mixed", ("A", "SB"), "D"),
)


def in_order(events: Sequence[Event]) -> list[Event]:
    """The events in the order of time, with topics of their own, then those that end all windows."""
    found = [Event(event.topic.replace("nexmark/", "events/"), event.line) for event in events]
    sent = sorted(
        (each for each in found if each.line[0] != "W"), key=lambda each: int(each.line.split(",")[1])
    )
    topics = sorted({each.topic for each in found})
    return sent + [Event(topic, LAST[topic.split("/")[1]]) for topic in topics]


@trial("tests/sql/test_engines.py")
def test_rows_are_those_of_the_java_programs(bench: Bench) -> None:
    events = generate(EVENTS, RATE)
    bids = [event for event in events if "/bid/" in event.topic]
    bench.apply(one_job(tuple(SQL)))
    with mqtt_clients(bench.brokers) as at:
        send(at["D"], events)
        for query in SQL:
            await_end(at["D"], f"one/{query}", query)
        expected = {query: counted(rows(at["D"], f"one/{query}")) for query in SQL}
        assert all(len(expected[query]) >= LEAST[query] for query in SQL)
        bench.delete("nexmark-one")
        for engine in ("flink", "spark"):
            bench.apply(whole(engine))
            publish(at["D"], bids)
            for query in SQL.keys() - set(JOINS):
                compare(at["D"], f"{engine}/{query}", expected[query])
            bench.delete(f"sql-{engine}")
        for way in WAYS:
            for queries in GROUPS:
                bench.apply(way.composition(queries))
                for site in EDGES.values():
                    publish(at[site], [event for event in events if event.site == site])
                for query in set(STATELESS) & set(queries):
                    compare(at["D"], f"{way.name}/{query}", expected[query])
                for query, cut in way.forms(queries):
                    compare(at["D"], f"{way.name}/{query}-{cut}", expected[query])
                bench.delete(f"sql-{way.name}")


def publish(mqtt_client: MqttClient, events: Sequence[Event]) -> None:
    """Publish in the order of time: a whole query reads all topics with one watermark."""
    for topic, found in groupby(in_order(events), lambda event: event.topic):
        mqtt_client.send(topic, [event.line for event in found])


def compare(mqtt_client: MqttClient, topic: str, expected: Counter[str]) -> None:
    found = eventually(
        lambda: results(mqtt_client, topic), lambda found: len(found) >= expected.total(), PATIENCE
    )
    assert counted(found) == expected, topic


def results(mqtt_client: MqttClient, topic: str) -> list[str]:
    """The rows of a query, without those of the events behind all windows."""
    return [each for each in rows(mqtt_client, topic) if int(each.split(",")[1]) < LATER]
