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
        """True if it runs.  Raises :class:`~speck.errors.Unreachable` when its engine does not answer."""
        for _ in range(_TRIES):
            status = self.engine.status(self.handle)
            if status.state is not JobState.UNKNOWN:
                return status.state in _AT_WORK
            time.sleep(_PAUSE)
        raise Unreachable(status.message, address=self.handle.address)

    def rows(self) -> int | None:
        """The rows that it has read, if its engine counts them."""
        try:
            return self.engine.metrics(self.handle).input_rows
        except BinderError:
            return None


def await_drained(copy: Copy, marker: str, bound: float) -> None:
    """Return when the messages that waited at the call are processed, or when the copy does not run.

    A copy whose connector has no drain markers counts as drained when it has read nothing for some seconds,
    or after ``bound`` seconds.  Raises :class:`~speck.errors.DrainTimeout` when another is not drained after
    ``bound`` seconds (0: no wait), and :class:`~speck.errors.BinderError` when its engine does not answer: it
    cannot be stopped then either.
    """
    deadline = time.monotonic() + bound
    detail = ""
    while (remaining := deadline - time.monotonic()) > 0:
        if not copy.at_work():
            return
        try:
            answer = copy.broker.drained(copy.session, marker, min(remaining, _ASK_AGAIN))
        except BinderError as error:
            detail, answer = f" ({error})", False
            time.sleep(min(remaining, _PAUSE))
        if answer is None:
            _await_still(copy, deadline)
        if answer is not False:
            return
    if bound > 0 and copy.at_work():
        raise DrainTimeout(_timeout_text(copy, bound) + detail, address=copy.job.spe_address)


def _await_still(copy: Copy, deadline: float) -> None:
    seen, since = copy.rows(), time.monotonic()
    while time.monotonic() < min(since + _STILL, deadline) and copy.at_work():
        time.sleep(_PAUSE)
        now = copy.rows()
        if now != seen:
            seen, since = now, time.monotonic()


def _timeout_text(copy: Copy, bound: float) -> str:
    return (
        f"the messages at {copy.job.source_topic!r} of {copy.job.source_broker} were not drained in "
        f"{bound:g} s: the job keeps reading there, and messages at its next source are retained (apply "
        "again when it is drained; speck serve --drain sets the time, 0 drops the messages)"
    )
