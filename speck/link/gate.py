"""The gate of the listener for agents: refuses those that find no place, before any work on them."""

from __future__ import annotations

import asyncio
import http
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response
from websockets.typing import StatusLike

from speck.link.admission import AdmissionControl

AGENT = "/agent"
_OF_AGENT = f"GET {AGENT} ".encode()
_COUNTED = 10.0  # s: a greeting that takes longer waits for its agent, and holds up no other
_LONGEST_HEAD = 8192  # bytes of a request; its first line and fields are not checked here
_END = b"\r\n\r\n"  # of a head
_LOGGING = 60.0  # s between two log entries about refusals

_log = logging.getLogger(__name__)


@dataclass
class Gate:
    """Of one listener, in whose loop it is used; a connection may be silent for ``patience`` s."""

    patience: float
    control: AdmissionControl = field(default_factory=AdmissionControl)
    clock: Callable[[], float] = time.monotonic
    silent: set[GatedConnection] = field(default_factory=set, init=False)
    _logged: float = field(default=float("-inf"), init=False)

    def connection(self, *args: Any, **kwargs: Any) -> GatedConnection:
        """A connection, for ``create_connection`` of :func:`websockets.asyncio.server.serve`."""
        return GatedConnection(self, *args, **kwargs)

    def close(self) -> None:
        """Cut the connections that have sent no request."""
        for each in list(self.silent):
            each.abort()

    def refusal(self) -> bytes:
        """Take a place: empty; or the answer to the agent, which finds none."""
        now = self.clock()
        seconds = self.control.arrives(now)
        if seconds is None:
            return b""
        if now - self._logged >= _LOGGING:
            self._logged = now
            _log.warning(
                "too many agents are connecting at once: some have to retry later (%d refusals so far)",
                self.control.refused,
            )
        return _refusal(seconds)


class GatedConnection(ServerConnection):
    """Is served from its request on, if there is a place for it then."""

    def __init__(self, gate: Gate, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gate = gate
        self._head = bytearray()
        self.quiet = 0  # looks of the hub since something came
        self._served = self._has_place = False
        self._stream: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a listener for streams
        self._stream = transport
        self._gate.silent.add(self)
        self._timer = self.loop.call_later(self._gate.patience, transport.abort)

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        self.quiet = 0
        if self._served:
            super().data_received(data)
        elif self in self._gate.silent:  # the rest of what is refused is not read
            self._head += data
            if _END in self._head[:_LONGEST_HEAD]:
                self._begin()
            elif len(self._head) >= _LONGEST_HEAD:  # one without an end would keep a place
                self.abort()

    def eof_received(self) -> None:
        """See :class:`asyncio.Protocol`."""
        if self._served:
            super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self._leave_gate()
        self.note_greeted()
        if self._served:
            super().connection_lost(exc)

    def respond(self, status: StatusLike, text: str) -> Response:
        """See :class:`ServerConnection`: a refusal, after which the client may stay."""
        self.note_greeted()
        return super().respond(status, text)

    def note_greeted(self) -> None:
        """Give the place to another agent; may be called again."""
        if self._has_place:
            self._has_place = False
            self._stop_timer()
            self._gate.control.ends(self._gate.clock())

    def abort(self) -> None:
        """Cut the connection."""
        if self._stream is not None:
            self._stream.abort()

    def _begin(self) -> None:
        self._leave_gate()
        stream, head = self._stream, bytes(self._head)
        assert stream is not None  # noqa: S101 - it has sent something
        self._head.clear()
        if head.startswith(_OF_AGENT):  # others are few, or have no token
            if answer := self._gate.refusal():
                stream.write(answer)
                stream.close()
                return
            self._has_place = True
            self._timer = self.loop.call_later(_COUNTED, self.note_greeted)
        self._served = True
        super().connection_made(stream)
        super().data_received(head)
        if self.request is None:  # malformed, and its client may stay
            self.note_greeted()

    def _leave_gate(self) -> None:
        if self in self._gate.silent:
            self._gate.silent.remove(self)
            self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _refusal(seconds: int) -> bytes:
    """The answer 503 to an agent that has to wait for some seconds."""
    text = f"too many agents are connecting at once (retry in {seconds} s)\n".encode()
    status = http.HTTPStatus.SERVICE_UNAVAILABLE
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Retry-After: {seconds}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(text)}",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + text


def token_of(request: Request | None) -> bytes:
    """The bearer token of a request; empty without one."""
    given = "" if request is None else request.headers.get("Authorization", "")
    return given.removeprefix("Bearer ").encode()


def peer_of(connection: ServerConnection) -> str:
    """The address of the other end, for the log."""
    return str((connection.remote_address or ("?",))[0])
