"""Messages of devices that publish at QoS 0, while the jobs that read them are updated."""

from __future__ import annotations

from pathlib import Path

import pytest

from speck.binder import installed
from speck.coordinator import Coordinator, build
from speck.core.inventory import Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.benches.two_engines import two_engines
from testbed.faults.flow import Listener, Sender, client
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG

pytestmark = [pytest.mark.engine, NEEDS_RIG]

RATE = 500.0  # messages/s
MESSAGES = 3000


def apply(coordinator: Coordinator, broker: str, spark: str, flink: str, parallelism: int) -> None:
    text = (
        "jobs:\n"
        + job("near", spark, (broker, "in"), (broker, "out/spark"), (SPARK_CODE, "upper"))
        + job(
            "far", flink, (broker, "in"), (broker, "out/flink"), (FLINK_CODE, "io.speck.flink.jobs.Forward")
        )
    ).replace("}", f", parallelism: {parallelism}}}")
    loaded = load_composition(
        text, inventory=coordinator.inventory, registry=installed(), root=ROOT, default_name="qos0"
    )
    operation, _ = user.apply(coordinator, loaded.composition)
    assert operation.wait(PATIENCE)
    assert operation.state == "succeeded", operation


def texts(found: Listener) -> set[str]:
    """The texts that have arrived; one of the jobs writes in upper case."""
    return {each.upper() for each in found.texts()}


def test_none_is_lost_by_two_updates_on_either_engine(
    mosquitto: MosquittoServer, spark_server: SparkServer, flink_server: FlinkServer, tmp_path: Path
) -> None:
    """With the broker as it is shipped; without ``upgrade_outgoing_qos``, some hundred are lost."""
    engines = two_engines(spark_server, flink_server, tmp_path)
    inventory = Inventory({"A": Site(name="A", engines=engines, broker_address=mosquitto.address)})
    near = mosquitto.address, spark_server.address, flink_server.address
    with (
        Store(tmp_path / "store") as store,
        client(mosquitto.address) as one,
        client(mosquitto.address) as other,
    ):
        settings = Settings(roots=(ROOT,), period=0)
        coordinator = build(store, installed(), inventory, settings).coordinator
        coordinator.start()
        sent: set[str] = set()
        results = {"spark": Listener(one, "out/spark"), "flink": Listener(other, "out/flink")}
        try:
            apply(coordinator, *near, parallelism=1)
            sender = Sender(mosquitto.address, "in", RATE, lambda number: f"m{number}", qos=0).start()
            for count, parallelism in ((MESSAGES // 4, 2), (MESSAGES // 2, 1)):
                await_that(lambda: len(sender.sent), lambda sent, count=count: sent >= count)  # type: ignore[misc]
                apply(coordinator, *near, parallelism=parallelism)
            await_that(lambda: len(sender.sent), lambda sent: sent >= MESSAGES)
            sent = {each.upper() for each in sender.stop()}
            for each in results.values():
                await_that(
                    lambda found=each: len(sent - texts(found)),  # type: ignore[misc]
                    lambda lost: lost == 0,
                    patience=30,
                )
        finally:
            print(
                {
                    "messages": len(sent),
                    "lost": {name: len(sent - texts(each)) for name, each in results.items()},
                }
            )
            user.delete_composition(coordinator, "qos0").wait(PATIENCE)
            coordinator.close()
