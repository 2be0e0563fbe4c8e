"""The calls of gRPC to a server, over connections that are kept for the next call.

Each call has a connection to itself while it is in progress.  An error closes it, and those that are idle, so
that the next call finds out whether the server can be reached.  Nothing is sent while no call is in progress.

The protocol: "gRPC over HTTP2" and "HTTP to gRPC Status Code Mapping" in the documentation of gRPC.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import unquote

from h2.exceptions import ProtocolError

from binders.spark.connect.credentials import Keys, connect_failure, tls_context
from binders.spark.connect.http2 import Header, Http2Connection, Lost

Status = IntEnum(
    "Status",
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
    "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE "
    "DATA_LOSS UNAUTHENTICATED",
    start=0,
)
_BY_CODE = {str(status.value): status for status in Status}

# Of a response by something in front of the server; any other one is no answer of gRPC.
_OF_HTTP = {
    "401": Status.UNAUTHENTICATED,
    "403": Status.PERMISSION_DENIED,
    "404": Status.UNIMPLEMENTED,
    "429": Status.UNAVAILABLE,
    "502": Status.UNAVAILABLE,
    "503": Status.UNAVAILABLE,
    "504": Status.UNAVAILABLE,
}

_CONNECT_TIMEOUT = 3.0  # s, for a TCP connection to one address
_OPEN_TIMEOUT = 20.0  # s, for TCP, TLS, and until the server speaks HTTP/2
_MOST_IDLE = 4  # connections

_CLOSED = "the client was closed"

_PREFIX = struct.Struct(">?I")  # of a message: whether it is compressed, and its length


class CallFailed(Exception):
    """A call without an answer; the message says why."""


class NotConnected(CallFailed):
    """There is no connection to the server: the call was not sent."""


class NoAnswer(CallFailed):
    """The server did not answer in time, or the connection was lost before it did."""


class NotGrpc(CallFailed):
    """The answer is not one of gRPC."""


class TooLarge(CallFailed):
    """The answer is larger than the call permits."""


class Refused(CallFailed):
    """The server answered with a status that is not OK; ``details`` is a ``google.rpc.Status``, or empty."""

    def __init__(self, status: Status, message: str, details: bytes = b"") -> None:
        self.status, self.details = status, details
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest answer: the ``size`` of all its messages together (bytes), and their number."""

    size: int
    messages: int


class Channel:
    """The calls to the server at a host and port, which errors call ``address``; for any thread."""

    def __init__(self, address: str, host: str, port: int) -> None:
        self._address, self._host, self._port = address, host, port
        self._authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        # Of the connections below: a call takes one that no other one has.
        self._lock = threading.Lock()
        self._busy: set[Http2Connection] = set()
        self._idle: list[Http2Connection] = []
        self._keys = Keys()  # of the idle ones
        self._closures = 0  # a call that connects while this grows has no connection that could be aborted
        self._process = os.getpid()

    def call(
        self, method: str, requests: Iterable[bytes], keys: Keys, limits: Limits, seconds: float
    ) -> list[bytes]:
        """The messages of the answer to a call of a method (its path), which may take ``seconds``.

        Raises :class:`CallFailed`, or :class:`~speck.errors.Unreachable` for a token or a file of ``keys``
        that cannot be used.
        """
        answer, ends = _Messages(limits), time.monotonic() + seconds
        try:
            with self._connection(keys, ends) as connection:
                headers = self._headers(method, keys, ends - time.monotonic())
                last = connection.exchange(headers, map(_framed, requests), answer, ends)
        except TimeoutError as error:
            raise NoAnswer(f"deadline of {seconds:.3g} s exceeded") from error
        except Lost as error:
            raise NoAnswer(f"connection lost: {error}") from error
        _check_status(last)
        return answer.complete()

    def close(self) -> None:
        """Close all connections; calls in progress end with :class:`NoAnswer`."""
        with self._lock:
            self._closures += 1
            busy, idle, self._idle = list(self._busy), self._idle, []
        for each in busy:
            each.abort(_CLOSED)
        for each in idle:
            each.close()

    def _headers(self, method: str, keys: Keys, seconds: float) -> list[Header]:
        headers = [
            (":method", "POST"),
            (":scheme", "https" if keys.needs_tls(self._host) else "http"),
            (":path", method),
            (":authority", self._authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "speck"),
            ("grpc-timeout", f"{max(1, int(seconds * 1000))}m"),
        ]
        return headers if keys.token is None else [*headers, ("authorization", f"Bearer {keys.token}")]

    # -- connections

    @contextmanager
    def _connection(self, keys: Keys, ends: float) -> Iterator[Http2Connection]:
        """A connection for one call: an idle one, or a new one."""
        closures = self._closures
        connection = self._reused(keys) or self._opened(keys, ends, closures)
        try:
            yield connection
        except BaseException:
            self._discard(connection)
            self._close_idle()  # the server may be gone, and another one in its place
            raise
        with self._lock:
            is_kept = keys == self._keys and len(self._idle) < _MOST_IDLE and not connection.aborted
            if is_kept:
                self._busy.discard(connection)
                self._idle.append(connection)
        if not is_kept:
            self._discard(connection)

    def _reused(self, keys: Keys) -> Http2Connection | None:
        """The connection that was used last, if it can be used again with these keys."""
        if self._process != os.getpid():  # forked: the connections are of the other process
            self._process, self._busy, self._idle = os.getpid(), set(), []
        if keys != self._keys:
            self._close_idle()
        while True:
            with self._lock:
                self._keys = keys
                if not self._idle:
                    return None
                connection = self._idle.pop()
                self._busy.add(connection)
            if connection.is_usable():
                return connection
            self._discard(connection)

    def _discard(self, connection: Http2Connection) -> None:
        with self._lock:
            self._busy.discard(connection)
        connection.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def _opened(self, keys: Keys, ends: float, closures: int) -> Http2Connection:
        """A new connection that has begun, for a call that came after this number of closures."""
        context = tls_context(self._address, self._host, keys)
        connection = Http2Connection(self._reached(keys, ends))
        with self._lock:
            self._busy.add(connection)
            is_closed = closures != self._closures
        if is_closed:
            connection.abort(_CLOSED)
        seconds = min(ends - time.monotonic(), _OPEN_TIMEOUT)
        ends = time.monotonic() + seconds
        try:
            if context is not None and not connection.secure(context, self._host, ends):
                raise NotConnected("its TLS does not offer HTTP/2 (expected ALPN h2)")
            connection.begin(ends)
        except BaseException as error:
            self._discard(connection)
            if connection.aborted:
                raise Lost(connection.aborted) from error
            if isinstance(error, TimeoutError):
                raise NoAnswer(f"no HTTP/2 connection in {seconds:.3g} s") from error
            if isinstance(error, OSError | EOFError | ProtocolError):
                raise NotConnected(connect_failure(error, self._host, keys)) from error
            raise
        return connection

    def _reached(self, keys: Keys, ends: float) -> socket.socket:
        """A TCP connection."""
        if (left := ends - time.monotonic()) <= 0:
            raise TimeoutError
        address = (self._host, self._port)
        try:
            made = socket.create_connection(address, timeout=min(left, _CONNECT_TIMEOUT))
        except (OSError, UnicodeError) as error:  # UnicodeError: of a name that cannot be looked up
            raise NotConnected(connect_failure(error, self._host, keys)) from error
        if keys.token is not None and not keys.needs_tls(self._host):
            self._check_loopback(made, keys)
        return made

    def _check_loopback(self, made: socket.socket, keys: Keys) -> None:
        """Close the connection unless it is to this machine: a name such as localhost may be another's."""
        try:
            if _is_loopback(made):
                return
        except OSError as error:  # the server has reset it, as a forwarded port without one behind it does
            made.close()
            raise NotConnected(connect_failure(ConnectionResetError(), self._host, keys)) from error
        made.close()
        raise NotConnected("it is another machine, to which a token is sent over TLS only")


def _is_loopback(made: socket.socket) -> bool:
    return ipaddress.ip_address(made.getpeername()[0].partition("%")[0]).is_loopback


# -- messages


def _framed(message: bytes) -> bytes:
    return _PREFIX.pack(False, len(message)) + message


class _Messages:
    """Takes an answer apart into its messages, none of which is received beyond the limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._size = limits, 0
        self._found: list[bytes] = []
        self._rest = bytearray()

    def begin(self, headers: Mapping[str, str]) -> None:
        """See :class:`~binders.spark.connect.http2.Sink`.  Raises :class:`Refused` or :class:`NotGrpc`."""
        status = headers.get(":status", "")
        if status in _OF_HTTP:
            raise Refused(_OF_HTTP[status], f"HTTP status {status}")
        if status != "200":
            raise NotGrpc(f"HTTP status {status}")
        if not headers.get("content-type", "").startswith("application/grpc"):
            raise NotGrpc("its content type is not that of gRPC")

    def take(self, part: bytes) -> None:
        """See :class:`~binders.spark.connect.http2.Sink`.  Raises :class:`TooLarge` or :class:`NotGrpc`."""
        self._rest += part
        while len(self._rest) >= _PREFIX.size:
            is_compressed, length = _PREFIX.unpack_from(self._rest)
            if self._size + length > self._limits.size:
                raise TooLarge(f"expected {self._limits.size:,} bytes at most")
            if len(self._found) >= self._limits.messages:
                raise TooLarge(f"expected {self._limits.messages:,} messages at most")
            if is_compressed:
                raise NotGrpc("a message is compressed, which it was not asked for")
            end = _PREFIX.size + length
            if len(self._rest) < end:
                return
            with memoryview(self._rest) as view:
                self._found.append(bytes(view[_PREFIX.size : end]))
            del self._rest[:end]
            self._size += length

    def complete(self) -> list[bytes]:
        """All messages.  Raises :class:`NotGrpc` if the last one is not complete."""
        if self._rest:
            raise NotGrpc("its last message is not complete")
        return self._found


def _check_status(trailers: Mapping[str, str]) -> None:
    """Raise the error that the trailers of a response report, if they do."""
    if "grpc-status" not in trailers:
        raise NotGrpc("it has no status")
    code = _BY_CODE.get(trailers["grpc-status"], Status.UNKNOWN)
    if code is not Status.OK:
        message = unquote(trailers.get("grpc-message", ""))
        raise Refused(code, message, _binary(trailers.get("grpc-status-details-bin", "")))


def _binary(value: str) -> bytes:
    """The value of a binary header, whose padding may be missing; empty if it is malformed."""
    try:
        return base64.b64decode(value + "==")
    except ValueError:  # also of characters that are not ASCII
        return b""
