"""Connections to one broker for short questions, kept for a while for the question that comes next.

To deploy a job asks its brokers several things in a row, and over a slow link a new connection for each takes
longer than the question.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from binders.mqtt.connection import Connection
from speck.errors import BinderError

KEPT = 5.0  # s; below the broker's keep-alive, so that it does not end one that is kept

_T = TypeVar("_T")


class Controls:
    """``make`` prepares a connection.  May be used from several threads: each connection serves one call."""

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make = make
        self._guard = threading.Lock()
        self._idle: deque[tuple[float, Connection]] = deque()  # when each was put here, oldest first
        self._timer: threading.Timer | None = None

    def ask(self, work: Callable[[Connection], _T], *, fresh: bool = False) -> _T:
        """Do this over a connection; over a new one if the kept one has ended since, or for ``fresh``.

        The work may so be done twice, the first time in part.
        """
        kept = None if fresh else self._take()
        if kept is not None:
            with suppress(BinderError):  # also the goodbye of a broker that ended meanwhile
                return self._over(kept, work)
        return self._over(self._make().__enter__(), work)

    def close(self) -> None:
        """End the connections that nobody uses."""
        with self._guard:
            ending = [connection for _, connection in self._idle]
            self._idle.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        _end(ending)

    def _over(self, connection: Connection, work: Callable[[Connection], _T]) -> _T:
        try:
            connection.renew()
            answer = work(connection)
        except BaseException as error:
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
                self._start_timer(KEPT)

    def _start_timer(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._end_old)
        self._timer.daemon = True
        self._timer.start()

    def _end_old(self) -> None:
        now, ending = time.monotonic(), []
        with self._guard:
            while self._idle and self._idle[0][0] + KEPT <= now:
                ending.append(self._idle.popleft()[1])
            self._timer = None
            if self._idle:
                self._start_timer(self._idle[0][0] + KEPT - now)
        _end(ending)


def _end(connections: list[Connection]) -> None:
    for connection in connections:
        with suppress(BinderError):
            connection.renew()
            connection.__exit__(None, None, None)
