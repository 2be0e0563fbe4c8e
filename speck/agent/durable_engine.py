"""An engine whose jobs survive it: the binder of an engine, and the attempts that were submitted through it.

To the coordinator it is one engine that starts its jobs again when it has lost them.  What it does not know
(jobs from before the agent, and jobs of others) it passes on as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from speck.agent.attempts import Attempts
from speck.agent.decide import shown
from speck.agent.run_state import Phase, Record, accepted
from speck.binder import Capability, EngineBinder
from speck.core.job import Job
from speck.core.runtime import Attempt, Found, Handle, JobState, JobStatus, State
from speck.errors import BinderError, OutcomeUnknown, Rejected, StateLost, Unreachable
from speck.link.methods import ORDERED

_ALIVE = frozenset({JobState.STARTING, JobState.RUNNING})


@dataclass
class DurableEngine:
    """The caller of :meth:`call` has the turn of :meth:`key`."""

    binder: EngineBinder
    address: str
    attempts: Attempts

    @property
    def durable(self) -> bool:
        """True if the agent can start the engine's jobs again: it finds their states."""
        return Capability.OFFLINE_STATE in self.binder.capabilities

    def key(self, method: str, arguments: Mapping[str, Any]) -> Hashable | None:
        """The key of the turn that a call needs; ``None`` for one that changes nothing and may overtake."""
        if method not in ORDERED:
            return None
        if method == "stop":
            record = self.attempts.of_handle(self.address, arguments["handle"])
            return arguments["handle"].engine_id if record is None else record.attempt.job_name
        return str(arguments["attempt"].job_name)

    def call(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Call a method of the contract."""
        own: Mapping[str, Callable[..., Any]] = {
            "submit": self.submit,
            "find": self.find,
            "stop": self.stop,
            "status": self.status,
            "statuses": self.statuses,
            "running": self.running,
            "last_ended": self.attempts.ended,
        }
        return own[method](**arguments) if method in own else self._ask(method, arguments)

    # --- the life of an attempt

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """See :meth:`speck.binder.EngineBinder.submit`; the attempt is stored before the engine is asked."""
        known = record = self.attempts.get(attempt.id)
        if record is None:
            ended = self.attempts.ended(job.job_name, attempt.owner)
            if attempt.number <= ended:
                raise self._ended_before(job)
            record = self.attempts.put(accepted(job, attempt, self.address, ended))
        elif not record.phase.permitted:
            raise self._ended_before(job)
        if record.handle is not None:
            return record.handle  # it runs, or the supervisor starts it again
        try:
            handle = self.binder.submit(record.job, attempt)
        except OutcomeUnknown:
            raise
        except Unreachable as error:
            if known is not None:  # an earlier request, whose outcome is unknown, may have started it
                raise OutcomeUnknown(str(error), address=self.address) from error
            self._discard(record)
            raise
        except BinderError:  # nothing runs, and the caller knows that
            self._discard(record)
            raise
        try:
            return self._confirmed(record, handle)
        except BinderError as error:  # the disk is full: the job runs, and the caller must not discard it
            raise OutcomeUnknown(str(error), address=self.address) from error

    def _discard(self, record: Record) -> None:
        """Forget an attempt that does not run.

        Raises :class:`~speck.errors.OutcomeUnknown` if the disk does not: the supervisor may start it later.
        """
        try:
            self.attempts.drop(record)
        except BinderError as error:
            raise OutcomeUnknown(str(error), address=self.address) from error

    def find(self, attempt: Attempt) -> Handle | None:
        """See :meth:`speck.binder.EngineBinder.find`.

        ``None`` is final: an attempt that the engine has never confirmed is not started later.
        """
        record = self.attempts.get(attempt.id)
        if record is None:
            return self.binder.find(attempt)
        if record.phase in (Phase.GONE, Phase.STARTING, Phase.ENDED) and record.handle is not None:
            return record.handle  # one that has ended is a failed one, see decide.shown
        found = self.binder.find(record.run)
        if found is not None:
            return self._confirmed(record, found) if record.handle is None else record.handle
        if record.handle is None:
            self._discard(record)
        elif record.phase is Phase.RUNNING:
            status = self.binder.status(self._run(record.handle))
            if status.state is JobState.UNKNOWN:  # it has died since; the job may be a lost one
                raise OutcomeUnknown(status.message, address=self.address)
            if status.state is JobState.LOST:
                return record.handle  # the supervisor starts it again
            self.attempts.put(record.to(Phase.STOPPING).to(Phase.STOPPED))
        return None

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """See :meth:`speck.binder.EngineBinder.stop`; the end of the permission is stored first."""
        record = self.attempts.of_handle(self.address, handle)
        if record is None:
            return self.binder.stop(handle, keep_state)
        if not record.phase.over:
            record = self.attempts.put(record.to(Phase.STOPPING))
        run = self._stopping(record, handle)
        if run is None:
            return self._stopped(record, record.state if keep_state else None)
        try:
            state = self.binder.stop(run, keep_state)
        except Rejected as error:
            if record.phase is Phase.STOPPING and not isinstance(error, StateLost) and self._runs(run):
                # The engine still runs the job, so the permission to run it stands.
                self.attempts.put(record.confirmed(run))
            raise
        return self._stopped(record, state)

    def _stopped(self, record: Record, state: State | None) -> State | None:
        if record.phase is not Phase.STOPPED:
            self.attempts.put(replace(record.to(Phase.STOPPED), state=state))
        return state

    def _stopping(self, record: Record, handle: Handle) -> Handle | None:
        """The run that a stop ends; ``None`` for one that the engine has never started.

        That the engine does not find a run is no proof: a request of the supervisor may still be under way.
        The same request once more is answered after the first, and starts nothing more.
        """
        if record.run_handle is not None or not record.run_id:
            return self._run(handle)
        found = self.binder.find(record.run)
        if found is not None:
            return found
        try:
            return self.binder.submit(record.job, record.run)
        except (Unreachable, OutcomeUnknown):
            raise
        except BinderError:
            return None

    def _runs(self, handle: Handle) -> bool:
        return self.binder.status(handle).state in _ALIVE

    def _confirmed(self, record: Record, handle: Handle) -> Handle:
        confirmed = self.attempts.put(record.confirmed(handle))
        self.attempts.forget_former(confirmed)
        return confirmed.handle or handle

    def _ended_before(self, job: Job) -> Rejected:
        text = (
            f"job {job.job_name!r}: this attempt has ended before at {self.address} (expected a new attempt)"
        )
        return Rejected(text, address=self.address)

    # --- looking

    def status(self, handle: Handle) -> JobStatus:
        """See :meth:`speck.binder.EngineBinder.status`."""
        return self.statuses([handle])[handle.engine_id]

    def statuses(self, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        """See :meth:`speck.binder.EngineBinder.statuses`; a job that is to be started again is starting."""
        runs = {each.engine_id: (each, self._run(each)) for each in handles}
        seen = self.binder.statuses([run for _, run in runs.values()])
        found = {}
        for key, (handle, run) in runs.items():
            status, record = seen[run.engine_id], self.attempts.of_handle(self.address, handle)
            if record is not None:
                observed = JobState.LOST if _is_unconfirmed(record) else status.state
                state, message = shown(record, observed, status.message, durable=self.durable)
                status = JobStatus(state, status.observed_at, message)
            found[key] = status
        return found

    def running(self) -> Sequence[Found]:
        """See :meth:`speck.binder.EngineBinder.running`; a run has the id of its attempt's first one."""
        return [self._named(each) for each in self.binder.running()]

    def _named(self, found: Found) -> Found:
        record = self.attempts.of_run(found.attempt or "")
        if record is None:
            return found
        found = replace(found, attempt=record.attempt.id)
        run = record.run_handle
        if run is None or record.handle is None or found.engine_id != run.engine_id:
            return found
        return replace(found, engine_id=record.handle.engine_id)

    def _run(self, handle: Handle) -> Handle:
        """The handle of the last run of an attempt, by that of its first one."""
        record = self.attempts.of_handle(self.address, handle)
        if record is None or record.runs <= 1 or record.run_handle is None:
            return handle
        return record.run_handle

    def _ask(self, method: str, arguments: Mapping[str, Any]) -> Any:
        call = getattr(self.binder, method)
        if "handles" in arguments:
            names = {self._run(each).engine_id: each.engine_id for each in arguments["handles"]}
            found = call([self._run(each) for each in arguments["handles"]])
            return {names.get(key, key): each for key, each in found.items()}
        if "handle" in arguments:
            return call(**{**arguments, "handle": self._run(arguments["handle"])})
        return call(**arguments)


def _is_unconfirmed(record: Record) -> bool:
    """True while the engine has not confirmed a run that came after a failure."""
    return record.phase.permitted and bool(record.run_id) and record.run_handle is None
