"""A plain relay with paho: every message of one topic goes on to another, QoS 1 both ways.

``python -m benchmarks.paho_relay PORT FROM TO`` prints ``ready`` once it is subscribed; SIGTERM ends it.
It is what :mod:`benchmarks.hop` measures an engine's hop against, so it is a quick one: nothing is done for a
message but to publish it, and paho's limit of messages under way, which costs it a search at every
acknowledgement, is off.  It acknowledges on receipt: when it dies, messages are lost.
"""

from __future__ import annotations

import argparse

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode


def client(port: int, in_flight: int) -> paho.Client:
    """A client that is connected to the broker on this loopback port; ``in_flight`` 0 means no limit."""
    made = paho.Client(CallbackAPIVersion.VERSION2)
    made.max_inflight_messages_set(in_flight)
    made.connect("127.0.0.1", port)
    return made


def relay(port: int, source: str, sink: str, connections: int, in_flight: int) -> None:
    """Relay for ever."""
    receiver = client(port, in_flight)
    sender = receiver
    if connections == 2:
        sender = client(port, in_flight)
        sender.loop_start()

    def forward(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        sender.publish(sink, message.payload, qos=1)

    def subscribed(
        _client: paho.Client,
        _userdata: object,
        _mid: int,
        _codes: list[ReasonCode],
        _properties: Properties | None,
    ) -> None:
        print("ready", flush=True)

    receiver.on_message = forward
    receiver.on_subscribe = subscribed
    receiver.subscribe(source, qos=1)
    receiver.loop_forever()


def main() -> None:
    """Read the command line and relay."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("sink", metavar="TO")
    parser.add_argument("--connections", type=int, choices=(1, 2), default=1)
    parser.add_argument("--in-flight", type=int, default=0, help="paho's own default is 20; 0: no limit")
    options = parser.parse_args()
    relay(options.port, options.source, options.sink, options.connections, options.in_flight)


if __name__ == "__main__":
    main()
