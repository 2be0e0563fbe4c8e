"""Relays with paho: every message of one topic goes on to another, QoS 1 both ways.

``python -m benchmarks.paho_relay PORT FROM TO`` prints ``ready`` once it is subscribed; SIGTERM ends it.  It
is what :mod:`benchmarks.micro.hop` measures an engine's hop against, so nothing is done for a message but to
publish it, and paho's own limit of messages under way, which costs a search at each acknowledgement, is off.

paho numbers what it sends from 1 to 65,535, and drops a message when its number is still in use.  So a relay
on one connection, the plainest and quickest, loses messages once it is that far behind.  On two connections,
the receiving one waits while too many are under way on the sending one, and nothing is lost in a flood.
"""

from __future__ import annotations

import argparse
import threading

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

UNDER_WAY = 1000  # messages


def client(port: int) -> paho.Client:
    """A client that is connected to the broker on this loopback port."""
    made = paho.Client(CallbackAPIVersion.VERSION2)
    made.max_inflight_messages_set(0)
    made.connect("127.0.0.1", port)
    return made


def on_one_connection(port: int, sink: str) -> paho.Client:
    """Publishes on the connection on which it receives."""
    both = client(port)

    def forward(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        both.publish(sink, message.payload, qos=1)

    both.on_message = forward
    return both


def on_two_connections(port: int, sink: str) -> paho.Client:
    """Publishes on another connection, which has a thread of its own."""
    receiver, sender = client(port), client(port)
    room = threading.Semaphore(UNDER_WAY)

    def forward(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        room.acquire()
        sender.publish(sink, message.payload, qos=1)

    def sent(
        _client: paho.Client, _userdata: object, _mid: int, _code: ReasonCode, _properties: Properties
    ) -> None:
        room.release()

    receiver.on_message = forward
    sender.on_publish = sent
    sender.loop_start()
    return receiver


def subscribed(
    _client: paho.Client,
    _userdata: object,
    _mid: int,
    _codes: list[ReasonCode],
    _properties: Properties | None,
) -> None:
    """Say that messages can come."""
    print("ready", flush=True)


def main() -> None:
    """Read the command line and relay for ever."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("sink", metavar="TO")
    parser.add_argument("--connections", type=int, choices=(1, 2), default=2)
    options = parser.parse_args()
    make = on_one_connection if options.connections == 1 else on_two_connections
    receiver = make(options.port, options.sink)
    receiver.on_subscribe = subscribed
    receiver.subscribe(options.source, qos=1)
    receiver.loop_forever()


if __name__ == "__main__":
    main()
