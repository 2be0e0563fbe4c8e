"""A publisher with QoS 1 that is never far ahead of its broker, and outlives a restart of it.

It delivers at least once: after a lost connection, what was not acknowledged is sent again.
"""

from __future__ import annotations

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
_PASSING = {0x89, 0x8B}  # server busy, server shutting down (MQTT 5, section 3.14.2.1)

_PATIENCE_OF_ONE_TRY = 5.0  # s
_GATHERED = 100  # messages that wait for each other
_IN_VAIN = 6  # connections in a row on which nothing is acknowledged


class PublishError(Exception):
    """The broker cannot be reached, or refuses what it is sent."""


def client_of(address: str, name: str) -> tuple[Client, str, int]:
    """A client of MQTT 5 for this broker, not connected yet, and the broker's host and port.

    Its id begins with ``name``.  Raises :class:`ValueError` when ``address`` is none.
    """
    url = urlsplit(address)
    try:
        host, port = url.hostname, url.port or _SCHEMES[url.scheme]
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

    ``window`` is the most messages unacknowledged at a time (the broker may ask for fewer), ``patience`` how
    long (s) the broker may be away; ``unacknowledged`` counts the messages whose acknowledgement is awaited.
    A thread for each client would take half as much processor time again.
    """

    def __init__(self, address: str, window: int = 1000, patience: float = 60.0) -> None:
        """Prepare the connection; it is made when it is needed.  Raises :class:`ValueError`."""
        self.address = address
        self._desired_window, self._window = window, 0
        self.unacknowledged = self._in_vain = 0
        self._client, host, port = client_of(address, "feeder")
        self._set_up(self._client)
        self._client.connect_async(host, port)
        self._retrying = Retrying(
            retry=retry_if_exception_type(OSError),
            stop=stop_after_delay(patience),
            wait=wait_exponential(multiplier=0.05, max=2),
            reraise=True,
        )

    def publish(self, topic: str, payload: bytes) -> None:
        """Send a message; waits while too many are unacknowledged.  Raises :class:`PublishError`."""
        if not self._window:  # The broker says how many it takes when it is connected.
            self.service(0.0)
        if self.unacknowledged >= self._window:
            self._await_unacknowledged(self._window // 2)
        elif self.unacknowledged % _GATHERED == 0:
            self.service(0.0)
        if self._client.publish(topic, payload, qos=1).rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            raise PublishError(f"broker {self.address!r} left a message unacknowledged for 65535 messages")
        self.unacknowledged += 1

    def flush(self) -> None:
        """Wait until everything is acknowledged.  Raises :class:`PublishError`."""
        self._await_unacknowledged(0)

    def service(self, seconds: float) -> None:
        """Send and receive what can be, waiting so long (s) at most; connects where there is no connection.

        Raises :class:`PublishError`.
        """
        if self._client.socket() is None:
            self._connect()
        self._exchange(seconds)

    def close(self) -> None:
        """Disconnect; what is unacknowledged is given up."""
        self._client.disconnect()
        self._client.loop_write()

    def _set_up(self, client: Client) -> None:
        # At each acknowledgement, paho searches all messages for one to send, unless it may send all at once.
        client.max_inflight_messages_set(0)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        # Without it, paho would look after the connection at each message, rather than at each turn.
        client.on_socket_register_write = lambda *_: None

    def _await_unacknowledged(self, most: int) -> None:
        while self.unacknowledged > most:
            self.service(1.0)

    def _exchange(self, seconds: float) -> None:
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
        deadline = time.monotonic() + _PATIENCE_OF_ONE_TRY
        while not self._client.is_connected():
            if self._client.socket() is None:
                raise ConnectionError("the broker closed the connection")
            if time.monotonic() > deadline:
                raise TimeoutError(f"it says nothing for {_PATIENCE_OF_ONE_TRY:g} s")
            self._exchange(0.1)

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
        # Mosquitto 2.0 often hangs up on what it refuses before its reason is read.
        self._in_vain = self._in_vain + 1 if self.unacknowledged else 0
        if self._in_vain > _IN_VAIN:
            words = f"ended {_IN_VAIN} connections in a row without an acknowledgement"
            raise PublishError(f"broker {self.address!r} {words}")
        self._window = min(self._desired_window, getattr(properties, "ReceiveMaximum", _RECEIVE_MAXIMUM))

    def _on_disconnect(
        self, client: Client, data: Any, flags: DisconnectFlags, reason: ReasonCode, *_: object
    ) -> None:
        if flags.is_disconnect_packet_from_server and reason.value not in _PASSING:
            raise PublishError(f"broker {self.address!r} ended the connection: {reason}")

    def _on_publish(self, client: Client, data: Any, number: int, reason: ReasonCode, *_: object) -> None:
        if reason.is_failure:
            raise PublishError(f"broker {self.address!r} refused a message: {reason}")
        self.unacknowledged -= 1
        self._in_vain = 0
