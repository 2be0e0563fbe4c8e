"""Binders of a Mosquitto, and access to it without a binder."""

from __future__ import annotations

from binders.mqtt import MqttBroker
from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import FOREVER, Connection
from speck.core.inventory import Inventory, Login
from speck.testing.brokers import OWNER
from testbed.benches.examples import one_site
from testbed.servers.mosquitto import MosquittoServer

SESSION = "speck-job"


def connection(
    broker: MosquittoServer, client_id: str, *, keep: bool = False, timeout: float = 60
) -> Connection:
    """A plain connection to a broker, past the binder; ``keep``: of the persistent session of that name."""
    return Connection(
        BrokerAddress.parse(broker.address),
        Login(),
        client_id,
        clean_start=not keep,
        expiry=FOREVER if keep else 0,
        timeout=timeout,
    )


def publish(broker: MosquittoServer, topic: str, payloads: list[bytes]) -> None:
    with connection(broker, "test-writer") as writer:
        assert writer.publish_many(topic, payloads, window=100) == 0


def take(broker: MosquittoServer, session: str) -> list[bytes]:
    """Read and acknowledge everything that waits in a session, as its job would."""
    taken: list[bytes] = []
    with connection(broker, session, keep=True) as reader:
        assert reader.session_present
        reader.subscribe("test/echo", qos=0)
        reader.round_trip("test/echo")
        while reader.received:
            for message in list(reader.received):
                taken.append(bytes(message.payload))
                reader.acknowledge(message)
            reader.received.clear()
            reader.round_trip("test/echo")
        reader.unsubscribe("test/echo")
    return taken


def retained(broker: MosquittoServer, topic: str) -> list[bytes]:
    with connection(broker, "test-reader") as reader:
        reader.subscribe(topic, "test/echo")
        reader.round_trip("test/echo")
        return [bytes(message.payload) for message in reader.received]


def binder(broker: MosquittoServer, login: Login | None = None, timeout: float = 10) -> MqttBroker:
    return MqttBroker(broker.address, inventory(broker.address, login or Login()), timeout=timeout)


def owned(broker: MosquittoServer) -> MqttBroker:
    found = binder(broker)
    found.take_owner(OWNER)
    return found


def inventory(address: str, login: Login) -> Inventory:
    site = one_site("A", "sc://127.0.0.1:1", address, login=login)
    return Inventory({"A": site})
