"""Whether a copy that an engine has taken comes to run, or dies within its first moments."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from speck.binder import BatchStatus, EngineBinder, ReadinessProbe
from speck.core.runtime import Handle, JobState, JobStatus
from speck.errors import BinderError

PATIENCE = 300.0  # s, for a copy to come to run
FIRST_WORK = 30.0  # s, for its first piece of work, after which it counts as come up without

_STARTING = 0.2  # s between two looks at a copy that is about to run
_RUNNING = 0.5  # s between two looks at one that runs; shorter than any pause before an engine restarts it
_FRESH = 0.15  # s, for which a look at an engine is good for its other copies too
_DEAD = frozenset({JobState.FAILED, JobState.STOPPED, JobState.FINISHED, JobState.LOST})


@dataclass
class StartupProbe:
    """The new copies at one engine, which is asked about all of them at once where it can be.

    To ask about one costs Flink the same as about all: a change of many jobs would keep it busy otherwise.
    """

    engine: EngineBinder
    _watched: dict[str, Handle] = field(default_factory=dict, init=False)
    _seen: Mapping[str, JobStatus] = field(default_factory=dict, init=False)
    _looked: float = field(default=float("-inf"), init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    @contextmanager
    def watching(self, handle: Handle) -> Iterator[None]:
        """While the block runs, this copy is asked about too."""
        with self._turn:
            self._watched[handle.engine_id] = handle
        try:
            yield
        finally:
            with self._turn:
                del self._watched[handle.engine_id]

    def status(self, handle: Handle) -> JobStatus:
        """The status of a copy that is watched, as it was a moment ago at most."""
        if not isinstance(self.engine, BatchStatus):
            return self.engine.status(handle)
        with self._turn:
            if handle.engine_id not in self._seen or time.monotonic() > self._looked + _FRESH:
                self._seen = self.engine.statuses(self._watched.values())
                self._looked = time.monotonic()
            return self._seen[handle.engine_id]


def fault_in_coming_up(
    lookout: StartupProbe, handle: Handle, settle: float, patience: float = PATIENCE
) -> str | None:
    """Why a copy did not come up; ``None`` once it was seen to run for ``settle`` seconds without a break.

    Where the engine tells, the copy must be through with its first piece of work as well: that is where most
    code fails, and on a busy engine it takes its time.  Of an engine that does not answer, nothing bad is
    said: the copy may well run.
    """
    with lookout.watching(handle):
        return _fault(lookout, handle, settle, patience)


def _fault(lookout: StartupProbe, handle: Handle, settle: float, patience: float) -> str | None:
    deadline = time.monotonic() + patience
    running_since: float | None = None
    pause = _STARTING
    while True:
        time.sleep(pause)
        status = lookout.status(handle)
        now = time.monotonic()
        if status.state in _DEAD:
            return f"it was started, and is {status.state.value}{_words(status)}"
        running_since = (running_since or now) if status.state is JobState.RUNNING else None
        ran = 0.0 if running_since is None else now - running_since
        if running_since is not None and _is_up(lookout.engine, handle, ran, settle):
            return None
        if now > deadline:
            slow = f"it was started, and did not come to run in {patience:g} s{_words(status)}"
            return slow if status.state is JobState.STARTING else None
        pause = _STARTING if running_since is None else min(_RUNNING, max(settle - ran, _STARTING))


def _is_up(engine: EngineBinder, handle: Handle, ran: float, settle: float) -> bool:
    if ran < settle or ran > FIRST_WORK or not isinstance(engine, ReadinessProbe):
        return ran >= settle
    try:
        return engine.has_worked(handle)
    except BinderError:
        return False  # the next status says why


def _words(status: JobStatus) -> str:
    return f": {status.message}" if status.message else ""
