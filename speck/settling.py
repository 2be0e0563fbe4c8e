"""Whether a copy that an engine has taken comes to run, or dies within its first moments."""

from __future__ import annotations

import time

from speck.binder import EngineBinder
from speck.model import Handle, JobState, JobStatus

PATIENCE = 120.0  # s, for a copy to come to run

_PAUSE = 0.2
_DEAD = frozenset({JobState.FAILED, JobState.STOPPED, JobState.FINISHED, JobState.LOST})


def fault_in_coming_up(
    engine: EngineBinder, handle: Handle, settle: float, patience: float = PATIENCE
) -> str | None:
    """Why a copy did not come up; ``None`` once it was seen to run for ``settle`` seconds without a break.

    Of an engine that does not answer, nothing bad is said: the copy may well run.
    """
    deadline = time.monotonic() + patience
    running_since: float | None = None
    while True:
        status = engine.status(handle)
        now = time.monotonic()
        if status.state in _DEAD:
            return f"it was started, and is {status.state.value}{_words(status)}"
        running_since = (running_since or now) if status.state is JobState.RUNNING else None
        if running_since is not None and now - running_since >= settle:
            return None
        if now > deadline:
            slow = f"it was started, and did not come to run in {patience:g} s{_words(status)}"
            return slow if status.state is JobState.STARTING else None
        time.sleep(_PAUSE)


def _words(status: JobStatus) -> str:
    return f": {status.message}" if status.message else ""
