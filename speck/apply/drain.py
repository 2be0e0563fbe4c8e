"""Waits until a job has worked off what waits in the session that it is about to leave."""

from __future__ import annotations

import time
from dataclasses import dataclass

from speck.binder import BrokerBinder, EngineBinder
from speck.core.job import Job
from speck.core.runtime import Handle, JobState
from speck.errors import BinderError, DrainTimeout, Unreachable

_ASK_AGAIN = 5.0  # s, after which another marker is sent, should the first have gone astray
_STILL = 3.0  # s, for which a job that cannot tell must not have read anything
_PAUSE = 0.5
_TRIES = 3  # of an engine that does not answer
_AT_WORK = frozenset({JobState.STARTING, JobState.RUNNING})


@dataclass(frozen=True)
class Copy:
    """A copy of a job that runs, the session through which it reads, and whom to ask about both."""

    job: Job
    session: str
    handle: Handle
    engine: EngineBinder
    broker: BrokerBinder

    def at_work(self) -> bool:
        """Whether it runs.  Raises :class:`~speck.errors.Unreachable` when its engine does not answer."""
        for _ in range(_TRIES):
            status = self.engine.status(self.handle)
            if status.state is not JobState.UNKNOWN:
                return status.state in _AT_WORK
            time.sleep(_PAUSE)
        raise Unreachable(status.message, address=self.handle.address)

    def rows(self) -> int | None:
        """How much it has read, as far as its engine tells."""
        try:
            return self.engine.metrics(self.handle).input_rows
        except BinderError:
            return None


def await_drained(copy: Copy, marker: str, bound: float) -> None:
    """Return when what waited at the time of the call is worked off, or when the copy is not at work.

    A copy whose connector cannot tell is taken for done when it has read nothing for some seconds, or after
    ``bound`` seconds.  Raises :class:`~speck.errors.DrainTimeout` when another is not done after ``bound``
    seconds (0: do not wait at all), and :class:`~speck.errors.BinderError` when its engine does not answer:
    it cannot be stopped then either.
    """
    deadline = time.monotonic() + bound
    trouble = ""
    while (left := deadline - time.monotonic()) > 0:
        if not copy.at_work():
            return
        try:
            answer = copy.broker.drained(copy.session, marker, min(left, _ASK_AGAIN))
        except BinderError as error:
            trouble, answer = f" ({error})", False
            time.sleep(min(left, _PAUSE))
        if answer is None:
            _await_still(copy, deadline)
        if answer is not False:
            return
    if bound > 0 and copy.at_work():
        raise DrainTimeout(_unfinished(copy, bound) + trouble, address=copy.job.spe_address)


def _await_still(copy: Copy, deadline: float) -> None:
    seen, since = copy.rows(), time.monotonic()
    while time.monotonic() < min(since + _STILL, deadline) and copy.at_work():
        time.sleep(_PAUSE)
        now = copy.rows()
        if now != seen:
            seen, since = now, time.monotonic()


def _unfinished(copy: Copy, bound: float) -> str:
    return (
        f"what waits for it at {copy.job.source_topic!r} of {copy.job.source_broker} was not worked off in "
        f"{bound:g} s: it goes on there, and what it is to read next is kept for it (apply again when it is "
        "through; speck serve --drain sets the time, 0 gives up what waits)"
    )
