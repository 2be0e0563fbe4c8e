"""The records that accepting a planned change writes, beside the intent of its operation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from speck.apply import job_state
from speck.apply.job_events import CopyAdopted, RevisionNoted
from speck.apply.job_state import lifecycle_of
from speck.apply.operation import OPEN, Operation, overtaken
from speck.apply.operations import Operations
from speck.apply.planned import PlannedChange
from speck.core.lifecycle import EventKind, OperationKind, RevisionState
from speck.core.plan import Keep, Start
from speck.store import Event, Head, JobRecord, RevisionOutcome, Store, Transaction


@dataclass(frozen=True)
class Acceptance:
    """Writes the revision, its new and adopted jobs, the head, and the outcomes of revisions."""

    store: Store
    operations: Operations

    def write(
        self,
        transaction: Transaction,
        operation: Operation,
        planned: PlannedChange,
        adopted: Iterable[CopyAdopted] = (),
        events: Iterable[Event] = (),
    ) -> None:
        """Write the records of a change that is accepted as this operation, and further events of it."""
        for event in events:
            transaction.add_event(event)
        request = operation.request
        head = replace(planned.head, left_behind=request.leave_behind)
        if planned.deletes:
            transaction.put_head(replace(head, deleting=True))
            self._put_outcomes(transaction, operation, 0)
            return
        if planned.revision is not None:
            revision = replace(planned.revision, at=operation.started)
            transaction.put_revision(replace(revision, author=request.author, message=request.message))
            transaction.delete_deleted(revision.composition)
        self._put_outcomes(transaction, operation, planned.number)
        transaction.put_head(
            Head(head.name, planned.number, left_behind=request.leave_behind, give_up=request.give_up)
        )
        self._put_jobs(transaction, planned)
        for copy in adopted:
            name = copy.attempt.job_name
            job_state.write(transaction, lifecycle_of(self.store, name, head.name), copy)
            transaction.add_event(_adoption_event(operation, copy))

    def _put_jobs(self, transaction: Transaction, planned: PlannedChange) -> None:
        name = planned.composition
        for action in planned.plan.actions:
            job = action.job.job_name
            if isinstance(action, Start) and self.store.job(job) is None:
                transaction.put_job(JobRecord(job, name, self.store.first_attempt))
            if isinstance(action, Keep) and action.changes and planned.revision is not None:
                stored = lifecycle_of(self.store, job, name)
                job_state.write(transaction, stored, RevisionNoted(planned.number))

    def _put_outcomes(self, transaction: Transaction, operation: Operation, number: int) -> None:
        """Write that a revision (0: a deletion) is pending, and the outcome of the one before."""
        name, base = operation.composition, operation.base_revision
        before = self.store.outcome(name, base) if base else None
        if number == base and before is not None and before.state is RevisionState.APPLIED:
            return  # it is applied again
        if number:
            transaction.put_outcome(name, number, RevisionOutcome(RevisionState.PENDING, operation.id))
        rolled_back = bool(base) and operation.kind == OperationKind.ROLLBACK
        outcome = None if number == base else overtaken(before, number, rolled_back=rolled_back)
        if outcome is not None:
            transaction.put_outcome(name, base, outcome)
        if before is not None and before.state in OPEN:
            self.operations.put_replaced(transaction, before, operation.id)


def _adoption_event(operation: Operation, event: CopyAdopted) -> Event:
    attempt, session = event.attempt, event.session
    message = (
        f"job {attempt.job_name!r} adopted: attempt {attempt.number} ({attempt.id}) at "
        f"{event.handle.address}, with session {session.name!r} at {session.broker}"
    )
    name, identifier = operation.composition, operation.id
    return Event(operation.started, EventKind.ADOPTED, message, name, attempt.job_name, identifier)
