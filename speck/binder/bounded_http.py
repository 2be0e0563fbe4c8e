"""HTTP requests whose whole answer is bounded, in time and in size, whatever the other side sends.

The time-out of an HTTP library is that of one read: a server that sends a byte from time to time holds up a
request for as long as it likes, and one that never stops fills the memory.  The limits here are those of the
socket, so they cover all parts of an answer: interim answers, headers, sizes of chunks, trailers.

Nothing is taken from the environment: no proxy, no login, no authority.  No redirect is followed: a login,
and the effect of a request, are for one address only.
"""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from socket import socket
from typing import Any

import certifi
from urllib3 import (
    BaseHTTPResponse,
    HTTPConnectionPool,
    HTTPSConnectionPool,
    PoolManager,
    Timeout,
    connection,
    exceptions,
)

from speck.binder.deadline import limited

CONNECT = 5.0  # s, to open a connection
LARGEST = 64 << 20  # bytes of an answer: Flink's about 5,000 jobs has 2 MB

# The errors of a request: of its connection (TLS, an early end, no answer in time) or of its address.
FAILURE, CUT, LATE = exceptions.HTTPError, exceptions.ProtocolError, exceptions.TimeoutError
TLS = exceptions.SSLError
# Those before anything has reached the other side.
NEVER_SENT = (exceptions.ConnectTimeoutError, exceptions.LocationValueError)

_POOLED = 32  # connections to one server: more than concurrent actions on one engine
_SERVERS = 100  # whose connections are kept open
_HEAD = 1 << 20  # bytes of a response without its body
_CHUNK = 256 << 10  # bytes that are read at once


class TooLarge(exceptions.HTTPError):
    """The answer is larger than the request allows."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer.  ``headers`` are found by their names in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as UTF-8, in which other bytes are replaced."""
        return self.body.decode("utf-8", "replace")


class HttpClient:
    """Requests over pooled connections; safe for several threads.

    ``ca_file`` has the authorities that are trusted, by default those of certifi; ``certificate_file`` and
    ``key_file`` are the client certificate.  All are PEM files.
    """

    def __init__(
        self, ca_file: str | None = None, certificate_file: str | None = None, key_file: str | None = None
    ) -> None:
        self._pools = PoolManager(
            num_pools=_SERVERS,
            maxsize=_POOLED,
            cert_reqs="CERT_REQUIRED",
            ca_certs=ca_file or certifi.where(),
            cert_file=certificate_file,
            key_file=key_file,
        )
        self._pools.pool_classes_by_scheme = {"http": _Pool, "https": _SecuredPool}

    def request(
        self,
        method: str,
        url: str,
        *,
        seconds: float,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most: int = LARGEST,
        tail: int | None = None,
    ) -> Answer:
        """The answer to a request, which is complete within ``seconds`` and has a body of ``most`` bytes.

        With ``tail``, only that number of bytes at the end of the body is retained.  Raises :data:`FAILURE`,
        such as :data:`LATE` and :class:`TooLarge`.
        """
        if not url.lower().startswith(("http://", "https://")):
            raise exceptions.LocationValueError(f"not an HTTP address: {url[:100]!r}")
        seconds = limited(seconds)
        limits = _Limits(time.monotonic() + seconds, _HEAD + most)
        token = _limits.set(limits)
        try:
            response = self._pools.urlopen(
                method,
                url,
                body=body,
                headers=dict(headers or {}),
                timeout=Timeout(connect=max(0.001, min(CONNECT, seconds)), read=max(0.001, seconds)),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,  # none is accepted, and a small answer may decode to a large one
            )
            with response:
                content = _body_of(response, most, tail)
                response.release_conn()
            return Answer(response.status, response.headers, content)
        except CUT as error:  # as which urllib3 also reports a request that could not be sent in time
            if limits.remaining() > 0:
                raise
            raise LATE("timed out") from error
        finally:
            _limits.reset(token)

    def close(self) -> None:
        """Close all connections."""
        self._pools.clear()


def _body_of(response: BaseHTTPResponse, most: int, tail: int | None) -> bytes:
    found, size = bytearray(), 0
    for chunk in response.stream(_CHUNK):
        size += len(chunk)
        if size > most:
            raise TooLarge(f"its answer is larger than {most:,} bytes")
        found += chunk
        if tail is not None and len(found) > tail:
            del found[:-tail]
    return bytes(found)


@dataclass
class _Limits:
    """The limits of one request: its deadline (monotonic, s), and the bytes that may still be received."""

    deadline: float
    room: int

    def remaining(self) -> float:
        return self.deadline - time.monotonic()

    def apply(self, to: socket) -> None:
        """Bound the next operation of a socket by the deadline."""
        if (seconds := self.remaining()) <= 0:
            raise TimeoutError("timed out")
        to.settimeout(seconds)

    def received(self, size: int) -> None:
        self.room -= size
        if self.room < 0:
            raise TooLarge("its answer is too large")


_limits: ContextVar[_Limits] = ContextVar("limits")  # of the request that this thread makes


class _BoundedReads(io.RawIOBase):
    """The bytes of an answer, as they are received within the limits of its request."""

    def __init__(self, connected: socket, source: io.RawIOBase) -> None:
        self._socket, self._source, self._limits = connected, source, _limits.get()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._limits.apply(self._socket)
        size: int | None = self._source.readinto(buffer)
        self._limits.received(size or 0)
        return size

    def close(self) -> None:
        self._source.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(_BoundedReads(sock, self.fp.detach()))


class _Bounded(connection.HTTPConnection):
    response_class = _Response

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        # The time-out of urllib3 for sending is the one for connecting: too short for a jar on a slow link.
        _limits.get().apply(self.sock)
        super().send(data)


class _SecuredBounded(connection.HTTPSConnection, _Bounded):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Bounded


class _SecuredPool(HTTPSConnectionPool):
    ConnectionCls = _SecuredBounded
