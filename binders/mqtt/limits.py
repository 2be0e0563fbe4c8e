"""Limits of a broker that cause message loss: those that it states, and those that must be measured."""

from __future__ import annotations

from dataclasses import dataclass

from paho.mqtt.properties import Properties

from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import Connection
from speck.core.inventory import Login
from speck.core.job import Scalar
from speck.errors import BinderError

# Mosquitto queues 1,000 messages for a client by default: the probe must exceed that.
PROBED_MESSAGES = 1500

# Messages; below this, the batches of a job are so small that a fast source outruns it.
_MIN_INFLIGHT = 1000

# Bytes; a job's messages have values of some KB, and user properties.
_MIN_PACKET = 64 * 1024

# Seconds after which the broker drops the probe's session if it could not be deleted.
_PROBE_EXPIRY = 60

_WINDOW = 200


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """How many of ``sent`` messages a session received; ``at_once`` before it acknowledged any."""

    sent: int
    at_once: int
    received: int


def reject_unfit(connection: Connection) -> None:
    """Raise :class:`~speck.errors.Rejected` for a broker that SpecK cannot use at all."""
    limits = connection.limits
    if getattr(limits, "MaximumQoS", 2) < 1:
        raise connection.rejection("QoS 1", "its highest is QoS 0 (SpecK needs a broker with QoS 1)")
    if not getattr(limits, "RetainAvailable", 1):
        raise connection.rejection("retained messages", "they are disabled (SpecK needs them for its fences)")


def stated_limits(limits: Properties) -> dict[str, Scalar]:
    """The limits that the broker stated on connecting, by name; others are the protocol's defaults.

    MQTT 5, 3.2.2.3; a packet's size is bytes, an expiry s.
    """
    names = {
        "ReceiveMaximum": "unacknowledged_messages",
        "MaximumPacketSize": "packet_bytes",
        "MaximumQoS": "qos",
        "SessionExpiryInterval": "session_seconds",
    }
    return {name: limit for key, name in names.items() if (limit := getattr(limits, key, None)) is not None}


def stated_warnings(limits: Properties) -> list[str]:
    """Warnings about stated limits that cause message loss, a sentence each."""
    found = []
    packet = getattr(limits, "MaximumPacketSize", None)
    if packet is not None and packet < _MIN_PACKET:
        found.append(f"it rejects packets above {packet} bytes (Mosquitto: raise max_packet_size)")
    window = getattr(limits, "ReceiveMaximum", _MIN_INFLIGHT)
    if window < _MIN_INFLIGHT:
        # MQTT 5, 3.2.2.3.3.  Mosquitto states its max_inflight_messages here.
        found.append(
            f"it lets a job send {window} unacknowledged messages at a time, which slows its sink down "
            "(Mosquitto: max_inflight_messages 0)"
        )
    if not getattr(limits, "WildcardSubscriptionAvailable", 1):
        found.append("it has no wildcard subscriptions: a source_topic with + or # is rejected")
    return found


def probe_warnings(address: BrokerAddress, login: Login, topic: str, timeout: float) -> list[str]:
    """Warnings about limits measured with a temporary persistent session, a sentence each.

    The session is subscribed to ``topic``, is offline while :data:`PROBED_MESSAGES` messages of one byte are
    sent there, and is then read, first without acknowledging any.
    """
    try:
        probed = probe(address, login, topic, timeout)
    except BinderError as error:
        return [f"its limits could not be measured: {error}"]
    found = []
    if probed.received < probed.sent:
        found.append(
            f"it queues {probed.received} of {probed.sent} messages for an offline job and drops the "
            "rest (Mosquitto: raise max_queued_messages and max_queued_bytes)"
        )
    if probed.at_once < min(_MIN_INFLIGHT, probed.received):
        found.append(
            f"it delivers {probed.at_once} unacknowledged messages at a time: a job's batch holds no more, "
            "and messages of a fast source pile up (Mosquitto: max_inflight_messages 0)"
        )
    return found


def probe(address: BrokerAddress, login: Login, topic: str, timeout: float) -> ProbeResult:
    """Measure how many messages the broker queues for an offline session, and delivers at a time."""
    session = topic.replace("/", "-")

    def connection(*, clean_start: bool) -> Connection:
        return Connection(
            address, login, session, clean_start=clean_start, expiry=_PROBE_EXPIRY, timeout=timeout
        )

    with connection(clean_start=True) as reader:
        reader.subscribe(topic)
    try:
        with Connection(address, login, f"{session}-writer", timeout=timeout) as writer:
            window = min(_WINDOW, getattr(writer.limits, "ReceiveMaximum", _WINDOW))
            writer.publish(topic, b".")  # raises with the reason if the broker rejects it
            writer.publish_many(topic, (b"." for _ in range(PROBED_MESSAGES - 1)), window)
        with connection(clean_start=False) as reader:
            return _read(reader, f"{topic}/echo")
    finally:
        with Connection(address, login, session, timeout=timeout):
            pass  # a clean start without expiry deletes the session


def _read(reader: Connection, echo: str) -> ProbeResult:
    reader.subscribe(echo, qos=0)
    reader.round_trip(echo)
    at_once = len(reader.received)
    received = 0
    while reader.received:
        received += len(reader.received)
        for message in reader.received:
            reader.acknowledge(message)
        reader.received.clear()
        reader.round_trip(echo)
    return ProbeResult(PROBED_MESSAGES, at_once, received)
