"""The connection of one agent, as its coordinator keeps it."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

from speck.link.codec import Malformed, decode
from speck.link.gate import GatedConnection
from speck.link.hello import Hello
from speck.link.lasting import LASTS
from speck.link.look import LastLooks, LookMessage
from speck.link.repeats import SentCalls
from speck.link.sending import Outbox

AT_ONCE = 32  # calls under way at one site


@dataclass(frozen=True, slots=True)
class Presence:
    """An agent that is connected ``since`` (Unix time, s)."""

    since: float
    hello: Hello


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that waits for its answer; ``changes`` is the engine whose jobs it may change, or empty."""

    answer: asyncio.Future[dict[str, Any]]
    changes: str


@dataclass
class Connection:
    """One agent's connection; used in the hub's loop alone."""

    socket: GatedConnection
    token: bytes
    presence: Presence
    code: set[str]
    waiting: dict[int, Waiting] = field(default_factory=dict)
    looks: LastLooks = field(default_factory=LastLooks)
    sent_calls: SentCalls = field(default_factory=SentCalls)  # safe to use from several threads
    outbox: Outbox = field(default_factory=Outbox)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def take(self, message: dict[str, Any]) -> None:
        """Take a message of the agent: the answer to a call, the withdrawal of one that lasts, or a look."""
        number = message.get("c")
        if number is None and LASTS in message:
            self.sent_calls.usable.withdraw(message[LASTS])
        elif number is None:
            with contextlib.suppress(Malformed):  # of a later agent; calls are made then
                found: LookMessage = decode(LookMessage, message, "look")
                if found.look is None or found.look.engine in self.presence.hello.engines:
                    self.looks.note(found)
        waiting = self.waiting.get(number) if isinstance(number, int) else None
        if waiting is None:
            return
        self.looks.drop(waiting.changes)  # here, so that a look that comes after the answer stays
        if not waiting.answer.done():
            waiting.answer.set_result(message)
