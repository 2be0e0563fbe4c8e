"""The attempts at jobs: in the store before an engine is asked, until it answers that they have ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from speck.apply.abandon import Abandoner
from speck.apply.context import OperationContext
from speck.apply.fallbacks import Fallback
from speck.apply.job_events import (
    AttemptDiscarded,
    AttemptIntended,
    AttemptStarted,
    AttemptStopped,
    StateFound,
    StatesDiscarded,
    StatesReleased,
    StopRequested,
    TransferBegun,
    TransferCompleted,
    TransferUndone,
)
from speck.apply.sessions import reads_again, session_for
from speck.apply.stamps import next_stamps
from speck.apply.state_transfer import StateTransfer, TransferPlan
from speck.binder import Capability
from speck.binder.retry import FIRST_PAUSE, TRIES, with_retries
from speck.core.attempt_number import known_number, next_number
from speck.core.job import Job, fence_topic, form_fingerprint
from speck.core.lifecycle import AttemptPhase, EventKind
from speck.core.logins import login_mark
from speck.core.runtime import Attempt, Handle, State
from speck.errors import BinderError, OutcomeUnknown, StateLost, Unreachable
from speck.logs import about
from speck.store import AttemptRecord, JobRecord, SessionRecord


@dataclass(frozen=True)
class Attempts:
    """Starts and stops the attempts of one operation, with the state that each begins from and leaves.

    ``placed`` returns a job with the path where its code is kept; ``mint`` makes attempt ids.
    """

    context: OperationContext
    transfer: StateTransfer
    abandoner: Abandoner
    placed: Callable[[Job], Job]
    mint: Callable[[], str]

    # --- queries

    def unconfirmed(self, job: Job) -> list[AttemptRecord]:
        """The attempts at a job in this very form that may or may not run."""
        attempts = self.context.store.attempts(job.job_name)
        return [
            each
            for each in attempts
            if each.phase is AttemptPhase.INTENDED and self.context.form(each) == job
        ]

    def current_copy(self, name: str) -> tuple[Handle | None, Job | None]:
        """The handle and the form of the copy that an engine has of a job."""
        for record in self.context.store.attempts(name):
            form = self.context.form(record)
            if record.handle is not None and form.spe_address not in self.context.left_behind:
                return record.handle, form
        return None, None

    def runs_another_form(self, job: Job) -> bool:
        """True if an attempt at a job in another form may run."""
        return any(self.context.form(each) != job for each in self.context.store.attempts(job.job_name))

    # --- start

    def launch(self, job: Job, revision: int) -> None:
        """Start a new attempt at a job in the form that this revision has.

        An abandoned copy may replace its state by a newer one in the meantime: then that is taken.
        """
        for tries_left in reversed(range(TRIES)):
            source = self.newest_state(job)
            state = self._transferred(job, source)
            try:
                self._launch_from(state, job, revision)
            except Unreachable:
                self._undo_transfer(job, state, source)  # no engine was asked to start from it
                raise
            except OutcomeUnknown:
                raise
            except BinderError:
                if not tries_left or self.newest_state(job) == state:
                    raise
            else:
                return

    def _launch_from(self, state: State | None, job: Job, revision: int) -> None:
        record = self.context.record(job.job_name)
        session = session_for(job, record, self.context.store.identity, revision)
        try:
            number = self._next_number(job, record, session)
        except OutcomeUnknown as error:
            raise Unreachable(str(error), address=error.address) from error  # nothing is submitted yet
        lineage = _lineage(job, record, state)
        stamps = next_stamps(job, record, continues=state is not None or bool(lineage))
        attempt = Attempt(
            id=self.mint(),
            job_name=job.job_name,
            number=number,
            session=session.name,
            state=state,
            lineage=lineage,
            incarnation=stamps.incarnation,
            origin=stamps.origin,
        )
        inventory = self.context.pool.inventory
        source, sink = (login_mark(inventory.broker(each)) for each in (job.source_broker, job.sink_broker))
        self.context.note(job.job_name, AttemptIntended(attempt, revision, session, (source, sink)))
        try:
            self.submit(job, attempt)
        except Unreachable:
            self.context.note(job.job_name, AttemptDiscarded(attempt))  # its engine was never asked
            raise

    def check_number(self, job: Job) -> None:
        """Raise :class:`~speck.errors.Rejected` if the next attempt at a job could have no number."""
        record = self.context.record(job.job_name)
        session = session_for(job, record, self.context.store.identity, self.context.operation.revision)
        self._next_number(job, record, session)

    def _next_number(self, job: Job, record: JobRecord, session: SessionRecord) -> int:
        """The number of the next attempt, above all that have read through its session or ended there.

        The fence names others than the store if a session of this name was deleted before, or if the store
        is an older one: copies of those attempts must not keep the new one out.  An agent at the engine has
        ended others if a job of this name was deleted that had another session.
        """
        broker, engine = self.context.pool.broker(session.broker), self.context.pool.engine(job)
        fenced = with_retries(partial(broker.fenced, session.name))
        ended = with_retries(partial(engine.last_ended, job.job_name, self.context.store.identity))
        known = known_number(record.name, record.attempts, ended, engine=job.spe_address)
        topic = fence_topic(session.name)
        return next_number(record.name, known, fenced, topic=topic, broker=session.broker)

    def submit(self, job: Job, attempt: Attempt) -> None:
        """Submit an attempt that is in the store to its engine.

        When the engine rejects it, it leaves the store.  While the outcome is unknown it stays as intended.
        """
        with about(attempt=attempt.id):
            try:
                broker = self.context.pool.broker(job.source_broker)
                with_retries(partial(broker.fence, attempt.session, attempt.number))
                handle = self._ask(job, attempt)
            except (Unreachable, OutcomeUnknown):
                raise
            except BinderError:
                self.context.note(job.job_name, AttemptDiscarded(attempt))
                raise
            self.confirm(attempt, handle)

    def _ask(self, job: Job, attempt: Attempt) -> Handle:
        uncertain = False
        attempt = replace(attempt, owner=self.context.store.identity)

        def ask() -> Handle:
            nonlocal uncertain
            try:
                return self.context.pool.engine(job).submit(self.placed(job), attempt)
            except OutcomeUnknown:
                uncertain = True
                raise
            except Unreachable as error:
                if not uncertain:
                    raise
                # This request did not arrive; the one before it may have.
                raise OutcomeUnknown(str(error), address=error.address) from error

        try:
            return self.context.call("submit", ask)
        except OutcomeUnknown as error:
            found = self._find(job, attempt)
            if found is not None:
                return found
            raise BinderError(f"{error} (checked: it is not running)") from error

    def _find(self, job: Job, attempt: Attempt) -> Handle | None:
        """Look for an attempt whose submit has an unknown outcome; raises OutcomeUnknown if it stays so."""
        engine = self.context.pool.engine(job)
        try:
            for one_try in Retrying(
                stop=stop_after_attempt(TRIES),
                wait=wait_exponential(2 * FIRST_PAUSE, max=2),
                retry=retry_if_exception_type(BinderError),
                reraise=True,
            ):
                with one_try:
                    self.context.operation.count("find")
                    return engine.find(attempt)
        except BinderError as error:
            raise OutcomeUnknown(f"it may or may not have started: {error}", address=error.address) from error
        return None

    def confirm(self, attempt: Attempt, handle: Handle) -> None:
        """Record that an engine runs an attempt."""
        name = attempt.job_name
        message = f"job {name!r} runs at {handle.address} (attempt {attempt.number})"
        with self.context.advance(name, AttemptStarted(attempt, handle)) as transaction:
            transaction.add_event(self.context.event(EventKind.STARTED, name, message))

    # --- state

    def newest_state(self, job: Job) -> State | None:
        """The state that the next attempt starts from; that of an abandoned copy is looked up again."""
        record = self.context.record(job.job_name)
        for abandoned in self.context.store.abandoned_attempts():
            if job.upgrade == "stateful" and abandoned.key == record.state_source:
                self.context.note(job.job_name, StateFound(self.abandoner.newest_state(abandoned)))
        return starting_state(job, self.context.record(job.job_name))

    def _transferred(self, job: Job, state: State | None) -> State | None:
        """The state that the next attempt starts from, at a place that the job's engine sees."""
        record = self.context.record(job.job_name)
        if state is None:
            return None
        try:
            pack = partial(self.transfer.pack, job, state, record.attempts + 1, record.garbage_states)
            plan = with_retries(pack)
            return state if plan is None else self._deliver(job, plan)
        except BinderError as error:
            # Not of the error's own class: its outcome may be unknown, and still nothing was started.
            message = (
                f"the state of job {job.job_name!r} could not be transferred to {job.spe_address}: {error}"
            )
            raise BinderError(message, address=error.address) from error

    def _deliver(self, job: Job, plan: TransferPlan) -> State:
        self.context.note(job.job_name, TransferBegun(plan.place))
        with_retries(partial(self.transfer.deliver, job, plan))
        self.context.note(job.job_name, TransferCompleted(plan.place, plan.source))
        return plan.place

    def _undo_transfer(self, job: Job, place: State | None, source: State | None) -> None:
        if place is not None and source is not None and place != source:
            self.context.note(job.job_name, TransferUndone(place, source))

    def discard_garbage(self, name: str) -> tuple[State, ...]:
        """Delete the garbage states of a job; returns those that could not be deleted now."""
        garbage, away = self.context.record(name).garbage_states, self.context.left_behind
        discarded = tuple(
            state for state in garbage if state.address not in away and self.transfer.discard(state)
        )
        if discarded:
            self.context.note(name, StatesDiscarded(discarded))
        return tuple(state for state in garbage if state not in discarded)

    def release_states(self, name: str) -> None:
        """Make garbage of the states of a job that goes."""
        record = self.context.record(name)
        if record.state or record.rollback_state or record.retained_states:
            self.context.note(name, StatesReleased())

    # --- stop

    def stop_all(self, name: str, *, keep_state: bool, required: bool = True) -> Fallback | None:
        """Stop all attempts at a job; returns its last form that can be started again.

        ``required``: the job does not start without a state that is kept.
        """
        fallback = None
        for record in self.context.store.attempts(name):
            form = self.context.form(record)
            if form.spe_address in self.context.left_behind:
                self.abandoner.abandon(record, form, keep_state=keep_state and required)
                continue
            with about(attempt=record.attempt.id):
                if self._stop(record, form, keep_state=keep_state, required=required):
                    fallback = Fallback(form, record.revision)
        return fallback

    def _stop(self, record: AttemptRecord, form: Job, *, keep_state: bool, required: bool) -> bool:
        """Stop one attempt; returns true if its form can be started again."""
        attempt, name = record.attempt, record.attempt.job_name
        handle = record.handle or self._confirm_or_resubmit(form, attempt)
        if handle is None:
            self.context.note(name, AttemptDiscarded(attempt))
            return False
        self.context.note(name, StopRequested(attempt, handle))
        engine = self.context.pool.engine(form)
        reversible = form.source_broker not in self.context.left_behind
        try:
            state = self.context.call("stop", partial(engine.stop, handle, keep_state))
        except StateLost:
            if required:
                raise
            state, reversible = self.context.call("stop", partial(engine.stop, handle, False)), False
        lineage = self._restart_lineage(attempt, form, handle) if keep_state and state is None else None
        stopped = AttemptStopped(
            attempt,
            record.revision,
            state=state.at(form.spe_address) if state else None,
            retained=Capability.DISPOSE in engine.capabilities,
            reversible=reversible,
            restart_lineage=lineage,
            form=form_fingerprint(form),
            unkept=None if keep_state else self.transfer.place_to_delete(handle, form),
        )
        self._record_stop(stopped)
        return reversible

    def _record_stop(self, stopped: AttemptStopped) -> None:
        name = stopped.attempt.job_name
        message = f"job {name!r} stopped (attempt {stopped.attempt.number})"
        with self.abandoner.advance(name, stopped) as transaction:
            transaction.add_event(self.context.event(EventKind.STOPPED, name, message))

    def _confirm_or_resubmit(self, form: Job, attempt: Attempt) -> Handle | None:
        """The handle of an attempt that is to stop and may not have started; ``None``: it never will.

        That an engine does not find it is no proof: a request from before a crash may still be under way.
        The same request once more is answered after the first, and starts nothing more.
        """
        found = self.context.call("find", partial(self.context.pool.engine(form).find, attempt))
        if found is not None:
            return found
        try:
            return self._ask(form, attempt)
        except (Unreachable, OutcomeUnknown):
            raise
        except BinderError:
            return None

    def _restart_lineage(self, attempt: Attempt, form: Job, handle: Handle) -> tuple[str, str] | None:
        """The lineage and the form of a copy that kept nothing, if the next one repeats all of its work."""
        engine = self.context.pool.engine(form)
        if Capability.PROGRESS not in engine.capabilities:
            return None
        if not self.context.call("kept_nothing", partial(engine.kept_nothing, handle)):
            return None
        return attempt.lineage or attempt.id, form_fingerprint(form)


def _lineage(job: Job, record: JobRecord, state: State | None) -> str:
    """The lineage whose work an attempt repeats from the beginning, with the same outcome; empty: none."""
    if state is not None or record.restart_lineage is None or job.upgrade != "stateful":
        return ""
    lineage, form = record.restart_lineage
    return lineage if form == form_fingerprint(job) else ""


def starting_state(job: Job, record: JobRecord) -> State | None:
    """The state that the next attempt starts from; ``None`` for one that reads again."""
    return record.state if job.upgrade == "stateful" and not reads_again(job, record) else None
