"""A publisher with QoS 1, with a bounded number of unacknowledged messages, that survives broker restarts.

Delivery is at least once: after a lost connection, unacknowledged messages are sent again.
"""

from __future__ import annotations

import math
import select
import time
import uuid
from typing import Any
from urllib.parse import urlsplit

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

_SCHEMES = {"tcp": 1883, "mqtt": 1883, "mqtts": 8883, "ssl": 8883}
_SECURE = {"mqtts", "ssl"}
_RECEIVE_MAXIMUM = 65_535  # of a broker that names none (MQTT 5, section 3.2.2.3.3)
_TRANSIENT = {0x89, 0x8B}  # server busy, server shutting down (MQTT 5, section 3.14.2.1)

_CONNECT_TIMEOUT = 5.0  # s
_BATCH = 100  # messages that are sent together
_MAX_FRUITLESS = 6  # connections in a row without an acknowledgement


class PublishError(Exception):
    """The broker cannot be reached, or refuses a message."""


def packet_size(topic: str, payload: bytes) -> int:
    """The bytes of a PUBLISH packet with QoS 1 and no properties (MQTT 5, sections 2.1 and 3.3)."""
    # The topic with its length, the packet's id, no properties, and the payload.
    remaining = 2 + len(topic.encode()) + 2 + 1 + len(payload)
    return 1 + -(-remaining.bit_length() // 7) + remaining


def client_of(address: str, name: str) -> tuple[Client, str, int]:
    """A client of MQTT 5 for a broker, not connected yet, and the broker's host and port.

    The client id begins with ``name``.  Raises :class:`ValueError` for a malformed address.
    """
    url = urlsplit(address)
    try:
        default = _SCHEMES[url.scheme]
        host, port = url.hostname, url.port or default
    except (KeyError, ValueError):
        host, port = None, 0
    if not host:
        raise ValueError(
            f"{address!r} is not a broker address (expected tcp://HOST:PORT or mqtts://HOST:PORT)"
        )
    client_id = f"{name}-{uuid.uuid4().hex[:12]}"
    client = Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5)
    if url.scheme in _SECURE:
        client.tls_set()
    return client, host, port


class Publisher:
    """One connection to one broker, driven by its owner's thread alone.

    ``window`` is the maximum of unacknowledged messages (the broker may set a lower one), ``outage`` the
    longest outage of the broker (s); ``unacknowledged`` is the number of unacknowledged messages.  A thread
    for each client would cost 1.5 times the processor time.
    """

    def __init__(self, address: str, window: int = 1000, outage: float = 60.0) -> None:
        """Prepare the connection, which is opened when it is needed.  Raises :class:`ValueError`."""
        self.address = address
        self._max_window, self._window = window, 0
        self._largest = math.inf  # bytes of a packet
        self.unacknowledged = self._fruitless = 0
        self._client, host, port = client_of(address, "feeder")
        self._set_up(self._client)
        self._client.connect_async(host, port)
        self._retrying = Retrying(
            retry=retry_if_exception_type(OSError),
            stop=stop_after_delay(outage),
            wait=wait_exponential(multiplier=0.05, max=2),
            reraise=True,
        )

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send a message; waits while too many are unacknowledged.  Raises :class:`PublishError`.

        With ``retain``, the broker keeps it as the last one of its topic.
        """
        if not self._window:  # The broker's limits arrive with its CONNACK.
            self.exchange(0.0)
        # It would close the connection, and often before its reason can be read.
        if (size := packet_size(topic, payload)) > self._largest:
            limit = f"takes packets of at most {self._largest:,} bytes"
            raise PublishError(f"broker {self.address!r} {limit} (a message on {topic!r} has {size:,})")
        if self.unacknowledged >= self._window:
            self._await_unacknowledged(self._window // 2)
        elif self.unacknowledged % _BATCH == 0:
            self.exchange(0.0)
        if self._client.publish(topic, payload, qos=1, retain=retain).rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            raise PublishError(f"broker {self.address!r} left a message unacknowledged for 65535 messages")
        self.unacknowledged += 1

    def flush(self) -> None:
        """Wait until everything is acknowledged.  Raises :class:`PublishError`."""
        self._await_unacknowledged(0)

    def exchange(self, seconds: float) -> None:
        """Send and receive, waiting for ``seconds`` at most; connects if there is no connection.

        Raises :class:`PublishError`.
        """
        if self._client.socket() is None:
            self._connect()
        self._send_and_receive(seconds)

    def close(self) -> None:
        """Disconnect; unacknowledged messages are dropped."""
        self._client.disconnect()
        self._client.loop_write()

    def _set_up(self, client: Client) -> None:
        # With a limit, paho would search all messages for one to send at each acknowledgement.
        client.max_inflight_messages_set(0)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        # Without it, paho would serve the socket at each message, rather than at each exchange.
        client.on_socket_register_write = lambda *_: None

    def _await_unacknowledged(self, most: int) -> None:
        while self.unacknowledged > most:
            self.exchange(1.0)

    def _send_and_receive(self, seconds: float) -> None:
        client, connection = self._client, self._client.socket()
        if connection is None:
            return
        writing = [connection] if client.want_write() else []
        readable, writable, _ = select.select([connection], writing, [], seconds)
        if readable:
            client.loop_read()
        if writable:
            client.loop_write()
        client.loop_misc()

    def _connect(self) -> None:
        try:
            self._retrying(self._try_to_connect)
        except OSError as error:
            raise PublishError(f"broker {self.address!r} cannot be reached: {error}") from error

    def _try_to_connect(self) -> None:
        self._client.reconnect()
        deadline = time.monotonic() + _CONNECT_TIMEOUT
        while not self._client.is_connected():
            if self._client.socket() is None:
                raise ConnectionError("the broker closed the connection")
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {_CONNECT_TIMEOUT:g} s")
            self._send_and_receive(0.1)

    def _on_connect(
        self,
        client: Client,
        data: Any,
        flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            raise PublishError(f"broker {self.address!r} refused the connection: {reason}")
        # Mosquitto 2.0 often closes the connection before the reason of a refusal is read.
        self._fruitless = self._fruitless + 1 if self.unacknowledged else 0
        if self._fruitless > _MAX_FRUITLESS:
            event = f"ended {_MAX_FRUITLESS} connections in a row without an acknowledgement"
            raise PublishError(f"broker {self.address!r} {event}")
        self._window = min(self._max_window, getattr(properties, "ReceiveMaximum", _RECEIVE_MAXIMUM))
        self._largest = getattr(properties, "MaximumPacketSize", math.inf)

    def _on_disconnect(
        self, client: Client, data: Any, flags: DisconnectFlags, reason: ReasonCode, *_: object
    ) -> None:
        if flags.is_disconnect_packet_from_server and reason.value not in _TRANSIENT:
            raise PublishError(f"broker {self.address!r} ended the connection: {reason}")

    def _on_publish(self, client: Client, data: Any, number: int, reason: ReasonCode, *_: object) -> None:
        if reason.is_failure:
            raise PublishError(f"broker {self.address!r} refused a message: {reason}")
        self.unacknowledged -= 1
        self._fruitless = 0
