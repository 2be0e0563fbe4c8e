"""Timers that close what has been idle for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable


def begin_timer(seconds: float, call: Callable[[], None]) -> threading.Timer | None:
    """Make a call after a time, in a daemon thread.

    ``None`` if the system has no thread for it: whoever is idle stays open until the next use begins a timer.
    """
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:
        return None
    return timer
