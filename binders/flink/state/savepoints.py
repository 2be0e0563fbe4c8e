"""How a job is stopped: with a savepoint, or cancelled; and what state it leaves."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from binders.flink.rest.client import ENDED, FlinkRefused, FlinkRest
from binders.flink.rest.stack_trace import root_cause
from binders.flink.state import locations
from speck.core.runtime import Handle
from speck.errors import BinderError, OutcomeUnknown, Rejected

SAVEPOINT_PATIENCE = 300.0  # s, for a savepoint to be written
COME_UP_PATIENCE = 30.0  # s, for a job that is starting to come to where it can give a savepoint
END_PATIENCE = 60.0  # s, for the tasks of a job that is cancelled

_SHORT, _LONG = 0.02, 0.5  # s between two questions
_CANCEL = 0.03  # s, before which no job has ended: cancelling one took 35 to 55 ms

# What Flink says of a savepoint that a job cannot give just now.
_NOT_YET = (
    "Not all required tasks are currently running",
    "is not in state RUNNING",
    "Checkpoint triggering task",
)
# And of one that it cannot delete since it is gone.
_NOT_THERE = ("FileNotFoundException", "NoSuchFileException", "Cannot find")
_FALTERING = ("RESTARTING", "FAILING")
_OVER = (None, *ENDED)  # it runs no more, or is not known


class SavepointManager:
    """Stops jobs of one cluster."""

    def __init__(self, rest: FlinkRest) -> None:
        self._rest = rest
        self.savepoint_patience = SAVEPOINT_PATIENCE
        self.come_up_patience = COME_UP_PATIENCE
        self.end_patience = END_PATIENCE
        self._left: dict[str, str] = {}

    def stop(self, handle: Handle, keep_state: bool) -> str | None:
        """Stop a job, and answer where its state is when it is to be kept.

        Asked again the same is answered, as long as the cluster remembers the job or its files are seen here.
        """
        job = handle.engine_id
        state = self._rest.job_state(job)
        if keep_state and state not in _OVER:
            self._left[job] = self._with_state(handle, state) or ""
        elif state not in _OVER:
            self._cancel(job)
            self._dispose(handle)
        if not keep_state:
            return None
        return self._left.get(job) or self._kept(handle)

    def savepoint_of(self, job: str) -> str | None:
        """Where the savepoint is with which a job was stopped; ``None`` of a job that ended otherwise."""
        return self._left.get(job) or locations.stop_savepoint(self._rest.checkpoints(job) or {})

    def end(self, job: str) -> None:
        """Cancel a job that runs, and wait until it does no more; of another: nothing."""
        if self._rest.job_state(job) not in _OVER:
            self._cancel(job)

    def _cancel(self, job: str) -> None:
        with suppress(FlinkRefused):  # it ended in between
            self._rest.cancel(job)
        time.sleep(_CANCEL)
        self._await_end(job)

    def _with_state(self, handle: Handle, state: str | None) -> str | None:
        """Stop with a savepoint; a job that cannot give one is cancelled, and has its last checkpoint."""
        job, directory = handle.engine_id, handle.details.get("savepoints", "")
        deadline = time.monotonic() + self.come_up_patience
        for number, pause in enumerate(_pauses()):
            if state in _OVER:
                break
            if not directory or state in _FALTERING or time.monotonic() > deadline:
                self._cancel(job)
                break
            if state == "RUNNING":
                location = self._savepoint(handle, directory, _trigger(job, number))
                if location is not None:
                    return location
            time.sleep(pause)
            state = self._rest.job_state(job)
        return self._kept(handle)

    def _savepoint(self, handle: Handle, directory: str, trigger: str) -> str | None:
        """Stop with a savepoint; answers where it is, or ``None`` if the job could not give one just now."""
        job = handle.engine_id
        self._rest.stop(job, directory, trigger)
        outcome = self._await_savepoint(handle, trigger)
        location = outcome.get("location")
        if location:
            self._await_end(job)
            return str(location)
        trace = str((outcome.get("failure-cause") or {}).get("stack-trace", ""))
        state = self._rest.job_state(job)
        if state in _OVER or state in _FALTERING or any(text in trace for text in _NOT_YET):
            return None
        raise Rejected(
            f"job {handle.details.get('job', job)!r} runs on at {self._rest.address}: "
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
            f"after {self.savepoint_patience:g} s (Flink goes on with it)",
            address=self._rest.address,
        )

    def _await_end(self, job: str) -> None:
        deadline = time.monotonic() + self.end_patience
        for pause in _pauses():
            if self._rest.job_state(job) in _OVER:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(pause)
        raise OutcomeUnknown(
            f"{self._rest.address}: job {job} has not ended {self.end_patience:g} s after it was told to",
            address=self._rest.address,
        )

    def _kept(self, handle: Handle) -> str | None:
        """The newest state of a job that runs no more."""
        job = handle.engine_id
        statistics = self._rest.checkpoints(job)
        if statistics is None:
            return self.left_by(handle)
        found = locations.stop_savepoint(statistics) or _left_by(handle)
        if found is None:
            # What was told may be from before the end of the job.
            time.sleep(self._rest.refresh_interval())
            found = locations.newest_state(self._rest.checkpoints(job) or {})
        return found or handle.details.get("state")

    def left_by(self, handle: Handle) -> str | None:
        """The newest state of a job that the cluster knows nothing of, by its files.

        The file of a checkpoint is there before Flink says that it is complete, which is when messages are
        acknowledged: the newest one is never older than that.  Raises :class:`~speck.errors.Rejected` when
        the files are not seen here: to start from an older state would lose what was acknowledged since.
        """
        checkpoints, job = handle.details.get("checkpoints", ""), handle.engine_id
        found = _left_by(handle)
        if found is None and not locations.visible(checkpoints, job):
            raise Rejected(
                f"job {handle.details.get('job', job)!r}: {self._rest.address} does not tell of it any more, "
                f"and its last checkpoint below {checkpoints or '(nowhere)'!r} is not seen from here "
                "(let this machine see checkpoint_dir, or write 'upgrade: stateless' to start without it)",
                address=self._rest.address,
            )
        return found or handle.details.get("state")

    def dispose(self, location: str) -> None:
        """Delete a savepoint, or a checkpoint that a job has left; of one that is not there: nothing."""
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
        if trace and not any(text in trace for text in _NOT_THERE):
            raise Rejected(
                f"{self._rest.address}: {location} cannot be deleted: {root_cause(trace)}",
                address=self._rest.address,
            )
        locations.remove_folders(location)

    def kept_nothing(self, handle: Handle) -> bool:
        """Whether a job that has ended began without a state, and completed no checkpoint."""
        if handle.details.get("state"):
            return False
        job, checkpoints = handle.engine_id, handle.details.get("checkpoints", "")
        statistics = self._rest.checkpoints(job)
        if statistics is not None:
            return locations.completed(statistics) == 0
        return locations.visible(checkpoints, job) and _left_by(handle) is None

    def _dispose(self, handle: Handle) -> None:
        """Let go of the checkpoint that a cancelled job leaves, which nobody will start from."""
        job, checkpoints = handle.engine_id, handle.details.get("checkpoints", "")
        location = locations.left_behind("", checkpoints, job) or locations.last_checkpoint(
            self._rest.checkpoints(job) or {}
        )
        if location is not None:
            with suppress(BinderError):  # files are left, and no job
                self._rest.dispose(location)


def _left_by(handle: Handle) -> str | None:
    savepoints, checkpoints = (handle.details.get(name, "") for name in ("savepoints", "checkpoints"))
    return locations.left_behind(savepoints, checkpoints, handle.engine_id)


def _trigger(job: str, number: int) -> str:
    """The id of a savepoint: the same when asked for again after an answer was lost."""
    return hashlib.sha256(f"{job} {number}".encode()).hexdigest()[:32]


def _pauses() -> Iterator[float]:
    pause = _SHORT
    while True:
        yield pause
        pause = min(pause * 1.5, _LONG)
