"""Local sites in the namespaces of a network: addresses of their servers, and what is declared of them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from binders.flink.local.server import FlinkCluster
from binders.mqtt import MQTT
from binders.spark import CONNECT
from speck import local
from speck.binder import LocalServer, Registry
from speck.errors import LocalError
from speck.local.wan import EmulatedLink, Network
from speck.schema.inventory import load_inventory
from testbed.servers.mosquitto import PROGRAM as MOSQUITTO

needs_mosquitto = pytest.mark.skipif(not MOSQUITTO, reason="Mosquitto is not installed")


@dataclasses.dataclass(frozen=True)
class Loopback:
    """An engine that is a shell script, and knows no other address than loopback."""

    host: str = "127.0.0.1"
    ports = 1

    def address(self, ports: Sequence[int]) -> str:
        return f"sc://{self.host}:{ports[0]}"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        return ["/bin/sh", "-c", "ip -brief address > addresses; exec sleep 600"], dict(os.environ)

    def ready(self, ports: Sequence[int]) -> bool:
        return True

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        return {}


class Anywhere(Loopback):
    """The same at any address."""

    def at(self, host: str, states: Path) -> LocalServer:
        return Anywhere(host)


def registry_of(engine: LocalServer) -> Registry:
    return Registry.of([dataclasses.replace(CONNECT, local=engine), MQTT])


@needs_mosquitto
@pytest.mark.usefixtures("needs_network")
@pytest.mark.engine
def test_the_servers_of_a_site_run_in_its_namespace(tmp_path: Path) -> None:
    with (
        Network({"A": EmulatedLink.of(2e6, 0.04), "B": EmulatedLink()}) as network,
        local.up(tmp_path, ["A", "B"], registry=registry_of(Anywhere()), network=network) as sites,
    ):
        for site in sites.sites:
            address = network.address(site.name)
            assert site.broker.address.startswith(f"tcp://{address}:")  # it answered there
            assert f"{address}/24" in (tmp_path / site.name / "spark-connect" / "addresses").read_text()
        known = load_inventory(sites.inventory.read_text())
    uplink = known.sites["A"].uplink
    assert (uplink.bandwidth, uplink.downlink, uplink.latency) == (2e6, 2e6, 10)
    assert known.sites["B"].uplink.bandwidth is None


@needs_mosquitto
@pytest.mark.usefixtures("needs_network")
@pytest.mark.engine
def test_engines_that_know_loopback_only_are_refused(tmp_path: Path) -> None:
    with Network({"A": EmulatedLink()}) as network, pytest.raises(LocalError, match="runs on loopback only"):
        local.up(tmp_path, ["A"], registry=registry_of(Loopback()), network=network)


def test_flink_in_a_network_listens_at_its_site_and_shares_states(tmp_path: Path) -> None:
    cluster = FlinkCluster().at("10.1.2.1", tmp_path / "states")
    assert cluster.address([8081]) == "http://10.1.2.1:8081/"
    known = cluster.inventory([8081] * cluster.ports, tmp_path / "A", "600m")
    assert known["savepoint_dir"] == (tmp_path / "states" / "savepoints").as_uri()
    assert FlinkCluster().address([8081]) == "http://127.0.0.1:8081/"
