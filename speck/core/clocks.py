"""Clocks: Unix time for what is shown and stored, a steady one for each duration and order in the process.

Unix time may be set back or forward at any moment, as on a machine without a battery of its clock.  A time
that is stored cannot be steady: it is bounded against the present time wherever it is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Answers a time, s."""


def steady_beside(clock: Clock) -> Clock:
    """The steady clock beside one of Unix time; one that a test drives is its own."""
    return time.monotonic if clock is time.time else clock
