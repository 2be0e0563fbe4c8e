"""Retries of calls to engines and brokers, and the errors that a later attempt may overcome."""

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

TRIES = 3  # in all; what fails longer is left to the reconciler and its back-off
FIRST_PAUSE = 0.1  # s, before the second try; doubled for each further one
_TIME_LIMIT = 5.0  # s; a call that took longer to fail is not repeated within its operation


def with_retries(call: Callable[[], _T]) -> _T:
    """Make a call, up to :data:`TRIES` times while its outcome is unknown.

    All calls of a binder are idempotent.  Raises the error of the last attempt.
    """
    retrying = Retrying(
        stop=stop_after_attempt(TRIES) | stop_after_delay(_TIME_LIMIT),
        wait=wait_exponential(FIRST_PAUSE, max=1),
        retry=retry_if_exception_type(OutcomeUnknown),
        reraise=True,
    )
    return retrying(call)


def is_transient(error: Exception) -> bool:
    """True if the same action may succeed later (the error is not a rejection)."""
    return isinstance(error, Unreachable | OutcomeUnknown | NoCapacity | DrainTimeout)
