"""Clients of MQTT brokers, for tests that send messages to jobs and count those that these send."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from speck.core.job import Job


def subscribe(
    client: paho.Client,
    topics: str,
    take: Callable[[paho.Client, object, paho.MQTTMessage], None],
    patience: float = 30.0,
) -> None:
    """Have ``take`` called with the messages on some topics, at QoS 1, from a client that is connected.

    Returns once the broker has confirmed the subscription; raises :class:`TimeoutError` after ``patience`` s.
    """
    subscribed = threading.Event()
    client.on_message = take
    client.on_subscribe = lambda *_: subscribed.set()
    client.subscribe(topics, 1)
    if not subscribed.wait(patience):
        raise TimeoutError(f"no subscription to {topics!r} in {patience:g} s")


class MqttClient:
    """Sends messages to a broker, and collects those that the jobs send."""

    def __init__(self, port: int, topics: str = "out/#") -> None:
        self.received: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, f"test-{uuid.uuid4().hex}", protocol=paho.MQTTv5
        )
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        subscribe(self._client, topics, self._receive)

    def send(self, topic: str, values: Sequence[str | bytes]) -> None:
        sent = [self._client.publish(topic, value, 1) for value in values]
        for each in sent:
            each.wait_for_publish(30)

    def got(self, job: Job) -> list[str]:
        """The messages of a job so far, in order."""
        with self._lock:
            return [value for topic, value in self.received if topic == job.sink_topic]

    def got_bytes(self, job: Job) -> list[bytes]:
        """The contents of a job's messages so far, in order."""
        return [text.encode(errors="surrogateescape") for text in self.got(job)]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _receive(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        with self._lock:
            self.received.append((message.topic, message.payload.decode(errors="surrogateescape")))
