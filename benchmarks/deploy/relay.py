"""A TCP relay that delays what it passes on: a wide-area link between a coordinator and its sites.

``python -m benchmarks.deploy.relay ROUND_TRIP_MS TARGET_PORT ...`` listens on a free loopback port for each
target port on 127.0.0.1, prints the ports as a JSON list, and relays until its standard input ends.

Every piece of data arrives half a round trip late, in either direction; the first data of a connection
another whole round trip later, for the handshake that a far peer would have taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import deque
from collections.abc import Callable

_ROUNDING = 0.001  # s: asyncio's timers come up to a millisecond late, as epoll counts in whole ones


class _Direction(asyncio.Protocol):
    """One end of a relayed connection; hands what it reads to the other end, late."""

    def __init__(self, delay: float, opened: Callable[[_Direction], None]) -> None:
        self.delay = delay  # s
        self.opened = opened
        self.other: _Direction | None = None
        self.transport: asyncio.Transport | None = None
        self.not_before = 0.0
        self._early: list[bytes] = []
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.opened(self)

    def data_received(self, data: bytes) -> None:
        self._later(lambda: self._pass(data))

    def eof_received(self) -> bool:
        self._later(self._end)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._later(self._close_other)

    def tie(self, other: _Direction) -> None:
        """Make the other end known; what came before goes to it now."""
        self.other = other
        for data in self._early:
            self._pass(data)
        self._early.clear()

    def _later(self, work: Callable[[], None]) -> None:
        # One timer at a time: asyncio may swap two that are due at the same moment.
        loop = asyncio.get_running_loop()
        self._waiting.append((max(loop.time() + self.delay, self.not_before), work))
        if len(self._waiting) == 1:
            loop.call_at(self._waiting[0][0], self._due)

    def _due(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._waiting[0][0] <= loop.time():
            self._waiting.popleft()[1]()
        if self._waiting:
            loop.call_at(self._waiting[0][0], self._due)

    def _pass(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        elif self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.write(data)

    def _end(self) -> None:
        if self.other is not None and self.other.transport is not None:
            with contextlib.suppress(OSError):
                self.other.transport.write_eof()

    def _close_other(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


async def _listen(round_trip: float, target: int) -> int:
    """Relay a port of our own to the target; answers our port."""
    loop = asyncio.get_running_loop()
    delay = max(0.0, round_trip / 2 - _ROUNDING)
    connecting: set[asyncio.Task[None]] = set()

    def accepted(near: _Direction) -> None:
        near.not_before = loop.time() + 1.5 * round_trip
        task = loop.create_task(connect(near))
        connecting.add(task)
        task.add_done_callback(connecting.discard)

    async def connect(near: _Direction) -> None:
        try:
            _, far = await loop.create_connection(
                lambda: _Direction(delay, lambda _: None), "127.0.0.1", target
            )
        except OSError:
            if near.transport is not None:
                near.transport.abort()
            return
        far.tie(near)
        near.tie(far)

    server = await loop.create_server(lambda: _Direction(delay, accepted), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    return port


async def _main(round_trip: float, targets: list[int]) -> None:
    ports = [await _listen(round_trip, target) for target in targets]
    print(json.dumps(ports), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(float(sys.argv[1]) / 1000, [int(each) for each in sys.argv[2:]]))
