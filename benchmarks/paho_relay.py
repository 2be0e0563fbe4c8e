"""A plain relay with paho: every message of one topic goes on to another, QoS 1 both ways.

``python -m benchmarks.paho_relay PORT FROM TO [--connections 1|2]``; prints ``ready`` once it is subscribed, and ends
with SIGTERM.  It is what the Spark hop of :mod:`benchmarks.hop` is measured against, so it is quick: nothing is
done for a message but to publish it, and paho's limit of messages under way, which makes it look through all
of them at every acknowledgement, is off.  It acknowledges on receipt: when it dies, messages are lost.
"""

from __future__ import annotations

import argparse

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode


def client(port: int, name: str) -> paho.Client:
    """A client that is connected to the broker on this loopback port."""
    made = paho.Client(CallbackAPIVersion.VERSION2, client_id=name)
    made.max_inflight_messages_set(0)
    made.connect("127.0.0.1", port)
    return made


def relay(port: int, source: str, sink: str, connections: int) -> None:
    """Relay for ever."""
    receiver = client(port, "paho-relay")
    sender = receiver
    if connections == 2:
        sender = client(port, "paho-relay-out")
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("sink", metavar="TO")
    parser.add_argument("--connections", type=int, choices=(1, 2), default=1)
    options = parser.parse_args()
    relay(options.port, options.source, options.sink, options.connections)


if __name__ == "__main__":
    main()
