"""The road-traffic composition with all of its jobs at the cloud, on a real engine and real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from binders.spark.local.commands import CONNECTOR
from speck.cli.demo.programs import PIPELINES, Feeder, Server, Watcher, generate
from speck.client import Client
from speck.testing.waiting import eventually
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer
from tests.support.trials import trial

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
    ),
]

READINGS = 3000


@pytest.fixture(name="brokers")
def brokers_fixture(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The addresses of four brokers, by site."""
    servers = {site: MosquittoServer(tmp_path / f"broker-{site}") for site in "ABCD"}
    with ExitStack() as running:
        for server in servers.values():
            running.enter_context(server)
        yield {site: server.address for site, server in servers.items()}


@pytest.fixture(name="inventory")
def inventory_fixture(spark_server: SparkServer, brokers: dict[str, str], tmp_path: Path) -> Path:
    """A site inventory in which only the engine of D is there: those of the edge have nothing to do."""
    ends = [*(f"sc://127.0.0.1:{port}" for port in (1, 2, 3)), spark_server.address]
    engines = dict(zip(brokers, ends, strict=True))
    sites = {site: {"spe_address": engines[site], "broker_address": brokers[site]} for site in brokers}
    path = tmp_path / "sites.yaml"
    path.write_text(yaml.safe_dump({"sites": sites}), encoding="utf-8")
    return path


@trial("the demo of tests/cli/test_demo.py")
def test_everything_is_counted_at_the_cloud(inventory: Path, brokers: dict[str, str], tmp_path: Path) -> None:
    with ExitStack() as running:
        server = Server(inventory, tmp_path)
        running.callback(server.stop)
        client = Client(server.url())
        local = {site: f"{brokers['D']}/local-stats/{site.lower()}" for site in brokers}
        watcher = Watcher.of_statistics(local, brokers["D"], tmp_path)
        running.callback(watcher.stop)
        watcher.await_ready()
        text = (PIPELINES / "road_traffic_cloud.yaml").read_bytes()
        operation = client.apply(text, "road-traffic", wait=120)
        assert operation["state"] == "succeeded", operation
        sent = _feed(brokers, tmp_path)
        assert sent["readings"] == READINGS
        eventually(lambda: watcher.totals.get("local"), lambda counted: counted == sent)
        eventually(lambda: watcher.totals["overall"], lambda counted: counted == sent)
        assert client.delete_composition("road-traffic", wait=60)["state"] == "succeeded"


def _feed(brokers: dict[str, str], directory: Path) -> dict[str, int]:
    options = [f"--broker={site}={address}" for site, address in brokers.items()]
    options += ["--limit", str(READINGS), "--malformed", "0.1"]
    feeder = Feeder("feeder", generate(directory, 1), options, directory)
    try:
        eventually(feeder.ended, bool)
        assert feeder.report is not None
        sent: dict[str, int] = feeder.report["sent"]
        return sent
    finally:
        feeder.stop()
