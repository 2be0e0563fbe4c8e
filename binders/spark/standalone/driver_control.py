"""The requests that a job's driver accepts: to stop (POST), and for its physical plan (GET of ``/plan``).

Any client in the cluster may reach the port: each request has the token of the attempt.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def listen(host: str, token: str, stop: threading.Event, plan: Callable[[], str]) -> str:
    """Accept requests at a free port; returns their URL, empty if no socket can be opened at this address."""
    try:
        server = _Server(host, token, stop, plan)
    except OSError:
        return ""
    threading.Thread(target=server.serve_forever, name="control", daemon=True).start()
    return f"http://{host}:{server.server_address[1]}"


class _Server(ThreadingHTTPServer):
    """``stop`` is set at a request to stop; ``plan`` returns the physical plan."""

    daemon_threads = True

    def __init__(self, host: str, token: str, stop: threading.Event, plan: Callable[[], str]) -> None:
        self.expected = f"Bearer {token}".encode()
        self.stop, self.plan = stop, plan
        super().__init__((host, 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 30.0  # s, without a byte: a client that sends nothing keeps no thread

    def do_POST(self) -> None:
        allowed = self._is_allowed()
        if allowed:
            self.server.stop.set()
        self._answer(202 if allowed else 403)

    def do_GET(self) -> None:
        if not self._is_allowed() or self.path != "/plan":
            self._answer(404 if self._is_allowed() else 403)
            return
        try:
            text = self.server.plan()
        except Exception:  # of Py4J, while the query ends
            self._answer(500)
            return
        self._answer(200, text.encode())

    def _is_allowed(self) -> bool:
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        return hmac.compare_digest(given, self.server.expected)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: other programs may scan the port."""
