"""Admission control: how many agents are greeted at once, and when the others are to come again.

After a restart of the coordinator, all agents connect within a second.  Greeted side by side, each takes as
long as all of them together: beyond some thousands that is longer than an agent waits, which then begins
anew, and the work on it was for nothing.  A queue has the same end.  So those that find no place are refused
at once, which costs little, and each gets a time to come again: one after the other, as fast as agents are
greeted.  As many find a place as can be greeted while they wait.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

LEAST = 128  # greetings at once
WORK = 5.0  # s, for all that are under way: an agent waits for 30
LONGEST = 60.0  # s, for which an agent is sent away
_GUESS = 0.004  # s for a greeting, as long as nothing is known
_AHEAD = 0.75  # of that time, after which the next one comes: to be refused again costs less than a pause
_SLOWEST = 0.1  # s for a greeting
_PERIOD = 1.0  # s, over which the time for a greeting is measured
_SLOWER = 1.5  # the most by which it grows in a period
_FORGETTING = 10.0  # s without an agent, after which nothing is known


@dataclass
class AdmissionControl:
    """Decides which agents are greeted now, and when each of the others comes again.

    ``random`` gives numbers from 0 to 1; all times are of a steady clock, s."""

    least: int = LEAST
    work: float = WORK
    longest: float = LONGEST
    random: Callable[[], float] = random.random
    under_way: int = field(default=0, init=False)
    refused: int = field(default=0, init=False)  # so far
    _greeting: float = field(default=_GUESS, init=False)  # s between the ends of two greetings
    _due: float = field(default=0.0, init=False)  # when the last one that was refused is to come again
    _begun: float = field(default=0.0, init=False)  # of the present period
    _ended: int = field(default=0, init=False)  # greetings in it
    _full: bool = field(default=False, init=False)  # an agent was refused in it

    def arrives(self, now: float) -> int | None:
        """Give a place to an agent: ``None``; or the whole seconds after which it is to come again.

        The agent adds a random part of a second.
        """
        self._measure(now)
        if self.under_way < max(self.least, self.work / self._greeting):
            self.under_way += 1
            return None
        self.refused += 1
        self._full = True
        self._due = max(self._due, now) + _AHEAD * self._greeting
        if self._due - now > self.longest:  # too many for that time: later ones are refused again
            self._due = now + self.longest
            return int(self.longest * (1 + self.random()) / 2)
        return int(self._due - now)

    def ends(self, now: float) -> None:
        """Take back the place of an agent that is greeted, or gone."""
        self._measure(now)
        self.under_way -= 1
        self._ended += 1

    def _measure(self, now: float) -> None:
        """Learn from a period that is over: greetings are at least as fast as they ended in it."""
        taken = now - self._begun
        if taken < _PERIOD:
            return
        found = taken / self._ended if self._ended else math.inf
        if taken > _FORGETTING:
            self._greeting = _GUESS
        elif self._full:
            # The work on a storm of refusals, or a moment without processor time, is not the usual case.
            self._greeting = min(found, _SLOWEST, self._greeting * _SLOWER)
        else:  # more agents could have been greeted
            self._greeting = min(self._greeting, found / 2)
        self._begun, self._ended, self._full = now, 0, False
