"""Stops jobs, with a savepoint or by cancellation, and finds the state of stopped jobs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from binders.flink.rest.client import FlinkRest
from binders.flink.rest.overviews import ENDED, FALTERING
from binders.flink.rest.requests import FlinkRefused
from binders.flink.rest.stack_trace import root_cause
from binders.flink.state import locations
from speck.core.inventory import is_loopback
from speck.core.runtime import Handle
from speck.errors import BinderError, OutcomeUnknown, Rejected, StateLost

SAVEPOINT_PATIENCE = 300.0  # s, for a savepoint to be written
STARTUP_PATIENCE = 30.0  # s, for a job that is starting to become able to take a savepoint
END_PATIENCE = 60.0  # s, for the tasks of a cancelled job to end

_SHORT, _LONG = 0.02, 0.5  # s between two polls
_CANCEL = 0.03  # s before the first poll: cancelling a job took 35 to 55 ms

# Parts of Flink's messages about a savepoint that a job cannot take at the moment.
_NOT_READY = (
    "Not all required tasks are currently running",
    "is not in state RUNNING",
    "Checkpoint triggering task",
)
# And about a savepoint that it cannot delete because it does not exist.
_NOT_FOUND = ("FileNotFoundException", "NoSuchFileException", "Cannot find")
_ENDED = (None, *ENDED)  # the job has ended, or is not known


class SavepointManager:
    """Stops the jobs of one cluster, and finds and deletes their states."""

    def __init__(self, rest: FlinkRest) -> None:
        self._rest = rest
        self.savepoint_patience = SAVEPOINT_PATIENCE
        self.startup_patience = STARTUP_PATIENCE
        self.end_patience = END_PATIENCE
        self._locations: dict[str, str] = {}  # of states of stopped jobs, by job id

    def stop(self, handle: Handle, keep_state: bool) -> str | None:
        """Stop a job; return the location of its state if that is to be kept.

        Idempotent as long as the cluster remembers the job, or its files are visible here.
        """
        job = handle.engine_id
        state = self._rest.job_state(job)
        if not keep_state:
            if state not in _ENDED:
                self._cancel(job)
            self._dispose_checkpoint(handle)
            return None
        if state not in _ENDED:
            self._locations[job] = self._with_state(handle, state) or ""
        return self._locations.get(job) or self._newest_state(handle)

    def savepoint_of(self, job: str) -> str | None:
        """The location of the savepoint with which a job was stopped; ``None`` if it ended otherwise."""
        return self._locations.get(job) or locations.stop_savepoint(self._rest.checkpoints(job) or {})

    def end(self, job: str) -> None:
        """Cancel a job and wait until it has ended; nothing for a job that does not run."""
        if self._rest.job_state(job) not in _ENDED:
            self._cancel(job)

    def _cancel(self, job: str) -> None:
        with suppress(FlinkRefused):  # it ended in between
            self._rest.cancel(job)
        time.sleep(_CANCEL)
        self._await_end(job)

    def _with_state(self, handle: Handle, state: str | None) -> str | None:
        """Stop with a savepoint; cancel a job that cannot take one, whose state is its last checkpoint."""
        job, directory = handle.engine_id, handle.details.get("savepoints", "")
        deadline = time.monotonic() + self.startup_patience
        for number, pause in enumerate(_pauses()):
            if state in _ENDED:
                break
            if not directory or state in FALTERING or time.monotonic() > deadline:
                self._cancel(job)
                break
            if state == "RUNNING":
                location = self._savepoint(handle, directory, _trigger(job, number))
                if location is not None:
                    return location
            time.sleep(pause)
            state = self._rest.job_state(job)
        return self._newest_state(handle)

    def _savepoint(self, handle: Handle, directory: str, trigger: str) -> str | None:
        """Stop with a savepoint; return its location, or ``None`` if the job cannot take one now."""
        job = handle.engine_id
        self._rest.stop(job, directory, trigger)
        outcome = self._await_savepoint(handle, trigger)
        location = outcome.get("location")
        if location:
            self._await_end(job)
            return str(location)
        trace = str((outcome.get("failure-cause") or {}).get("stack-trace", ""))
        state = self._rest.job_state(job)
        if state in _ENDED or state in FALTERING or any(text in trace for text in _NOT_READY):
            return None
        raise Rejected(
            f"job {handle.details.get('job', job)!r} keeps running at {self._rest.address}: "
            f"its savepoint failed: {root_cause(trace)}",
            address=self._rest.address,
        )

    def _await_savepoint(self, handle: Handle, trigger: str) -> dict[str, Any]:
        deadline = time.monotonic() + self.savepoint_patience
        for pause in _pauses():
            outcome = self._rest.savepoint(handle.engine_id, trigger)
            if outcome is not None:
                return outcome
            if time.monotonic() > deadline:
                break
            time.sleep(pause)
        raise OutcomeUnknown(
            f"{self._rest.address}: the savepoint of job {handle.details.get('job', '')!r} is not complete "
            f"after {self.savepoint_patience:g} s (Flink continues it)",
            address=self._rest.address,
        )

    def _await_end(self, job: str) -> None:
        deadline = time.monotonic() + self.end_patience
        for pause in _pauses():
            if self._rest.job_state(job) in _ENDED:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(pause)
        raise OutcomeUnknown(
            f"{self._rest.address}: job {job} has not ended {self.end_patience:g} s after it was stopped",
            address=self._rest.address,
        )

    def _newest_state(self, handle: Handle) -> str | None:
        """The newest state of a job that has ended."""
        job = handle.engine_id
        statistics = self._rest.checkpoints(job)
        if statistics is None:
            return self.newest_on_disk(handle)
        found = locations.stop_savepoint(statistics) or _on_disk(handle)
        if found is None:
            # The statistics may be from before the end of the job.
            time.sleep(self._rest.refresh_interval())
            found = locations.newest_state(self._rest.checkpoints(job) or {})
        return found or handle.details.get("state")

    def newest_on_disk(self, handle: Handle) -> str | None:
        """The newest state of a job that the cluster does not know, by its files.

        The file of a checkpoint exists before Flink completes the checkpoint, which is when messages are
        acknowledged: the newest file is never older than that.  Raises :class:`~speck.errors.StateLost` when
        the files are not visible here: a start from an older state would lose messages acknowledged since.
        """
        checkpoints, job = handle.details.get("checkpoints", ""), handle.engine_id
        found = _on_disk(handle)
        if found is None and not locations.visible(checkpoints, job):
            raise StateLost(
                f"job {handle.details.get('job', job)!r}: {self._rest.address} no longer knows it, "
                f"and its last checkpoint below {checkpoints or '(nowhere)'!r} is not visible from here "
                "(let this machine see checkpoint_dir, or write 'upgrade: stateless' to start without it)",
                address=self._rest.address,
            )
        return found or handle.details.get("state")

    def has_checkpoint(self, handle: Handle) -> bool:
        """True if there are files of a checkpoint of the job, as far as this machine sees."""
        checkpoints = handle.details.get("checkpoints", "")
        return locations.newest_on_disk("", checkpoints, handle.engine_id) is not None

    def sees(self, handle: Handle) -> bool:
        """True if this machine sees the files of the job's checkpoints, if there are any."""
        checkpoints, host = handle.details.get("checkpoints", ""), urlsplit(self._rest.address).hostname or ""
        if locations.visible(checkpoints, handle.engine_id):
            return True
        folder = locations.local_path(checkpoints)
        return is_loopback(host) and folder is not None and folder.parent.is_dir()

    def dispose(self, location: str) -> None:
        """Delete a savepoint or a retained checkpoint; nothing if it does not exist."""
        request = self._rest.dispose(location)
        deadline = time.monotonic() + self.end_patience
        for pause in _pauses():
            trace = self._rest.disposal(request)
            if trace is not None or time.monotonic() > deadline:
                break
            time.sleep(pause)
        if trace is None:
            raise OutcomeUnknown(
                f"{self._rest.address}: {location} is not deleted after {self.end_patience:g} s",
                address=self._rest.address,
            )
        if trace and not any(text in trace for text in _NOT_FOUND):
            raise Rejected(
                f"{self._rest.address}: {location} cannot be deleted: {root_cause(trace)}",
                address=self._rest.address,
            )
        locations.remove_folders(location)

    def made_no_checkpoint(self, handle: Handle) -> bool:
        """True if a job that has ended was started without a state and completed no checkpoint."""
        if handle.details.get("state"):
            return False
        job, checkpoints = handle.engine_id, handle.details.get("checkpoints", "")
        statistics = self._rest.checkpoints(job)
        if statistics is not None:
            return locations.completed(statistics) == 0
        return locations.visible(checkpoints, job) and _on_disk(handle) is None

    def _dispose_checkpoint(self, handle: Handle) -> None:
        """Delete the retained checkpoint of a job that has ended, and whose state is not kept."""
        job, checkpoints = handle.engine_id, handle.details.get("checkpoints", "")
        location = locations.newest_on_disk("", checkpoints, job) or locations.last_checkpoint(
            self._rest.checkpoints(job) or {}
        )
        if location is not None:
            with suppress(BinderError):  # only files remain then, and no job
                self._rest.dispose(location)


def _on_disk(handle: Handle) -> str | None:
    savepoints, checkpoints = (handle.details.get(name, "") for name in ("savepoints", "checkpoints"))
    return locations.newest_on_disk(savepoints, checkpoints, handle.engine_id)


def _trigger(job: str, number: int) -> str:
    """The trigger id of a savepoint: the same when the request is repeated after its answer was lost."""
    return hashlib.sha256(f"{job} {number}".encode()).hexdigest()[:32]


def _pauses() -> Iterator[float]:
    pause = _SHORT
    while True:
        yield pause
        pause = min(pause * 1.5, _LONG)
