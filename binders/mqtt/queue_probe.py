"""Limits of a broker that it does not state: measured with a temporary session."""

from __future__ import annotations

import time
from dataclasses import dataclass

from binders.mqtt.address import BrokerAddress
from binders.mqtt.at_most_once import probe_qos0, qos0_complaint
from binders.mqtt.connection import Connection
from binders.mqtt.limits import MIN_INFLIGHT
from speck.core.inventory import Login
from speck.core.runtime import Complaint
from speck.errors import BinderError, Rejected

# Mosquitto queues 1,000 messages for a client by default: the probe must exceed that.
PROBED_MESSAGES = 1500

# Messages; the default of Mosquitto, by which readers fall behind at some hundred messages/s.
_FEW_INFLIGHT = 20

# Seconds after which the broker drops the probe's session if it could not be deleted.
_PROBE_EXPIRY = 60

_WINDOW = 200
_SHARE = 0.06  # of the time allowed for an answer: for sending, and for reading
_SILENCE = 0.3  # s without a message, after which a broker waits for acknowledgements
_MARK = b"end"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The numbers of messages ``sent`` and received, and of those received before any was acknowledged.

    ``is_whole``: all that the broker had queued was received.
    """

    sent: int
    at_once: int
    received: int
    is_whole: bool


def probed_concerns(
    address: BrokerAddress, login: Login, topic: str, timeout: float, *, is_mosquitto: bool
) -> list[Complaint]:
    """Limits that cause message loss, measured with a temporary session, and a remark where they cannot be.

    The session is subscribed to ``topic``, is offline while up to :data:`PROBED_MESSAGES` messages of one
    byte are sent there, and is then read, first without acknowledging any.
    """
    try:
        probed = probe(address, login, topic, timeout)
        qos0 = qos0_complaint(probe_qos0(address, login, f"{topic}-0", timeout), has_setting=is_mosquitto)
    except BinderError as error:
        # What the broker refuses to the probe, it refuses to SpecK.
        return [
            Complaint(f"its limits could not be measured: {error}", remark=not isinstance(error, Rejected))
        ]
    found = (qos0, _queue_concern(probed, 2 * _SHARE * timeout), _window_concern(probed))
    return [each for each in found if each is not None]


def _queue_concern(probed: ProbeResult, seconds: float) -> Complaint | None:
    """Messages that the broker dropped, or a remark that too few could be sent in this time to know."""
    if probed.is_whole and probed.received < probed.sent:
        return Complaint(
            f"it queues {probed.received} of {probed.sent} messages for an offline job and drops the "
            "rest (Mosquitto: raise max_queued_messages and max_queued_bytes; HiveMQ: "
            "mqtt.queued-messages.max-queue-size; mochi: MaximumClientWritesPending)"
        )
    if probed.sent < PROBED_MESSAGES or not probed.is_whole:
        return Complaint(
            f"its queue for an offline job was tried with {min(probed.sent, probed.received)} messages "
            f"only, in {seconds:.1f} s: whether it drops some beyond is not known",
            "check its limits for queued messages (docs/mqtt.md, Other brokers)",
            remark=True,
        )
    return None


def _window_concern(probed: ProbeResult) -> Complaint | None:
    """A window of unacknowledged messages that limits the batches of a job."""
    if probed.at_once >= min(MIN_INFLIGHT, probed.received):
        return None
    return Complaint(
        f"it delivers {probed.at_once} unacknowledged messages at a time: a job's batch is "
        "limited to that, and messages of a fast source pile up (Mosquitto: max_inflight_messages 0)",
        remark=probed.at_once > _FEW_INFLIGHT,
    )


def probe(address: BrokerAddress, login: Login, topic: str, timeout: float) -> ProbeResult:
    """Measure how many messages the broker queues for an offline session, and delivers at a time.

    Sends and reads for a small share of ``timeout`` (s) each, so that a broker which takes few
    unacknowledged messages at a time delays nobody.
    """
    session = topic.replace("/", "-")

    def connection(*, clean_start: bool) -> Connection:
        return Connection(
            address, login, session, clean_start=clean_start, expiry=_PROBE_EXPIRY, timeout=timeout
        )

    # No subscription is made while messages wait: mochi 2.7 then has packet ids in use.
    with connection(clean_start=True) as reader:
        reader.subscribe(topic)
    try:
        with Connection(address, login, f"{session}-writer", timeout=timeout) as writer:
            sent, round_trip = _send(writer, topic, _SHARE * timeout)
        with connection(clean_start=False) as reader:
            silence = max(_SILENCE, 5 * round_trip)
            return _read(reader, topic, sent, silence, _SHARE * timeout)
    finally:
        with Connection(address, login, session, timeout=timeout):
            pass  # a clean start without expiry deletes the session


def _send(writer: Connection, topic: str, seconds: float) -> tuple[int, float]:
    """Send as many of the messages as the time allows; returns their number and the first one's time, s."""
    begun = time.monotonic()
    writer.publish(topic, b".")  # raises with the reason if the broker rejects it
    round_trip = time.monotonic() - begun
    window = min(_WINDOW, getattr(writer.limits, "ReceiveMaximum", _WINDOW))
    sent = 1
    while sent < PROBED_MESSAGES and time.monotonic() - begun < seconds:
        number = min(window, PROBED_MESSAGES - sent)
        writer.publish_many(topic, (b"." for _ in range(number)), window)
        sent += number
    return sent, round_trip


def _read(reader: Connection, topic: str, sent: int, silence: float, seconds: float) -> ProbeResult:
    """Read what waits: without acknowledgements until it is silent, then up to a mark behind all of it.

    Messages of one topic and QoS are delivered in order (MQTT 5, 4.6), so nothing comes behind the mark.
    """
    while len(reader.received) < sent and reader.receives_more(silence):
        pass
    at_once, seen_mark = len(reader.received), False
    begun = time.monotonic()
    _acknowledge(reader)
    received = at_once
    reader.publish(topic, _MARK)
    while not seen_mark and time.monotonic() - begun < seconds:
        reader.receives_more(_SILENCE)
        payloads = _acknowledge(reader)
        seen_mark = _MARK in payloads
        received += len(payloads) - seen_mark
    return ProbeResult(sent, at_once, received, seen_mark or received == sent)


def _acknowledge(reader: Connection) -> list[bytes]:
    """Acknowledge all received messages; returns their contents."""
    found = list(reader.received)
    reader.received.clear()
    for message in found:
        reader.acknowledge(message)
    return [bytes(message.payload) for message in found]
