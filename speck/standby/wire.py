"""Requests over HTTP: a connection that stays open, with the token of the pair."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from speck.core.inventory import is_loopback
from speck.errors import Fault, InvalidInput
from speck.standby.messages import Answer, Header, NoAnswer, Refused, body_of

PATH = "/standby/"
PIECE = 2 << 20  # bytes of one message; longer requests come in pieces
LONGEST = 256 << 20  # bytes of a request


class HttpWire:
    """Requests to the server at ``url``, one at a time; each step of one may take ``seconds``.

    ``context`` is for TLS.  Safe to use from several threads.
    """

    def __init__(self, url: str, token: str, context: ssl.SSLContext | None, seconds: float) -> None:
        parts = urlsplit(url)
        self._url, self._host, self._port = url, parts.hostname or "", parts.port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
        self._context = context if parts.scheme == "https" else None
        self._seconds = seconds
        self._connection: http.client.HTTPConnection | None = None
        self._guard = threading.Lock()

    def __call__(self, operation: str, header: Header, payload: bytes) -> Answer:
        """See :data:`speck.standby.messages.Handler`.

        Raises :class:`~speck.standby.messages.NoAnswer` and ``Refused``.
        """
        with self._guard:
            body = body_of(header, payload)
            if len(body) <= PIECE:
                return self._exchange(operation, body)
            message = secrets.token_hex(8)
            for start in range(0, len(body), PIECE):
                piece = body_of({"message": message, "offset": start}, body[start : start + PIECE])
                self._exchange("piece", piece)
            return self._exchange(operation, body_of({"message": message}))

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        with self._guard:
            self._close()

    def _exchange(self, operation: str, body: bytes) -> Answer:
        reused = self._connection is not None
        try:
            try:
                status, text = self._send(operation, body)
            except (ConnectionError, http.client.HTTPException):
                if not reused:
                    raise
                status, text = self._send(operation, body)  # it was closed since, as when nothing was sent
            data: Any = json.loads(text)
        except (OSError, ValueError, http.client.HTTPException) as error:
            self._close()
            raise NoAnswer(f"{self._url} does not answer: {error or type(error).__name__}") from error
        found = data if isinstance(data, dict) else {}
        if status == 409 and isinstance(found.get("epoch"), int):
            raise Refused(str(found.get("detail")), found["epoch"], str(found.get("holder", "")))
        if status != 200:
            raise NoAnswer(f"{self._url} answers with status {status}: {found.get('detail', '')}")
        return found

    def _send(self, operation: str, body: bytes) -> tuple[int, bytes]:
        connection = self._connection = self._connection or self._connected()
        try:
            connection.request("POST", f"{PATH}{operation}", body, self._headers)
            answer = connection.getresponse()
            text = answer.read()
        except BaseException:
            self._close()
            raise
        if answer.will_close:
            self._close()
        return answer.status, text

    def _connected(self) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._seconds, context=self._context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._seconds)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def url_fault(option: str, url: str) -> str | None:
    """The fault of the URL of a server of the pair, or of its witness; ``None`` without one."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port
    except ValueError:
        whole = False
    if not whole or parts.path.strip("/") or parts.query or parts.username:
        return f"{option} is {url!r} (expected https://HOST:PORT)"
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        return f"{option} {url} would be reached without TLS (expected https://HOST:PORT)"
    return None


def context_of(authority: Path | None) -> ssl.SSLContext:
    """A context for TLS that trusts an authority (PEM), or those of the system.

    Raises :class:`~speck.errors.InvalidInput`.
    """
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        text = f"--standby-ca {authority} cannot be used: {error.strerror or error}"
        raise InvalidInput([Fault(text)], "standby") from error
