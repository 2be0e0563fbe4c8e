"""A reverse proxy before an HTTP server: it speaks TLS, and lets nobody in without a password."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from tests.support.tls_proxy import certificate

_KEPT = ("content-type", "content-length")


@dataclass(frozen=True)
class HttpsProxy:
    """Its address, and the certificate to trust."""

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
    """Stand before ``target`` (``http://HOST:PORT``) while the block runs.

    To one that speaks TLS it shows a certificate (and its key), and trusts an authority.
    """
    signed, key = certificate(directory, "proxy")
    expected = "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(target, expected, trusted, shown))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield HttpsProxy(f"https://127.0.0.1:{server.server_port}", signed)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(
    target: str, expected: str, trusted: Path | None, shown: tuple[Path, Path] | None
) -> type[BaseHTTPRequestHandler]:
    secured: dict[str, Any] = {}
    if trusted is not None and shown is not None:
        secured = {"verify": str(trusted), "cert": (str(shown[0]), str(shown[1]))}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = self.headers.get("Authorization")
            if given != expected:
                # As rude as can be: it repeats what it was given, in the clear.
                told = base64.b64decode((given or "").removeprefix("Basic ")).decode()
                self.answer(401, {"Content-Type": "text/html"}, f"<html>who is {told}?</html>".encode())
                return
            kept = {name: value for name, value in self.headers.items() if name.lower() in _KEPT}
            with requests.request(
                self.command,
                f"{target.rstrip('/')}{self.path}",
                data=body,
                headers=kept,
                timeout=60,
                **secured,
            ) as response:
                headers = {"Content-Type": response.headers.get("Content-Type", "application/json")}
                self.answer(response.status_code, headers, response.content)

        do_GET = do_POST = do_PATCH = do_DELETE = pass_on  # noqa: N815 - as http.server has it

        def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing: a request line may be of interest to nobody."""

    return Handler
