"""One call over the connection of an agent: from the thread of the caller to the loop of the hub."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import TimeoutError as LateAnswer
from dataclasses import dataclass
from typing import Any

from websockets.exceptions import ConnectionClosed

from speck.errors import OutcomeUnknown, Rejected, Unreachable
from speck.link.connection import AT_ONCE, Connection, Waiting
from speck.link.frames import BadFrame
from speck.link.methods import ORDERED
from speck.link.repeats import SentCall

ENDING = 10.0  # s, by which a call may be late


@dataclass(frozen=True)
class Exchange:
    """A call of one ``agent`` by a ``deadline`` (steady, s), about an engine or a broker at an ``address``.

    ``loop`` and ``numbers`` are the hub's; ``is_current`` is false for a connection that has ended.
    """

    loop: asyncio.AbstractEventLoop
    agent: Connection
    deadline: float
    address: str
    numbers: Iterator[int]
    is_current: Callable[[Connection], bool]

    def answer(self, sent: SentCall) -> Mapping[str, Any]:
        """The whole answer.

        Raises :class:`~speck.errors.Unreachable`, :class:`~speck.errors.OutcomeUnknown`,
        :class:`~speck.errors.Rejected`, :class:`~speck.link.repeats.Forgotten`, and
        :class:`~speck.link.codec.Malformed`.
        """
        seconds = max(0.0, self.deadline - time.monotonic())
        future = asyncio.run_coroutine_threadsafe(self._call(sent, seconds), self.loop)
        try:
            number, limit, answer = future.result(seconds + ENDING)
        except LateAnswer:  # the loop has ended meanwhile
            raise OutcomeUnknown(f"{self._subject} has not answered", address=self.address) from None
        return self.agent.sent_calls.answer(sent, answer, number, limit)

    @property
    def _site(self) -> str:
        return self.agent.presence.hello.site

    @property
    def _subject(self) -> str:
        """The beginning of messages about the agent."""
        return f"{self.address}: the agent of site {self._site!r}"

    async def _call(self, sent: SentCall, seconds: float) -> tuple[int, float, dict[str, Any]]:
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(deadline):
                await self.agent.room.acquire()
        except TimeoutError:
            text = f"{AT_ONCE} calls at site {self._site!r} have not ended within {seconds:g} s"
            raise Unreachable(f"{self.address}: {text}", address=self.address) from None
        try:
            return await self._exchanged(sent, deadline)
        finally:
            self.agent.room.release()

    async def _exchanged(self, sent: SentCall, deadline: float) -> tuple[int, float, dict[str, Any]]:
        """The number of the call, its limit (s), and the answer as the agent sent it."""
        agent, call, address = self.agent, sent.call, self.address
        if not self.is_current(agent):
            raise Unreachable(f"{self._subject} has lost its connection", address=address)
        number = next(self.numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        changes = address if call.get("m") in ORDERED else ""
        agent.waiting[number] = Waiting(answer, changes)
        agent.looks.drop(changes)
        left = max(0.0, deadline - asyncio.get_running_loop().time())
        limit = round(left, 1) or left  # fewer characters
        try:
            async with asyncio.timeout_at(deadline):
                message = sent.message(limit) | {"c": number}
                await agent.outbox.send_to_the_end(agent.socket, message, number)
                return number, limit, await answer
        except TimeoutError:
            text = f"{self._subject} has not answered within {limit:.0f} s"
            raise OutcomeUnknown(text, address=address) from None
        except (ConnectionClosed, ConnectionError):
            text = f"{address}: the connection of the agent of site {self._site!r} broke before it answered"
            raise OutcomeUnknown(text, address=address) from None
        except BadFrame as error:
            text = f"{address}: {call.get('m')} at site {self._site!r} cannot be sent: {error}"
            raise Rejected(text, address=address) from error
        finally:
            del agent.waiting[number]
