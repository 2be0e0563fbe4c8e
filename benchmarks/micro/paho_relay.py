"""Relays with paho: every message of one topic is passed to another, QoS 1 both ways.

``python -m benchmarks.paho_relay PORT FROM TO`` prints ``ready`` once it is subscribed; SIGTERM ends it.  It
is what :mod:`benchmarks.micro.hop` measures an engine's hop against, so nothing is done for a message but to
publish it, and paho's own limit of messages under way, which costs a search at each acknowledgement, is off.

paho numbers what it sends from 1 to 65,535, and drops a message when its number is still in use.  So a relay
on one connection, the plainest and quickest, loses messages once it is that far behind.  On two connections,
the receiving one waits while too many are under way on the sending one, and nothing is lost in a flood.

With ``--keep NAME`` both sessions are kept over a restart, and a message is acknowledged once the broker that
it goes to has acknowledged it: a relay that is killed loses nothing, and repeats what was under way.
``--mqtt 3`` is for brokers without MQTT 5.
"""

from __future__ import annotations

import argparse
import queue
import threading
from collections import deque

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
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


def on_two_connections(port: int, to: int, sink: str) -> paho.Client:
    """Publishes on another connection, which has a thread of its own."""
    receiver, sender = client(port), client(to)
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


def kept(port: int, name: str, mqtt: int, *, manual_ack: bool = False) -> paho.Client:
    """A client whose session of this name is kept.

    The broker sends it :data:`UNDER_WAY` messages at most, by MQTT 3 as many as the broker is set to.
    """
    if mqtt == 3:
        made = paho.Client(CallbackAPIVersion.VERSION2, name, clean_session=False, manual_ack=manual_ack)
        made.max_inflight_messages_set(0)
        made.connect("127.0.0.1", port)
        return made
    made = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5, manual_ack=manual_ack)
    made.max_inflight_messages_set(0)
    asked = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    asked.SessionExpiryInterval, asked.ReceiveMaximum = 0xFFFFFFFF, UNDER_WAY
    made.connect("127.0.0.1", port, clean_start=False, properties=asked)
    return made


class Acknowledging:
    """Acknowledges each message that was received, in order, once it was sent on.

    A thread of its own does so: the callback of an acknowledgement holds locks that :meth:`publish` needs.
    """

    def __init__(self, receiver: paho.Client) -> None:
        self._receiver = receiver
        # Of a forwarded message: its id, and that of the message received.  Of an acknowledged one: its id.
        self._events: queue.SimpleQueue[tuple[int, int] | int] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="acknowledge", daemon=True).start()

    def under_way(self, sent: int, received: int) -> None:
        """Note a message that was forwarded, and is not acknowledged yet."""
        self._events.put((sent, received))

    def taken(self, sent: int) -> None:
        """The broker has acknowledged a message."""
        self._events.put(sent)

    def _run(self) -> None:
        waiting: deque[tuple[int, int]] = deque()
        taken: set[int] = set()
        while True:
            event = self._events.get()
            taken.add(event) if isinstance(event, int) else waiting.append(event)
            while waiting and waiting[0][0] in taken:
                sent, received = waiting.popleft()
                taken.remove(sent)
                self._receiver.ack(received, 1)


def acknowledged_late(port: int, to: int, sink: str, name: str, mqtt: int) -> paho.Client:
    """Keeps its sessions, and acknowledges what the other broker has taken."""
    receiver, sender = kept(port, f"{name}-in", mqtt, manual_ack=True), kept(to, f"{name}-out", mqtt)
    acknowledging = Acknowledging(receiver)

    def forward(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        acknowledging.under_way(sender.publish(sink, message.payload, qos=1).mid, message.mid)

    sender.on_publish = lambda _client, _userdata, mid, _code, _properties: acknowledging.taken(mid)
    receiver.on_message = forward
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
    parser.add_argument("--to", type=int, metavar="PORT", help="of the broker written to, if it is another")
    parser.add_argument("--keep", metavar="NAME", help="keep sessions of this name, and acknowledge late")
    parser.add_argument("--mqtt", type=int, choices=(3, 5), default=5, help="version, with --keep")
    options = parser.parse_args()
    if options.connections == 1 and (options.to or options.keep):
        parser.error("--to and --keep need two connections (expected --connections 2)")
    to = options.to or options.port
    if options.keep:
        receiver = acknowledged_late(options.port, to, options.sink, options.keep, options.mqtt)
    elif options.connections == 1:
        receiver = on_one_connection(options.port, options.sink)
    else:
        receiver = on_two_connections(options.port, to, options.sink)
    receiver.on_subscribe = subscribed

    def subscribe(*_: object) -> None:
        receiver.subscribe(options.source, qos=1)

    receiver.on_connect = subscribe  # at each connection: the broker may have lost the session
    receiver.loop_forever()


if __name__ == "__main__":
    main()
