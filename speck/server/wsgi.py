"""The WSGI server (waitress), made safe against clients that are slow, silent, malformed, or many.

Waitress receives requests and sends answers in one loop, and hands whole requests to a pool of threads.  So a
slow client costs no thread, only a connection; here it costs that for a bounded time only.  A request that
waits for an operation or an engine does cost a thread; the pool grows by one for each
(:class:`~speck.server.middleware.concurrency_limit.ConcurrencyLimit`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import resource
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, cast

from flask import Flask
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.server import create_server
from waitress.task import ErrorTask
from waitress.utilities import Error

from speck.observe.metrics import Metrics
from speck.server.api import MAX_BODY
from speck.server.api.live import Live
from speck.server.api.problems import problem_body
from speck.server.middleware.concurrency_limit import ConcurrencyLimit
from speck.server.middleware.origin import HEADERS
from speck.server.middleware.request_metrics import OTHER, REFUSED
from speck.server.request_parser import IsKnown, StrictParser
from speck.server.tls import Certificate, SecuredSocket

_log = logging.getLogger(__name__)

THREADS = 16  # for requests that are answered at once
MAX_CONNECTIONS = 2000  # open at once; a live page holds one
MAX_HEADER = 64 * 1024  # bytes
_SPARE_FILES = 200  # descriptors that are not for connections: the store, engines, brokers; or half of all
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_PAUSE = 0.1  # s, after a connection that could not be accepted for lack of descriptors; the client waits
_LOG_PERIOD = 60.0  # s, between two messages about that
# A body that is too large is received up to here before it is answered: a client whose connection is cut
# while it still sends does not receive the answer.
_MAX_RECEIVED = 2 * MAX_BODY
_IDLE = 60  # s; a connection without a request is closed
_SLOWEST = 10_000  # bytes/s; a client that sends a request more slowly is cut off ...
PATIENCE = 30.0  # s without progress; a client that does not read its response is dropped after twice that
_MOMENT = 0.001  # s; the loop waits no longer for a thread that sends
_LINGER = 5.0  # s, for unsent responses at the end


class _TooSlow(Error):
    code = 408
    reason = "Request Timeout"


class _ProblemTask(ErrorTask):
    """Answers errors of waitress itself in the form of the application's."""

    channel: Any
    request: Any
    response_headers: Any

    def execute(self) -> None:
        error = self.request.error
        if error.code != HTTPStatus.INTERNAL_SERVER_ERROR:  # the application has counted these
            self.channel.refused(error.code)
        body = problem_body(error.code, _DETAILS.get(error.code, str(error.body))).encode()
        self.status = f"{error.code} {error.reason}"
        self.response_headers += [("Content-Type", "application/problem+json"), *HEADERS.items()]
        self.request.headers.pop("CONNECTION", None)  # this is the connection's last answer
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


_DETAILS = {
    408: f"the request did not arrive in time (expected {_SLOWEST:,} bytes/s or more)",
    413: f"the body is too large (at most {MAX_BODY:,} bytes are accepted)",
    431: f"the request's header is too large (at most {MAX_HEADER:,} bytes are accepted)",
}


_HELLO = b"\x16\x03"  # how TLS begins, and no HTTP


class _Channel(HTTPChannel):
    """One connection.  The loop calls ``readable`` and ``writable`` once a second at least."""

    error_task_class = _ProblemTask
    requests: Any
    requests_lock: Any
    outbuf_lock: Any
    server: Any
    socket: Any  # or a SecuredSocket
    _since = 0.0  # monotonic time, s, when the request that is being received began
    _received = 0  # bytes of it

    def __init__(
        self, patience: float, is_known: IsKnown, metrics: Metrics, *args: Any, **kwargs: Any
    ) -> None:
        self._patience, self._metrics = patience, metrics
        self.parser_class = partial(StrictParser, is_known)  # type: ignore[assignment]
        super().__init__(*args, **kwargs)

    def received(self, data: bytes) -> bool:
        if self.request is None:
            self._since, self._received = time.monotonic(), 0
            if data.startswith(_HELLO):
                data += b"\r\n\r\n"  # as a whole request it is refused at once
        self._received += len(data)
        return bool(super().received(data))

    def refused(self, status: int) -> None:
        """Count a request that does not reach the application; its method and path may be garbage."""
        took = time.monotonic() - self._since
        self._metrics.requested(REFUSED, OTHER, f"{status // 100}xx", took)

    def handle_read(self) -> None:
        if not isinstance(self.socket, SecuredSocket) or self.socket.fill():
            super().handle_read()

    def readable(self) -> bool:
        if self._unsecured():
            self.will_close = True
        if self.request is not None and self._late():
            self._refuse_slow()
        return bool(super().readable())

    def writable(self) -> bool:
        if self.total_outbufs_len and time.time() - self.last_activity > 2 * self._patience:
            self.will_close = True
        if self.requests and self.total_outbufs_len:
            self._await_sender()
        return bool(super().writable())

    def _await_sender(self) -> None:
        """Yield to a request thread that is sending.

        Waitress's loop would poll the connection without end meanwhile, since it can take data, and keep that
        thread from its work.
        """
        if self.outbuf_lock.acquire(timeout=_MOMENT):
            self.outbuf_lock.release()

    def handle_close(self) -> None:
        # A connection that is closed with unread bytes is reset, and its last answer may be lost.
        with contextlib.suppress(OSError):
            while self.socket is not None and len(self.socket.recv(65536)) == 65536:
                pass
        super().handle_close()

    def _unsecured(self) -> bool:
        """True if the TLS handshake did not end in time."""
        waits = time.time() - self.creation_time > self._patience
        return waits and isinstance(self.socket, SecuredSocket) and not self.socket.secured

    def _late(self) -> bool:
        return time.monotonic() - self._since > self._patience + self._received / _SLOWEST

    def _refuse_slow(self) -> None:
        with self.requests_lock:
            request, self.request = self.request, None
            if request is None or self.requests:  # an answer is under way: the connection ends after it
                self.close_when_flushed = True
                return
            request.error, request.completed = _TooSlow(""), True
            self.requests.append(request)
            self.server.add_task(self)


class WebServer:
    """Serves an application on a listening socket, from :meth:`run` until :meth:`end`.

    A client that sends slowly is cut off after ``patience`` seconds, one that takes nothing after twice that.
    With a ``certificate`` it speaks TLS only.
    """

    def __init__(
        self,
        application: Flask,
        listener: socket.socket,
        patience: float = PATIENCE,
        certificate: Certificate | None = None,
    ) -> None:
        # Waitress warns of every request that has to wait for a thread, which fills the log under load.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._sockets: dict[int, Any] = {}
        self._ended = threading.Event()
        # A signal and a failed loop may both end the server: one of them closes it.
        self._closing = threading.Lock()
        self._server = _waitress(application, listener, self._sockets, certificate)
        metrics: Metrics = application.extensions["metrics"]
        is_known: IsKnown = application.extensions["is_known"]
        self._server.channel_class = partial(_Channel, patience, is_known, metrics)
        threads = self._server.task_dispatcher
        # A standby has neither.
        self._live: Live | None = application.extensions.get("live")
        limit: ConcurrencyLimit | None = application.extensions.get("concurrency_limit")
        if limit is not None:
            limit.on_more = lambda count: threads.set_thread_count(THREADS + count)

    def run(self) -> None:
        """Serve until :meth:`end` is called; then send the pending answers, and close every connection."""
        while not self._ended.is_set():
            self._loop_once()
        deadline = time.monotonic() + _LINGER
        if self._live is not None:
            self._live.close()
        self._server.accepting = False
        while self._busy() and time.monotonic() < deadline:
            self._loop_once()
        self._server.task_dispatcher.shutdown(timeout=_LINGER)
        with self._closing:
            wasyncore.close_all(self._sockets, ignore_all=True)

    def end(self) -> None:
        """Make :meth:`run` return.  May be called from any thread."""
        with self._closing:
            self._ended.set()
            if self._sockets:
                self._server.pull_trigger()

    def _loop_once(self) -> None:
        wasyncore.loop(timeout=1.0, use_poll=True, map=self._sockets, count=1)

    def _busy(self) -> bool:
        channels = list(self._server.active_channels.values())
        return any(each.requests or each.total_outbufs_len or each.close_when_flushed for each in channels)


def _waitress(
    application: Flask, listener: socket.socket, sockets: dict[int, Any], certificate: Certificate | None
) -> Any:
    """Waitress's server of an application; ``sockets`` are those that its loop watches."""
    server = cast(
        "Any",
        create_server(
            application,
            map=sockets,
            sockets=[listener],
            threads=THREADS,
            connection_limit=_connections(),
            channel_timeout=_IDLE,
            max_request_body_size=_MAX_RECEIVED,
            max_request_header_size=MAX_HEADER,
            asyncore_use_poll=True,  # select takes no descriptor over 1023
            ident="speck",
            url_scheme="http" if certificate is None else "https",
        ),
    )
    accept = _Accepting(server.accept)
    server.accept = accept if certificate is None else partial(_accept, accept, certificate)
    return server


_Accept = Callable[[], tuple[Any, Any] | None]


class _Accepting:
    """Accepts connections; where there are no descriptors for one, it stays in the queue of the system.

    Waitress would try again at once, and log each try.
    """

    def __init__(self, accept: _Accept) -> None:
        self._accept, self._logged = accept, float("-inf")

    def __call__(self) -> tuple[Any, Any] | None:
        try:
            return self._accept()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            if time.monotonic() - self._logged >= _LOG_PERIOD:
                self._logged = time.monotonic()
                _log.error("connections cannot be accepted: %s (see ulimit -n)", error.strerror)
            time.sleep(_PAUSE)
            return None


def _accept(accept: _Accept, certificate: Certificate) -> tuple[SecuredSocket, Any] | None:
    """The next connection, secured; ``None`` when there is none, or its client is gone already."""
    taken = accept()
    if taken is None:
        return None
    connection, address = taken
    try:
        return SecuredSocket(certificate.context(), connection), address
    except OSError:
        connection.close()
        return None


def _connections() -> int:
    """The number of connections at once; the limit of open files is raised for them as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = MAX_CONNECTIONS + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    allowed = min(needed, soft)
    found = allowed - min(_SPARE_FILES, allowed // 2)
    if found < MAX_CONNECTIONS:
        _log.warning("at most %d connections at once, of %d open files (see ulimit -n)", found, soft)
    return found
