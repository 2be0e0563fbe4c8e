"""Limits the requests that wait: for an operation's end or progress, or for an engine's answer.

Each holds a thread for as long as it waits.  So that other requests are answered meanwhile, the server adds a
thread for each such request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from flask import Flask, Response, g, request

from speck.server.api import problems

MOST = 200  # at once
_AT_ONCE = frozenset(("GET", "HEAD", "OPTIONS"))
_WAITING = frozenset(
    (
        "speck.show_job",
        "speck.show_log",
        "speck.list_sites",
        "speck.check_sites",
        "speck.follow_operation",
        "speck.follow_live",
    )
)


def _ignore(count: int) -> None:
    """Do nothing."""


@dataclass
class ConcurrencyLimit:
    """Counts the requests that wait now.  ``on_more`` is called with each new greatest number of them."""

    most: int = MOST
    on_more: Callable[[int], None] = _ignore
    _now: int = 0
    _greatest: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def enter(self) -> bool:
        """Count one more; False if there are too many already."""
        with self._lock:
            if self._now >= self.most:
                return False
            self._now += 1
            if self._now > self._greatest:
                self._greatest = self._now
                self.on_more(self._greatest)
            return True

    def leave(self) -> None:
        """Count one less."""
        with self._lock:
            self._now -= 1


def register(app: Flask) -> None:
    """Make the application count its requests that wait, and refuse those beyond the limit."""
    limit = app.extensions["concurrency_limit"] = ConcurrencyLimit()

    @app.before_request
    def enter() -> Response | None:
        if request.method in _AT_ONCE and request.endpoint not in _WAITING:
            return None
        g.waits = limit.enter()
        if g.waits:
            return None
        detail = f"{limit.most} requests wait for operations or engines already (try again)"
        return problems.problem(503, detail, headers={"Retry-After": "5"})

    @app.after_request
    def leave(response: Response) -> Response:
        if g.pop("waits", False):
            response.call_on_close(limit.leave)
        return response
