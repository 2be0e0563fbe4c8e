"""The rates of jobs on real engines, fed by a real broker: Spark doubles what comes, Flink passes it on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Inventory
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer

pytestmark = [pytest.mark.engine, pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")]

PROGRAMS = ROOT / "jars_and_apps" / "flink"
RATE = 40  # messages/s that are sent, at most
PATIENCE = 120.0

TWICE = """
from pyspark.sql import functions as F

def twice(messages):
    return messages.select(F.explode(F.array("value", "value")).alias("value"))
"""

JOBS = """
jobs:
- job_name: twice
  site: spark
  engine: spark
  source_topic: rates/in
  sink_broker: flink
  sink_topic: rates/twice
  entry_class: twice
  job_path: twice.py
  trigger: 500 milliseconds
- job_name: forward
  site: flink
  engine: flink
  source_topic: rates/twice
  sink_topic: rates/out
  entry_class: io.speck.flink.jobs.Forward
  job_path: speck-flink-jobs-all.jar
  arguments: {site: north}
"""


@contextmanager
def fed(broker: MosquittoServer) -> Iterator[Callable[[], float]]:
    """Messages come, evenly, until the block ends; tells how many a second, which a busy machine decides."""
    stop, mqtt_client = threading.Event(), MqttClient(broker.port)
    begun, sent = time.monotonic(), 0

    def send() -> None:
        nonlocal sent
        while not stop.wait(1 / RATE):
            mqtt_client.send("rates/in", ["a message"])
            sent += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield lambda: sent / (time.monotonic() - begun)
    finally:
        stop.set()
        thread.join()
        mqtt_client.close()


def test_rates_of_jobs_on_spark_and_flink(
    spark_server: SparkServer, flink_server: FlinkServer, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    (tmp_path / "twice.py").write_text(TWICE)
    inventory = Inventory(
        {
            "spark": one_site(
                "spark", spark_server.address, mosquitto.address, checkpoint_dir=f"{tmp_path}/checkpoints"
            ),
            "flink": one_site("flink", flink_server.address, mosquitto.address),
        }
    )
    loaded = load_composition(
        JOBS, inventory=inventory, registry=installed(), root=[tmp_path, PROGRAMS], default_name="rates"
    )
    with Store(tmp_path / "store") as store:
        services = build(store, installed(), inventory, Settings(roots=(tmp_path, PROGRAMS), period=0))
        coordinator = services.coordinator
        coordinator.sampler.period = 0.5
        coordinator.start()

        def reported() -> dict[str, dict[str, Any]]:
            return {each["job_name"]: each for each in services.queries.rates()["jobs"]}

        def as_fed(found: dict[str, dict[str, Any]], fed: float) -> bool:
            rates = [
                (found["twice"]["input_rate"], fed),
                (found["twice"]["output_rate"], 2 * fed),
                (found["forward"]["input_rate"], 2 * fed),
                (found["forward"]["output_rate"], 2 * fed),
            ]
            return all(rate is not None and desired / 2 < rate < desired * 1.5 for rate, desired in rates)

        try:
            operation, _ = user.apply(coordinator, loaded.composition)
            try:
                assert operation.wait(PATIENCE)
                assert operation.state == "succeeded", operation.actions
                with fed(mosquitto) as rate:
                    found = eventually(reported, lambda found: as_fed(found, rate()), PATIENCE)
                for each in found.values():
                    assert each["error"] is None
                    assert 0 <= each["waiting"] < 100 * RATE
                    assert 0 < each["work_seconds"] < 60
                eventually(
                    reported, lambda found: all(each["waiting"] == 0 for each in found.values()), PATIENCE
                )
            finally:
                # After a failure, too: a test that runs again would meet its own jobs at the shared servers.
                assert user.delete_composition(coordinator, "rates").wait(PATIENCE)
            eventually(lambda: coordinator.sampler.readings(), lambda readings: readings == {}, PATIENCE)
        finally:
            coordinator.close()
