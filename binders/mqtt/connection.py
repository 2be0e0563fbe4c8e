"""One MQTT 5 connection for one purpose, driven by the thread that uses it.

It is the edge at which paho's errors, reason codes and sockets become SpecK's own errors.  There is no
background thread and no automatic reconnect: a call works within its time or raises.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from binders.common.tls_errors import tls_words
from binders.mqtt.address import BrokerAddress
from binders.mqtt.tls import ClosableContext, client_context
from speck.core.inventory import Login
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable

# MQTT 5, 3.1.2.11.2: a session that the server keeps until it is told to forget it.
FOREVER = 0xFFFFFFFF

# MQTT 5, 3.1.2.11.3: the most that can be asked for.
MOST_IN_FLIGHT = 65535

# Seconds that one connection and all that is done over it may take.
TIMEOUT = 10.0

_UNSPECIFIED = 0x80
_NO_SUBSCRIBER = 0x10
_KEEP_ALIVE = 30
_POLL = 0.5


class Connection:
    """A connection that is open as long as its ``with`` block; every call may raise a ``BinderError``.

    ``expiry`` is in seconds.  Messages received are not acknowledged unless :meth:`acknowledge` says so.
    """

    def __init__(
        self,
        address: BrokerAddress,
        login: Login,
        client_id: str,
        *,
        clean_start: bool = True,
        expiry: int = 0,
        receive_maximum: int = MOST_IN_FLIGHT,
        timeout: float = TIMEOUT,
    ) -> None:
        """Prepare the connection; it is made on entering the ``with`` block."""
        self.address = address
        self.client_id = client_id
        self.session_present = False
        self.limits = _properties(PacketTypes.CONNACK)
        self.received: deque[MQTTMessage] = deque()
        self._clean_start = clean_start
        self._properties = _properties(PacketTypes.CONNECT)
        self._properties.SessionExpiryInterval = expiry
        self._properties.ReceiveMaximum = receive_maximum
        self._timeout = timeout
        self._deadline = 0.0
        self._answers: dict[tuple[str, int], list[ReasonCode]] = {}
        self._end: ReasonCode | None = None
        self._connected = False
        self._tls: ClosableContext | None = None
        self._login = login
        self._client = self._make_client(login)

    # --- what a caller does ------------------------------------------------------------------------

    def subscribe(self, *topics: str, qos: int = 1, again: bool = False) -> None:
        """Subscribe to topic filters; retained messages are sent for a new subscription, or ``again``."""
        handling = (
            SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE if again else SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        )
        options = SubscribeOptions(qos=qos, retainHandling=handling)
        filters = [(topic, options) for topic in topics]
        with self._translated(f"subscription to {', '.join(map(repr, topics))}"):
            result, message_id = self._client.subscribe(filters)
            self._checked(result)
            assert message_id is not None  # noqa: S101 - given with every success
        for code in self._answer("SUBACK", message_id):
            self._refuse_if_failed(code, f"the subscription to {', '.join(map(repr, topics))}")

    def unsubscribe(self, topic: str) -> None:
        """Take a subscription back; of one that is not there: no error."""
        with self._translated(f"end of the subscription to {topic!r}"):
            result, message_id = self._client.unsubscribe(topic)
            self._checked(result)
            assert message_id is not None  # noqa: S101 - given with every success
        for code in self._answer("UNSUBACK", message_id):
            self._refuse_if_failed(code, f"the end of the subscription to {topic!r}")

    def retained(self, topic: str, echo: str) -> bytes | None:
        """What is retained on a topic.  ``echo`` is a topic of our own, as for :meth:`round_trip`.

        Asked in one go: the subscriptions, and the message that comes back behind what is retained.  It is
        sent with QoS 1, since a broker that does not take it says so then, and just hangs up otherwise.
        """
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE)
        with self._translated(f"subscription to {topic!r}"):
            result, message_id = self._client.subscribe([(topic, options), (echo, SubscribeOptions(qos=0))])
            self._checked(result)
            assert message_id is not None  # noqa: S101 - given with every success
            sent = self._client.publish(echo, b"", qos=1)
            self._checked(sent.rc)
        for code in self._answer("SUBACK", message_id):
            self._refuse_if_failed(code, f"the subscription to {topic!r}")
        for code in self._answer("PUBACK", sent.mid):
            self._refuse_if_failed(code, f"a message to {echo!r}")
        self._await(lambda: any(message.topic == echo for message in self.received), "what is retained")
        found = [message for message in self.received if message.topic == topic]
        for message in found:
            self.acknowledge(message)
        self.received = deque(message for message in self.received if message.topic not in (topic, echo))
        self._leave(topic, echo)
        return bytes(found[-1].payload) if found else None

    def _leave(self, *topics: str) -> None:
        """Take subscriptions back without waiting for the answer, which is dropped when it is there."""
        with self._translated("end of subscriptions"):
            result, _ = self._client.unsubscribe(list(topics))
            self._checked(result)
        self._answers = {key: codes for key, codes in self._answers.items() if key[0] != "UNSUBACK"}

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Publish one message with QoS 1 and wait until the broker has taken it.

        Answers whether anybody subscribed to the topic, where the broker tells (MQTT 5, 3.4.2.1).
        """
        with self._translated(f"message to {topic!r}"):
            sent = self._client.publish(topic, payload, qos=1, retain=retain)
            self._checked(sent.rc)
        (code,) = self._answer("PUBACK", sent.mid)
        self._refuse_if_failed(code, f"a message to {topic!r}")
        return code.value != _NO_SUBSCRIBER

    def publish_many(self, topic: str, payloads: Iterable[bytes], window: int) -> int:
        """Publish with QoS 1, at most ``window`` unanswered at a time; how many the broker turned down."""
        waiting: deque[int] = deque()
        refused = 0
        for payload in payloads:
            while len(waiting) >= window:
                refused += any(code.is_failure for code in self._answer("PUBACK", waiting.popleft()))
            with self._translated(f"message to {topic!r}"):
                sent = self._client.publish(topic, payload, qos=1)
                self._checked(sent.rc)
            waiting.append(sent.mid)
        return refused + sum(
            any(code.is_failure for code in self._answer("PUBACK", message_id)) for message_id in waiting
        )

    def round_trip(self, topic: str) -> None:
        """Wait until everything the broker had for us before is here: a message to ourselves has come back.

        ``topic`` must be one of our own, subscribed to.  Brokers deliver to one client in order.
        """
        with self._translated("round trip"):
            sent = self._client.publish(topic, b"", qos=0)
            self._checked(sent.rc)
        self._await(lambda: any(message.topic == topic for message in self.received), "a round trip")
        self._answers.pop(("PUBACK", sent.mid), None)  # paho's word that it was sent, which nobody asks for
        self.received = deque(message for message in self.received if message.topic != topic)

    def await_message(self) -> None:
        """Wait until a received message is there."""
        self._await(lambda: bool(self.received), "a message")

    def receives(self, payload: bytes, seconds: float) -> bool:
        """Whether a message with this content is there, or comes within so many seconds."""
        until = time.monotonic() + seconds
        while all(message.payload != payload for message in self.received):
            if time.monotonic() >= until:
                return False
            self._turn("a message")
        return True

    def acknowledge(self, message: MQTTMessage) -> None:
        """Acknowledge a received message."""
        with self._translated("acknowledgement"):
            self._checked(self._client.ack(message.mid, message.qos))

    def disconnect(self, expiry: int | None = None) -> None:
        """Say goodbye; ``expiry`` (s) replaces that of the session."""
        properties = None
        if expiry is not None:
            properties = _properties(PacketTypes.DISCONNECT)
            properties.SessionExpiryInterval = expiry
        with self._translated("goodbye"):
            self._client.disconnect(properties=properties)
            while self._client.socket() is not None and self._client.want_write():
                self._turn("the goodbye")

    def refused(self, what: str, why: str) -> Rejected:
        """The error of a broker that says no."""
        return Rejected(f"broker {self.address.text} refused {what}: {why}", address=self.address.text)

    def renew(self) -> None:
        """Count its time anew."""
        self._deadline = time.monotonic() + self._timeout

    # --- opening and closing -----------------------------------------------------------------------

    def __enter__(self) -> Connection:
        self.renew()
        try:
            self._connect()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What the work itself raised is worth more than what closing after it may raise.
        if error is None:
            try:
                if self._client.socket() is not None:
                    self.disconnect()
            finally:
                self._close()
        else:
            with contextlib.suppress(BinderError):
                self.disconnect()
            self._close()

    def _connect(self) -> None:
        text = self.address.text
        try:
            self._client.connect(
                self.address.host,
                self.address.port,
                keepalive=_KEEP_ALIVE,
                clean_start=self._clean_start,
                properties=self._properties,
            )
        except TimeoutError as error:
            raise Unreachable(f"broker {text} cannot be reached: no answer", address=text) from error
        except ssl.SSLError as error:
            why = tls_words(error, self.address.host, self._login)
            raise Unreachable(f"broker {text}: no TLS connection: {why}", address=text) from error
        except (ConnectionResetError, BrokenPipeError) as error:
            doubt = " (does it speak TLS there?)" if self.address.tls else ""
            raise Unreachable(f"broker {text} hangs up{doubt}", address=text) from error
        except (OSError, ValueError) as error:
            raise Unreachable(f"broker {text} cannot be reached: {_words(error)}", address=text) from error
        (code,) = self._answer("CONNACK", 0)
        self._connected = True
        self._refuse_if_failed(code, "the connection")

    def _close(self) -> None:
        # paho has no public way to close a connection without a goodbye on the wire; closing the socket
        # and then turning its loop once makes it see that and release the rest.
        if self._tls is not None and self._tls.opened is not None and self._client.socket() is None:
            self._tls.opened.close()
        connection = self._client.socket()
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()
            with contextlib.suppress(Exception):
                self._client.loop(0)

    # --- inside ------------------------------------------------------------------------------------

    def _make_client(self, login: Login) -> Client:
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=self.client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = self._timeout / 2
        client.max_inflight_messages_set(MOST_IN_FLIGHT)
        if login.username is not None:
            password = login.password.reveal() if login.password is not None else None
            client.username_pw_set(login.username, password)
        if self.address.tls:
            self._tls = client_context(self.address, login)
            client.tls_set_context(self._tls)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = lambda _client, _data, message: self.received.append(message)
        client.on_subscribe = lambda _client, _data, mid, codes, _properties: self._note("SUBACK", mid, codes)
        client.on_unsubscribe = lambda _client, _data, mid, codes, _p: self._note("UNSUBACK", mid, codes)
        client.on_publish = lambda _client, _data, mid, code, _properties: self._note("PUBACK", mid, [code])
        return client

    def _on_connect(
        self, _client: Client, _data: Any, flags: Any, code: ReasonCode, properties: Properties | None
    ) -> None:
        self.session_present = bool(flags.session_present)
        if properties is not None:
            self.limits = properties
        self._note("CONNACK", 0, [code])

    def _on_disconnect(
        self, _client: Client, _data: Any, _flags: Any, code: ReasonCode, _properties: Properties | None
    ) -> None:
        self._end = code

    def _note(self, kind: str, message_id: int, codes: list[ReasonCode]) -> None:
        self._answers[kind, message_id] = codes

    def _answer(self, kind: str, message_id: int) -> list[ReasonCode]:
        self._await(lambda: (kind, message_id) in self._answers, f"a {kind}")
        return self._answers.pop((kind, message_id))

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        while not condition():
            try:
                self._turn(what)
            except OutcomeUnknown:
                if not condition():  # the answer may have come with the end of the connection
                    raise

    def _turn(self, what: str) -> None:
        left = self._deadline - time.monotonic()
        text = self.address.text
        if left <= 0:
            message = f"broker {text} did not answer in {self._timeout:g} s (awaited {what})"
            raise OutcomeUnknown(f"{message}{self._doubt()}", address=text)
        with self._translated(what):
            self._hurry()
            result = self._client.loop(min(left, _POLL))
            # The answer that says why may have come with the end of the connection.
            if result != MQTTErrorCode.MQTT_ERR_SUCCESS and ("CONNACK", 0) not in self._answers:
                self._checked(result)

    def _hurry(self) -> None:
        # A broker that leaves Nagle's algorithm on (Mosquitto by default) holds a second small packet back
        # until the first is acknowledged, which Linux puts off by 40 ms.  The option lasts for few packets.
        connection = self._client.socket()
        if isinstance(connection, socket.socket) and hasattr(socket, "TCP_QUICKACK"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _checked(self, result: MQTTErrorCode) -> None:
        if result == MQTTErrorCode.MQTT_ERR_SUCCESS:
            return
        text = self.address.text
        if self._tls is not None and (alert := self._tls.alert) is not None:
            why = tls_words(alert, self.address.host, self._login)
            raise self.refused("the connection", why) from alert
        # paho reports an end without a word from the broker as 0x80, unspecified error.
        if self._end is not None and self._end.value > _UNSPECIFIED:
            raise self.refused("to go on", f"{self._end}{self._doubt()}")
        message = f"broker {text} closed the connection: {_meaning(result)}{self._doubt()}"
        raise OutcomeUnknown(message, address=text)

    def _doubt(self) -> str:
        """What may be wrong with the address of one that has never answered."""
        if self._connected:
            return ""
        return f" (is it a broker, and does it speak MQTT 5 {'with' if self.address.tls else 'without'} TLS?)"

    def _refuse_if_failed(self, code: ReasonCode, what: str) -> None:
        if code.is_failure:
            raise self.refused(what, str(code))

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        text = self.address.text
        try:
            yield
        except BinderError:
            raise
        except ValueError as error:  # what paho will not even send: a topic or a payload out of bounds
            raise self.refused(what, _words(error)) from error
        except Exception as error:
            # paho raises whatever its decoder meets when the other side does not speak MQTT 5.
            message = f"broker {text} does not answer as MQTT 5 brokers do: {_words(error)}"
            raise OutcomeUnknown(message, address=text) from error


def _words(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _meaning(result: MQTTErrorCode) -> str:
    return result.name.removeprefix("MQTT_ERR_").replace("_", " ").lower()


def _properties(packet: int) -> Properties:
    return Properties(packet)  # type: ignore[no-untyped-call]
