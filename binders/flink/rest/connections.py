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

from binders.common.bearer import checked_token
from speck.binder.bounded_http import Answer, HttpClient
from speck.core.inventory import Login
from speck.core.pem import pem_fault
from speck.errors import Rejected


class Connections:
    """The connections to an address such as ``http://HOST:8081/``; safe for several threads."""

    def __init__(self, address: str, login: Login) -> None:
        self.address = address
        self._base, self._login = base_of(address), login
        self._client: HttpClient | None = None
        # The client is opened once, at the first request, by whichever thread comes first.
        self._guard = threading.Lock()

    def request(
        self, method: str, path: str, seconds: float, body: bytes | None = None, kind: str = "", **how: Any
    ) -> Answer:
        """The answer to a request with a ``body`` of this ``kind`` (a media type).

        ``how`` is as of :meth:`speck.binder.bounded_http.HttpClient.request`, which raises the errors.
        """
        headers = {**self._authorization(), **({"Content-Type": kind} if kind else {})}
        url = f"{self._base}{path}"
        return self._opened().request(method, url, seconds=seconds, body=body, headers=headers, **how)

    def close(self) -> None:
        """Close all connections."""
        with self._guard:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _opened(self) -> HttpClient:
        with self._guard:
            if self._client is None:
                self._client = _client(self._base, self.address, self._login)
            return self._client

    def secrets(self) -> list[str]:
        """The values of the login that no message may repeat, in the forms in which they are sent."""
        login = self._login
        values = [each.reveal() for each in (login.token, login.password) if each is not None]
        return [*values, *(each.partition(" ")[2] for each in self._authorization().values())]

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


def _client(base: str, address: str, login: Login) -> HttpClient:
    if not base.startswith("https"):
        return HttpClient()
    certificate, key = _file(address, login, "certificate_file"), _file(address, login, "key_file")
    trusted = _file(address, login, "ca_file")
    has_certificate = certificate is not None and key is not None
    return HttpClient(trusted, certificate, key) if has_certificate else HttpClient(trusted)


def _file(address: str, login: Login, name: str) -> str | None:
    path: str | None = getattr(login, name)
    if path is None:
        return None
    try:
        fault = pem_fault(Path(path).read_bytes(), key=name == "key_file")
    except FileNotFoundError:
        fault = "does not exist (expected a PEM file)"
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    if fault is not None:
        raise Rejected(f"{address}: {name} {path!r} of engine_login {fault}", address=address)
    return path
