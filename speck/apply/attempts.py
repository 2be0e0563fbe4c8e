"""The attempts at jobs: in the store before an engine hears of one, until it says that it is no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from speck.apply.abandon import Abandoner
from speck.apply.context import OperationContext
from speck.apply.sessions import session_for, with_current
from speck.apply.state_transfer import StateTransfer, TransferPlan, at
from speck.binder import DisposableState, ProgressAware
from speck.binder.retry import TRIES, with_retries
from speck.core.job import Job, form_fingerprint
from speck.core.runtime import Attempt, Handle, State
from speck.errors import BinderError, OutcomeUnknown, Unreachable
from speck.logs import about
from speck.store import AttemptRecord, JobRecord

KEPT_STATES = 2  # of those that each stop of a job leaves: what it started from, and one more for people


@dataclass(frozen=True)
class Attempts:
    """``placed`` answers a job with the path where its code is kept; ``mint`` makes attempt ids."""

    ledger: OperationContext
    carrier: StateTransfer
    leaver: Abandoner
    placed: Callable[[Job], Job]
    mint: Callable[[], str]

    def unsettled(self, job: Job) -> list[AttemptRecord]:
        """The attempts at a job in this very form of which it is not known whether they run."""
        attempts = self.ledger.store.attempts(job.job_name)
        return [each for each in attempts if each.phase == "intended" and self.ledger.form(each) == job]

    def copy_at_work(self, name: str) -> tuple[Handle | None, Job | None]:
        """The handle and the form of the copy that an engine has of a job."""
        for record in self.ledger.store.attempts(name):
            form = self.ledger.form(record)
            if record.handle is not None and not self.leaver.leaves(form):
                return record.handle, form
        return None, None

    def launch(self, job: Job, revision: int) -> None:
        """Start a new attempt at a job in the form that this revision has."""
        state = self._bring_state(job)
        record = self.ledger.record(job.job_name)
        session, _ = session_for(job, record, revision)
        attempt = Attempt(
            id=self.mint(),
            job_name=job.job_name,
            number=record.attempts + 1,
            session=session.name,
            state=state,
            lineage=_lineage(job, record, state),
        )
        intended = AttemptRecord(attempt, revision)
        with self.ledger.store.transaction() as transaction:
            transaction.put_attempt(intended)
            transaction.put_job(replace(with_current(record, session), attempts=attempt.number))
        try:
            self.give(job, intended)
        except Unreachable:
            self._dismiss(intended)  # nothing was asked of the engine, now or before
            raise

    def give(self, job: Job, intended: AttemptRecord) -> None:
        """Hand an attempt that is in the store to its engine.

        It leaves the store when the engine says no.  When there is no answer it stays there as intended, for
        whether it runs is not known.
        """
        with about(attempt=intended.attempt.id):
            self._give(job, intended)

    def _give(self, job: Job, intended: AttemptRecord) -> None:
        attempt = intended.attempt
        try:
            with_retries(
                partial(self.ledger.pool.broker(job.source_broker).fence, attempt.session, attempt.number)
            )
            handle = self._submit(job, attempt)
        except (Unreachable, OutcomeUnknown):
            raise
        except BinderError:
            self._dismiss(intended)
            raise
        self.started(intended, handle)

    def _submit(self, job: Job, attempt: Attempt) -> Handle:
        unsure = False
        attempt = replace(attempt, owner=self.ledger.store.identity)

        def ask() -> Handle:
            nonlocal unsure
            try:
                return self.ledger.pool.engine(job).submit(self.placed(job), attempt)
            except OutcomeUnknown:
                unsure = True
                raise
            except Unreachable as error:
                if not unsure:
                    raise
                # Nothing was asked this time; the time before, something may have been.
                raise OutcomeUnknown(str(error), address=error.address) from error

        try:
            return self.ledger.call("submit", ask)
        except OutcomeUnknown as error:
            found = self._find(job, attempt)
            if found is not None:
                return found
            raise BinderError(f"{error} (looked for it: it does not run)") from error

    def _find(self, job: Job, attempt: Attempt) -> Handle | None:
        """Look for an attempt whose submit gave no answer.  Raises NoAnswer when that cannot be told."""
        engine = self.ledger.pool.engine(job)
        try:
            for one_try in Retrying(
                stop=stop_after_attempt(TRIES),
                wait=wait_exponential(0.2, max=2),
                retry=retry_if_exception_type(BinderError),
                reraise=True,
            ):
                with one_try:
                    self.ledger.operation.count("find")
                    return engine.find(attempt)
        except BinderError as error:
            raise OutcomeUnknown(
                f"whether it started is not known: {error}", address=error.address
            ) from error
        return None

    def started(self, intended: AttemptRecord, handle: Handle) -> None:
        """Note that an attempt runs."""
        name = intended.attempt.job_name
        message = f"job {name!r} runs at {handle.address} (attempt {intended.attempt.number})"
        with self.ledger.store.transaction() as transaction:
            transaction.put_attempt(replace(intended, phase="running", handle=handle))
            # What a copy did not start from is not to come back when a later one is stateful again.
            known = self.ledger.record(name)
            transaction.put_job(replace(known, error="", state=intended.attempt.state, begun=None))
            transaction.add_event(self.ledger.event("started", name, message))

    def _dismiss(self, record: AttemptRecord) -> None:
        with self.ledger.store.transaction() as transaction:
            transaction.delete_attempt(record.attempt)

    def _bring_state(self, job: Job) -> State | None:
        """The state that the next attempt starts from, carried to where the job's engine sees it."""
        record = self.ledger.record(job.job_name)
        state = carried(job, record)
        if state is None:
            return None
        try:
            parcel = with_retries(partial(self.carrier.pack, job, state, record.attempts + 1, record.left))
            return state if parcel is None else self._delivered(job, record, parcel)
        except BinderError as error:
            # Not of the error's own class: a carriage may give no answer, and still nothing was started.
            message = f"the state of job {job.job_name!r} could not be brought to {job.spe_address}: {error}"
            raise BinderError(message, address=error.address) from error

    def _delivered(self, job: Job, record: JobRecord, parcel: TransferPlan) -> State:
        others = tuple(each for each in record.left if each != parcel.place)
        with self.ledger.store.transaction() as transaction:
            transaction.put_job(replace(record, left=(*others, parcel.place)))
        with_retries(partial(self.carrier.deliver, job, parcel))
        with self.ledger.store.transaction() as transaction:
            # From now on the state is there alone: the copy that starts from it changes it.
            transaction.put_job(replace(record, state=parcel.place, left=(*others, parcel.source)))
        return parcel.place

    def discard_left(self, name: str) -> tuple[State, ...]:
        """Delete the states of a job that nothing starts from; answers those that are left for later."""
        left = self.ledger.record(name).left
        if not left:
            return ()
        kept = tuple(state for state in left if not self.carrier.discard(state))
        with self.ledger.store.transaction() as transaction:
            transaction.put_job(replace(self.ledger.record(name), left=kept))
        return kept

    def stop_all(self, name: str, *, keep_state: bool) -> int | None:
        """Stop whatever runs of a job; answers the revision of its last form that can be put back."""
        former = None
        for record in self.ledger.store.attempts(name):
            form = self.ledger.form(record)
            if self.leaver.leaves(form):
                self.leaver.leave(record, form)
                continue
            with about(attempt=record.attempt.id):
                stopped = self._stop(record, form, keep_state=keep_state)
                if stopped and not self.leaver.leaves_source(form):
                    former = record.revision
        return former

    def _stop(self, record: AttemptRecord, form: Job, *, keep_state: bool) -> bool:
        """Stop one attempt; answers whether it had been running."""
        handle = record.handle or self._bring_out(form, record)
        if handle is None:
            self._dismiss(record)
            return False
        with self.ledger.store.transaction() as transaction:
            transaction.put_attempt(replace(record, phase="stopping", handle=handle))
        engine = self.ledger.pool.engine(form)
        state = self.ledger.call("stop", partial(engine.stop, handle, keep_state))
        job = self._after_stop(record, form, at(state, form) if state else None)
        if keep_state and state is None:
            job = replace(job, begun=self._begun(record, form, handle))
        self._stopped(record, job)
        return True

    def _bring_out(self, form: Job, record: AttemptRecord) -> Handle | None:
        """The handle of an attempt that is to stop and may not have come up yet; ``None``: it never will.

        That an engine does not know it is no proof: a request from before a crash may be under way there.
        The same request once more is answered when the first is through, and starts nothing more.
        """
        found = self.ledger.call("find", partial(self.ledger.pool.engine(form).find, record.attempt))
        if found is not None:
            return found
        try:
            return self._submit(form, record.attempt)
        except (Unreachable, OutcomeUnknown):
            raise
        except BinderError:
            return None

    def _after_stop(self, record: AttemptRecord, form: Job, state: State | None) -> JobRecord:
        """What is to be kept of a job whose copy has stopped, with the state that it left."""
        job = self.ledger.record(record.attempt.job_name)
        if state is not None and isinstance(self.ledger.pool.engine(form), DisposableState):
            job = with_saved(job, state)
        # A form that has not come up yet is no way back: the one before it is.  Nor is one that read at a
        # broker which is left behind.
        former = 0 if self.leaver.leaves_source(form) else job.former or record.revision
        return replace(job, state=state or job.state, former=former, begun=None)

    def _begun(self, record: AttemptRecord, form: Job, handle: Handle) -> tuple[str, str] | None:
        """The lineage of a copy that left no state, and its form, if the next one does all of its work."""
        engine = self.ledger.pool.engine(form)
        if not isinstance(engine, ProgressAware):
            return None
        if not self.ledger.call("kept_nothing", partial(engine.kept_nothing, handle)):
            return None
        return record.attempt.lineage or record.attempt.id, form_fingerprint(form)

    def _stopped(self, record: AttemptRecord, job: JobRecord) -> None:
        message = f"job {job.name!r} stopped (attempt {record.attempt.number})"
        with self.ledger.store.transaction() as transaction:
            transaction.delete_attempt(record.attempt)
            transaction.put_job(self.leaver.parted(transaction, job))
            transaction.add_event(self.ledger.event("stopped", job.name, message))

    def give_up_states(self, name: str) -> None:
        """Of a job that goes: none of the states that it has left is needed any more."""
        job = self.ledger.record(name)
        if job.saved:
            with self.ledger.store.transaction() as transaction:
                transaction.put_job(replace(job, saved=(), left=(*job.left, *job.saved)))


def with_saved(job: JobRecord, state: State) -> JobRecord:
    """The job with one more state that it has left; the oldest beyond the bound are to be deleted."""
    saved = (*(each for each in job.saved if each != state), state)
    return replace(job, saved=saved[-KEPT_STATES:], left=(*job.left, *saved[:-KEPT_STATES]))


def _lineage(job: Job, record: JobRecord, state: State | None) -> str:
    """Whose work an attempt does again from the beginning, with the very same outcome; empty: nobody's."""
    if state is not None or record.begun is None or job.upgrade != "stateful":
        return ""
    lineage, form = record.begun
    return lineage if form == form_fingerprint(job) else ""


def carried(job: Job, record: JobRecord) -> State | None:
    """The state that the next attempt starts from."""
    return record.state if job.upgrade == "stateful" else None
