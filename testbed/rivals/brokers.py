"""Kinds of brokers that trials run: their servers, and how a trial sends messages there and receives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTProtocolVersion

from binders.kafka.local import server_jars
from speck.errors import LocalError
from testbed.benches.mqtt_client import subscribe
from testbed.faults.flow import Publisher, client
from testbed.faults.middle import KafkaMiddle
from testbed.faults.rig import CuttableRelay
from testbed.rivals.kafka_flow import consuming, producing, servers
from testbed.servers.base import NotInstalled
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.nats import NatsServer
from testbed.waiting import PATIENCE

Broker = MosquittoServer | NatsServer | KafkaMiddle
# Takes the text of a message that arrives, and its user properties or headers.
Take = Callable[[str, Sequence[tuple[str, str]]], None]

# As SpecK ships it (pipelines/mosquitto.conf): a broker that is killed forgets up to 5 s.
_SAVING = "autosave_interval 5"


class Brokers(Protocol):
    """A kind of broker."""

    @property
    def lateness(self) -> float:
        """The time (s) that a message may be late through the broker, beyond what trials wait anyway."""

    def server(self, directory: Path) -> Broker:
        """A server that keeps its files in ``directory``; not started yet."""

    def link(self, server: Broker) -> CuttableRelay:
        """A way to a server that can be cut; made before the server starts."""

    def make_topic(self, address: str, topic: str) -> None:
        """Make a topic, where brokers need that."""

    def sending(self, address: str) -> AbstractContextManager[Publisher]:
        """A connection that sends messages, at least once."""

    def receiving(self, address: str, topic: str, take: Take) -> AbstractContextManager[None]:
        """Receive what is sent to a topic while the block runs, in another thread."""


class MosquittoBrokers:
    """Mosquitto as SpecK ships it, and other brokers with MQTT by way of subclasses."""

    lateness = 0.0
    protocol = MQTTProtocolVersion.MQTTv5

    def server(self, directory: Path) -> Broker:
        """See :class:`Brokers`."""
        return MosquittoServer(directory, _SAVING)

    def link(self, server: Broker) -> CuttableRelay:
        """See :class:`Brokers`."""
        return CuttableRelay(server.port)

    def make_topic(self, address: str, topic: str) -> None:
        """Do nothing."""

    def sending(self, address: str) -> AbstractContextManager[Publisher]:
        """See :class:`Brokers`: with QoS 1."""
        return client(address, self.protocol)

    @contextmanager
    def receiving(self, address: str, topic: str, take: Take) -> Iterator[None]:
        """See :class:`Brokers`: with QoS 1."""
        with client(address, self.protocol) as consumer:

            def receive(_client: object, _data: object, message: paho.MQTTMessage) -> None:
                take(message.payload.decode(), list(getattr(message.properties, "UserProperty", ())))

            subscribe(consumer, topic, receive, PATIENCE)
            yield


class NatsBrokers(MosquittoBrokers):
    """NATS with MQTT 3.1.1.

    By default it writes messages to files, which reach the disk within two minutes; ``best``: before a
    message is acknowledged.
    """

    protocol = MQTTProtocolVersion.MQTTv311

    def __init__(self, program: Path, *, best: bool = False) -> None:
        """Prepare it; ``program`` is what :func:`~testbed.servers.nats.install_nats` returned."""
        self._program, self._best = program, best
        # What a reader has not acknowledged comes again after ack_wait; with defaults readers have clean
        # sessions, to which nothing is sent again.
        self.lateness = 30.0 if best else 0.0

    def server(self, directory: Path) -> Broker:
        """See :class:`Brokers`."""
        return NatsServer(directory, self._program, "sync_interval: always" if self._best else "")


class KafkaBrokers:
    """Kafka; with ``committed``, a message of a transaction arrives once that is committed."""

    # On a busy machine an engine that was killed runs again for more than 10 s before it has sent a message.
    # Until its first checkpoint, readers of what is committed wait.
    lateness = 60.0

    def __init__(self, *, committed: bool = False) -> None:
        """Raises :class:`~testbed.servers.base.NotInstalled` without Kafka's jars."""
        try:
            server_jars()
        except LocalError as error:
            raise NotInstalled(str(error)) from error
        self._committed = committed

    def server(self, directory: Path) -> Broker:
        """See :class:`Brokers`."""
        return KafkaMiddle(directory)

    def link(self, server: Broker) -> CuttableRelay:
        """See :class:`Brokers`; all clients go this way, since the server names it to them."""
        assert isinstance(server, KafkaMiddle)
        link = CuttableRelay(server.port, server.scheme)
        server.reached_at(link.port)
        return link

    def make_topic(self, address: str, topic: str) -> None:
        """See :class:`Brokers`: with one partition."""
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=servers(address))
        try:
            if topic not in admin.list_topics():
                admin.create_topics([NewTopic(topic, 1, 1)])
        finally:
            admin.close()

    def sending(self, address: str) -> AbstractContextManager[Publisher]:
        """See :class:`Brokers`."""
        return producing(address)

    def receiving(self, address: str, topic: str, take: Take) -> AbstractContextManager[None]:
        """See :class:`Brokers`."""
        return consuming(address, topic, take, committed=self._committed)
