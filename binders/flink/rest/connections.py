"""The connections to one address: pooled, with the login of the inventory and nothing of the environment.

A measurement is some hundred small requests, for each of which ``requests`` takes a millisecond of processor
time and urllib3, which it is made of, a third of that.
"""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import certifi
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, Timeout, connection_from_url
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    ProtocolError,
    SSLError,
    TimeoutError,
)

from binders.common.bearer import checked_token
from speck.core.inventory import Login
from speck.errors import Rejected

CONNECT = 5.0  # s, to open a connection
# The errors of a request: of its connection (TLS, an early end, no answer in time) or of its address.
FAILURE, CUT, LATE, TLS = HTTPError, ProtocolError, TimeoutError, SSLError
NEVER_SENT = (ConnectTimeoutError, LocationParseError)  # nothing has reached the other side

_POOLED = 32  # more than concurrent actions on one engine


class Connections:
    """The connections to an address such as ``http://HOST:8081/``; safe for several threads."""

    def __init__(self, address: str, login: Login) -> None:
        self.address = address
        base = base_of(address)
        self._path = urlsplit(base).path
        self._base, self._login = base, login
        self._pool: HTTPConnectionPool | None = None
        self._guard = threading.Lock()

    def request(
        self, method: str, path: str, timeout: float, body: bytes | None = None, kind: str = "", **how: Any
    ) -> BaseHTTPResponse:
        """The answer to a request with a ``body`` of this ``kind`` (a media type).

        ``timeout`` is s between two parts of the answer.  Raises :data:`FAILURE`.
        """
        return self._opened().urlopen(
            method,
            f"{self._path}{path}",
            body=body,
            headers={**self._authorization(), **({"Content-Type": kind} if kind else {})},
            timeout=Timeout(connect=CONNECT, read=timeout),
            retries=False,
            redirect=False,  # the login is for this address only
            assert_same_host=False,  # a path has no host
            **how,
        )

    def close(self) -> None:
        """Close all connections."""
        with self._guard:
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    def _opened(self) -> HTTPConnectionPool:
        with self._guard:
            if self._pool is None:
                self._pool = _pool(self._base, self.address, self._login)
            return self._pool

    def _authorization(self) -> Mapping[str, str]:
        """The header of the login, with the secret's current value."""
        login = self._login
        if login.token is not None:
            return {"Authorization": f"Bearer {checked_token(self.address, login.token.reveal())}"}
        if login.username is None:
            return {}
        password = login.password.reveal() if login.password else ""
        return {"Authorization": f"Basic {b64encode(f'{login.username}:{password}'.encode()).decode()}"}


def to_json(content: Any) -> tuple[bytes, str]:
    """The body of a request and its media type."""
    return json.dumps(content).encode(), "application/json"


def base_of(address: str) -> str:
    """The address without a slash at its end.  Raises :class:`~speck.errors.Rejected` if it is none."""
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if good and (parts.username is not None or parts.password is not None):
        # The address is not repeated, because it contains a secret.
        raise Rejected("a Flink address must not contain a login (expected engine_login of the site)")
    if not good or parts.query or parts.fragment:
        raise Rejected(
            f"{address!r} is not a Flink address (expected http://HOST:PORT or https://HOST:PORT)",
            address=address,
        )
    return address.rstrip("/")


def _pool(base: str, address: str, login: Login) -> HTTPConnectionPool:
    if not base.startswith("https"):
        return connection_from_url(base, maxsize=_POOLED)
    certificate, key = _file(address, login, "certificate_file"), _file(address, login, "key_file")
    has_certificate = certificate is not None and key is not None
    return connection_from_url(
        base,
        maxsize=_POOLED,
        cert_reqs="CERT_REQUIRED",
        ca_certs=_file(address, login, "ca_file") or certifi.where(),
        cert_file=certificate if has_certificate else None,
        key_file=key if has_certificate else None,
    )


def _file(address: str, login: Login, name: str) -> str | None:
    path: str | None = getattr(login, name)
    if path is not None and not Path(path).is_file():
        message = f"{address}: {name} {path!r} of engine_login does not exist (expected a PEM file)"
        raise Rejected(message, address=address)
    return path
