"""Messages on the way to an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from websockets.asyncio.server import ServerConnection

from speck.link.frames import Room, frames, pack, pieces


async def send(websocket: ServerConnection, message: dict[str, Any], number: int) -> None:
    """Send a message; raises :class:`~speck.link.frames.BadFrame` if it is too large."""
    await _send_all(websocket, frames(message, number))


class Outbox:
    """The messages on their way to one agent, for whose large ones it has limited room.

    Used in one event loop.
    """

    def __init__(self) -> None:
        self._room, self._freed = Room(), asyncio.Event()

    async def send_to_the_end(
        self, websocket: ServerConnection, message: dict[str, Any], number: int
    ) -> None:
        """Send a message also if the caller does not wait so long; none that has not begun by then.

        The agent would keep the pieces of half a message as long as the connection lasts.  Raises as
        :func:`send`.
        """
        packed = pack(message)
        if isinstance(packed, str):
            sending = asyncio.create_task(_send_all(websocket, [packed]))
        else:
            size = len(packed)
            while not self._room.take(size):
                self._freed.clear()
                await self._freed.wait()
            sending = asyncio.create_task(_send_all(websocket, pieces(packed, number)))
            sending.add_done_callback(lambda _: self._free(size))
        sending.add_done_callback(_take_error)
        await asyncio.shield(sending)

    def _free(self, size: int) -> None:
        self._room.free(size)
        self._freed.set()


async def _send_all(websocket: ServerConnection, sent: Iterable[str | bytes]) -> None:
    for frame in sent:
        await websocket.send(frame)


def _take_error(task: asyncio.Task[None]) -> None:
    """Take the error of a task that nobody waits for, which asyncio would report."""
    if not task.cancelled():
        task.exception()
