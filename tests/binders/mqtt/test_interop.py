"""The MQTT binder against brokers other than Mosquitto, where ``make interop`` has built them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from binders.mqtt import MqttBroker
from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import FOREVER, Connection
from speck.core.inventory import Inventory, Login
from speck.observe.healthcheck import broker_checkup
from tests.support.binder_contract import eventually
from tests.support.other_brokers import (
    HiveMQServer,
    OtherBroker,
    hivemq_fixture,  # noqa: F401
    mochi_fixture,  # noqa: F401
)

pytestmark = pytest.mark.engine


@pytest.fixture(params=["mochi", "hivemq"])
def other(request: pytest.FixtureRequest) -> Iterator[OtherBroker]:
    """Each of the brokers."""
    yield request.getfixturevalue(request.param)


@contextmanager
def connected(broker: OtherBroker, client_id: str, **options: Any) -> Iterator[Connection]:
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
    # HiveMQ may send a retained message after the echo behind it, so that one look may miss the fence.
    eventually(lambda: broker.fenced(session), lambda attempt: attempt == 3)
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
