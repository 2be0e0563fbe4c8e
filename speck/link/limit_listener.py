"""A listening socket that accepts only as many connections as are greeted at once.

After a restart of the coordinator, all agents connect within a second.  Accepted at once, each greeting is
served as slowly as all of them together: beyond some thousands they take longer than an agent waits, which
then begins again, so that the work on them is for nothing and few ever get in.  Here the others wait in the
queue of the system, where they cost nothing, and which a listener of a loop empties in their order.
"""

from __future__ import annotations

import asyncio
import select
import socket
from typing import Any

Address = Any  # of a peer, as :meth:`socket.socket.accept` returns it


class LimitListener(socket.socket):
    """For a loop of asyncio, a socket that is readable while fewer than ``most`` connections are greeted.

    A connection is greeted until :meth:`greeted`, its end, or for ``seconds``: one whose peer is slow or
    silent holds up the others no longer than that.  To be used in the thread of ``loop`` alone.
    """

    def __init__(
        self, listener: socket.socket, most: int, seconds: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(fileno=listener.dup().detach())
        self._given = listener
        self._most, self._seconds, self._loop = most, seconds, loop
        self._under_way: dict[Address, asyncio.TimerHandle] = {}
        # The loop polls this instead of the socket: an epoll is readable while a socket in it is.
        self._readable = select.epoll(1)
        self._readable.register(super().fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return -1 if self._readable.closed else self._readable.fileno()

    def accept(self) -> tuple[socket.socket, Address]:
        """Accept a connection; raises :class:`BlockingIOError` while there are too many, or none."""
        if len(self._under_way) >= self._most:
            raise BlockingIOError
        accepted, address = super().accept()
        connection = _Connection(accepted, self, address)
        self._under_way[address] = self._loop.call_later(self._seconds, self.greeted, address)
        if len(self._under_way) >= self._most:
            self._readable.modify(super().fileno(), 0)
        return connection, address

    def greeted(self, address: Address) -> None:
        """Note that a connection needs nothing more; may be called again."""
        timer = self._under_way.pop(address, None)
        if timer is None:
            return
        timer.cancel()
        if len(self._under_way) == self._most - 1 and not self._readable.closed:
            self._readable.modify(super().fileno(), select.EPOLLIN)

    def close(self) -> None:
        """Close the socket, and the one that it was made of."""
        self._readable.close()
        self._given.close()
        super().close()


class _Connection(socket.socket):
    """A connection whose end its listener is told."""

    _of: tuple[LimitListener, Address] | None = None

    def __init__(self, accepted: socket.socket, listener: LimitListener, address: Address) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._of = listener, address

    def close(self) -> None:
        """Close it."""
        if self._of is not None:
            (listener, address), self._of = self._of, None
            listener.greeted(address)
        super().close()
