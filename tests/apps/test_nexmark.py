"""The queries of Nexmark in parts at two edges and a cloud, against the same queries in one job each.

All on one real Flink cluster, which stands for three sites, and on three real brokers.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import pytest

from binders.common.java import java
from speck.binder import installed
from speck.coordinator import Services, build
from speck.core.inventory import Inventory
from speck.core.placement import PlacementOptions
from speck.core.settings import Settings
from speck.schema import load_composition
from speck.store import Store
from tests.support import ROOT
from tests.support.binder_contract import eventually
from tests.support.examples import PIPELINES, one_site
from tests.support.flink_server import FlinkServer
from tests.support.mosquitto_server import MosquittoServer
from tests.support.spark_bench import MqttFriend

JAR = ROOT / "jars_and_apps" / "nexmark" / "speck-nexmark.jar"
EVENTS, RATE = 5000, 100  # 50 s of event time: five windows of 10 s
END = "W,9223372036854775807"
PATIENCE = 120.0
EDGES = {"a": "A", "b": "B"}  # the last level of a topic, and the site where it is born

# Halves that fit into one cluster.
BATCHES = (("q0", "q1", "q2", "q3", "q4"), ("q5", "q7", "q8", "q11", "q12"))
STATELESS = ("q0", "q1", "q2")  # each of their writers passes its own mark of the end on
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
        operation, _ = self.services.coordinator.apply(composition)
        assert operation.wait(PATIENCE)
        assert operation.state == "succeeded", operation.to_dict()

    def delete(self, name: str) -> None:
        operation = self.services.coordinator.delete_composition(name)
        assert operation.wait(PATIENCE)
        assert operation.state == "succeeded", operation.to_dict()

    def sites_of(self, composition: str) -> dict[str, str]:
        """The site of each job."""
        deployments = self.services.coordinator.deployments
        jobs = deployments.desired(deployments.head(composition))
        found = {name: self.inventory.site_of_engine(job.spe_address) for name, job in jobs.items()}
        return {name: site.name for name, site in found.items() if site is not None}


@pytest.fixture(scope="module", name="bench")
def bench_fixture(flink_server: FlinkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("nexmark")
    names = {"A": "127.0.0.1", "B": "localhost", "D": "[::ffff:127.0.0.1]"}  # to SpecK three clusters
    with ExitStack() as running:
        brokers = {
            site: running.enter_context(MosquittoServer(directory / site, "max_queued_messages 0"))
            for site in names
        }
        inventory = Inventory(
            {
                site: one_site(site, flink_server.address.replace("127.0.0.1", host), brokers[site].address)
                for site, host in names.items()
            }
        )
        store = running.enter_context(Store(directory / "store"))
        services = build(store, installed(), inventory, Settings(roots=(ROOT,), period=0))
        services.coordinator.start()
        running.callback(services.coordinator.close)
        yield Bench(inventory, brokers, services)


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
def friends(brokers: Mapping[str, MosquittoServer]) -> Iterator[dict[str, MqttFriend]]:
    made = {site: MqttFriend(broker.port, "results/#") for site, broker in brokers.items()}
    yield made
    for friend in made.values():
        friend.close()


@pytest.mark.parametrize("queries", BATCHES, ids="-".join)
def test_parts_at_two_edges_give_the_results_of_one_job(
    queries: Sequence[str], bench: Bench, events: list[Event]
) -> None:
    """Every query but q12 gives exactly the same rows, each as often; q12 counts every bid once."""
    for query in queries:
        bench.apply((PIPELINES / "nexmark" / f"{query}.yaml").read_text(encoding="utf-8"))
        sites = bench.sites_of(f"nexmark-{query}")
        assert all(sites[name] == EDGES[name[-1]] for name in sites if name[-2:] in ("-a", "-b"))
    bench.apply(one_job(queries))
    with friends(bench.brokers) as at:
        collector = MqttFriend(bench.brokers["D"].port, "one/#")
        for site in ("A", "B", "D"):
            send(at[site], [event for event in events if site in ("D", event.site)])
        for query in queries:
            ends = len(EDGES) if query in STATELESS else 1
            for friend, topic in ((at["D"], f"results/{query}"), (collector, f"one/{query}")):
                eventually(
                    lambda friend=friend, topic=topic: rows(friend, topic).count(END),  # type: ignore[misc]
                    lambda found, ends=ends: found == ends,  # type: ignore[misc]
                    PATIENCE,
                )
        results = {
            query: (rows(collector, f"one/{query}"), rows(at["D"], f"results/{query}")) for query in queries
        }
        collector.close()
    for query in queries:
        bench.delete(f"nexmark-{query}")
    bench.delete("nexmark-one")
    for query, (one, split) in results.items():
        check(query, one, split, events)


def send(friend: MqttFriend, events: Sequence[Event]) -> None:
    """Publish in order; at the end of each topic comes its mark."""
    for topic in {event.topic for event in events}:
        friend.send(topic, [event.line for event in events if event.topic == topic])


def rows(friend: MqttFriend, topic: str) -> list[str]:
    return [line for name, line in list(friend.received) if name == topic]


def check(query: str, one: Sequence[str], split: Sequence[str], events: Sequence[Event]) -> None:
    wanted, found = (Counter(line for line in each if line[0] != "W") for each in (one, split))
    if query == "q12":
        bids = sum(event.line[0] == "B" for event in events)
        for each in (wanted, found):
            assert sum(int(row.split(",")[3]) for row in each.elements()) == bids
        return
    assert found == wanted, query
    assert len(wanted) >= LEAST[query], query


# So many different rows there are at least: none of the comparisons is of nothing.
LEAST = {"q0": 4000, "q1": 4000, "q2": 10, "q3": 5, "q4": 200, "q5": 25, "q7": 5, "q8": 10, "q11": 100}
