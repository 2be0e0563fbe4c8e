"""The steps of an action on one job, as the executor (:mod:`speck.apply.executor`) has them done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn

from speck.apply.abandon import Abandoner
from speck.apply.attempts import Attempts
from speck.apply.context import OperationContext
from speck.apply.draining import SourceSwitch
from speck.apply.fallbacks import Fallback, fallback_of
from speck.apply.foreign import ForeignJobs
from speck.apply.job_events import Confirmed, FormRestored, SessionEnsured
from speck.apply.recuts import refuse_repetition
from speck.apply.sessions import Sessions
from speck.apply.startup_probe import StartupProbe, startup_fault
from speck.apply.state_transfer import StateTransfer
from speck.apply.writers import Writers
from speck.binder.retry import TRIES, with_retries
from speck.core.job import Job, form_fingerprint
from speck.core.lifecycle import ActionState, AttemptPhase
from speck.core.plan import Action, Keep, Move, Start, Stop, Update
from speck.core.runtime import JobState, State
from speck.errors import BinderError, OutcomeUnknown, SpeckError, Unreachable

_log = logging.getLogger(__name__)


@dataclass
class Steps:
    """The steps of one operation.

    ``draining`` are the jobs that stop, or are to read elsewhere; ``awaited`` those whose action is done when
    their new copy has come up: their former form can be started again until then.
    """

    context: OperationContext
    attempts: Attempts
    sessions: Sessions
    writers: Writers
    transfer: StateTransfer
    abandoner: Abandoner
    placed: Callable[[Job], Job]
    source_switch: SourceSwitch
    foreign: ForeignJobs
    draining: Collection[str]
    awaited: Collection[str]
    _stopped: dict[str, Fallback | None] = field(default_factory=dict, init=False)
    _confirmed: set[str] = field(default_factory=set, init=False)
    _probes: dict[tuple[str, str], StartupProbe] = field(default_factory=dict, init=False)

    # --- prepare

    def prepare(self, action: Action) -> None:
        """Confirm an earlier attempt, ask the engine for room and code, ensure the session; stops nothing."""
        if isinstance(action, Stop):
            return
        job = action.job
        if isinstance(action, Start):
            if self._confirm(job):
                return
            self.foreign.refuse(job)
        self._check_startable(job)
        self._ensure_topics(job)
        self.sessions.ensure(job, self.context.record(job.job_name))
        if not isinstance(action, Start):  # a copy is stopped for the next one
            self.attempts.check_number(job)
        self.writers.admit(job)

    def _ensure_topics(self, job: Job) -> None:
        """Make the topics that a job writes to, at brokers where topics have to be made.

        A topic that it reads is made with its session, unless its partitions are declared.
        """
        read = [each for each in job.read_topics if each[1] in job.partitions]
        for broker, topic in (*job.written_topics, *read):
            ensure_topic = self.context.pool.broker(broker).ensure_topic
            number = job.partitions.get(topic)
            with_retries(
                partial(ensure_topic, topic) if number is None else partial(ensure_topic, topic, number)
            )

    def _check_startable(self, job: Job) -> None:
        """Ask the engine; again if a copy that is to be abandoned has replaced its state meanwhile."""
        handle, former = self.attempts.current_copy(job.job_name)
        for tries_left in reversed(range(TRIES)):
            state = self._state_to_start_from(job)
            try:
                with_retries(partial(self.transfer.check, self.placed(job), state, handle, former))
            except (Unreachable, OutcomeUnknown):
                raise
            except BinderError:
                if not tries_left or self._state_to_start_from(job) == state:
                    raise
            else:
                return

    def _confirm(self, job: Job) -> bool:
        """Look for an attempt whose outcome is unknown; returns true if it runs in the desired form.

        One that has run, and was lost with its engine, is started anew from the state that it left.  One that
        is not found is submitted again by the start: its engine may have been asked just before a crash, and
        be about to start it.
        """
        for record in self.attempts.unconfirmed(job):
            find = partial(self.context.pool.engine(job).find, record.attempt)
            handle = self.context.call("find", find)
            if handle is not None:
                self.attempts.confirm(record.attempt, handle)
                if self.context.pool.engine(job).status(handle).state is JobState.LOST:
                    return False
                self._confirmed.add(job.job_name)
                return True
        return False

    def _state_to_start_from(self, job: Job) -> State | None:
        """The state from which the job would start now, that of a copy to be abandoned included."""
        for attempt in self.context.store.attempts(job.job_name):
            form = self.context.form(attempt)
            if form.spe_address in self.context.left_behind and job.upgrade == "stateful":
                return self.abandoner.state_of(attempt, form)
        return self.attempts.newest_state(job)

    # --- stop and start

    def act(self, action: Action) -> None:
        """Stop the running copy, start the new one; roll back if that fails."""
        name = action.job.job_name
        match action:
            case Start():
                self._start(action)
                if name not in self.awaited:
                    self._retire_former(action.job)
            case Update() | Move():
                self._replace(action)
            case Stop():
                self._stop(action)
        if name not in self.awaited:
            self.context.operation.finish(name, ActionState.DONE)

    def _start(self, action: Start) -> None:
        job = action.job
        if self._runs(job) or self._resubmit(job):
            return
        stateful = job.upgrade == "stateful"
        # A copy in another form is put back with its state if this form does not start.
        keep_state = stateful or self.attempts.runs_another_form(job)
        self.attempts.stop_all(job.job_name, keep_state=keep_state, required=stateful)
        self.source_switch.check(action)
        try:
            self._refuse_repetition(job)
            self.attempts.launch(job, self.context.operation.revision)
        except OutcomeUnknown:
            raise
        except BinderError as error:
            fallback = self._fallback_of(job)  # a crash found it stopped for this one
            if fallback is None:
                raise
            self._roll_back(fallback, error)

    def _runs(self, job: Job) -> bool:
        """True if an attempt in this form was confirmed while its start was prepared."""
        attempts = self.context.store.attempts(job.job_name)
        return job.job_name in self._confirmed and any(self.context.form(each) == job for each in attempts)

    def _resubmit(self, job: Job) -> bool:
        """Submit an attempt from before a crash again; returns true if it runs now.

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
        stateful = action.job.upgrade == "stateful"
        self._stopped[name] = fallback = self.attempts.stop_all(name, keep_state=True, required=stateful)
        try:
            self.source_switch.check(action)
            self._refuse_repetition(action.job)
            self.attempts.launch(action.job, self.context.operation.revision)
        except OutcomeUnknown:
            raise  # it may run: a second copy would double it
        except BinderError as error:
            if fallback is None:
                raise
            self._roll_back(fallback, error)

    def _refuse_repetition(self, job: Job) -> None:
        """Raise an error if the form that was stopped for this one has left a state that does not fit it."""
        record, fallback = self.context.record(job.job_name), self._fallback_of(job)
        if fallback is not None and record.form == form_fingerprint(fallback.job):
            refuse_repetition(fallback.job, job, record.state)

    def _stop(self, action: Stop) -> None:
        name = action.job.job_name
        if name in self.draining:
            self._stop_reading(action)
        self.attempts.stop_all(name, keep_state=False)
        self.attempts.release_states(name)
        for state in self.attempts.discard_garbage(name):
            self.context.operation.note(name, f"an unneeded state remains at {state.location}")
        self.sessions.detach_all(name, report=name in self.draining)
        with self.context.store.transaction() as transaction:
            transaction.delete_job(name)

    def _stop_reading(self, action: Stop) -> None:
        """Stop the copy of a job that goes; start it again if messages would be lost."""
        name = action.job.job_name
        if self.source_switch.has_processed_all(name):
            return
        fallback = self.attempts.stop_all(name, keep_state=True, required=False)
        try:
            self.source_switch.check(action)
        except BinderError as error:
            if fallback is None:
                raise
            self._roll_back(fallback, error)

    # --- await running, roll back

    def await_running(self, action: Action) -> None:
        """Wait until the new copy has come up, or roll back; then retire the old session."""
        name = action.job.job_name
        fault = self._startup_fault(action.job)
        if fault is not None:
            self._undo(action, BinderError(fault, address=action.job.spe_address))
        self._retire_former(action.job)
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

    def _fallback_of(self, job: Job) -> Fallback | None:
        record = self.context.record(job.job_name)
        return fallback_of(self.context.store, record, job, self.context.left_behind)

    def _undo(self, action: Action, error: BinderError) -> NoReturn:
        """Roll back to the form before this one, if there is one; raises the error in any case."""
        name = action.job.job_name
        replaced = isinstance(action, Update | Move)
        fallback = self._stopped[name] if replaced else self._fallback_of(action.job)
        if fallback is None:
            raise error
        # A form that began without a state leaves none to the one before it, which continues with its own.
        self.attempts.stop_all(name, keep_state=action.job.upgrade == "stateful")
        self._roll_back(fallback, error)

    def _roll_back(self, fallback: Fallback, error: BinderError) -> NoReturn:
        """Start the previous form again, from the state that it had whatever its ``upgrade`` says.

        The session of the new form collects messages for it.
        """
        previous = fallback.job
        self.context.note(previous.job_name, FormRestored(previous.start))
        try:
            self.attempts.launch(replace(previous, upgrade="stateful"), fallback.revision)
        except BinderError as second:
            raise BinderError(f"{error}; and the previous version could not be restored: {second}") from error
        self.attempts.discard_garbage(previous.job_name)
        self.context.note(previous.job_name, Confirmed())
        raise BinderError(f"{error}; the previous version was restored and runs") from error

    def _retire_former(self, job: Job) -> None:
        """Delete the former sessions and the garbage states; there is no way back any more.

        That is noted first: should a broker not answer now, they are deleted later, and the job stays.
        """
        name, current = job.job_name, self.sessions.current(job)
        released = self.source_switch.released(name, current, self._fallback_of(job))
        self.context.note(name, SessionEnsured(current), Confirmed(released))
        self.sessions.detach_former(name)
        self.attempts.discard_garbage(name)

    # --- prune

    def prune(self, action: Action) -> None:
        """Delete the sessions and states that an earlier change has left of a running job."""
        name = action.job.job_name
        try:
            self.sessions.prune(action.job)
            self.attempts.discard_garbage(name)
        except SpeckError as error:
            message = f"job {name!r}: a previous session could not be deleted: {error}"
            self.context.report(ActionState.FAILED, name, message)
