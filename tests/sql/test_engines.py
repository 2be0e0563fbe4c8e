"""SQL jobs on real engines: the same rows on Spark and on Flink as by the reference in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from binders.flink import QUERIES
from speck.binder import installed
from speck.coordinator import Services, build
from speck.core.inventory import Inventory
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.sql.evaluate import Outcome, evaluate
from speck.sql.program import Program
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.spark import MqttFriend
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer

PATIENCE = 90.0

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not QUERIES.path.exists(), reason="the program of SQL jobs is not built (make jars)"),
]

TOPICS = """
topics:
  sql/bid/+:
    as: bids
    format: csv
    schema:
      kind: string
      time: timestamp(ms) not null
      auction: bigint not null
      price: bigint
      rate: double
      note: string
    event_time: time
    watermark: 1 s
jobs:
"""
QUERIES_OF_TEST = {
    "q0": "SELECT auction, time, note FROM bids",
    "q2": "SELECT auction, price * 0.908 AS euros, SPLIT_PART(topic, '/', 3) AS site FROM bids "
    "WHERE MOD(auction, 3) = 1 AND (note LIKE 'a%' OR note IS NULL)",
    "counts": "SELECT window_start, window_end, auction, note, COUNT(*) AS n, SUM(price) AS total, "
    "MIN(note) AS first, MAX(rate) AS best, AVG(price) AS mean, COUNT(rate) AS rated "
    "FROM HOP(bids, time, INTERVAL '2' SECOND, INTERVAL '4' SECOND) "
    "GROUP BY window_start, window_end, auction, note HAVING COUNT(*) >= 1",
    "all": "SELECT window_end, COUNT(*) FILTER (WHERE price > 3) AS n "
    "FROM TUMBLE(bids, time, INTERVAL '5' SECOND) GROUP BY window_start, window_end",
}
END = "B,4000000000000,0,0,0,end"  # closes the windows before it


def composition(bench: Bench) -> str:
    jobs = [
        f"- {{job_name: {engine}-{name}, site: {site}, engine: {engine}, on_error: park, "
        f'park_topic: parked/{engine}/{name}, sink_topic: out/{engine}/{name}, sql: "{query}"}}'
        for engine, site in (("spark", "S"), ("flink", "F"))
        for name, query in QUERIES_OF_TEST.items()
    ]
    return f"name: sql-test\n{TOPICS}{chr(10).join(jobs)}\n"


def lines() -> list[str]:
    notes = ["", "abc", "a\u00e4\U0001f600", '"x, ""y"""', "b"]
    return [
        f"B,{1_700_000_000_000 + 250 * each},{each % 4},{each * 7 % 11 if each % 5 else ''},"
        f"{each / 7 if each % 3 else ''},{notes[each % 5]}"
        for each in range(60)
    ]


BAD = ["B,x,1,1,1,", "B,5,1", 'B,1700000000000,1,1,1,"x', "B,1700000000000,9223372036854775808,1,1,z"]


@dataclass
class Bench:
    services: Services
    inventory: Inventory
    friend: MqttFriend

    def apply(self, text: str) -> dict[str, Program]:
        loaded = load_composition(
            text, inventory=self.inventory, registry=installed(), root=(), default_name="sql-test"
        )
        operation, _ = user.apply(self.services.coordinator, loaded.composition)
        assert operation.wait(PATIENCE)
        assert operation.state == "succeeded", operation.to_dict()
        jobs = loaded.composition.jobs.values()
        return {each.job_name: Program.from_json(str(each.query["program"])) for each in jobs}

    def received(self, topic: str) -> list[str]:
        return [value for name, value in list(self.friend.received) if name == topic]


@pytest.fixture(scope="module", name="bench")
def bench_fixture(
    tmp_path_factory: pytest.TempPathFactory,
    spark_server: SparkServer,
    flink_server: FlinkServer,
    site_brokers: dict[str, MosquittoServer],
) -> Iterator[Bench]:
    broker = site_brokers["A"]
    sites = {
        "S": one_site("S", spark_server.address, broker.address),
        "F": one_site("F", flink_server.address, broker.address),
    }
    inventory = Inventory(sites)
    with Store(tmp_path_factory.mktemp("sql") / "store") as store:
        services = build(store, installed(), inventory, Settings(period=0))
        services.coordinator.start()
        friend = MqttFriend(broker.port, "+/+/+")
        yield Bench(services, inventory, friend)
        friend.close()
        operation = user.delete_composition(services.coordinator, "sql-test")
        operation.wait(PATIENCE)
        services.coordinator.close()


def test_both_engines_give_the_rows_of_the_reference_and_park_what_does_not_fit(bench: Bench) -> None:
    programs = bench.apply(composition(bench))
    values = [*lines()[:30], *BAD, *lines()[30:], END]
    bench.friend.send("sql/bid/a", values)
    messages = [("sql/bid/a", value.encode()) for value in values]
    for name, program in programs.items():
        engine, _, query = name.partition("-")
        expected = reference(program, messages)
        assert len(expected.messages) > 5 or query == "all"
        got = eventually(
            lambda topic=f"out/{engine}/{query}": sorted(bench.received(topic)),
            lambda found, expected=expected: len(found) >= len(expected.messages),
            PATIENCE,
        )
        assert got == sorted(expected.messages), name
        parked = eventually(
            lambda topic=f"parked/{engine}/{query}": bench.received(topic),
            lambda found, expected=expected: len(found) >= len(expected.unparsable),
            PATIENCE,
        )
        assert sorted(parked) == sorted(values[index] for index, _ in expected.unparsable), name


def reference(program: Program, messages: list[tuple[str, bytes]]) -> Outcome:
    """The results without the windows that the last message leaves open."""
    return evaluate(program, messages, end=False)
