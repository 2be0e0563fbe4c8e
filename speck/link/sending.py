"""Messages on the way to an agent."""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.asyncio.server import ServerConnection

from speck.link.frames import frames


async def send(websocket: ServerConnection, message: dict[str, Any], number: int) -> None:
    """Send a message; raises :class:`~speck.link.frames.BadFrame` if it is too large."""
    for frame in frames(message, number):
        await websocket.send(frame)


async def send_to_the_end(websocket: ServerConnection, message: dict[str, Any], number: int) -> None:
    """Send a message also if the caller does not wait so long.

    The agent would keep the pieces of half a message as long as the connection lasts.
    """
    sending = asyncio.create_task(send(websocket, message, number))
    sending.add_done_callback(_take_error)
    await asyncio.shield(sending)


def _take_error(task: asyncio.Task[None]) -> None:
    """Take the error of a task that nobody waits for, which asyncio would report."""
    if not task.cancelled():
        task.exception()
