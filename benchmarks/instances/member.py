"""A member of a shared subscription, and a writer, both as the connectors are: QoS 1, MQTT 5, sessions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

TOPIC = "instances/in"
SHARED = "$share/instances/"  # before the topic
FOR_EVER = 0xFFFFFFFF
TIMEOUT = 30.0  # s
QUIET = 1.0  # s without a message, after which none is expected


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message that a member received: its number, the time (s, monotonic), and whether it is marked DUP."""

    number: int
    at: float
    repeated: bool


class Member:
    """A client whose session subscribes to the topic within a group, and keeps what it received.

    ``window`` is its Receive Maximum, ``expiry`` that of its session (s), ``works`` the time that it takes
    for a message (s), and without ``acknowledges`` it acknowledges nothing, as a job before its checkpoint.
    """

    def __init__(
        self,
        port: int,
        name: str,
        *,
        expiry: int = FOR_EVER,
        window: int = 100,
        works: float = 0.0,
        acknowledges: bool = True,
        group: str = SHARED,
    ) -> None:
        """Prepare a client; its session is made by :meth:`connect`."""
        self.received: list[Receipt] = []
        self.name, self._port, self._expiry, self._window = name, port, expiry, window
        self._works, self._acknowledges = works, acknowledges
        self._filter = group + TOPIC
        self._client: paho.Client | None = None

    @property
    def numbers(self) -> list[int]:
        """The numbers of the messages, in the order of their arrival, repetitions included."""
        return [each.number for each in self.received]

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def connect(self, acknowledges: bool | None = None, *, subscribe: bool = True) -> None:
        """Take the session, or make it, and subscribe.  Raises :class:`TimeoutError` without an answer."""
        if acknowledges is not None:
            self._acknowledges = acknowledges
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            self.name,
            protocol=paho.MQTTv5,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        ready = threading.Event()
        client.on_connect = lambda *_: self._begin(client, ready, subscribe=subscribe)
        client.on_subscribe = lambda *_: ready.set()
        client.on_message = self._take
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = self._expiry
        properties.ReceiveMaximum = self._window
        client.connect("127.0.0.1", self._port, clean_start=False, properties=properties)
        client.loop_start()
        if not ready.wait(TIMEOUT):
            raise TimeoutError(f"{self.name}: no answer to the connection within {TIMEOUT:g} s")
        self._client = client

    def _begin(self, client: paho.Client, ready: threading.Event, *, subscribe: bool) -> None:
        if subscribe:
            client.subscribe(self._filter, qos=1)
        else:
            ready.set()

    def die(self) -> None:
        """End the connection without a DISCONNECT packet, as a process that is killed."""
        if (client := self._client) is not None:
            client.loop_stop()
            if (socket := client.socket()) is not None:
                socket.close()
            self._client = None

    def leave(self) -> None:
        """Disconnect; the session stays for its expiry."""
        if (client := self._client) is not None:
            client.disconnect()
            client.loop_stop()
            self._client = None

    def unsubscribe(self) -> None:
        """Leave the group, and keep the session and what waits in it."""
        assert self._client is not None
        done = threading.Event()
        self._client.on_unsubscribe = lambda *_: done.set()
        self._client.unsubscribe(self._filter)
        if not done.wait(TIMEOUT):
            raise TimeoutError(f"{self.name}: no answer to the unsubscription within {TIMEOUT:g} s")

    def delete(self) -> None:
        """Delete the session by a clean start, as SpecK does."""
        self.leave()
        client = paho.Client(CallbackAPIVersion.VERSION2, self.name, protocol=paho.MQTTv5)
        connected = threading.Event()
        client.on_connect = lambda *_: connected.set()
        client.connect("127.0.0.1", self._port, clean_start=True)
        client.loop_start()
        if not connected.wait(TIMEOUT):
            raise TimeoutError(f"{self.name}: no answer to the connection within {TIMEOUT:g} s")
        client.disconnect()
        client.loop_stop()

    def _take(self, client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        if self._works:
            time.sleep(self._works)
        self.received.append(Receipt(int(message.payload), time.monotonic(), message.dup))
        if self._acknowledges:
            client.ack(message.mid, message.qos)


def publish(port: int, numbers: Iterable[int], rate: float | None = None) -> dict[int, float]:
    """Send the messages at QoS 1, at ``rate`` messages/s or at once; the times of sending (s, monotonic).

    Raises :class:`TimeoutError` if the broker does not acknowledge them.
    """
    client = paho.Client(CallbackAPIVersion.VERSION2, "writer", protocol=paho.MQTTv5)
    client.connect("127.0.0.1", port)
    client.loop_start()
    sent, last = {}, None
    for number in numbers:
        sent[number] = time.monotonic()
        last = client.publish(TOPIC, str(number), qos=1)
        if rate:
            time.sleep(1 / rate)
        else:
            last.wait_for_publish(TIMEOUT)
    if last is not None:
        last.wait_for_publish(TIMEOUT)
        if not last.is_published():
            raise TimeoutError(f"the broker acknowledged not all messages within {TIMEOUT:g} s")
    client.disconnect()
    client.loop_stop()
    return sent


def await_quiet(members: Iterable[Member]) -> None:
    """Wait until no member has received anything for a while."""
    everybody = list(members)
    await_that(
        lambda: all(
            not each.received or time.monotonic() - each.received[-1].at > QUIET for each in everybody
        ),
        after=QUIET,
    )


def await_that(condition: Callable[[], bool], after: float = 0.0) -> None:
    """Wait for a condition, for ``after`` seconds at least.  Raises :class:`TimeoutError`."""
    end = time.monotonic() + TIMEOUT
    time.sleep(after)
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {TIMEOUT:g} s")
        time.sleep(0.05)
