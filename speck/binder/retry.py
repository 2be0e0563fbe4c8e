"""Calls to engines and brokers: which are made again, and which failures are worth another try later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential,
)

from speck.errors import DrainTimeout, NoCapacity, OutcomeUnknown, Unreachable

_T = TypeVar("_T")

TRIES = 3
_SOON = 5.0  # s; a call that took longer to give no answer is not made again within its operation


def again(call: Callable[[], _T]) -> _T:
    """Make a call, and once more while it gives no answer: all of a binder's may be made again."""
    for one_try in Retrying(
        stop=stop_after_attempt(TRIES) | stop_after_delay(_SOON),
        wait=wait_exponential(0.1, max=1),
        retry=retry_if_exception_type(OutcomeUnknown),
        reraise=True,
    ):
        with one_try:
            return call()
    raise AssertionError("a try ends in an answer or an error")


def waits(error: Exception) -> bool:
    """Whether what failed so is worth another try as it is: nobody said no to it."""
    return isinstance(error, Unreachable | OutcomeUnknown | NoCapacity | DrainTimeout)
