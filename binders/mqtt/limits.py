"""The limits of a broker that lose messages: those that it states, and those that must be tried out."""

from __future__ import annotations

from dataclasses import dataclass

from paho.mqtt.properties import Properties

from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import Connection
from speck.core.inventory import Login
from speck.core.job import Scalar
from speck.errors import BinderError

# Mosquitto queues 1,000 messages for a client by default: the probe must hold more.
PROBED_MESSAGES = 1500

# Below this, one batch of a job holds few messages, and a fast source outruns it.
_FEW_IN_FLIGHT = 1000

# A packet of a job's messages: values of some KB, user properties included.
_SMALL_PACKET = 64 * 1024

# Seconds after which what the probe left behind is gone even when its end could not be said.
_PROBE_EXPIRY = 60

_WINDOW = 200


@dataclass(frozen=True, slots=True)
class Probed:
    """What a session of our own was given of ``sent`` messages; ``at_once`` before it acknowledged any."""

    sent: int
    at_once: int
    received: int


def refuse_unfit(connection: Connection) -> None:
    """Raise :class:`~speck.errors.Rejected` for a broker that SpecK cannot work with at all."""
    limits = connection.limits
    if getattr(limits, "MaximumQoS", 2) < 1:
        raise connection.refused("QoS 1", "its highest is QoS 0 (SpecK needs a broker with QoS 1)")
    if not getattr(limits, "RetainAvailable", 1):
        raise connection.refused("retained messages", "they are turned off (SpecK needs them for its fences)")


def stated_limits(limits: Properties) -> dict[str, Scalar]:
    """The limits that the broker said on connecting, by name; those that it left out are the protocol's own.

    MQTT 5, 3.2.2.3; a packet's size is bytes, an expiry s.
    """
    names = {
        "ReceiveMaximum": "unacknowledged_messages",
        "MaximumPacketSize": "packet_bytes",
        "MaximumQoS": "qos",
        "SessionExpiryInterval": "session_seconds",
    }
    return {name: told for key, name in names.items() if (told := getattr(limits, key, None)) is not None}


def stated_warnings(limits: Properties) -> list[str]:
    """What the broker said on connecting that will lose messages, a sentence each."""
    found = []
    packet = getattr(limits, "MaximumPacketSize", None)
    if packet is not None and packet < _SMALL_PACKET:
        found.append(f"it refuses packets above {packet} bytes (Mosquitto: raise max_packet_size)")
    window = getattr(limits, "ReceiveMaximum", _FEW_IN_FLIGHT)
    if window < _FEW_IN_FLIGHT:
        # MQTT 5, 3.2.2.3.3.  Mosquitto states its max_inflight_messages here.
        found.append(
            f"it lets a job send {window} unacknowledged messages at a time, which slows its sink down "
            "(Mosquitto: max_inflight_messages 0)"
        )
    if not getattr(limits, "WildcardSubscriptionAvailable", 1):
        found.append("it has no wildcard subscriptions: a source_topic with + or # will be refused")
    return found


def probe_warnings(address: BrokerAddress, login: Login, topic: str, timeout: float) -> list[str]:
    """What a throw-away persistent session shows to be lost, a sentence each.

    It is subscribed to ``topic``, left alone while :data:`PROBED_MESSAGES` messages of one byte are sent
    there, and then read, first without acknowledging any.
    """
    try:
        probed = probe(address, login, topic, timeout)
    except BinderError as error:
        return [f"its limits could not be tried out: {error}"]
    found = []
    if probed.received < probed.sent:
        found.append(
            f"it keeps {probed.received} of {probed.sent} messages for a job that is away, and drops the "
            "rest (Mosquitto: raise max_queued_messages and max_queued_bytes)"
        )
    if probed.at_once < min(_FEW_IN_FLIGHT, probed.received):
        found.append(
            f"it hands out {probed.at_once} unacknowledged messages at a time: a job's batch holds no more, "
            "and what a fast source sends piles up (Mosquitto: max_inflight_messages 0)"
        )
    return found


def probe(address: BrokerAddress, login: Login, topic: str, timeout: float) -> Probed:
    """Try out how much the broker keeps for an absent session, and hands out at a time."""
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
            writer.publish(topic, b".")  # which says why, if it is not taken
            writer.publish_many(topic, (b"." for _ in range(PROBED_MESSAGES - 1)), window)
        with connection(clean_start=False) as reader:
            return _read(reader, f"{topic}/echo")
    finally:
        with Connection(address, login, session, timeout=timeout):
            pass  # a clean start without expiry: the session is gone


def _read(reader: Connection, echo: str) -> Probed:
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
    return Probed(PROBED_MESSAGES, at_once, received)
