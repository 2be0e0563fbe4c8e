"""One MQTT 5 connection for one purpose, driven by the thread that uses it.

Translates paho's errors, reason codes and socket errors into SpecK's own errors.  There is no background
thread and no automatic reconnect: a call completes before its deadline or raises.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from types import TracebackType
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from binders.common.tls_errors import explain_tls_error
from binders.mqtt.address import BrokerAddress
from binders.mqtt.tls import ClosableContext, client_context
from speck.core.inventory import Login
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable

# MQTT 5, 3.1.2.11.2: a session that does not expire.
FOREVER = 0xFFFFFFFF

# MQTT 5, 3.1.2.11.3: the largest Receive Maximum.
MAX_INFLIGHT = 65535

TIMEOUT = 10.0  # s, for one connection and all calls over it

ECHO_PATIENCE = 1.0  # s, for an echo that a broker sends only if it has carried out the subscription before

_UNSPECIFIED = 0x80  # MQTT 5, 2.4
_NO_SUBSCRIBER = 0x10  # MQTT 5, 2.4: No matching subscribers
_KEEP_ALIVE = 30  # s; longer than any call
_POLL = 0.5  # s, in which an ended connection is noticed

# The tables that paho makes for the properties of each message, 7 KB: the same of all.
_OF_MESSAGES = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
_TABLES = {name: vars(_OF_MESSAGES)[name] for name in ("types", "names", "properties")}

_CALLBACKS = ("on_connect", "on_disconnect", "on_message", "on_subscribe", "on_unsubscribe", "on_publish")


class _DirectClient(Client):
    """Connects to the broker itself: paho uses the proxy of ``mqtt_proxy`` where PySocks is installed."""

    def _get_proxy(self) -> None:
        return None


def without_tables(message: MQTTMessage) -> MQTTMessage:
    """The message, whose properties share their tables with those of all others."""
    if message.properties is not None:
        vars(message.properties).update(_TABLES)
    return message


class Connection:
    """A connection that is open during its ``with`` block; every call may raise a ``BinderError``.

    ``expiry`` is in seconds; the broker drops messages to us above ``most_bytes``.  Received messages are
    acknowledged by :meth:`acknowledge` only.
    """

    def __init__(
        self,
        address: BrokerAddress,
        login: Login,
        client_id: str,
        *,
        clean_start: bool = True,
        expiry: int = 0,
        receive_maximum: int = MAX_INFLIGHT,
        most_bytes: int | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        """Prepare the connection; it is opened on entering the ``with`` block."""
        self.address = address
        self.client_id = client_id
        self.session_present = False
        self.in_order: bool | None = None  # retained messages come before echoes; None: not tried yet
        self.limits = _properties(PacketTypes.CONNACK)
        self.received: deque[MQTTMessage] = deque()
        self._clean_start = clean_start
        self._properties = _properties(PacketTypes.CONNECT)
        self._properties.SessionExpiryInterval = expiry
        self._properties.ReceiveMaximum = receive_maximum
        if most_bytes is not None:
            self._properties.MaximumPacketSize = most_bytes
        self._timeout = timeout
        self._deadline = 0.0
        self._answers: dict[tuple[str, int], list[ReasonCode]] = {}
        self._end: ReasonCode | None = None
        self._connected = False
        self._tls: ClosableContext | None = None
        self._login = login
        self._client = self._make_client(login)

    # --- calls -------------------------------------------------------------------------------------

    def subscribe(self, *topics: str, qos: int = 1, again: bool = False) -> None:
        """Subscribe to topic filters; retained messages are sent for new subscriptions, or ``again``."""
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
            self._raise_if_failed(code, f"the subscription to {', '.join(map(repr, topics))}")

    def unsubscribe(self, topic: str) -> None:
        """End a subscription; no error if there is none."""
        with self._translated(f"end of the subscription to {topic!r}"):
            result, message_id = self._client.unsubscribe(topic)
            self._checked(result)
            assert message_id is not None  # noqa: S101 - given with every success
        for code in self._answer("UNSUBACK", message_id):
            self._raise_if_failed(code, f"the end of the subscription to {topic!r}")

    def retained_at_once(self, filters: Collection[str], known: str, echo: str) -> dict[str, bytes]:
        """The retained messages of topic filters that arrive before an echo, by topic, in one round trip.

        ``known`` is a topic that has a retained message at many brokers; if that arrives too, the broker
        sends retained messages before the echo, so that no other one is missing (``in_order``).  ``echo``: a
        topic of our own.  The echo has QoS 1, which a broker rejects with a reason; at QoS 0 it closes the
        connection.
        """
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE)
        what = f"subscription to {', '.join(map(repr, filters))}"
        asked = [*((each, options) for each in (*filters, known)), (echo, SubscribeOptions(qos=0))]
        with self._translated(what):
            result, message_id = self._client.subscribe(asked)
            self._checked(result)
            assert message_id is not None  # noqa: S101 - given with every success
            sent = self._client.publish(echo, b"", qos=1)
            self._checked(sent.rc)
        codes = self._answer("SUBACK", message_id)
        for code in (*codes[: len(filters)], codes[-1]):  # the known topic may be denied
            self._raise_if_failed(code, f"the {what}")
        for code in self._answer("PUBACK", sent.mid):
            self._raise_if_failed(code, f"a message to {echo!r}")
        found = self.take_until({echo}, None if self.in_order else ECHO_PATIENCE)
        self.in_order = known in found and echo in found
        self._unsubscribe_async(*filters, known, echo)
        return {topic: content for topic, content in found.items() if topic != echo}

    def take_until(self, topics: Collection[str], seconds: float | None = None) -> dict[str, bytes]:
        """The messages up to the last of these topics, by topic, each acknowledged as it arrives.

        A broker may hold messages back until all before them are acknowledged, as HiveMQ does.  Without all
        of the topics after ``seconds``, those that came; ``None``: until the deadline of the connection.
        """
        deadline = time.monotonic() + (self._timeout if seconds is None else seconds)
        found: dict[str, bytes] = {}
        while not found.keys() >= set(topics):
            if seconds is None:
                self.await_message()
            elif not self.received and not self.receives_more(deadline - time.monotonic()):
                break
            message = self.received.popleft()
            self.acknowledge(message)
            found[message.topic] = bytes(message.payload)
        return found

    def _unsubscribe_async(self, *topics: str) -> None:
        """End subscriptions without waiting for the answer, which is dropped on arrival."""
        with self._translated("end of subscriptions"):
            result, _ = self._client.unsubscribe(list(topics))
            self._checked(result)
        self._answers = {key: codes for key, codes in self._answers.items() if key[0] != "UNSUBACK"}

    def publish(self, topic: str, payload: bytes, *, retain: bool = False, expiry: int = 0) -> bool:
        """Publish one message with QoS 1 and wait for the broker's acknowledgement.

        False if the broker reports that the topic has no subscriber (MQTT 5, 3.4.2.1), which is optional.
        ``expiry`` is the time (s) after which the broker drops the message (0: never).
        """
        with self._translated(f"message to {topic!r}"):
            sent = self._client.publish(topic, payload, 1, retain, _expiring(expiry))
            self._checked(sent.rc)
        (code,) = self._answer("PUBACK", sent.mid)
        self._raise_if_failed(code, f"a message to {topic!r}")
        return code.value != _NO_SUBSCRIBER

    def publish_unacknowledged(self, topic: str, payload: bytes) -> None:
        """Publish one message with QoS 0: the broker does not report if it takes it."""
        with self._translated(f"message to {topic!r}"):
            sent = self._client.publish(topic, payload, qos=0)
            self._checked(sent.rc)
        self._answer("PUBACK", sent.mid)  # paho reports that it was sent

    def publish_many(self, topic: str, payloads: Iterable[bytes], window: int) -> int:
        """Publish with QoS 1, at most ``window`` in flight; return how many the broker rejected."""
        inflight: deque[int] = deque()
        rejected = 0
        for payload in payloads:
            while len(inflight) >= window:
                rejected += any(code.is_failure for code in self._answer("PUBACK", inflight.popleft()))
            with self._translated(f"message to {topic!r}"):
                sent = self._client.publish(topic, payload, qos=1)
                self._checked(sent.rc)
            inflight.append(sent.mid)
        return rejected + sum(
            any(code.is_failure for code in self._answer("PUBACK", message_id)) for message_id in inflight
        )

    def round_trip(self, topic: str) -> None:
        """Wait for all messages that the broker had queued: until a message to ourselves has come back.

        ``topic`` must be one of our own, subscribed to.  Brokers deliver to one client in order.
        """
        with self._translated("round trip"):
            sent = self._client.publish(topic, b"", qos=0)
            self._checked(sent.rc)
        self._await(lambda: any(message.topic == topic for message in self.received), "a round trip")
        self._answers.pop(("PUBACK", sent.mid), None)  # paho reports that it was sent
        self.received = deque(message for message in self.received if message.topic != topic)

    def await_message(self) -> None:
        """Wait until a message was received."""
        self._await(lambda: bool(self.received), "a message")

    def gather(self, most: int) -> list[MQTTMessage]:
        """Take the messages that have arrived, ``most`` at most; does not wait for any."""
        self.restart_deadline()
        before = -1
        while before < len(self.received) < most:
            before = len(self.received)
            self._step("messages", 0.0)
        return [self.received.popleft() for _ in range(min(most, len(self.received)))]

    def receives(self, payload: bytes, seconds: float) -> bool:
        """True if a message with this content was received, or arrives within ``seconds``."""
        deadline = time.monotonic() + seconds
        while all(message.payload != payload for message in self.received):
            if time.monotonic() >= deadline:
                return False
            self._step("a message")
        return True

    def receives_more(self, seconds: float) -> bool:
        """True if another message arrives within ``seconds``."""
        deadline, before = time.monotonic() + seconds, len(self.received)
        while len(self.received) == before:
            if time.monotonic() >= deadline:
                return False
            self._step("a message")
        return True

    def acknowledge(self, message: MQTTMessage) -> None:
        """Acknowledge a received message."""
        with self._translated("acknowledgement"):
            self._checked(self._client.ack(message.mid, message.qos))

    def disconnect(self, expiry: int | None = None) -> None:
        """Disconnect cleanly; ``expiry`` (s) replaces that of the session."""
        properties = None
        if expiry is not None:
            properties = _properties(PacketTypes.DISCONNECT)
            properties.SessionExpiryInterval = expiry
        with self._translated("disconnection"):
            self._client.disconnect(properties=properties)
            while self._client.socket() is not None and self._client.want_write():
                self._step("the disconnection")

    def rejection(self, what: str, why: str) -> Rejected:
        """The error of a request that the broker rejected."""
        return Rejected(f"broker {self.address.text} refused {what}: {why}", address=self.address.text)

    def restart_deadline(self) -> None:
        """Give the connection its full timeout again."""
        self._deadline = time.monotonic() + self._timeout

    # --- opening and closing -----------------------------------------------------------------------

    def __enter__(self) -> Connection:
        self.restart_deadline()
        try:
            self._connect()
        except BaseException:  # no socket outlives a connection that failed
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error of the block takes precedence over an error of closing.
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
            why = explain_tls_error(error, self.address.host, self._login)
            raise Unreachable(f"broker {text}: no TLS connection: {why}", address=text) from error
        except (ConnectionResetError, BrokenPipeError) as error:
            hint = " (does it speak TLS there?)" if self.address.tls else ""
            raise Unreachable(f"broker {text} closed the connection{hint}", address=text) from error
        except (OSError, ValueError) as error:
            raise Unreachable(
                f"broker {text} cannot be reached: {_error_text(error)}", address=text
            ) from error
        (code,) = self._answer("CONNACK", 0)
        self._connected = True
        if code.getName() == "Unsupported protocol version":  # also the answer of MQTT 3.1.1, 3.2.2.3
            raise self.rejection("the connection", _OLDER)
        self._raise_if_failed(code, "the connection")

    def _close(self) -> None:
        # paho has no public way to close a connection without a DISCONNECT packet; closing the socket and
        # then running its loop once makes it notice that and release the rest.
        if self._tls is not None and self._tls.opened is not None and self._client.socket() is None:
            self._tls.opened.close()
        connection = self._client.socket()
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()
            with contextlib.suppress(Exception):
                self._client.loop(0)
        # paho keeps two file descriptors until its client goes: at once, where nothing refers in a circle.
        for callback in _CALLBACKS:
            setattr(self._client, callback, None)

    # --- internals ---------------------------------------------------------------------------------

    def _make_client(self, login: Login) -> Client:
        client = _DirectClient(
            CallbackAPIVersion.VERSION2,
            client_id=self.client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = self._timeout / 2
        client.max_inflight_messages_set(MAX_INFLIGHT)
        if login.username is not None:
            password = login.password.reveal() if login.password is not None else None
            client.username_pw_set(login.username, password)
        if self.address.tls:
            self._tls = client_context(self.address, login)
            client.tls_set_context(self._tls)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = lambda _client, _data, message: self.received.append(without_tables(message))
        client.on_subscribe = lambda _client, _data, mid, codes, _properties: self._record(
            "SUBACK", mid, codes
        )
        client.on_unsubscribe = lambda _client, _data, mid, codes, _p: self._record("UNSUBACK", mid, codes)
        client.on_publish = lambda _client, _data, mid, code, _properties: self._record("PUBACK", mid, [code])
        return client

    def _on_connect(
        self, _client: Client, _data: Any, flags: Any, code: ReasonCode, properties: Properties | None
    ) -> None:
        self.session_present = bool(flags.session_present)
        if properties is not None:
            self.limits = properties
        self._record("CONNACK", 0, [code])

    def _on_disconnect(
        self, _client: Client, _data: Any, _flags: Any, code: ReasonCode, _properties: Properties | None
    ) -> None:
        self._end = code

    def _record(self, kind: str, message_id: int, codes: list[ReasonCode]) -> None:
        self._answers[kind, message_id] = codes

    def _answer(self, kind: str, message_id: int) -> list[ReasonCode]:
        self._await(lambda: (kind, message_id) in self._answers, f"a {kind}")
        return self._answers.pop((kind, message_id))

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        while not condition():
            try:
                self._step(what)
            except OutcomeUnknown:
                if not condition():  # the answer may have come with the end of the connection
                    raise

    def _step(self, what: str, poll: float = _POLL) -> None:
        remaining = self._deadline - time.monotonic()
        text = self.address.text
        if remaining <= 0:
            message = f"broker {text} did not answer in {self._timeout:g} s (waiting for {what})"
            raise OutcomeUnknown(f"{message}{self._hint()}", address=text)
        with self._translated(what):
            self._acknowledge_quickly()
            result = self._client.loop(min(remaining, poll))
            # The CONNACK with the reason may have arrived together with the end of the connection.
            if result != MQTTErrorCode.MQTT_ERR_SUCCESS and ("CONNACK", 0) not in self._answers:
                self._checked(result)

    def _acknowledge_quickly(self) -> None:
        # A broker that leaves Nagle's algorithm on (Mosquitto by default) delays a second small packet until
        # the first is acknowledged, which Linux does after 40 ms.  The option lasts for a few packets only.
        connection = self._client.socket()
        if isinstance(connection, socket.socket) and hasattr(socket, "TCP_QUICKACK"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def _checked(self, result: MQTTErrorCode) -> None:
        if result == MQTTErrorCode.MQTT_ERR_SUCCESS:
            return
        text = self.address.text
        if self._tls is not None and (alert := self._tls.alert) is not None:
            why = explain_tls_error(alert, self.address.host, self._login)
            raise self.rejection("the connection", why) from alert
        # paho reports a connection that ended without a DISCONNECT packet as 0x80, unspecified error.
        if self._end is not None and self._end.value > _UNSPECIFIED:
            raise self.rejection("to keep the connection", f"{self._end}{self._hint()}")
        message = f"broker {text} closed the connection: {_result_text(result)}{self._hint()}"
        raise OutcomeUnknown(message, address=text)

    def _hint(self) -> str:
        """A hint for the address of a broker that has never answered; empty for one that has."""
        if self._connected:
            return ""
        return f" (is it a broker, and does it speak MQTT 5 {'with' if self.address.tls else 'without'} TLS?)"

    def _raise_if_failed(self, code: ReasonCode, what: str) -> None:
        if code.is_failure:
            raise self.rejection(what, str(code))

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        text = self.address.text
        try:
            yield
        except BinderError:
            raise
        except ValueError as error:  # paho's own check: a topic or a payload out of bounds
            raise self.rejection(what, _error_text(error)) from error
        except Exception as error:
            # paho raises any error of its decoder when the other side does not use MQTT 5.
            message = f"broker {text} sent an answer that is not MQTT 5: {_error_text(error)}"
            raise OutcomeUnknown(message, address=text) from error


_OLDER = (
    "it does not speak MQTT 5 (SpecK needs MQTT 5, for sessions that outlive a connection by a stated time, "
    "user properties and reason codes; MQTT 3.1.1 has none of them)"
)


def _error_text(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _result_text(result: MQTTErrorCode) -> str:
    return result.name.removeprefix("MQTT_ERR_").replace("_", " ").lower()


def _expiring(seconds: int) -> Properties | None:
    if not seconds:
        return None
    properties = _properties(PacketTypes.PUBLISH)
    properties.MessageExpiryInterval = seconds
    return properties


def _properties(packet: int) -> Properties:
    return Properties(packet)  # type: ignore[no-untyped-call]
