"""A composition over real Spark and real Mosquitto, through the real coordinator."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binders.spark.local.commands import CONNECTOR
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.testing.waiting import eventually
from testbed import ROOT as PROJECT
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer
from tests.support.trials import trial

ROOT = PROJECT / "testbed" / "programs"

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
    ),
]

CHAIN = """
jobs:
- job_name: capitals
  site: A
  source_topic: words
  sink_topic: capitals
  entry_class: upper
  job_path: spark/simple.py
- job_name: counted
  site: A
  source_topic: capitals
  sink_topic: out/counted
  entry_class: count
  job_path: spark/simple.py
"""
WORDS = [f"w{number % 7}" for number in range(6000)]


class Sender:
    """Sends the words in the background, at a pace that keeps the jobs at work for some seconds."""

    def __init__(self, mqtt_client: MqttClient) -> None:
        self.sent = 0
        self._mqtt_client, self._going = mqtt_client, threading.Event()
        self._going.set()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        pause = threading.Event()
        for start in range(0, len(WORDS), 50):
            if not self._going.is_set():
                return
            self._mqtt_client.send("words", WORDS[start : start + 50])
            self.sent = start + 50
            pause.wait(0.05)

    def finish(self) -> None:
        self._thread.join(120)

    def stop(self) -> None:
        self._going.clear()
        self.finish()


@contextmanager
def coordinator_on(directory: Path, site: Site) -> Iterator[Callable[[], Operation]]:
    """A coordinator; what is given applies the chain and awaits the operation's end."""
    inventory = Inventory({"A": site})
    with Store(directory / "store") as store:
        settings = Settings(roots=(ROOT,), period=0, drain=180)
        coordinator = build(store, installed(), inventory, settings).coordinator
        coordinator.start()

        def apply() -> Operation:
            loaded = load_composition(
                CHAIN, inventory=inventory, registry=installed(), root=ROOT, default_name="chain"
            )
            operation, _ = user.apply(coordinator, loaded.composition)
            assert operation.wait(180)
            return operation

        try:
            yield apply
        finally:
            coordinator.close()


def counts(mqtt_client: MqttClient) -> Counter[str]:
    """The last count of each word: a count only grows."""
    latest: Counter[str] = Counter()
    for topic, value in list(mqtt_client.received):
        if topic == "out/counted":
            word, count = value.split()
            latest[word] = max(latest[word], int(count))
    return latest


@trial("test_nothing_is_lost_or_doubled[spark_killed] of tests/promises/test_faults.py")
def test_server_killed_under_load_and_everything_is_counted_once(tmp_path: Path) -> None:
    server = SparkServer(tmp_path / "spark")
    with MosquittoServer(tmp_path / "mosquitto") as broker, server:
        site = one_site(
            "A",
            server.address,
            broker.address,
            checkpoint_dir=str(tmp_path / "checkpoints"),
        )
        mqtt_client = MqttClient(broker.port)
        with coordinator_on(tmp_path, site) as apply:
            assert apply().state == "succeeded"
            sender = Sender(mqtt_client)
            try:
                eventually(lambda: counts(mqtt_client).total(), lambda total: total > 500)
                server.kill()
                server.start()
                again = apply()
                # The loop may have started them before, if the server took long to come back.
                assert again.actions.keys() == {"capitals", "counted"}
                found = {(each.kind, each.state) for each in again.actions.values()}
                assert found <= {("start", "done"), ("keep", "kept")}
                sender.finish()
                desired = Counter(word.upper() for word in WORDS)
                eventually(lambda: counts(mqtt_client), lambda found: found.total() >= desired.total())
                assert counts(mqtt_client) == desired
                assert apply().calls == {}
            finally:
                sender.stop()
                mqtt_client.close()
