"""The pauses of an agent between its tries to connect."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0  # s before the next try; a part of it is random


@dataclass
class Pauses:
    """Each pause is twice the one before, from ``first`` to ``longest`` s, and a part of it random.

    The time that the coordinator asks for is kept instead.  ``random`` gives numbers from 0 to 1.
    """

    first: float = FIRST_PAUSE
    longest: float = LONGEST_PAUSE
    random: Callable[[], float] = random.random
    _pause: float = field(default=0.0, init=False)

    def after(self, lasted: float, again: int | None = None) -> float:
        """The pause after a connection that ``lasted`` some time, s.

        ``again`` are the whole seconds after which the coordinator asks the agent to come again.
        """
        if again is not None:
            self._pause = 0.0
            return again + self.random()  # hundreds come again in the same second
        doubled = min(self.longest, 2 * (self._pause or self.first))
        self._pause = self.first if lasted > self.longest else doubled
        return self._pause * (1 + self.random()) / 2
