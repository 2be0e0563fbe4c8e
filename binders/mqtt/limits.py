"""Limits that a broker states on connecting, and those of them that cause message loss."""

from __future__ import annotations

from paho.mqtt.properties import Properties

from binders.mqtt.connection import FOREVER, Connection
from speck.core.job import Scalar
from speck.core.runtime import Complaint

# Messages; below this, the batches of a job are so small that a fast source outruns it.
MIN_INFLIGHT = 1000

# Bytes; a job's messages have values of some KB, and user properties.
_MIN_PACKET = 64 * 1024


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


def stated_concerns(limits: Properties) -> list[Complaint]:
    """Stated limits that cause message loss, and remarks on others, a sentence each."""
    found = []
    packet = getattr(limits, "MaximumPacketSize", None)
    if packet is not None and packet < _MIN_PACKET:
        found.append(Complaint(f"it rejects packets above {packet} bytes (Mosquitto: raise max_packet_size)"))
    window = getattr(limits, "ReceiveMaximum", MIN_INFLIGHT)
    if window < MIN_INFLIGHT:
        # MQTT 5, 3.2.2.3.3.  Nothing is lost: sinks wait for acknowledgements, as many brokers state it.
        found.append(
            Complaint(
                f"it lets a job send {window} unacknowledged messages at a time, which slows the sinks of "
                "fast jobs down",
                "raise its receive maximum (HiveMQ: mqtt.receive-maximum; mochi: ReceiveMaximum; Mosquitto: "
                "max_inflight_messages 0), or leave it if jobs write less",
                remark=True,
            )
        )
    if not getattr(limits, "WildcardSubscriptionAvailable", 1):
        found.append(Complaint("it has no wildcard subscriptions: a source_topic with + or # is rejected"))
    return found


def session_concerns(client: str, expiry: int, assigned: str) -> list[Complaint]:
    """Limits that a broker states for a session: its ``expiry`` (s), and an id that it assigned."""
    found = []
    if expiry != FOREVER:  # MQTT 5, 3.2.2.3.2
        found.append(
            Complaint(
                f"it keeps a session for {expiry} s only, so that jobs are refused (raise its limit for the "
                "expiry of sessions: HiveMQ: mqtt.session-expiry.max-interval; Mosquitto: remove "
                "persistent_client_expiration)"
            )
        )
    if assigned != client:
        message = f"it replaces the id of a client ({client!r} by {assigned!r}): jobs share no session"
        found.append(Complaint(message))
    return found
