"""The sites of a trial, and messages that are sent through it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from testbed.faults.compositions import IN, OUT
from testbed.faults.witness import Engine, FlinkWitness, MosquittoWitness, SparkWitness
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer

_PATIENCE = 60.0


@dataclass(frozen=True)
class Place:
    """A site: its engine and broker, and what an inventory says of it beside their addresses."""

    engine: Engine
    broker: MosquittoWitness
    known: Mapping[str, str]


def flink_places(stack: ExitStack, directory: Path) -> dict[str, Place]:
    """Two sites with a small Flink cluster and a Mosquitto each, up for as long as the stack is."""
    shared = _shared(directory, "checkpoint_dir", "savepoint_dir")

    def place(site: str) -> Place:
        cluster = FlinkServer(directory / f"flink-{site}", heap="192m", slots=8, small=True)
        broker = _broker(stack, directory / f"broker-{site}")
        return Place(FlinkWitness(stack.enter_context(cluster).address), broker, shared)

    return {site: place(site) for site in "AB"}


def spark_places(stack: ExitStack, directory: Path) -> dict[str, Place]:
    """The same with a Spark Connect server each."""
    shared = _shared(directory, "checkpoint_dir")

    def place(site: str) -> Place:
        server = stack.enter_context(SparkServer(directory / f"spark-{site}"))
        return Place(SparkWitness(server), _broker(stack, directory / f"broker-{site}"), shared)

    return {site: place(site) for site in "AB"}


def _shared(directory: Path, *names: str) -> dict[str, str]:
    return {name: (directory / name).as_uri() for name in names}


def _broker(stack: ExitStack, directory: Path) -> MosquittoWitness:
    broker = stack.enter_context(MosquittoServer(directory))
    return MosquittoWitness(broker.address, broker.pid, directory / "mosquitto.db")


def await_cleared(place: Place) -> None:
    """Wait until the engine of a site runs nothing, and have its broker forget every session and note."""
    deadline = time.monotonic() + _PATIENCE
    while place.engine.running() and time.monotonic() < deadline:
        time.sleep(0.05)
    state = place.broker.read()
    for session in state.sessions:
        _as_client(place.broker.address, session, ())
    _as_client(place.broker.address, "", state.retained)


def _as_client(address: str, client_id: str, cleared: Iterable[str]) -> None:
    """Take a session over and let it end; delete the messages retained on these topics."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", int(address.rpartition(":")[2]), clean_start=True)
    client.loop_start()
    for topic in cleared:
        client.publish(topic, b"", 1, retain=True).wait_for_publish(30)
    client.disconnect()
    client.loop_stop()


class Probe:
    """Sends messages into the composition and keeps its outputs."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self.received: list[str] = []
        self._changed = threading.Condition()
        self._in, self._out = (self._connected(places[name].broker.address) for name in ("A", "B"))
        self._out.on_message = self._keep
        self._out.subscribe(OUT, 1)

    def send(self, text: str) -> None:
        """Publish one message, and wait until the broker has it."""
        self._in.publish(IN, text, 1).wait_for_publish(30)

    def await_output(self, expected: Sequence[str], seconds: float) -> bool:
        """Wait for the expected output; true if nothing else came."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.received) >= len(expected), seconds)
            return self.received == list(expected)

    def close(self) -> None:
        """Let go of the brokers."""
        for client in (self._in, self._out):
            client.disconnect()
            client.loop_stop()

    def _connected(self, address: str) -> paho.Client:
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.connect("127.0.0.1", int(address.rpartition(":")[2]))
        client.loop_start()
        return client

    def _keep(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        with self._changed:
            self.received.append(message.payload.decode())
            self._changed.notify_all()
