"""The queries of Nexmark in parts at two edges and a cloud, against the same queries in one job each.

All on one real Flink cluster, which stands for three sites, and on three real brokers.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from binders.common.java import java
from speck.binder import installed
from speck.coordinator import Services, build
from speck.core.inventory import Inventory
from speck.core.placement import PlacementOptions
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches import user
from testbed.benches.examples import PIPELINES, one_site
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.flink import FlinkServer
from testbed.servers.local_spark import local_spark
from testbed.servers.mosquitto import MosquittoServer
from tests.support.trials import trial, trials_run

JAR = ROOT / "jars_and_apps" / "nexmark" / "speck-nexmark.jar"
EVENTS, RATE = 3000, 60  # 50 s of event time: five windows of 10 s
END = "W,9223372036854775807"
RESULTS = "+/+"  # results/QUERY and one/QUERY, and perhaps topics between parts
PATIENCE = 120.0
EDGES = {"a": "A", "b": "B"}  # the last level of a topic, and the site where it is born

STATELESS = ("q0", "q1", "q2")  # each of their writers passes its own mark of the end on
ANOTHER_STATELESS = trial("[q2]")
# Halves that fit into one cluster.
BATCHES = (
    ((*STATELESS, "q3", "q4") if trials_run() else ("q2", "q3", "q4", "q5")),
    (("q5", "q7", "q8", "q11", "q12") if trials_run() else ("q7", "q8", "q11", "q12")),
)
# The topics that a query in one job reads, and how many: all kinds of events if it needs two of them.
ONE_JOB = dict.fromkeys(("q3", "q4", "q8"), ("nexmark/+/+", 6))

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not JAR.exists(), reason="the Nexmark programs are not built (make jars)"),
]


@dataclass(frozen=True)
class Event:
    topic: str
    line: str

    @property
    def site(self) -> str:
        return EDGES[self.topic[-1]]


def generate(events: int, rate: int) -> list[Event]:
    """The events of two edges in the order of time; at the end of each topic its mark."""
    program = [java("Flink"), "-cp", str(JAR), "io.speck.nexmark.Generate"]
    command = [*program, "--seed", "7", "--events", str(events), "--rate", str(rate), "--edges", "2"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return [Event(*line.split(" ", 1)) for line in found.splitlines()]


@pytest.fixture(scope="module", name="events")
def events_fixture() -> list[Event]:
    return generate(EVENTS, RATE)


@dataclass
class Bench:
    """Edges A and B and the cloud D: one cluster under three names, and a broker each."""

    inventory: Inventory
    brokers: Mapping[str, MosquittoServer]
    services: Services

    def apply(self, text: str) -> None:
        loaded = load_composition(
            text, inventory=self.inventory, registry=installed(), root=ROOT, default_name="one-job"
        )
        # Each job where most of its input is born, whatever would be best.
        composition = replace(loaded.composition, placement=PlacementOptions(policy="source"))
        operation, _ = user.apply(self.services.coordinator, composition)
        assert operation.wait(PATIENCE)
        assert operation.state == "succeeded", operation.to_dict()

    def delete(self, name: str) -> None:
        operation = user.delete_composition(self.services.coordinator, name)
        assert operation.wait(PATIENCE)
        assert operation.state == "succeeded", operation.to_dict()

    def sites_of(self, composition: str) -> dict[str, str]:
        """The site of each job."""
        deployments = self.services.coordinator.deployments
        jobs = deployments.desired(deployments.head(composition))
        found = {name: self.inventory.site_of_engine(job.spe_address) for name, job in jobs.items()}
        return {name: site.name for name, site in found.items() if site is not None}


# To SpecK three clusters, in one of which each program of an edge or the cloud runs.
HOSTS = {"A": "127.0.0.1", "B": "localhost", "D": "[::ffff:127.0.0.1]"}


@contextmanager
def running(directory: Path, flink: FlinkServer, **others: str) -> Iterator[Bench]:
    """A server for the three sites; ``others`` are addresses of engines at further sites with their brokers.

    The name of an engine is the begin of those of its sites.
    """
    with ExitStack() as stack:
        brokers = {
            site: stack.enter_context(MosquittoServer(directory / site, "max_queued_messages 0"))
            for site in HOSTS
        }
        engines = {site: flink.address.replace("127.0.0.1", host) for site, host in HOSTS.items()}
        engines |= {f"{name}{site}": address for name, address in others.items() for site in HOSTS}
        inventory = Inventory(
            {site: one_site(site, address, brokers[site[-1]].address) for site, address in engines.items()}
        )
        store = stack.enter_context(Store(directory / "store"))
        services = build(store, installed(), inventory, Settings(roots=(ROOT,), period=0))
        services.coordinator.start()
        stack.callback(services.coordinator.close)
        yield Bench(inventory, brokers, services)


@pytest.fixture(scope="module", name="bench")
def bench_fixture(flink_server: FlinkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with running(tmp_path_factory.mktemp("nexmark"), flink_server) as bench:
        yield bench


def one_job(queries: Sequence[str]) -> str:
    """A composition of the queries in one job each, at D."""
    jobs = ["name: nexmark-one\njobs:"]
    for query in queries:
        topics, streams = ONE_JOB.get(query, ("nexmark/bid/+", 2))
        jobs.append(
            f"- {{job_name: one-{query}, site: D, engine: flink, source_topic: {topics}, "
            f"sink_topic: one/{query}, entry_class: io.speck.nexmark.Query, "
            f"job_path: jars_and_apps/nexmark/speck-nexmark.jar, "
            f"arguments: {{part: {query}, streams: {streams}}}}}"
        )
    return "\n".join(jobs)


@contextmanager
def mqtt_clients(brokers: Mapping[str, MosquittoServer]) -> Iterator[dict[str, MqttClient]]:
    made = {site: MqttClient(broker.port, RESULTS) for site, broker in brokers.items()}
    yield made
    for mqtt_client in made.values():
        mqtt_client.close()


Results = Mapping[str, tuple[list[str], list[str]]]


@pytest.fixture(scope="module", name="results")
def results_fixture(bench: Bench, events: list[Event]) -> Results:
    """By query what its one job wrote, and what its parts did."""
    return {query: found for queries in BATCHES for query, found in run(bench, queries, events).items()}


def run(bench: Bench, queries: Sequence[str], events: Sequence[Event]) -> Results:
    for query in queries:
        bench.apply((PIPELINES / "nexmark" / f"{query}.yaml").read_text(encoding="utf-8"))
        sites = bench.sites_of(f"nexmark-{query}")
        assert all(sites[name] == EDGES[name[-1]] for name in sites if name[-2:] in ("-a", "-b"))
    bench.apply(one_job(queries))
    with mqtt_clients(bench.brokers) as at:
        for site, mqtt_client in at.items():
            send(mqtt_client, [event for event in events if site in ("D", event.site)])
        for query in queries:
            await_end(at["D"], f"results/{query}", query)
            await_end(at["D"], f"one/{query}", query)
        found = {
            query: (rows(at["D"], f"one/{query}"), rows(at["D"], f"results/{query}")) for query in queries
        }
    for query in queries:
        bench.delete(f"nexmark-{query}")
    bench.delete("nexmark-one")
    return found


def await_end(mqtt_client: MqttClient, topic: str, query: str) -> None:
    ends = len(EDGES) if query in STATELESS else 1
    eventually(lambda: rows(mqtt_client, topic).count(END), lambda found: found == ends, PATIENCE)


def send(mqtt_client: MqttClient, events: Sequence[Event]) -> None:
    """Publish in order; at the end of each topic comes its mark."""
    for topic in {event.topic for event in events}:
        mqtt_client.send(topic, [event.line for event in events if event.topic == topic])


def rows(mqtt_client: MqttClient, topic: str) -> list[str]:
    return [line for name, line in list(mqtt_client.received) if name == topic]


def counted(lines: Sequence[str]) -> Counter[str]:
    """The rows without marks of progress, and how often each came."""
    return Counter(line for line in lines if line[0] != "W")


# So many different rows there are at least: none of the comparisons is of nothing.
LEAST = {"q0": 2500, "q1": 2500, "q2": 5, "q3": 3, "q4": 100, "q5": 15, "q7": 5, "q8": 10, "q11": 70}


def load_queries() -> ModuleType:
    path = ROOT / "jars_and_apps" / "nexmark" / "queries.py"
    specification = importlib.util.spec_from_file_location("nexmark_queries", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", name="spark")
def spark_fixture() -> Iterator[SparkSession]:
    with local_spark() as session:
        yield session


@pytest.mark.parametrize(
    "query",
    [pytest.param(each, marks=ANOTHER_STATELESS if each in ("q0", "q1") else ()) for each in LEAST],
)
def test_parts_at_two_edges_give_the_results_of_one_job(query: str, results: Results) -> None:
    """Exactly the same rows, each as often."""
    one, parts = (counted(each) for each in results[query])
    assert parts == one
    assert len(one) >= LEAST[query]


def test_q12_counts_every_bid_once_in_windows_of_a_clock(results: Results, events: list[Event]) -> None:
    bids = Counter(event.line.split(",")[3] for event in events if event.line[0] == "B")
    for each in results["q12"]:
        found: Counter[str] = Counter()
        for row in counted(each).elements():
            _, _, bidder, count, start, end = row.split(",")
            assert int(end) - int(start) == 10_000
            found[bidder] += int(count)
        assert found == bids


@pytest.mark.parametrize("query", [pytest.param("q1", marks=ANOTHER_STATELESS), "q2", "q7"])
def test_pyspark_gives_the_results_of_flink(
    query: str, spark: SparkSession, results: Results, events: list[Event]
) -> None:
    """On all events at once, and on those of each edge, for q7 once more on the results of both."""
    program = getattr(load_queries(), query)

    def run(values: Sequence[str]) -> list[str]:
        rows = [("topic", value, datetime(2026, 1, 1)) for value in values]
        frame = spark.createDataFrame(rows, "topic STRING, value STRING, timestamp TIMESTAMP")
        return [row.value for row in program(frame).collect()]

    desired = counted(results[query][0])
    assert Counter(run([event.line for event in events])) == desired
    edges = [
        row for site in EDGES.values() for row in run([event.line for event in events if event.site == site])
    ]
    assert Counter(run(edges) if query == "q7" else edges) == desired
