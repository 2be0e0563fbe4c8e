"""The deadline of a call: each request within it has at most the time that is left.

A call of a binder may make many requests, each with its own time limit.  An engine that exhausts the limit of
each would hold up the call for the number of requests times that limit.  The deadline belongs to the thread
(to its context): requests that a call makes in further threads have their own limits alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))  # monotonic time, s


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit all requests of the block to ``seconds`` together; an outer block's deadline stays in force."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def limited(seconds: float) -> float:
    """The time limit of a request that may take ``seconds`` on its own: 0 or more, s."""
    return max(0.0, min(seconds, _deadline.get() - time.monotonic()))
