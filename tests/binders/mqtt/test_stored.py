"""The counters of Mosquitto, as it publishes them; queried without touching a session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from binders.mqtt import MqttBroker
from binders.mqtt.connection import Connection
from binders.mqtt.connection_cache import ConnectionCache
from binders.mqtt.counters import DROPPED, STORED, STORED_BYTES, Counters
from speck.core.inventory import Inventory
from speck.errors import Rejected, Unreachable
from speck.testing.waiting import eventually
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.base import REFUSING_PORT
from testbed.servers.mosquitto import PROGRAM, MosquittoServer

with_mosquitto = pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")


class Published:
    """The retained messages of a Mosquitto, of which one may be denied; a connection, and the cache of it."""

    def __init__(self, **counts: bytes) -> None:
        self.counts = {globals()[name]: count for name, count in counts.items()}
        self.denied = ""
        self.in_order = True

    def run(self, work: Callable[[Connection], Any]) -> Any:
        return work(cast(Connection, self))

    def retained_at_once(self, filters: Collection[str], known: str, echo: str) -> dict[str, bytes]:
        if self.denied in filters:
            raise Rejected(f"subscription to {self.denied}", address="tcp://b:1883")
        return {each: self.counts[each] for each in filters if each in self.counts}


def test_a_counter_that_does_not_change_is_known_for_as_long_as_it_is_read() -> None:
    """Mosquitto drops its message after a minute without a change: as of a store that is full."""
    published, now = Published(STORED=b"9", STORED_BYTES=b"64000000"), [0.0]
    counters = Counters(cast(ConnectionCache, published), lambda: now[0])
    assert counters.value(STORED) == 9 and counters.value(DROPPED) is None
    published.counts.clear()
    for now[0] in (50.0, 100.0, 150.0):
        assert counters.value(STORED) == 9
    assert counters.value(STORED_BYTES) == 64000000  # it is read with the others
    now[0] = 220.0  # it may have changed, and vanished again
    assert counters.value(STORED) is None and counters.value(STORED_BYTES) is None
    published.counts[STORED] = b"10"
    assert counters.value(STORED) == 10
    published.counts[STORED] = b"no number"
    assert counters.value(STORED) is None


def test_a_counter_may_be_read_although_another_one_is_denied() -> None:
    published = Published(STORED=b"9", DROPPED=b"3")
    counters = Counters(cast(ConnectionCache, published))
    published.denied = STORED
    assert (counters.value(STORED), counters.value(DROPPED)) == (None, 3)


@pytest.fixture(name="server")
def server_fixture(tmp_path: Path) -> Iterator[MosquittoServer]:
    with MosquittoServer(tmp_path / "mosquitto", "sys_interval 1") as server:
        yield server


@pytest.mark.engine
@with_mosquitto
def test_what_waits_in_a_session_is_counted_and_stays_there(server: MosquittoServer) -> None:
    broker, mqtt_client = MqttBroker(server.address, Inventory()), MqttClient(server.port)
    broker.ensure_session("speck-a", "stored/in")
    before = eventually(broker.stored, lambda count: count is not None) or 0
    mqtt_client.send("stored/in", [str(number) for number in range(300)])
    eventually(broker.stored, lambda count: (count or 0) >= before + 300)
    assert broker.waiting("speck-a") == 300
    broker.delete_session("speck-a")
    eventually(broker.stored, lambda count: (count or 0) < before + 300)
    mqtt_client.close()
    broker.close()


@pytest.mark.engine
@with_mosquitto
def test_messages_that_a_full_session_drops_are_counted(tmp_path: Path) -> None:
    with MosquittoServer(tmp_path / "mosquitto", "max_queued_bytes 10000\nsys_interval 1") as server:
        broker, mqtt_client = MqttBroker(server.address, Inventory()), MqttClient(server.port)
        broker.ensure_session("speck-a", "stored/in")
        eventually(broker.dropped, lambda count: count == 0)
        mqtt_client.send("stored/in", ["x" * 1000] * 30)  # each is acknowledged with success
        eventually(broker.dropped, lambda count: count == 20)
        eventually(broker.stored_bytes, lambda count: 10_000 <= (count or 0) < 12_000)
        mqtt_client.close()
        broker.close()


@pytest.mark.engine
@with_mosquitto
def test_a_broker_that_keeps_it_to_itself(tmp_path: Path) -> None:
    with MosquittoServer(tmp_path / "mosquitto", "sys_interval 0") as server:
        broker = MqttBroker(server.address, Inventory())
        assert (broker.stored(), broker.stored_bytes(), broker.dropped()) == (None, None, None)


@pytest.mark.engine
@with_mosquitto
def test_a_broker_that_is_not_there() -> None:
    with pytest.raises(Unreachable):
        MqttBroker(f"tcp://127.0.0.1:{REFUSING_PORT}", Inventory()).stored()
