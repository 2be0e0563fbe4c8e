"""A plain relay with paho: every message of one topic goes on to another, QoS 1 both ways.

``python -m benchmarks.paho_relay PORT FROM TO`` prints ``ready`` once it is subscribed; SIGTERM ends it.
It is what :mod:`benchmarks.hop` measures an engine's hop against, so it does nothing for a message but to publish
it, and has paho's own limit of messages under way off, which costs it a search at every acknowledgement.

It must not lose messages either.  paho numbers what it sends from 1 to 65,535 and silently drops a message when
its number is still in use: a relay that reads on while acknowledgements lag loses messages in a flood.  With
``--connections 1`` a message is acknowledged when what was sent for it is, and the broker keeps to the
number of unacknowledged ones that was asked for (MQTT 5, Receive Maximum); with 2, the receiving connection waits
while too many are under way on the sending one.
"""

from __future__ import annotations

import argparse
import threading

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

UNDER_WAY = 1000  # messages


def client(port: int, manual_ack: bool = False) -> paho.Client:
    """A client that is connected to the broker on this loopback port."""
    made = paho.Client(
        CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=manual_ack
    )
    made.max_inflight_messages_set(0)
    limits = Properties(PacketTypes.CONNECT)
    limits.ReceiveMaximum = UNDER_WAY
    made.connect("127.0.0.1", port, properties=limits)
    return made


def on_one_connection(port: int, sink: str) -> paho.Client:
    """Acknowledges what it received when what it sent is acknowledged."""
    both = client(port, manual_ack=True)
    received: dict[int, int] = {}

    def forward(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        received[both.publish(sink, message.payload, qos=1).mid] = message.mid

    def sent(
        _client: paho.Client, _userdata: object, mid: int, _code: ReasonCode, _properties: Properties
    ) -> None:
        both.ack(received.pop(mid), 1)

    both.on_message = forward
    both.on_publish = sent
    return both


def on_two_connections(port: int, sink: str) -> paho.Client:
    """Acknowledges on receipt; publishes on another connection, which has a thread of its own."""
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
    parser.add_argument("--connections", type=int, choices=(1, 2), default=1)
    options = parser.parse_args()
    make = on_one_connection if options.connections == 1 else on_two_connections
    receiver = make(options.port, options.sink)
    receiver.on_subscribe = subscribed
    receiver.subscribe(options.source, qos=1)
    receiver.loop_forever()


if __name__ == "__main__":
    main()
