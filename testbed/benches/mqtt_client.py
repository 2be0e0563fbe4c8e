"""A client of an MQTT broker, for tests that send messages to jobs and count those that these send."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from speck.core.job import Job


class MqttClient:
    """Sends messages to a broker, and collects those that the jobs send."""

    def __init__(self, port: int, topics: str = "out/#") -> None:
        self.received: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, f"test-{uuid.uuid4().hex}", protocol=paho.MQTTv5
        )
        subscribed = threading.Event()
        self._client.on_message = self._receive
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._client.subscribe(topics, 1)
        assert subscribed.wait(30)

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
