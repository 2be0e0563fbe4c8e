"""A reverse proxy before an HTTP server: it terminates TLS and requires a password."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from testbed.servers.http import Handler, http_server
from testbed.servers.tls_proxy import certificate

_PASSED_ON = ("content-type", "content-length")


@dataclass(frozen=True)
class HttpsProxy:
    """The address of a proxy, and the certificate to trust."""

    address: str
    certificate: Path


@contextmanager
def https_proxy(
    directory: Path,
    target: str,
    username: str,
    password: str,
    trusted: Path | None = None,
    shown: tuple[Path, Path] | None = None,
) -> Iterator[HttpsProxy]:
    """Pass requests on to ``target`` (``http://HOST:PORT``) until the block ends.

    For a target that speaks TLS, ``shown`` is the certificate of the proxy with its key, and ``trusted``
    the authority of the target.
    """
    signed, key = certificate(directory, "proxy")
    expected = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed, key)
    with http_server(_handler(target, expected, trusted, shown), context) as port:
        yield HttpsProxy(f"https://127.0.0.1:{port}", signed)


def _handler(
    target: str, expected: str, trusted: Path | None, shown: tuple[Path, Path] | None
) -> type[Handler]:
    secured: dict[str, Any] = {}
    if trusted is not None and shown is not None:
        secured = {"verify": str(trusted), "cert": (str(shown[0]), str(shown[1]))}

    class Proxy(Handler):
        timeout = 5

        def pass_on(self) -> None:
            body = self.body()
            given = self.headers.get("Authorization")
            if given != expected:
                # The worst case: a refusal that repeats the login in clear text.
                login = base64.b64decode((given or "").removeprefix("Basic ")).decode()
                self.answer(401, f"<html>who is {login}?</html>".encode(), "text/html")
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() in _PASSED_ON}
            url = f"{target.rstrip('/')}{self.path}"
            with requests.request(
                self.command, url, data=body, headers=headers, timeout=60, **secured
            ) as response:
                kind = response.headers.get("Content-Type", "application/json")
                self.answer(response.status_code, response.content, kind)

        do_GET = do_POST = do_PATCH = do_DELETE = pass_on  # noqa: N815 - as in http.server

    return Proxy
