"""TLS in front of a server that has none of its own, with certificates made for the test."""

from __future__ import annotations

import select
import socket
import ssl
import subprocess
from pathlib import Path

from speck.testing.wire_trouble import Listener


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A new certificate for 127.0.0.1 that signs itself, and its key: the paths of two PEM files."""
    signed, key = directory / f"{name}.pem", directory / f"{name}.key"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]  # RSA searches its primes for long
    command = ["openssl", "req", "-x509", *kind, "-nodes", "-days", "2"]
    names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(signed)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return signed, key


class TlsProxy(Listener):
    """Takes TLS with HTTP/2 on a free port of 127.0.0.1, and passes the bytes on to another port there."""

    def __init__(
        self,
        target: int,
        signed: Path,
        key: Path,
        protocols: tuple[str, ...] = ("h2",),
        asks_for: Path | None = None,
    ) -> None:
        """``asks_for``: the authority that must have signed the certificate of a client."""
        super().__init__()
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(signed, key)
        if asks_for is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(asks_for)
        if protocols:
            self._context.set_alpn_protocols(protocols)

    def serve(self, connection: socket.socket) -> None:
        # A client that refuses the certificate ends the handshake with an error.
        with self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        ) as secured:
            self.keep(secured)
            secured.do_handshake()
            with socket.create_connection(("127.0.0.1", self._target)) as server:
                _pass_on(secured, server)


def _pass_on(secured: ssl.SSLSocket, server: socket.socket) -> None:
    """Pass bytes on in both directions until one side closes."""
    others: dict[socket.socket, socket.socket] = {secured: server, server: secured}
    while True:
        # Bytes that are decrypted already do not make the socket readable.
        ready = [secured] if secured.pending() else select.select([secured, server], [], [])[0]
        for each in ready:
            part = each.recv(65536)
            if not part:
                return
            others[each].sendall(part)
