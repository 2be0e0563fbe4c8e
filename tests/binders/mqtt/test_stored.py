"""The number of messages in Mosquitto's store, as it publishes it; queried without touching a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binders.mqtt import MqttBroker
from speck.core.inventory import Inventory
from speck.errors import Unreachable
from speck.testing.waiting import eventually
from testbed.benches.spark import MqttFriend
from testbed.servers.base import REFUSING_PORT
from testbed.servers.mosquitto import PROGRAM, MosquittoServer

pytestmark = [pytest.mark.engine, pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")]


@pytest.fixture(name="server")
def server_fixture(tmp_path: Path) -> Iterator[MosquittoServer]:
    with MosquittoServer(tmp_path / "mosquitto", "sys_interval 1") as server:
        yield server


def test_what_waits_in_a_session_is_counted_and_stays_there(server: MosquittoServer) -> None:
    broker, friend = MqttBroker(server.address, Inventory()), MqttFriend(server.port)
    broker.ensure_session("speck-a", "stored/in")
    before = eventually(broker.stored, lambda count: count is not None) or 0
    friend.send("stored/in", [str(number) for number in range(300)])
    eventually(broker.stored, lambda count: (count or 0) >= before + 300)
    assert broker.waiting("speck-a") == 300
    broker.delete_session("speck-a")
    eventually(broker.stored, lambda count: (count or 0) < before + 300)
    friend.close()
    broker.close()


def test_messages_that_a_full_session_drops_are_counted(tmp_path: Path) -> None:
    with MosquittoServer(tmp_path / "mosquitto", "max_queued_bytes 10000\nsys_interval 1") as server:
        broker, friend = MqttBroker(server.address, Inventory()), MqttFriend(server.port)
        broker.ensure_session("speck-a", "stored/in")
        eventually(broker.dropped, lambda count: count == 0)
        friend.send("stored/in", ["x" * 1000] * 30)  # each is acknowledged with success
        eventually(broker.dropped, lambda count: count == 20)
        eventually(broker.stored_bytes, lambda count: 10_000 <= (count or 0) < 12_000)
        friend.close()
        broker.close()


def test_a_broker_that_keeps_it_to_itself(tmp_path: Path) -> None:
    with MosquittoServer(tmp_path / "mosquitto", "sys_interval 0") as server:
        broker = MqttBroker(server.address, Inventory())
        assert (broker.stored(), broker.stored_bytes(), broker.dropped()) == (None, None, None)


def test_a_broker_that_is_not_there() -> None:
    with pytest.raises(Unreachable):
        MqttBroker(f"tcp://127.0.0.1:{REFUSING_PORT}", Inventory()).stored()
