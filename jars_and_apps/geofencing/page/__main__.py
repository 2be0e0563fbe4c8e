"""Serve the map of geofencing: movers, fences and events, live from the brokers.

    python -m jars_and_apps.geofencing.page --broker A=tcp://127.0.0.1:1883 --broker B=... --cloud tcp://...

``--broker`` names the brokers at which movers send positions, ``--cloud`` that of fences and events.  Prints
the address of the page once all subscriptions exist.  A fence that is drawn there is published to the cloud's
broker, retained.  The program ends with SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
import ipaddress
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from waitress.server import create_server

from jars_and_apps.geofencing.feeder import site_address
from jars_and_apps.geofencing.page.web import MOST, Unreachable, create_app
from jars_and_apps.geofencing.page.world import World
from jars_and_apps.road_traffic.publisher import Publisher, PublishError
from jars_and_apps.road_traffic.watch import Subscription

_THREADS = MOST + 4
_OUTAGE = 5.0  # s for which a message waits for its broker


class Taken:
    """Hands each message of a subscription to a function."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def add(self, site: str, payload: bytes | bytearray) -> None:
        """Take a message."""
        self._take(bytes(payload))


class Drawn(Subscription):
    """A subscription to fences, of which the topics count."""

    def __init__(self, address: str, world: World) -> None:
        self._world = world
        super().__init__(address, "fences/+", "fences", Taken(lambda _: None))

    def _on_message(self, client: Client, data: Any, message: MQTTMessage) -> None:
        self._world.drawn(message.topic, bytes(message.payload), retained=message.retain)


def subscriptions(world: World, brokers: Mapping[str, str], cloud: str) -> list[Subscription]:
    """Subscriptions to everything that the map shows."""
    found = [
        Subscription(address, "geo/positions", site, Taken(partial(world.positions, site)))
        for site, address in brokers.items()
    ]
    topics = {"events": world.events, "admitted": world.record, "compared": world.comparison}
    found += [Subscription(cloud, topic, topic, Taken(take)) for topic, take in topics.items()]
    return [*found, Drawn(cloud, world)]


class Outbox:
    """Publishes single messages to a broker, from any thread."""

    def __init__(self, address: str) -> None:
        self._address, self._lock = address, threading.Lock()

    def publish(self, topic: str, payload: bytes, retain: bool) -> None:
        """Publish a message.  Raises :class:`Unreachable`."""
        with self._lock:
            publisher = Publisher(self._address, outage=_OUTAGE)
            try:
                publisher.publish(topic, payload, retain=retain)
                publisher.flush()
            except (OSError, PublishError) as error:
                raise Unreachable(str(error)) from error
            finally:
                publisher.close()


def serve(world: World, outbox: Outbox, sites: Sequence[str], host: str, port: int) -> None:
    """Serve the page until the process is asked to end; prints its address."""
    app = create_app(world, outbox.publish, list(sites))
    server: Any = create_server(app, host=host, port=port, threads=_THREADS)
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{server.effective_port}", flush=True)
    server.run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m jars_and_apps.geofencing.page", description="Serve the map of geofencing."
    )
    add = parser.add_argument
    help_ = "a broker at which movers send positions (may be repeated)"
    add("--broker", action="append", required=True, type=site_address, metavar="SITE=ADDRESS", help=help_)
    add("--cloud", required=True, metavar="ADDRESS", help="the broker of fences and events")
    add("--host", type=_number, default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    add("--port", type=int, default=8190, help="0: any that is free (default: 8190)")
    options = parser.parse_args(arguments)
    world, found = World(), list[Subscription]()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _interrupt(world))
    try:
        found += subscriptions(world, dict(options.broker), options.cloud)
        if not all(each.ready.wait(30) for each in found):
            raise TimeoutError("a broker did not answer the subscriptions in 30 s")
        outbox = Outbox(options.cloud)
        # Visits that began before are known by an answer about all movers.
        outbox.publish("tracks/questions", b'{"question":"page","all":true}', False)
        serve(world, outbox, [site for site, _ in options.broker], options.host, options.port)
    except KeyboardInterrupt:
        return 0
    except (OSError, ValueError, OverflowError, Unreachable) as error:
        print(f"page: {error}", file=sys.stderr)
        return 1
    finally:
        for each in found:
            each.close()
    return 0


def _interrupt(world: World) -> None:
    world.end()  # the streams, for which the server waits
    raise KeyboardInterrupt


def _number(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an address (expected a number such as 127.0.0.1)"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
