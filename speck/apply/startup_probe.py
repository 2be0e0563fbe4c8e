"""Watches a copy that an engine has accepted until it runs for a while, or dies within its first moments."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from speck.binder import Capability, EngineBinder
from speck.core.runtime import Handle, JobState, JobStatus
from speck.errors import BinderError

PATIENCE = 300.0  # s, for a copy to come to run
FIRST_WORK = 30.0  # s, for its first piece of work, after which it counts as come up without

EVIDENT = 0.3  # s, for which a copy that has worked must have run: code fails at once that fails at all

_STARTING = 0.2  # s between two observations of a copy that is about to run
_WORKING = 0.1  # s between two of one that runs, and may complete its first work at any moment
_RUNNING = 0.5  # s between two of one that runs; shorter than any pause before an engine restarts it
_FRESH = 0.15  # s, for which an answer of an engine is used for its other copies too


@dataclass
class StartupProbe:
    """The new copies at one engine, which is asked about all of them at once where it can be.

    To ask about one costs Flink the same as about all: a change of many jobs would keep it busy otherwise.
    """

    engine: EngineBinder
    _watched: dict[str, Handle] = field(default_factory=dict, init=False)
    _seen: Mapping[str, JobStatus] = field(default_factory=dict, init=False)
    _observed: float = field(default=float("-inf"), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @contextmanager
    def watching(self, handle: Handle) -> Iterator[None]:
        """While the block runs, this copy is observed too."""
        with self._lock:
            self._watched[handle.engine_id] = handle
        try:
            yield
        finally:
            with self._lock:
                del self._watched[handle.engine_id]

    def status(self, handle: Handle) -> JobStatus:
        """The status of a copy that is watched, as it was a moment ago at most."""
        with self._lock:
            if handle.engine_id not in self._seen or time.monotonic() > self._observed + _FRESH:
                self._seen = self.engine.statuses(self._watched.values())
                self._observed = time.monotonic()
            return self._seen[handle.engine_id]


def startup_fault(
    probe: StartupProbe, handle: Handle, seconds: float, patience: float = PATIENCE
) -> str | None:
    """The reason why a copy did not come up; ``None`` once it has run for ``seconds`` without a break.

    Where the engine shows it, the copy must have completed its first piece of work as well: most code fails
    there, and on a busy engine it takes its time.  One that has is up sooner (:data:`EVIDENT`).  An engine
    that does not answer is no fault of the copy, which may well run.
    """
    with probe.watching(handle):
        return _fault(probe, handle, seconds, patience)


def _fault(probe: StartupProbe, handle: Handle, seconds: float, patience: float) -> str | None:
    deadline = time.monotonic() + patience
    running_since: float | None = None
    pause = _STARTING
    while True:
        time.sleep(pause)
        status = probe.status(handle)
        now = time.monotonic()
        if status.state.ended:
            return f"it was started, but is {status.state.value}{_words(status)}"
        running_since = (running_since or now) if status.state is JobState.RUNNING else None
        ran = 0.0 if running_since is None else now - running_since
        if running_since is not None and _is_up(probe.engine, handle, ran, seconds):
            return None
        if now > deadline:
            slow = f"it was started, but was not running after {patience:g} s{_words(status)}"
            return slow if status.state is JobState.STARTING else None
        pause = _pause(probe.engine, running_since, ran, seconds)


def _pause(engine: EngineBinder, running_since: float | None, ran: float, seconds: float) -> float:
    if running_since is None:
        return _STARTING
    if Capability.READINESS in engine.capabilities and ran < seconds:
        return _WORKING
    return min(_RUNNING, max(seconds - ran, _STARTING))


def _is_up(engine: EngineBinder, handle: Handle, ran: float, seconds: float) -> bool:
    if ran > max(seconds, FIRST_WORK) or Capability.READINESS not in engine.capabilities:
        return ran >= seconds
    try:
        worked = engine.has_worked(handle)
    except BinderError:
        return False  # the next status has the reason
    if worked is None:
        return ran >= seconds
    return worked and ran >= min(seconds, EVIDENT)


def _words(status: JobStatus) -> str:
    return f": {status.message}" if status.message else ""
