"""Bridges, double names and limits that differ: found between brokers, in memory and real ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from binders.mqtt import MqttBroker
from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import Connection
from speck.core.inventory import Inventory, Login
from speck.core.runtime import Complaint
from speck.observe.between import BRIDGE_REMEDY, Edge, bridge_complaints, packet_complaints
from speck.testing.waiting import eventually
from testbed.benches.examples import one_site
from testbed.doubles.broker import InMemoryBroker, InMemoryFeed
from testbed.doubles.world import World
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.rest import RestServer, rest_server
from tests.fixtures.speck_command import Speck

A, B, C = "tcp://a:1883", "tcp://b:1883", "tcp://c:1883"


@pytest.fixture(name="rest")
def rest_of_three_sites(tmp_path: Path) -> Iterator[RestServer]:
    sites = {broker: one_site(broker, f"sc://{broker}:1", f"tcp://{broker}:1883") for broker in "abc"}
    with rest_server(tmp_path, Inventory(sites)) as server:
        yield server


def test_a_bridge_is_told_at_the_broker_that_it_leads_to(rest: RestServer, speck: Speck) -> None:
    rest.world.bridges = {A: [C]}
    said = speck("sites", "check")
    assert said.code == 1
    assert f"c, broker {C}: a bridge passes SpecK's topics on to it from {A}" in said.out
    assert f"    remedy: {BRIDGE_REMEDY}" in said.out
    assert said.out.count("a bridge passes") == 1


def test_two_names_of_one_broker_are_no_bridge(rest: RestServer, speck: Speck) -> None:
    rest.world.doubles = {A: [B], B: [A]}
    said = speck("sites", "check")
    assert f"b, broker {B}: it is the broker {A} under another name" in said.out
    assert "bridge" not in said.out
    assert said.out.splitlines()[-1] == "1 fault"


def test_a_broker_that_is_down_hides_no_bridge(rest: RestServer, speck: Speck) -> None:
    rest.world.bridges = {B: [A]}
    rest.world.down(C)
    assert f"passes SpecK's topics on to it from {B}" in speck("sites", "check").out


def test_one_broker_is_not_compared() -> None:
    world = World()
    assert bridge_complaints({A: InMemoryBroker(world, A)}) == {}
    assert world.calls == []


def test_a_silent_broker_holds_up_no_other_and_its_feed_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.observe.between._LONGEST", 0.3)
    monkeypatch.setattr("speck.observe.between.PATIENCE", 0.05)
    world = World()
    world.bridges = {A: [B]}
    brokers = {each: InMemoryBroker(world, each) for each in (A, B, C)}
    silent = world.hold("subscribe", address=C)
    closed: list[str] = []
    monkeypatch.setattr(InMemoryFeed, "close", lambda feed: closed.append(feed.address))
    found = bridge_complaints(brokers)
    assert list(found) == [B]
    assert f"from {A}" in found[B][0].message
    assert sorted(closed) == [A, B]
    silent.release()
    eventually(lambda: sorted(closed), lambda each: each == [A, B, C], 5)


def test_foreign_messages_among_the_probes_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.observe.between.PATIENCE", 0.05)
    foreign = [("speck/probe/run/hello", b""), ("speck/probe/run/7", b"")]
    receive = InMemoryFeed.receive
    monkeypatch.setattr(InMemoryFeed, "receive", lambda feed: [*receive(feed), *foreign])
    world = World()
    world.bridges = {A: [B]}
    assert list(bridge_complaints({each: InMemoryBroker(world, each) for each in (A, B)})) == [B]


EDGES = [Edge("x", A, B), Edge("y", A, B), Edge("z", B, A), Edge("own", A, A)]


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ({}, {}),
        ({A: 1000, B: 1000}, {}),
        ({A: 1000}, {A: "from which job z takes its messages, accepts any size"}),
        ({A: 2000, B: 1000}, {B: "from which jobs x, y take its messages, accepts up to 2000 bytes"}),
    ],
)
def test_a_narrower_broker_behind_a_wider_one(limits: dict[str, int], found: dict[str, str]) -> None:
    complaints = packet_complaints(EDGES, limits)
    assert complaints.keys() == found.keys()
    for address, part in found.items():
        (complaint,) = complaints[address]
        assert part in complaint.message
        assert f"up to {limits[address]} bytes" in complaint.message


# --- real brokers ---------------------------------------------------------------------------------

BRIDGE = """\
connection to-{name}
address 127.0.0.1:{port}
topic {topics}
restart_timeout 1
"""


def bridged(directory: Path, topics: str, to: MosquittoServer) -> MosquittoServer:
    lines = BRIDGE.format(name="far", port=to.port, topics=topics)
    return MosquittoServer(directory, lines)


def eventually_complaints(brokers: dict[str, MqttBroker], *, expected: bool) -> dict[str, list[Complaint]]:
    """The complaints once a bridge that is to be found is up."""
    deadline = time.monotonic() + 20
    while True:
        found = bridge_complaints(brokers)
        if found or not expected or time.monotonic() > deadline:
            return found


def bridge_is_up(broker: MosquittoServer) -> bool:
    """True if the broker reports that its bridge is connected."""
    with Connection(BrokerAddress.parse(broker.address), Login(), "test-bridge") as reader:
        reader.subscribe("$SYS/broker/connection/+/state", "test/echo")
        reader.round_trip("test/echo")
        return any(bytes(message.payload) == b"1" for message in reader.received)


@pytest.mark.engine
def test_a_real_bridge_and_its_remedy(tmp_path: Path) -> None:
    for name, topics, expected in (("all", "# both 2", True), ("some", "sensors/# both 2", False)):
        # A bridge's session at the other broker keeps its former subscriptions.
        with MosquittoServer(tmp_path / f"far-{name}") as far:
            with bridged(tmp_path / name, topics, far) as near:
                brokers = {each.address: MqttBroker(each.address, Inventory()) for each in (near, far)}
                eventually(lambda: bridge_is_up(near), bool, 20)
                found = eventually_complaints(brokers, expected=expected)
                for each in brokers.values():
                    each.close()
            assert bool(found) is expected, (name, found)
            if expected:
                assert far.address in found
                assert "a bridge passes SpecK's topics on" in found[far.address][0].message


@pytest.mark.engine
def test_two_names_of_one_real_broker(mosquitto: MosquittoServer) -> None:
    other = mosquitto.address.replace("127.0.0.1", "localhost")
    brokers = {each: MqttBroker(each, Inventory()) for each in (mosquitto.address, other)}
    (found,) = [each for complaints in bridge_complaints(brokers).values() for each in complaints]
    assert "under another name" in found.message
    for broker in brokers.values():
        broker.close()
