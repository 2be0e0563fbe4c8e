"""Limits the requests that may take long: for an operation's end, an engine's answer, or much of the disk.

Each holds a thread for as long as it takes.  So that other requests are answered meanwhile, the server adds a
thread for each such request.  A request is one of them unless its route is declared quick: a route that
nobody has thought of takes no thread of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flask import Flask, Response, request
from werkzeug.wsgi import ClosingIterator

from speck.server.api import problems

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

MOST = 200  # at once
MOST_READING = 150  # of those; the rest is for requests that change something
_READING = frozenset(("GET", "HEAD", "OPTIONS"))
_LEAVE = "speck.concurrency_limit.leave"  # in the environment of a request that is counted: ends that
# The routes that read memory, or a bounded part of the store, and call no engine or broker.
_QUICK = frozenset(
    (
        "dashboard.asset",
        "dashboard.page",
        "openapi",
        "speck.healthz",
        "speck.list_adaptations",
        "speck.list_compositions",
        "speck.list_deleted_compositions",
        "speck.list_events",
        "speck.list_jobs",
        "speck.list_left_behind",
        "speck.list_operations",
        "speck.list_placements",
        "speck.list_policies",
        "speck.list_revisions",
        "speck.list_splits",
        "speck.readyz",
        "speck.show_adaptation",
        "speck.show_composition",
        "speck.show_curves",
        "speck.show_metrics",
        "speck.show_operation",
        "speck.show_owner",
        "speck.show_placement",
        "speck.show_rates",
        "speck.show_revision",
        "speck.show_split",
    )
)


def _ignore(count: int) -> None:
    """Do nothing."""


@dataclass
class ConcurrencyLimit:
    """Counts the requests that are not quick.  ``on_more`` is called with each new greatest number of them.

    ``most`` bounds their number, ``most_reading`` that of those among them that change nothing.
    """

    most: int = MOST
    most_reading: int = MOST_READING
    on_more: Callable[[int], None] = _ignore
    _now: int = 0
    _reading: int = 0
    _greatest: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def now(self) -> int:
        """The number of those that are under way."""
        return self._now

    def enter(self, *, reads: bool) -> bool:
        """Count one more; False if there are too many already."""
        with self._lock:
            if self._now >= self.most or (reads and self._reading >= self.most_reading):
                return False
            self._now += 1
            self._reading += reads
            if self._now > self._greatest:
                self._greatest = self._now
                self.on_more(self._greatest)
            return True

    def leave(self, *, reads: bool) -> None:
        """Count one less."""
        with self._lock:
            self._now -= 1
            self._reading -= reads


def register(app: Flask) -> None:
    """Make the application count its requests that are not quick, and refuse those beyond the limit."""
    limit = app.extensions["concurrency_limit"] = ConcurrencyLimit()

    @app.before_request
    def enter() -> Response | None:
        reads = request.method in _READING
        if request.endpoint is None or (reads and request.endpoint in _QUICK):
            return None
        if limit.enter(reads=reads):
            request.environ[_LEAVE] = partial(limit.leave, reads=reads)
            return None
        most = limit.most_reading if reads else limit.most
        detail = f"{most} requests wait for operations, engines or the disk already (try again)"
        return problems.problem(503, detail, headers={"Retry-After": "5"})

    app.wsgi_app = _leaving(app.wsgi_app)  # type: ignore[assignment,method-assign]


def _leaving(application: WSGIApplication) -> WSGIApplication:
    """The application, which counts a request until its answer holds no thread, however it ends.

    Werkzeug does not close a response that is a file of the server, so ``call_on_close`` does not serve.
    """

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            body = application(environ, start_response)
        except BaseException:
            _leave(environ)
            raise
        is_file = isinstance(body, environ.get("wsgi.file_wrapper", ()))
        if is_file:  # the server's loop sends and closes it
            _leave(environ)
        return body if is_file else ClosingIterator(body, partial(_leave, environ))

    return answer


def _leave(environ: WSGIEnvironment) -> None:
    if (leave := environ.pop(_LEAVE, None)) is not None:
        leave()
