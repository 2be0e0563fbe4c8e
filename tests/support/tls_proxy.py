"""TLS in front of a server that has none of its own, with certificates made for the test."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from types import TracebackType


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A new certificate for 127.0.0.1 that signs itself, and its key: the paths of two PEM files."""
    signed, key = directory / f"{name}.pem", directory / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(signed)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return signed, key


class TlsProxy:
    """Takes TLS with HTTP/2 on a free port of 127.0.0.1, and passes the bytes on to another port there."""

    def __init__(
        self,
        target: int,
        signed: Path,
        key: Path,
        protocols: tuple[str, ...] = ("h2",),
        asks_for: Path | None = None,
    ) -> None:
        """``asks_for``: who comes has to have a certificate of this authority."""
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(signed, key)
        if asks_for is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(asks_for)
        if protocols:
            self._context.set_alpn_protocols(protocols)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> TlsProxy:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(30)
        self._listener.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(peer)
            self._threads.append(threading.Thread(target=self._serve, args=(peer,)))
            self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        # A client that does not like the certificate ends the handshake with an error.
        with peer, contextlib.suppress(OSError), self._context.wrap_socket(peer, server_side=True) as secured:
            self._open.append(secured)
            with socket.create_connection(("127.0.0.1", self._target)) as server:
                _pass_on(secured, server)


def _pass_on(secured: ssl.SSLSocket, server: socket.socket) -> None:
    """Pass bytes on in both directions until one side closes."""
    others: dict[socket.socket, socket.socket] = {secured: server, server: secured}
    while True:
        # What TLS has decrypted already does not make the socket readable.
        ready = [secured] if secured.pending() else select.select([secured, server], [], [])[0]
        for each in ready:
            part = each.recv(65536)
            if not part:
                return
            others[each].sendall(part)
