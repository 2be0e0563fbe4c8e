"""The lease of a primary: the time for which no other server takes over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from speck.standby.messages import Timing


def steady() -> float:
    """Time in s that also runs while the machine sleeps, and that no step of the clock changes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Lease:
    """Valid for some time from the sending of each renewal that the standby or the witness has confirmed.

    The standby takes over only if it *and* the witness have received no renewal for longer, so that one
    confirmation is enough.  ``clock`` is steady, s.  Safe to use from several threads.
    """

    timing: Timing
    clock: Callable[[], float] = steady
    _until: float = field(default=float("-inf"), init=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False)

    def renewed(self, sent: float) -> None:
        """Note that a renewal sent at that time was confirmed."""
        with self._guard:
            self._until = max(self._until, sent + self.timing.lease)

    def held(self) -> bool:
        """True while no other server can be the primary."""
        return self.clock() < self._until
