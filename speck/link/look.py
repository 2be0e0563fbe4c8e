"""Looks: an agent reports which jobs of an engine run, so that rounds of the coordinator need no calls.

A look is sent when it has changed, and otherwise a short message says from time to time that it has not.  It
names only jobs that have run for a while; the coordinator asks for the others.  A call that changes a job
makes the last look invalid, at both ends.  A look that *lasts* needs no repetition: it is right until the
agent withdraws it, or the connection ends.  An agent sends such looks to a coordinator that takes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from speck.core.runtime import Found
from speck.link.hello import LONGEST

AGAIN = 15.0  # s between two messages about a look that has not changed
VALID = 40.0  # s without a message, after which a look is not used
CONFIRMED = 20.0  # s without an equal look of the agent, after which it withdraws one that lasts


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The jobs at an engine: ``settled`` are the engine's ids of those that have run for a minute or more.

    ``running`` is the answer of :meth:`~speck.binder.EngineBinder.running`; ``None``: there was none.
    """

    engine: str
    settled: tuple[str, ...] = ()
    running: tuple[Found, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookMessage:
    """A message about a look: the look, or the address of the engine whose last one is still right.

    ``lasting`` is of the look; ``withdrawn`` is the address of an engine whose last one is right no more.
    ``journal`` is the mark of the agent's journal, if it is another than that of the last message.
    """

    look: Look | None = None
    same: str | None = None
    journal: str | None = None
    lasting: bool = False
    withdrawn: str | None = None


@dataclass
class LastLooks:
    """The last looks of an agent, by engine, as its coordinator keeps them.  ``clock`` is steady, s.

    ``journal`` is the last mark of its journal; empty without one.
    """

    clock: Callable[[], float] = time.monotonic
    journal: str = field(default="", init=False)
    _looks: dict[str, tuple[Look, float | None]] = field(default_factory=dict, init=False)

    def note(self, message: LookMessage) -> None:
        """Take a message."""
        if message.journal and len(message.journal) <= LONGEST and message.journal.isprintable():
            self.journal = message.journal
        if message.look is not None:
            self._looks[message.look.engine] = message.look, None if message.lasting else self.clock()
        elif message.same in self._looks and self._looks[message.same][1] is not None:
            self._looks[message.same] = self._looks[message.same][0], self.clock()
        elif message.withdrawn is not None:
            self.drop(message.withdrawn)

    def drop(self, engine: str) -> None:
        """Forget the look of an engine, where a call may change a job."""
        self._looks.pop(engine, None)

    def get(self, engine: str, quiet: float = 0.0) -> tuple[Look, float] | None:
        """The last look at an engine and its age, s; ``None`` without a valid one.

        ``quiet`` is the time since the agent was heard, s: the age of a look that lasts.
        """
        found = self._looks.get(engine)
        if found is None:
            return None
        look, noted = found
        age = quiet if noted is None else self.clock() - noted
        return None if age > VALID else (look, age)
