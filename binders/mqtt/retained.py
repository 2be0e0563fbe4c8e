"""Reads retained messages, and determines that there are none, which MQTT has no request for.

MQTT 5 sets no time for the retained messages of a new subscription (3.8.4); its order (4.6) is that of a
topic.  Mosquitto and mochi send them before all that comes later: an echo behind the subscription is the end.
HiveMQ reads them from its storage meanwhile, and later messages overtake them.  There each topic is read
through a filter that also covers a marker below it, a retained message of our own: when that arrives the
retained messages of the filter are in the client's queue, and an echo behind them is the end.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress

from binders.mqtt.connection import Connection
from speck.errors import BinderError, Rejected

VERSION_TOPIC = "$SYS/broker/version"  # retained at Mosquitto and mochi
MARKER_SECONDS = 60  # after which a broker drops a marker that was not removed


def echo_topic() -> str:
    """A unique topic, to be used once."""
    return f"speck/probe/{uuid.uuid4().hex}"


def retained(control: Connection, topic: str) -> bytes | None:
    """The retained message of a topic, as :func:`retained_all`."""
    (found,) = retained_all(control, [topic])
    return found


def retained_all(control: Connection, topics: Sequence[str]) -> list[bytes | None]:
    """The retained message of each topic."""
    echo = echo_topic()
    name = echo.rpartition("/")[2]
    found = _read(control, topics, {f"{topic}/#": f"{topic}/{name}" for topic in topics}, echo)
    return [found.get(topic) or None for topic in topics]


def retained_below(control: Connection, topic: str) -> dict[str, bytes]:
    """The retained messages one level below a topic, by topic."""
    echo = echo_topic()
    every, marker = f"{topic}/+", f"{topic}/{echo.rpartition('/')[2]}"
    found = _read(control, [every], {every: marker}, echo)
    return {
        each: content for each, content in found.items() if each.startswith(f"{topic}/") and each != marker
    }


def _read(
    control: Connection, filters: Sequence[str], marked: Mapping[str, str], echo: str
) -> dict[str, bytes]:
    """The retained messages of filters, by topic; ``marked`` are filters that cover them, and their markers.

    Topics of the broker's own (``$``) are read as far as they come in order: no marker may be below them.
    """
    found: dict[str, bytes] = {}
    system = any(each.startswith("$") for each in filters)
    if system or control.in_order is not False:
        found = control.retained_at_once(filters, VERSION_TOPIC, echo)
    if control.in_order or system:
        return found
    try:
        return found | _read_with_markers(control, marked, f"{echo}/end")
    except Rejected:  # markers, by access control: the echo has to do, each time
        control.in_order = None
        return found


def _read_with_markers(control: Connection, marked: Mapping[str, str], last: str) -> dict[str, bytes]:
    try:
        for marker in marked.values():
            control.publish(marker, b"marker", retain=True, expiry=MARKER_SECONDS)
        control.subscribe(*marked, last, again=True)
        found = control.take_until(set(marked.values()))
        control.publish(last, b"")
        return found | control.take_until({last})
    finally:
        with suppress(BinderError):
            for each in (*marked, last):
                control.unsubscribe(each)
            for marker in marked.values():
                control.publish(marker, b"", retain=True)
