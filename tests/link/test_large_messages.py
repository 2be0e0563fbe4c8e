"""Many large messages at once in one direction: no more are under way than the other end takes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest

from speck.link.dial import Dialler
from speck.link.frames import MOST_BEGUN, Assembly, BadFrame, SharedRoom
from speck.link.hello import Hello
from speck.link.sending import Outbox

LARGEST = 30_000  # bytes, of all messages that are under way
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def limits_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LARGEST", LARGEST), ("LARGEST_FRAME", 1000), ("_PIECE", 500)):
        monkeypatch.setattr(f"speck.link.frames.{name}", value)


SIZES = [[LARGEST // 3 * 2] * 3, [2000] * (2 * MOST_BEGUN), [LARGEST - 100, 2000, 2000]]


def messages_of(sizes: Iterable[int]) -> list[dict[str, Any]]:
    return [{"c": number, "r": "x" * size} for number, size in enumerate(sizes)]


def assembled(frames: Iterable[str | bytes]) -> list[dict[str, Any]]:
    assembly = Assembly()
    return sorted(filter(None, map(assembly.add, frames)), key=lambda each: int(each["c"]))


class SlowSocket:
    """A connection over which the frames of several messages alternate."""

    def __init__(self) -> None:
        self.sent: list[str | bytes] = []

    async def send(self, frame: str | bytes) -> None:
        await asyncio.sleep(0)
        self.sent.append(frame)


class BlockingSocket:
    """The same, at the agent."""

    def __init__(self) -> None:
        self.sent: list[str | bytes] = []

    def send(self, frame: str | bytes) -> None:
        time.sleep(0.0005)  # the time of a write, in which the threads of other messages send
        self.sent.append(frame)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_coordinator_sends_no_more_at_once_than_an_agent_takes(sizes: list[int]) -> None:
    socket, outbox, messages = SlowSocket(), Outbox(), messages_of(sizes)

    async def send_all() -> None:
        sending = [
            outbox.send_to_the_end(socket, message, number)  # type: ignore[arg-type]
            for number, message in enumerate(messages)
        ]
        await asyncio.gather(*sending)

    asyncio.run(send_all())
    assert assembled(socket.sent) == messages


@pytest.mark.parametrize("sizes", SIZES)
def test_an_agent_sends_no_more_at_once_than_its_coordinator_takes(sizes: list[int]) -> None:
    socket, messages = BlockingSocket(), messages_of(sizes)
    hello = Hello(protocol=1, version="1", site="A", engines=(), broker="tcp://b:1")
    dialler = Dialler(["ws://127.0.0.1:1"], str, lambda: hello, lambda *_: {}, lambda _: None)
    threads = [
        threading.Thread(target=dialler._send, args=(socket, message), daemon=True) for message in messages
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert assembled(socket.sent) == messages


def test_a_message_that_waits_for_room_is_not_sent_later() -> None:
    """Its caller has given up by then."""
    socket, outbox = SlowSocket(), Outbox()
    first, second = messages_of([LARGEST - 100, LARGEST - 100])

    async def give_up() -> None:
        sending = asyncio.create_task(outbox.send_to_the_end(socket, first, 1))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await outbox.send_to_the_end(socket, second, 2)  # type: ignore[arg-type]
        await sending

    asyncio.run(give_up())
    assert assembled(socket.sent) == [first]


def test_the_room_of_a_message_that_fails_is_free_again() -> None:
    room = SharedRoom()
    for _ in range(2 * MOST_BEGUN):
        with pytest.raises(ConnectionError), room.taken(LARGEST):
            raise ConnectionError
    with pytest.raises(BadFrame):
        assembled([number.to_bytes(8, "big") + b"\0piece" for number in range(MOST_BEGUN + 1)])
