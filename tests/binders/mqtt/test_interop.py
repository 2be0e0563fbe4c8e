"""The MQTT binder against brokers other than Mosquitto, where ``make interop`` has built them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from binders.mqtt import MqttBroker
from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import FOREVER, Connection
from binders.mqtt.retained import retained_all
from speck.core.inventory import Inventory, Login
from speck.errors import SessionOfAnother
from speck.observe.healthcheck import broker_checkup
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.other_brokers import HiveMQServer, OtherBroker

pytestmark = pytest.mark.engine


@pytest.fixture(params=["mochi", "hivemq"])
def other(request: pytest.FixtureRequest) -> Iterator[OtherBroker]:
    """Each of the brokers."""
    yield request.getfixturevalue(request.param)


@contextmanager
def connected(broker: OtherBroker | MosquittoServer, client_id: str, **options: Any) -> Iterator[Connection]:
    address = BrokerAddress.parse(broker.address)
    with Connection(address, Login(), client_id, timeout=60, **options) as found:
        yield found


def test_a_check_raises_no_false_alarm(other: OtherBroker) -> None:
    """Remarks are for slowness, and for limits that could not be tried; no message is lost here."""
    found = broker_checkup(MqttBroker(other.address, Inventory()))
    assert [each.message for each in found.complaints if not each.remark] == []
    assert "unacknowledged_messages" in found.limits
    window = found.limits["unacknowledged_messages"]
    slow = [each for each in found.complaints if f"send {window} unacknowledged messages" in each.message]
    assert len(slow) == (1 if int(window) < 1000 else 0)
    with connected(other, "speck-test-left") as reader:
        reader.subscribe("speck/#", "test/echo")
        reader.round_trip("test/echo")
        assert not [message.topic for message in reader.received if "probe" in message.topic]


def test_a_session_collects_in_order_and_its_fence_and_tombstone_hold(other: OtherBroker) -> None:
    broker, session = MqttBroker(other.address, Inventory()), "speck-interop"
    broker.check()
    broker.ensure_session(session, "interop/+")
    broker.fence(session, 3)
    sent = [str(number).encode() for number in range(300)]
    with connected(other, "test-writer") as writer:
        writer.publish_many("interop/1", sent, 5)
    assert broker.session_exists(session)
    assert broker.fenced(session) == 3
    taken: list[bytes] = []
    with connected(other, session, clean_start=False, expiry=FOREVER) as reader:
        assert reader.session_present
        while len(taken) < len(sent):
            reader.await_message()
            message = reader.received.popleft()
            taken.append(bytes(message.payload))
            reader.acknowledge(message)
    # mochi 2.7 delivers what waited in any order.
    assert (taken if isinstance(other, HiveMQServer) else sorted(taken, key=int)) == sent
    broker.delete_session(session)
    broker.close()


ROUNDS = 200 if os.environ.get("SPECK_TRIALS") else 25


def test_a_record_is_read_right_after_it_was_written_over_a_connection_that_stays(other: OtherBroker) -> None:
    """HiveMQ sends what comes later before retained messages, and nothing while one is unacknowledged."""
    owner, another = "0a" * 8, "1b" * 8
    ours, theirs = MqttBroker(other.address, Inventory()), MqttBroker(other.address, Inventory())
    ours.take_owner(owner)
    theirs.take_owner(another)
    sessions = [f"speck-round-{number}" for number in range(5)]
    for each in sessions:
        ours.ensure_session(each, "in/rounds")
    slowest = 0.0
    for number in range(1, ROUNDS + 1):
        session = sessions[number % len(sessions)]
        ours.fence(session, number)
        begun = time.monotonic()
        assert ours.fenced(session) == number
        slowest = max(slowest, time.monotonic() - begun)
        with pytest.raises(SessionOfAnother, match=owner):
            theirs.fence(session, number + 1)
        assert ours.fenced(f"speck-none-{number}") == 0
    assert slowest < 5
    found = {each.session for each in theirs.foreign_sessions()}
    assert found >= set(sessions)
    for each in sessions:
        ours.delete_session(each)
    for broker in (ours, theirs):
        broker.close()
    with connected(other, "speck-test-markers") as reader:
        reader.subscribe("speck/#", "test/echo")
        reader.publish("test/echo", b"")
        remaining = reader.take_until({"test/echo"})
    assert not [topic for topic in remaining if len(topic.split("/")) > 3 or "probe" in topic]


def test_mosquitto_is_read_in_one_round_trip(mosquitto: MosquittoServer) -> None:
    with connected(mosquitto, "speck-test-order") as control:
        assert retained_all(control, ["none/a", "none/b"]) == [None, None]
        assert control.in_order
        control.publish("none/b", b"x", retain=True)
        assert retained_all(control, ["none/a", "none/b"]) == [None, b"x"]
