"""The beat of a connection: when an agent pings its coordinator, and when that gives the agent up.

Only the agent pings, and only where one direction was quiet: an answered call shows both ends that the other
one is there, as a ping and its pong do.  So an end that is away is noticed within 30 s by the other one, and
a NAT never sees a quiet connection for longer than 15 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

BEAT = 15.0  # s, for which a direction may be quiet: a NAT forgets a quiet connection after 30 s or more
ANSWER = 15.0  # s, for the answer to a ping
SILENCE = 30  # looks of the coordinator at its connections, one a second, after which a silent one is cut


@dataclass
class Beat:
    """The traffic of one connection, at the agent.  ``clock`` is steady, s."""

    clock: Callable[[], float] = time.monotonic
    is_lost: bool = field(default=False, init=False)  # a ping was not answered
    _sent: float = field(init=False)
    _received: float = field(init=False)

    def __post_init__(self) -> None:
        self._sent = self._received = self.clock()

    def note_sent(self) -> None:
        """Note that the agent has sent something."""
        self._sent = self.clock()

    def note_received(self) -> None:
        """Note that the agent has received something."""
        self._received = self.clock()

    def left(self) -> float:
        """The time until the next ping, s; 0 if it is due."""
        return max(0.0, min(self._sent, self._received) + BEAT - self.clock())
