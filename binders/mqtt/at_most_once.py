"""Messages that are published at QoS 0: their fate at a broker while the job that reads them is away.

A subscription has the lower QoS of both sides (MQTT 5, 3.8.4), so that a message published at QoS 0 reaches a
job at QoS 0: unacknowledged, and not sent again.  Brokers may drop it while the session is offline (4.1); one
that keeps it still loses what was sent to a job and not committed.  Mosquitto's ``upgrade_outgoing_qos``
delivers at the QoS of the subscription, 1, and so loses none.
"""

from __future__ import annotations

import time
from enum import Enum

from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import Connection
from speck.core.inventory import Login
from speck.core.runtime import Complaint

SETTING = "upgrade_outgoing_qos true"  # a line of mosquitto.conf

_EXPIRY = 60  # s, after which the broker drops the probe's session if it could not be deleted
_LATER = 0.3  # s, for a message at QoS 0 behind one at QoS 1; their order is not defined (MQTT 5, 4.6)
_MARK = b"end"


class OfflineQos0(Enum):
    """The fate of a message at QoS 0 that is published while the session is offline."""

    DROPPED = "dropped"
    UNSAFE = "delivered at QoS 0"
    SAFE = "delivered at QoS 1"


def probe_qos0(address: BrokerAddress, login: Login, topic: str, timeout: float) -> OfflineQos0:
    """Publish at QoS 0 to a temporary session that is offline, and read it.

    ``topic`` is one of our own; the session has its name.  Raises a :class:`~speck.errors.BinderError`.
    """
    session = topic.replace("/", "-")

    def connection(*, clean_start: bool) -> Connection:
        return Connection(address, login, session, clean_start=clean_start, expiry=_EXPIRY, timeout=timeout)

    with connection(clean_start=True) as reader:
        reader.subscribe(topic)
    try:
        with Connection(address, login, f"{session}-writer", timeout=timeout) as writer:
            writer.publish_unacknowledged(topic, b".")
            writer.publish(topic, _MARK)
        with connection(clean_start=False) as reader:
            return _read(reader)
    finally:
        with Connection(address, login, session, timeout=timeout):
            pass  # a clean start without expiry deletes the session


def _read(reader: Connection) -> OfflineQos0:
    marked: float | None = None
    while marked is None or time.monotonic() - marked < _LATER:
        if not reader.received and marked is not None and not reader.receives_more(_LATER):
            break
        if not reader.received:
            reader.await_message()
        message = reader.received.popleft()
        reader.acknowledge(message)
        if message.payload != _MARK:
            return OfflineQos0.SAFE if message.qos else OfflineQos0.UNSAFE
        marked = time.monotonic()
    return OfflineQos0.DROPPED


def qos0_complaint(found: OfflineQos0, *, has_setting: bool) -> Complaint | None:
    """The complaint about a broker that loses messages at QoS 0; ``None`` for one that loses none.

    A remark where the broker has no setting for it (``has_setting``: it is a Mosquitto, or not known).
    """
    if found is OfflineQos0.SAFE:
        return None
    loses = (
        "it drops messages that are published at QoS 0 while the job that reads them is updated, moved or "
        "healed"
        if found is OfflineQos0.DROPPED
        else "it delivers messages that are published at QoS 0 without acknowledgement: those that a job has "
        "received and not committed are lost when it is updated, moved or healed"
    )
    publish = "let the devices publish at QoS 1 (docs/mqtt.md, Messages at QoS 0)"
    if has_setting:
        return Complaint(f"{loses} (Mosquitto: add the line {SETTING!r}; or {publish})")
    return Complaint(loses, publish, remark=True)
