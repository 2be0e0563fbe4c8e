"""An HTTP server in a thread of this process, on a free loopback port."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Answers over connections that stay open, and logs nothing."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: the peer delays its acknowledgement of the first

    def body(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@contextmanager
def http_server(handler: type[Handler], secured: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve until the block ends, over TLS if ``secured`` is given; yields the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if secured is not None:
        server.socket = secured.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
