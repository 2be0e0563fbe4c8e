"""Waits until a job has processed the messages in the session that it is about to leave."""

from __future__ import annotations

import time
from dataclasses import dataclass

from speck.binder import BrokerBinder, EngineBinder
from speck.core.job import Job
from speck.core.runtime import Handle, JobState
from speck.errors import BinderError, DrainTimeout, Unreachable

_ASK_AGAIN = 5.0  # s, after which another marker is sent, should the first be lost
_STILL = 3.0  # s without input, after which a job without drain markers counts as drained
_PAUSE = 0.5
_TRIES = 3  # of an engine that does not answer
_AT_WORK = frozenset({JobState.STARTING, JobState.RUNNING})


@dataclass(frozen=True)
class Copy:
    """A running copy of a job, the session through which it reads, and the binders of both."""

    job: Job
    session: str
    handle: Handle
    engine: EngineBinder
    broker: BrokerBinder

    def at_work(self) -> bool:
        """True if it runs or starts.  Raises as :meth:`state`."""
        return self.state() in _AT_WORK

    def state(self) -> JobState:
        """Its state.  Raises :class:`~speck.errors.Unreachable` when its engine does not answer."""
        for _ in range(_TRIES):
            status = self.engine.status(self.handle)
            if status.state is not JobState.UNKNOWN:
                return status.state
            time.sleep(_PAUSE)
        raise Unreachable(status.message, address=self.handle.address)

    def rows(self) -> int | None:
        """The rows that it has read, if its engine counts them."""
        try:
            return self.engine.metrics(self.handle).input_rows
        except BinderError:
            return None


def await_drained(copy: Copy, marker: str, bound: float) -> bool:
    """True once the copy has confirmed that it has processed the messages which waited at the call.

    False if it does not run, or has run and read nothing for some seconds: its connector may have no drain
    markers, or may not have reached its broker yet.

    Raises :class:`~speck.errors.DrainTimeout` when it is not drained after ``bound`` seconds (0: no wait),
    and :class:`~speck.errors.BinderError` when its engine does not answer: it cannot be stopped then either.
    """
    deadline = time.monotonic() + bound
    detail = ""
    while (remaining := deadline - time.monotonic()) > 0:
        if not copy.at_work():
            return False
        try:
            answer = copy.broker.drained(copy.session, marker, min(remaining, _ASK_AGAIN))
        except BinderError as error:
            detail, answer = f" ({error})", False
            time.sleep(min(remaining, _PAUSE))
        if answer:
            return True
        if answer is None and _is_still(copy, deadline):
            return False
    if bound > 0 and copy.at_work():
        raise DrainTimeout(_timeout_text(copy, bound) + detail, address=copy.job.spe_address)
    return False


def _is_still(copy: Copy, deadline: float) -> bool:
    """True once the copy has run and read nothing for some seconds; false if it does not in time."""
    seen, since = copy.rows(), time.monotonic()
    while time.monotonic() < deadline:
        if copy.state() is not JobState.RUNNING:
            time.sleep(_PAUSE)
            return False
        if time.monotonic() > since + _STILL:
            return True
        time.sleep(_PAUSE)
        now = copy.rows()
        if now != seen:
            seen, since = now, time.monotonic()
    return False


def _timeout_text(copy: Copy, bound: float) -> str:
    return (
        f"the messages at {copy.job.source_topic!r} of {copy.job.source_broker} were not drained in "
        f"{bound:g} s: the job keeps reading there, and messages at its next source are retained (apply "
        "again when it is drained; speck serve --drain sets the time, 0 drops the messages)"
    )
