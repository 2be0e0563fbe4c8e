"""The sites of the tests of SQL jobs on engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Inventory
from speck.core.settings import Settings
from speck.store import Store
from testbed.benches.examples import one_site
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from tests.sql.on_engines import Bench


@pytest.fixture(scope="module", name="bench")
def bench_fixture(
    tmp_path_factory: pytest.TempPathFactory,
    spark_server: SparkServer,
    flink_server: FlinkServer,
    site_brokers: dict[str, MosquittoServer],
) -> Iterator[Bench]:
    broker, remote = site_brokers["A"], site_brokers["B"]
    sites = {
        "S": one_site("S", spark_server.address, broker.address),
        "F": one_site("F", flink_server.address, broker.address),
        "G": one_site("G", flink_server.address, remote.address),
    }
    inventory = Inventory(sites)
    with Store(tmp_path_factory.mktemp("sql") / "store") as store:
        services = build(store, installed(), inventory, Settings(period=0))
        services.coordinator.start()
        mqtt_client, other = MqttClient(broker.port, "+/+/+"), MqttClient(remote.port, "none/#")
        bench = Bench(services, inventory, mqtt_client, other)
        yield bench
        mqtt_client.close()
        other.close()
        try:
            for name in [*bench.applied]:
                bench.delete(name)
        finally:
            services.coordinator.close()
