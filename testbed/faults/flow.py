"""A steady stream of numbered messages, and who listens to what comes of it."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count, pairwise
from typing import Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from testbed.benches.mqtt_client import subscribe

_PATIENCE = 60.0  # s, for a broker to take what was sent


class Sent(Protocol):
    """A message that is under way."""

    def wait_for_publish(self, timeout: float | None = None) -> None:
        """Wait for the broker's acknowledgement, at most ``timeout`` s."""

    def is_published(self) -> bool:
        """True if the broker has acknowledged it."""


class Publisher(Protocol):
    """A connection that sends messages."""

    def publish(self, topic: str, payload: str, qos: int, /) -> Sent:
        """Send a message."""


@contextmanager
def client(address: str, protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5) -> Iterator[paho.Client]:
    """A connection with a thread of its own; ``address`` is ``tcp://HOST:PORT``."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    made = paho.Client(CallbackAPIVersion.VERSION2, f"trial-{uuid.uuid4().hex}", protocol=protocol)
    made.connect(host, int(port))
    made.loop_start()
    try:
        yield made
    finally:
        made.disconnect()
        made.loop_stop()


class Sender:
    """Sends ``text(0)``, ``text(1)``, ... to a topic, ``rate`` a second, until it is stopped.

    ``connect`` is of the broker's kind.
    """

    def __init__(
        self,
        address: str,
        topic: str,
        rate: float,
        text: Callable[[int], str],
        qos: int = 1,
        connect: Callable[[str], AbstractContextManager[Publisher]] = client,
    ) -> None:
        self.sent: list[str] = []
        self._address, self._topic, self._rate, self._text, self._qos = address, topic, rate, text, qos
        self._connect = connect
        self._going = threading.Event()
        self._thread = threading.Thread(target=self._send, name=f"send-{topic}")

    def start(self) -> Sender:
        """Begin to send."""
        self._going.set()
        self._thread.start()
        return self

    def stop(self) -> list[str]:
        """End; answers what was sent, all of which the broker has taken."""
        self._going.clear()
        if self._thread.ident is not None:
            self._thread.join()
        return self.sent

    def _send(self) -> None:
        with self._connect(self._address) as sender:
            begun = time.monotonic()
            under_way: list[Sent] = []
            for number in count():
                if not self._going.is_set():
                    break
                time.sleep(max(0.0, begun + number / self._rate - time.monotonic()))
                text = self._text(number)
                under_way.append(sender.publish(self._topic, text, self._qos))
                self.sent.append(text)
                if len(under_way) >= 500:
                    _await_taken(under_way)
            _await_taken(under_way)


def _await_taken(under_way: list[Sent]) -> None:
    for each in under_way:
        each.wait_for_publish(_PATIENCE)
    if not all(each.is_published() for each in under_way):
        raise RuntimeError(f"the broker took no message for {_PATIENCE:g} s")
    under_way.clear()


class Listener:
    """Keeps the messages of a topic, in order, with their times (s, of a monotonic clock).

    What leaves a composition comes at least once: a repetition is dropped by its stamp, as readers may do.
    """

    def __init__(self, connection: paho.Client, topic: str) -> None:
        self.received: list[tuple[float, str]] = []
        self._stamps: set[tuple[tuple[str, str], ...]] = set()
        subscribe(connection, topic, self._keep, _PATIENCE)

    def _keep(self, connection: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        stamp = tuple(sorted(getattr(message.properties, "UserProperty", ())))
        if stamp and stamp in self._stamps:
            return
        self._stamps.add(stamp)
        self.received.append((time.monotonic(), message.payload.decode()))

    def texts(self) -> Counter[str]:
        """The count of each text."""
        return Counter(text for _, text in list(self.received))

    def last_counts(self) -> Counter[str]:
        """Of messages ``WORD,COUNT``: the highest count of each word."""
        highest: Counter[str] = Counter()
        for _, text in list(self.received):
            word, _, number = text.rpartition(",")
            highest[word] = max(highest[word], int(number))
        return highest

    def longest_gap(self, since: float) -> float:
        """The longest time (s) without a message from ``since`` to the last message."""
        times = [since, *(at for at, _ in list(self.received) if at > since)]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def await_true(what: str, condition: Callable[[], bool], patience: float = 120.0) -> None:
    """Return when the condition holds.  Raises :class:`TimeoutError`, which says what was awaited."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not so after {patience:g} s")
        time.sleep(0.1)
