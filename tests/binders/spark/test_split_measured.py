"""Measured weights through real brokers and a real Spark server: a slow combiner gets fewer rows."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from binders.spark.local.commands import CONNECTOR
from speck.binder import installed
from speck.coordinator import Services, build
from speck.core.inventory import Inventory
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

pytestmark = pytest.mark.engine

ROOT = PROJECT / "testbed" / "programs"
BEGIN = 1_700_000_000  # s
WINDOW = 5  # s of event time

needs_engines = pytest.mark.skipif(
    not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
)

SPLIT = f"""
jobs:
- job_name: measured
  site: A
  source_topic: rows
  sink_topic: out/measured
  entry_class: Costly
  job_path: spark/key_split.py
  key_split:
    combiners: [{{site: A, arguments: {{workload: 4}}}}, A]
    window: {WINDOW} seconds
    metrics: {{window: 3 seconds, slide: 1 second}}
"""
ROUTINGS = {
    "balanced": "    weights: measured\n",
    "adaptive": "    partitioner: saspartitioner-adaptive\n    options: {hot_keys: 40}\n",
}


class Feeder:
    """Sends rows until it is stopped; half of them have one key."""

    def __init__(self, mqtt_client: MqttClient) -> None:
        self.sent: Counter[tuple[str, int]] = Counter()
        self._mqtt_client = mqtt_client
        self._chance = np.random.default_rng(7)
        self.count = 0  # of rows, each 10 ms of event time after the one before
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            texts = []
            for key in self._chance.integers(0, 40, 80):
                name = f"k{0 if key < 20 else key}"
                seconds, hundredths = divmod(self.count, 100)
                self.sent[name, BEGIN + seconds // WINDOW * WINDOW] += 1
                texts.append(f"{name},{BEGIN + seconds}.{hundredths:02},1")
                self.count += 1
            self._mqtt_client.send("rows", texts)

    def stop(self) -> None:
        """Send no more, but for a row that closes all windows."""
        self._stop.set()
        self._thread.join()
        self._mqtt_client.send("rows", [f"last,{BEGIN + self.count // 100 + 2 * WINDOW},1"])


@pytest.fixture(name="services", params=ROUTINGS.values(), ids=ROUTINGS)
def services_fixture(
    spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Services]:
    checkpoints = str(tmp_path / "checkpoints")
    site = one_site("A", spark_server.address, mosquitto.address, checkpoint_dir=checkpoints)
    inventory = Inventory({"A": site})
    text = SPLIT + request.param
    loaded = load_composition(
        text, inventory=inventory, registry=installed(), root=ROOT, default_name="measured"
    )
    with Store(tmp_path / "store") as store:
        services = build(store, installed(), inventory, Settings(roots=(ROOT,), period=0))
        services.coordinator.start()
        services.coordinator.splits.start()
        operation, _ = user.apply(services.coordinator, loaded.composition)
        assert operation.wait(300)
        assert operation.state == "succeeded", operation.to_dict()
        yield services
        assert user.delete_composition(services.coordinator, "measured").wait(120)
        services.coordinator.close()


def ideal_share(window: Mapping[str, Any]) -> float:
    """The time that the rows would take if all were busy to the end, over that of the busiest."""
    workers = window["workers"]
    if not all(each and each["rows"] and each["busy"] for each in workers):
        return 0.0
    speeds = [each["rows"] / each["busy"] for each in workers]
    return float(sum(each["rows"] for each in workers) / sum(speeds) / max(each["busy"] for each in workers))


def results(mqtt_client: MqttClient) -> list[tuple[tuple[str, int], int]]:
    """Key, start and count of the windows so far."""
    rows = [json.loads(text) for _, text in list(mqtt_client.received)]
    starts = (round(datetime.fromisoformat(row["start"]).timestamp()) for row in rows)
    return [((row["key"], start), row["count"]) for row, start in zip(rows, starts, strict=True)]


@needs_engines
@trial("the same in memory")
def test_a_slow_combiner_gets_its_share(services: Services, mosquitto: MosquittoServer) -> None:
    mqtt_client = MqttClient(mosquitto.port)
    feeder = Feeder(mqtt_client)
    watch = services.coordinator.splits
    try:
        windows = eventually(
            lambda: [each for each in watch.windows("measured") if ideal_share(each)],
            lambda found: len(found) > 3 and ideal_share(found[-1]) >= 0.8,
            patience=120,
        )
        print([(round(ideal_share(each), 2), each["weights"]) for each in windows])
        slow, fast = windows[-1]["weights"]
        assert slow < fast / 2
        watch.close()  # as if the coordinator were away: the weights stay, and rows are given away as before
        before = feeder.count
        eventually(lambda: feeder.count, lambda count: count > before + 500)
    finally:
        feeder.stop()
    found = eventually(lambda: results(mqtt_client), lambda rows: len(rows) >= len(feeder.sent), patience=120)
    assert len(dict(found)) == len(found)
    assert dict(found) == feeder.sent
    mqtt_client.close()
