"""Waiting for servers and jobs, without pytest: :mod:`speck.testing.waiting` fails a test instead."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 300.0  # s, for what takes a few on a machine that has nothing else to do

_T = TypeVar("_T")


def await_that(ask: Callable[[], _T], accept: Callable[[_T], bool], patience: float = PATIENCE) -> _T:
    """Ask until the answer is accepted; raises :class:`TimeoutError` with the last answer.

    The pauses grow to 3% of the time waited, as those of :func:`speck.testing.waiting.eventually`.
    """
    begun = time.monotonic()
    while not accept(answer := ask()):
        waited = time.monotonic() - begun
        if waited > patience:
            raise TimeoutError(f"still {answer!r} after {patience} s")
        time.sleep(max(0.05, min(0.03 * waited, 0.15)))
    return answer
