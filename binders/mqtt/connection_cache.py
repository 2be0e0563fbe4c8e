"""Cached connections to one broker for short requests.

Deploying a job takes several requests to its brokers in a row, and over a slow link opening a connection
takes longer than a request.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from binders.common.timers import begin_timer
from binders.mqtt.connection import Connection
from speck.errors import BinderError

IDLE_TIMEOUT = 5.0  # s; below the broker's keep-alive, so that it does not close a cached connection

_T = TypeVar("_T")


class ConnectionCache:
    """Connections that stay open for a while after a request, for the next one.

    ``make`` prepares a connection.  Thread-safe: each connection serves one call at a time.
    """

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make = make
        self._guard = threading.Lock()  # calls and the timer that closes idle connections share the queue
        self._idle: deque[tuple[float, Connection]] = deque()  # with the time it became idle, oldest first
        self._timer: threading.Timer | None = None

    def run(self, work: Callable[[Connection], _T], *, fresh: bool = False) -> _T:
        """Run a call over a connection: a cached one, or a new one if that has ended or for ``fresh``.

        So the call may run twice, the first time in part.
        """
        cached = None if fresh else self._take()
        if cached is not None:
            with suppress(BinderError):  # the broker may have ended meanwhile
                return self._over(cached, work)
        return self._over(self._make().__enter__(), work)

    def close(self) -> None:
        """Close the idle connections."""
        with self._guard:
            closing = [connection for _, connection in self._idle]
            self._idle.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        _close(closing)

    def _over(self, connection: Connection, work: Callable[[Connection], _T]) -> _T:
        try:
            connection.restart_deadline()
            answer = work(connection)
        except BaseException as error:  # half an exchange may be left on it: it serves no other call
            connection.__exit__(type(error), error, None)
            raise
        self._put(connection)
        return answer

    def _take(self) -> Connection | None:
        with self._guard:
            return self._idle.pop()[1] if self._idle else None

    def _put(self, connection: Connection) -> None:
        with self._guard:
            self._idle.append((time.monotonic(), connection))
            if self._timer is None:
                self._timer = begin_timer(IDLE_TIMEOUT, self._close_expired)

    def _close_expired(self) -> None:
        now, closing = time.monotonic(), []
        with self._guard:
            while self._idle and self._idle[0][0] + IDLE_TIMEOUT <= now:
                closing.append(self._idle.popleft()[1])
            self._timer = None
            if self._idle:
                self._timer = begin_timer(self._idle[0][0] + IDLE_TIMEOUT - now, self._close_expired)
        _close(closing)


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        with suppress(BinderError):
            connection.restart_deadline()
            connection.__exit__(None, None, None)
