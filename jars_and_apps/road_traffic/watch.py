"""Follow the statistics of the road-traffic jobs at all sites, and add them up.

    python -m jars_and_apps.road_traffic.watch --local A=tcp://127.0.0.1:1883 [...] --overall tcp://HOST:PORT

Prints ``{"ready": true}`` once all subscriptions exist; then, after each change::

    {"local": {"readings": N, "vehicles": N}, "overall": {...}, "sites": {"A": {...}}, "latest": {...}}

``latest`` has the newest window of each site (and ``*``) as its job wrote it.  The jobs write running totals
of a window, so the object with the most readings counts, independent of repetition and order.  The program
ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from jars_and_apps.road_traffic.publisher import client_of

LOCAL_TOPIC, OVERALL_TOPIC, OVERALL = "local-stats", "global-stats", "*"
_INTERVAL = 0.2  # s between two objects


class Account(Protocol):
    """An account of messages."""

    def add(self, site: str, payload: bytes | bytearray) -> None:
        """Add a message."""


class Followed(Account, Protocol):
    """An account of messages that is printed when it has changed."""

    changed: threading.Event

    def report(self) -> dict[str, Any]:
        """All messages so far as plain data."""


class Totals:
    """The newest statistics of each window of each site; may be used from several threads."""

    def __init__(self) -> None:
        self._windows: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
        self._lock = threading.Lock()
        self.changed = threading.Event()

    def add(self, site: str, payload: bytes | bytearray) -> None:
        """Add one statistics object; any other message is ignored."""
        try:
            window = json.loads(payload)
            start, readings = str(window["start"]), int(window["readings"])
        except (ValueError, KeyError, TypeError):
            return
        with self._lock:
            known = self._windows[site].get(start)
            if known is None or known["readings"] < readings:
                self._windows[site][start] = window
                self.changed.set()

    def report(self) -> dict[str, Any]:
        """The totals as plain data."""
        with self._lock:
            sites = {
                site: _sum(windows) for site, windows in sorted(self._windows.items()) if site != OVERALL
            }
            return {
                "local": {
                    name: sum(site[name] for site in sites.values()) for name in ("readings", "vehicles")
                },
                "overall": _sum(self._windows.get(OVERALL, {})),
                "sites": sites,
                "latest": {site: windows[max(windows)] for site, windows in sorted(self._windows.items())},
            }


def _sum(windows: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {name: sum(int(window[name]) for window in windows.values()) for name in ("readings", "vehicles")}


class Subscription:
    """A persistent subscription: a short outage of the connection loses no statistics."""

    def __init__(self, address: str, topic: str, site: str, totals: Account) -> None:
        self._site, self._topic, self._totals = site, topic, totals
        self.ready = threading.Event()
        self._client, host, port = client_of(address, "watch")
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        properties = _properties(PacketTypes.CONNECT, 600)
        # Mosquitto does not persist a session that began with a clean start, whatever its expiry.
        try:
            self._client.connect(host, port, clean_start=False, properties=properties)
        except OSError as error:
            raise ConnectionError(f"broker {address!r} cannot be reached: {error}") from error
        self._client.loop_start()

    def close(self) -> None:
        """End the connection and its session."""
        self._client.disconnect(properties=_properties(PacketTypes.DISCONNECT, 0))
        self._client.loop_stop()

    def _on_connect(self, client: Client, *_: Any) -> None:
        client.subscribe(self._topic, qos=1)

    def _on_subscribe(self, *_: Any) -> None:
        self.ready.set()

    def _on_message(self, client: Client, data: Any, message: MQTTMessage) -> None:
        self._totals.add(self._site, message.payload)


def _properties(packet: int, session_expiry: int) -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = session_expiry
    return properties


def show(value: Mapping[str, Any]) -> None:
    """Print an object on a line of its own."""
    print(json.dumps(value), flush=True)


def follow(totals: Followed) -> None:
    """Print the totals after each change, until standard input ends."""
    while not select.select([sys.stdin], [], [], _INTERVAL)[0]:
        if totals.changed.is_set():
            totals.changed.clear()
            show(totals.report())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(description="Follow and add up the statistics of the road-traffic jobs.")
    parser.add_argument(
        "--local",
        action="append",
        default=[],
        metavar="SITE=ADDRESS[/TOPIC]",
        help=f"a site's broker, and the topic of its statistics there [default: {LOCAL_TOPIC}]",
    )
    parser.add_argument(
        "--overall", required=True, metavar="ADDRESS", help="the broker of the global statistics"
    )
    options = parser.parse_args(arguments)
    totals, subscriptions = Totals(), []
    try:
        for site, _, address in (each.partition("=") for each in options.local):
            topic = urlsplit(address).path.strip("/") or LOCAL_TOPIC
            subscriptions.append(Subscription(address, topic, site, totals))
        subscriptions.append(Subscription(options.overall, OVERALL_TOPIC, OVERALL, totals))
        if not all(subscription.ready.wait(30) for subscription in subscriptions):
            raise TimeoutError("a broker did not answer the subscription in 30 s")
        show({"ready": True})
        follow(totals)
    except (OSError, ValueError) as error:
        print(f"watch: {error}", file=sys.stderr)
        return 1
    finally:
        for subscription in subscriptions:
            subscription.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
