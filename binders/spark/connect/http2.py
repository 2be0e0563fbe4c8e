"""A connection of HTTP/2 (RFC 9113) to a server, for one request at a time, over a blocking socket.

``h2`` implements the protocol.  This sends and receives its bytes, until a point in time (monotonic, s).
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

logging.getLogger("hpack").setLevel(logging.INFO)  # it logs each header, and with it tokens, at DEBUG

Header = tuple[str, str]

_WINDOW = 4 << 20  # bytes that the server may send before they are acknowledged
_SETTINGS = {
    SettingCodes.ENABLE_PUSH: 0,
    SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW,
    SettingCodes.MAX_HEADER_LIST_SIZE: 64 << 10,
}
_PART = 64 << 10  # bytes received at once
_MOST_BETWEEN = 4 * _PART  # bytes between two requests; of pings, each of which has to be answered

# h2 takes nothing more after a GOAWAY, not even the response in progress that proxies send after it when a
# connection is old: nginx after 1,000 requests or an hour.  So the connection is replaced before.
_MOST_REQUESTS = 500
_OLDEST = 600.0  # s
_IDLE = 30.0  # s; a proxy or a firewall may drop a connection that is idle for longer, and not report it


class Lost(Exception):
    """The connection, or the stream, ended before the response: the request may have been carried out."""


class Sink(Protocol):
    """Receives a response as it arrives; an error of a method ends it."""

    def begin(self, headers: Mapping[str, str]) -> None:
        """Receive the headers, ``:status`` among them."""

    def take(self, part: bytes) -> None:
        """Receive the next part of the body."""


class Http2Connection:
    """A connection over a TCP socket, which it owns: first :meth:`secure` for TLS, then :meth:`begin`.

    After an error of a method, which may be a ``TimeoutError``, it can only be closed.  :meth:`abort` alone
    is for other threads.
    """

    def __init__(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self._h2.local_settings = Settings(client=True, initial_values=_SETTINGS)
        self._opened = self._used = time.monotonic()
        self._requests = 0
        self._is_ending = False  # the server takes no further request
        self.aborted = ""  # the reason, once it was

    def secure(self, context: ssl.SSLContext, host: str, ends: float) -> bool:
        """Begin TLS; returns whether the server offers HTTP/2.  Raises ``OSError`` or :class:`Lost`."""
        self._socket = context.wrap_socket(self._socket, server_hostname=host, do_handshake_on_connect=False)
        if self.aborted:  # an abort before this line may have found the detached socket only
            raise Lost(self.aborted)
        self._limit(ends)
        self._socket.do_handshake()
        return self._socket.selected_alpn_protocol() == "h2"

    def begin(self, ends: float) -> None:
        """Send the settings, and wait for the server's, with which HTTP/2 begins (section 3.4).

        Raises ``OSError``, ``EOFError`` or ``ProtocolError``.
        """
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_WINDOW)
        while not any(isinstance(event, RemoteSettingsChanged) for event in self._received(ends)):
            pass

    def exchange(
        self, headers: Iterable[Header], body: Iterable[bytes], sink: Sink, ends: float
    ) -> dict[str, str]:
        """Send a request, and pass its response on; returns the trailers, or the headers of one without.

        Raises ``TimeoutError``, :class:`Lost`, or what the sink raises.
        """
        self._requests += 1
        try:
            stream = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream, headers)
            response = _Response(stream, sink)
            self._send_body(stream, body, response, ends)
            while not response.is_complete:
                response.take(self._received(ends))
        except (TimeoutError, Lost) as error:
            if self.aborted:
                raise Lost(self.aborted) from error
            raise
        except (OSError, EOFError, ProtocolError) as error:
            reason = self.aborted or getattr(error, "strerror", None) or str(error)
            raise Lost(reason) from error
        self._used = time.monotonic()
        return response.last

    def is_usable(self) -> bool:
        """False if it must not be used for another exchange.

        Takes what the server has sent since the last one: a ping, or that it ends the connection.
        """
        now, taken = time.monotonic(), 0
        if self._requests >= _MOST_REQUESTS or now > min(self._opened + _OLDEST, self._used + _IDLE):
            return False
        try:
            while not self._is_ending and taken < _MOST_BETWEEN:
                self._socket.settimeout(0)
                data = self._socket.recv(_PART)
                taken += len(data)
                self._taken(data)
            return False
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except (OSError, EOFError, ProtocolError):
            return False
        try:
            self._flush(now + 1)  # s
        except OSError:
            return False
        return True

    def abort(self, reason: str) -> None:
        """End the exchange in progress with :class:`Lost`."""
        self.aborted = reason
        with suppress(OSError):  # it is closed, or not connected any more
            # Not the method of TLS, which another thread may be in.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, at which the server cancels a request in progress."""
        self._socket.close()

    # -- bytes

    def _send_body(self, stream: int, body: Iterable[bytes], response: _Response, ends: float) -> None:
        for number, part in enumerate(body):
            if number:  # a request of one part is sent at once
                self._flush(ends)
            rest = memoryview(part)
            while rest:
                window = self._h2.local_flow_control_window(stream)
                if window <= 0:
                    response.take(self._received(ends))
                    if response.is_complete:  # an early answer: the server needs no more
                        with suppress(ProtocolError):  # the server has reset it
                            self._h2.reset_stream(stream, ErrorCodes.CANCEL)
                        return
                    continue
                size = min(window, self._h2.max_outbound_frame_size)
                self._h2.send_data(stream, rest[:size])
                rest = rest[size:]
        self._h2.end_stream(stream)

    def _received(self, ends: float) -> list[Event]:
        """The next events, at least their first bytes; first sends what there is to send."""
        self._flush(ends)
        self._limit(ends)
        return self._taken(self._socket.recv(_PART))

    def _taken(self, data: bytes) -> list[Event]:
        if not data:
            raise EOFError("the server closed the connection")
        try:
            events: list[Event] = self._h2.receive_data(data)
            for event in events:
                if isinstance(event, ConnectionTerminated):
                    self._is_ending = True
                elif isinstance(event, DataReceived):
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        except ProtocolError:
            raise
        except Exception as error:  # whatever the bytes of a server make h2 raise beside
            raise ProtocolError(repr(error)) from error
        return events

    def _flush(self, ends: float) -> None:
        if data := self._h2.data_to_send():
            self._limit(ends)
            self._socket.sendall(data)

    def _limit(self, ends: float) -> None:
        """Give the next operation of the socket until then."""
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)


class _Response:
    """The part of a response that has arrived."""

    def __init__(self, stream: int, sink: Sink) -> None:
        self.last: dict[str, str] = {}  # headers, then trailers
        self.is_complete = False
        self._stream, self._sink = stream, sink

    def take(self, events: Iterable[Event]) -> None:
        """Pass events on.  Raises :class:`Lost`, or what the sink raises."""
        for event in events:
            if isinstance(event, ConnectionTerminated) and not self.is_complete:
                said = (event.additional_data or b"").decode("ascii", "replace")
                raise Lost(f"the server ended the connection ({_name(event.error_code)}) {said}".rstrip())
            if getattr(event, "stream_id", None) == self._stream:
                self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, ResponseReceived):
            self.last = _texts(event.headers)
            self._sink.begin(self.last)
        elif isinstance(event, DataReceived):
            self._sink.take(event.data)
        elif isinstance(event, TrailersReceived):
            self.last = _texts(event.headers)
        elif isinstance(event, StreamEnded):
            self.is_complete = True
        elif isinstance(event, StreamReset) and not self.is_complete:
            raise Lost(f"the server ended the call ({_name(event.error_code)})")


def _texts(headers: Iterable[tuple[object, object]]) -> dict[str, str]:
    return {str(name): str(value) for name, value in headers}  # h2 decodes them, as its configuration says


def _name(code: ErrorCodes | int | None) -> str:
    return code.name.lower() if isinstance(code, ErrorCodes) else f"error code {code}"
