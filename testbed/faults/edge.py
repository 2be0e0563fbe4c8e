"""Messages that a publishing device can lose at the edge of a composition when its broker is killed.

``python -m benchmarks.promises edge``.  The last line (or the JSON object with ``--json``) has ``messages``,
``lost`` and ``doubled``; no promise is made for them.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from binders.mqtt import MqttBroker
from speck.core.inventory import Inventory
from testbed.faults.rig import Account, paho_client
from testbed.faults.witness import MosquittoWitness
from testbed.results import add_output_options, published
from testbed.servers.mosquitto import MosquittoServer
from testbed.waiting import await_that

SESSION = "speck-edge"


def kill_edge_broker(messages: int, rate: float = 500.0) -> Account:
    """Publish at QoS 1 into a session, kill the broker, and read what the session still has.

    Lost is what the broker acknowledged and does not have.  It saves every 5 s, as recommended, and has
    saved the session before the first message, however few they are.
    """
    with tempfile.TemporaryDirectory(prefix="speck-edge-") as directory:
        broker = MosquittoServer(Path(directory), "autosave_interval 5")
        with broker:
            MqttBroker(broker.address, Inventory()).ensure_session(SESSION, "edge")
            saved = MosquittoWitness(broker.address, broker.pid, Path(directory) / "mosquitto.db").read()
            if SESSION not in saved.sessions:
                raise RuntimeError(f"{broker.address} did not save the session {SESSION}")
            acknowledged = _publish(broker, messages, rate)
            broker.kill()
            broker.start()
            found = _read(broker)
    counts = {text: found.count(text) for text in set(found)}
    lost = sum(text not in counts for text in acknowledged)
    return Account(len(acknowledged), lost, sum(count - 1 for count in counts.values()))


def _publish(broker: MosquittoServer, messages: int, rate: float) -> list[str]:
    client, begun, sent = paho_client(broker), time.monotonic(), []
    for number in range(messages):
        sent.append(client.publish("edge", str(number), 1))
        ahead = begun + number / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    for each in sent:
        each.wait_for_publish(60)
    client.disconnect()
    client.loop_stop()
    return [str(number) for number, each in enumerate(sent) if each.is_published()]


def _read(broker: MosquittoServer) -> list[str]:
    """All that waits in the session; a message of one's own, sent last, ends it."""
    found: list[str] = []
    ended = threading.Event()
    reader = paho.Client(CallbackAPIVersion.VERSION2, SESSION, protocol=paho.MQTTv5)

    def take(client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        text = message.payload.decode()
        if text == "end":
            ended.set()
        else:
            found.append(text)

    reader.on_message = take
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 60
    reader.connect("127.0.0.1", broker.port, clean_start=False, properties=properties)
    reader.loop_start()
    writer = paho_client(broker)
    writer.publish("edge", "end", 1).wait_for_publish(60)
    await_that(ended.is_set, bool, 60)
    for client in (reader, writer):
        client.disconnect()
        client.loop_stop()
    return found


def main(arguments: Sequence[str]) -> int:
    """Kill one broker."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises edge", description=__doc__)
    parser.add_argument("--messages", type=int, default=1500, help="that a device publishes")
    parser.add_argument("--rate", type=float, default=500.0, help="messages/s")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    found = kill_edge_broker(options.messages, options.rate)
    text = f"{found.messages} messages acknowledged, {found.lost} lost, {found.doubled} doubled"
    if not published(options, "promises-edge", asdict(found)):
        print(text)
    return 0
