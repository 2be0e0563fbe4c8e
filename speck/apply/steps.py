"""The steps of an action on one job, in the order of the protocol (:mod:`speck.apply.applier`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

from speck.apply.abandon import Abandoner
from speck.apply.attempts import Attempts, starting_state
from speck.apply.context import OperationContext
from speck.apply.drain import Copy, await_drained
from speck.apply.job_state import Confirmed, StateFound
from speck.apply.sessions import Sessions
from speck.apply.startup_probe import StartupProbe, startup_fault
from speck.apply.state_transfer import StateTransfer
from speck.apply.writers import Writers
from speck.binder.retry import with_retries
from speck.core.graph import source_of
from speck.core.job import Job
from speck.core.lifecycle import ActionState, AttemptPhase
from speck.core.plan import Action, Keep, Move, Plan, Start, Stop, Update
from speck.errors import BinderError, OutcomeUnknown, SpeckError, Unreachable
from speck.store import JobRecord

_log = logging.getLogger(__name__)


@dataclass
class Steps:
    """The steps of one operation.  ``drain_timeout``, s (0: no drain).

    ``rewired`` are the jobs that stop, or are to read elsewhere, and to which others wrote.

    ``on_trial`` are the jobs whose former form can be started again until their new one has come up.
    """

    context: OperationContext
    attempts: Attempts
    sessions: Sessions
    writers: Writers
    transfer: StateTransfer
    abandoner: Abandoner
    placed: Callable[[Job], Job]
    mint: Callable[[], str]
    drain_timeout: float
    rewired: Collection[str]
    on_trial: frozenset[str] = field(default=frozenset(), init=False)
    _former: dict[str, int | None] = field(default_factory=dict, init=False)
    _confirmed: set[str] = field(default_factory=set, init=False)
    _probes: dict[tuple[str, str], StartupProbe] = field(default_factory=dict, init=False)

    def begin(self, plan: Plan) -> None:
        """Find the jobs that an earlier operation has left on trial."""
        self.on_trial = frozenset(
            each.job.job_name
            for each in plan.actions
            if not isinstance(each, Stop) and self.former_form(each.job) is not None
        )

    # --- prepare

    def prepare(self, action: Action) -> None:
        """Confirm an earlier attempt, ask the engine for room and code, ensure the session; stops nothing."""
        if isinstance(action, Stop):
            return
        job, record = action.job, self.context.record(action.job.job_name)
        if isinstance(action, Start) and self._confirm(job):
            return
        record = self._with_abandoned_state(job, record)
        handle, former = self.attempts.current_copy(job.job_name)
        with_retries(
            partial(self.transfer.check, self.placed(job), starting_state(job, record), handle, former)
        )
        self.sessions.ensure(job, record)
        self.writers.admit(job)

    def _confirm(self, job: Job) -> bool:
        """Look for an attempt whose outcome is unknown; answers true if it runs in the desired form.

        One that is not found is submitted again by the start: its engine may have been asked just before a
        crash, and be about to start it.
        """
        for record in self.attempts.unconfirmed(job):
            find = partial(self.context.pool.engine(job).find, record.attempt)
            handle = self.context.call("find", find)
            if handle is not None:
                self.attempts.confirm(record.attempt, handle)
                self._confirmed.add(job.job_name)
                return True
        return False

    def _with_abandoned_state(self, job: Job, record: JobRecord) -> JobRecord:
        """The job's record with the state of a copy that is about to be abandoned."""
        for attempt in self.context.store.attempts(job.job_name):
            form = self.context.form(attempt)
            if self.abandoner.abandons(form) and job.upgrade == "stateful":
                self.context.note(job.job_name, StateFound(self.abandoner.state_of(attempt, form)))
        return self.context.record(job.job_name)

    # --- drain

    def drain(self, action: Action) -> None:
        """Wait until the running copies have processed the messages that wait where they read."""
        if self.drain_timeout > 0:
            self._await_drained(action.job.job_name)

    def _await_drained(self, name: str) -> None:
        for record in self.context.store.attempts(name):
            form, pool = self.context.form(record), self.context.pool
            running = record.handle is not None and record.phase is AttemptPhase.RUNNING
            if record.handle is not None and running and not self._is_abandoned(form):
                engine, broker = pool.engine(form), pool.broker(form.source_broker)
                copy = Copy(form, record.attempt.session, record.handle, engine, broker)
                marker = f"{self.context.operation.id}-{self.mint()[:8]}"
                await_drained(copy, marker, self.drain_timeout)

    def _drain_dead_copy(self, job: Job) -> None:
        """Start a copy that died before it had drained once more as it was, and drain it."""
        for record in self.context.store.attempts(job.job_name):
            form = self.context.form(record)
            if self.drain_timeout <= 0 or source_of(form) == source_of(job) or self._is_abandoned(form):
                continue
            broker = self.context.pool.broker(form.source_broker)
            if with_retries(partial(broker.waiting, record.attempt.session)):
                self.attempts.stop_all(job.job_name, keep_state=True)
                try:
                    self.attempts.launch(form, record.revision)
                except OutcomeUnknown:
                    raise
                except BinderError as error:
                    _log.warning("job %r cannot drain its former session: %s", job.job_name, error)
                    continue
                self._await_drained(job.job_name)

    def _is_abandoned(self, form: Job) -> bool:
        """True if no copy in this form can drain its session."""
        return self.abandoner.abandons(form) or self.abandoner.abandons_source(form)

    # --- stop and start

    def act(self, action: Action) -> None:
        """Stop the running copy, start the new one; roll back if that fails."""
        name = action.job.job_name
        match action:
            case Start():
                self._start(action.job)
                if name in self.on_trial:
                    return  # done when it has come up
                self._retire_former(name)
            case Update() | Move():
                self._replace(action)
                return  # done when it has come up
            case Stop():
                self._stop(name)
        self.context.operation.finish(name, ActionState.DONE)

    def _start(self, job: Job) -> None:
        if self._runs(job) or self._resubmit(job):
            return
        self._drain_dead_copy(job)
        self.attempts.stop_all(job.job_name, keep_state=job.upgrade == "stateful")
        try:
            self.attempts.launch(job, self.context.operation.revision)
        except OutcomeUnknown:
            raise
        except BinderError as error:
            before = self.former_form(job)  # a crash found it stopped for this one
            if before is None:
                raise
            self._roll_back(*before, error)

    def _runs(self, job: Job) -> bool:
        """True if an attempt in this form was confirmed while its start was prepared."""
        attempts = self.context.store.attempts(job.job_name)
        return job.job_name in self._confirmed and any(self.context.form(each) == job for each in attempts)

    def _resubmit(self, job: Job) -> bool:
        """Submit an attempt from before a crash once more; answers true if it runs now.

        Under the same id: should the engine still be at the first request, nothing starts twice.
        """
        for record in self.attempts.unconfirmed(job):
            try:
                self.attempts.submit(job, record.attempt)
            except (Unreachable, OutcomeUnknown):
                raise
            except BinderError as error:
                number = record.attempt.number
                _log.info("attempt %d of job %r is discarded: %s", number, job.job_name, error)
                return False
            return True
        return False

    def _replace(self, action: Update | Move) -> None:
        """Stop the old copy and start the new one; roll back when the new one does not start."""
        name = action.job.job_name
        self._former[name] = former = self.attempts.stop_all(name, keep_state=True)
        try:
            self.attempts.launch(action.job, self.context.operation.revision)
        except OutcomeUnknown:
            raise  # it may run: a second copy would double it
        except BinderError as error:
            if former is None:
                raise
            self._roll_back(action.previous, former, error)

    def _stop(self, name: str) -> None:
        self.attempts.stop_all(name, keep_state=False)
        self.attempts.release_states(name)
        for state in self.attempts.discard_garbage(name):
            self.context.operation.note(name, f"an unneeded state remains at {state.location}")
        self.sessions.detach_all(name, report=name in self.rewired)
        with self.context.store.transaction() as transaction:
            transaction.delete_job(name)

    # --- await running, roll back

    def await_running(self, action: Action) -> None:
        """Wait until the new copy has come up, or roll back; then retire the old session."""
        name = action.job.job_name
        fault = self._startup_fault(action.job)
        if fault is not None:
            self._undo(action, BinderError(fault, address=action.job.spe_address))
        self._retire_former(name)
        done = ActionState.KEPT if isinstance(action, Keep) else ActionState.DONE
        self.context.operation.finish(name, done)

    def _startup_fault(self, job: Job) -> str | None:
        attempts, pool = self.context.store.attempts(job.job_name), self.context.pool
        record = next((each for each in attempts if each.phase is AttemptPhase.RUNNING), None)
        seconds = pool.startup_seconds(job)
        if seconds <= 0 or record is None or record.handle is None:
            return None
        probe = self._probes.setdefault((job.engine, job.spe_address), StartupProbe(pool.engine(job)))
        return startup_fault(probe, record.handle, seconds)

    def former_form(self, job: Job) -> tuple[Job, int] | None:
        """The form that was stopped for this one, which has not come up yet, and its revision."""
        former = self.context.record(job.job_name).rollback_revision
        previous = self.context.jobs_of(former).get(job.job_name) if former else None
        if previous is None or previous == job or self.abandoner.abandons_source(previous):
            return None
        return previous, former

    def _undo(self, action: Action, error: BinderError) -> NoReturn:
        """Roll back to the form before this one, if there is one; raises the error in any case."""
        name = action.job.job_name
        before = self.former_form(action.job)
        if isinstance(action, Update | Move):
            former = self._former[name]
            before = None if former is None else (action.previous, former)
        if before is None:
            raise error
        self.attempts.stop_all(name, keep_state=True)
        self._roll_back(*before, error)

    def _roll_back(self, previous: Job, former: int, error: BinderError) -> NoReturn:
        """Start the previous form again; the session of the new one goes on to collect for it."""
        try:
            self.attempts.launch(previous, former)
        except BinderError as second:
            raise BinderError(f"{error}; nor could the previous version be put back: {second}") from error
        self.attempts.discard_garbage(previous.job_name)
        self.context.note(previous.job_name, Confirmed())
        raise BinderError(f"{error}; the previous version was put back and runs") from error

    def _retire_former(self, name: str) -> None:
        """Delete the former sessions and the garbage states; there is no way back any more."""
        self.sessions.detach_former(name)
        self.attempts.discard_garbage(name)
        self.context.note(name, Confirmed())

    # --- prune

    def prune(self, action: Action) -> None:
        """Delete the sessions and states that an earlier change has left of a running job."""
        name = action.job.job_name
        try:
            self.sessions.prune(action.job)
            self.attempts.discard_garbage(name)
        except SpeckError as error:
            message = f"job {name!r}: a former session could not be deleted: {error}"
            self.context.report(ActionState.FAILED, name, message)
