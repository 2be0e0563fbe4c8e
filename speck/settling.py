"""Whether a copy that an engine has taken comes to run, or dies within its first moments."""

from __future__ import annotations

import time

from speck.binder import EngineBinder, TellsFirstWork
from speck.errors import BinderError
from speck.model import Handle, JobState, JobStatus

PATIENCE = 300.0  # s, for a copy to come to run
FIRST_WORK = 30.0  # s, for its first piece of work, after which it counts as come up without

_PAUSE = 0.2
_DEAD = frozenset({JobState.FAILED, JobState.STOPPED, JobState.FINISHED, JobState.LOST})


def fault_in_coming_up(
    engine: EngineBinder, handle: Handle, settle: float, patience: float = PATIENCE
) -> str | None:
    """Why a copy did not come up; ``None`` once it was seen to run for ``settle`` seconds without a break.

    Where the engine tells, the copy must be through with its first piece of work as well: that is where most
    code fails, and on a busy engine it takes its time.  Of an engine that does not answer, nothing bad is
    said: the copy may well run.
    """
    deadline = time.monotonic() + patience
    running_since: float | None = None
    while True:
        status = engine.status(handle)
        now = time.monotonic()
        if status.state in _DEAD:
            return f"it was started, and is {status.state.value}{_words(status)}"
        running_since = (running_since or now) if status.state is JobState.RUNNING else None
        if running_since is not None and _is_up(engine, handle, now - running_since, settle):
            return None
        if now > deadline:
            slow = f"it was started, and did not come to run in {patience:g} s{_words(status)}"
            return slow if status.state is JobState.STARTING else None
        time.sleep(_PAUSE)


def _is_up(engine: EngineBinder, handle: Handle, ran: float, settle: float) -> bool:
    if ran < settle or ran > FIRST_WORK or not isinstance(engine, TellsFirstWork):
        return ran >= settle
    try:
        return engine.has_worked(handle)
    except BinderError:
        return False  # the next status says why


def _words(status: JobStatus) -> str:
    return f": {status.message}" if status.message else ""
