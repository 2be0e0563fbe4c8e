"""The records of operations in the store: what was accepted, before any of it is done, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from speck.apply.operation import Operation, outcome_at_end
from speck.core.lifecycle import (
    AUTOMATIC,
    ActionState,
    EventKind,
    OperationKind,
    OperationState,
    RevisionState,
)
from speck.core.plan import Plan, kind_of
from speck.store import DeletedComposition, Event, Intent, RevisionOutcome, Store, Transaction
from speck.store.deployments import Deployments


@dataclass(frozen=True)
class OperationRecords:
    """Writes operations as plain data, with their audit events; ``clock`` returns Unix time (s)."""

    deployments: Deployments
    clock: Callable[[], float]

    @property
    def store(self) -> Store:
        """The store of all operations."""
        return self.deployments.store

    def put_intent(self, transaction: Transaction, operation: Operation, plan: Plan) -> None:
        """Write the intent of an operation, with its author and reason, before any of it is done."""
        transaction.put_operation(operation.id, operation.to_dict())
        name = operation.composition
        message = f"{operation.kind} of {name!r} accepted, revision {operation.revision}"
        intents = tuple(Intent(each.job.job_name, kind_of(each), each.reason) for each in plan.changes)
        transaction.add_event(
            Event(
                self.clock(),
                EventKind.ACCEPTED,
                message,
                name,
                operation=operation.id,
                author=operation.request.author,
                cause=operation.request.message,
                intents=intents,
                automatic=operation.kind in AUTOMATIC,
            )
        )

    def put_replaced(self, transaction: Transaction, outcome: RevisionOutcome, by: str) -> None:
        """Write that the operation of this outcome has been replaced by another one."""
        data = self.store.operation(outcome.operation)
        if data is not None:
            transaction.put_operation(outcome.operation, data | {"replaced_by": by})

    def end(self, data: Mapping[str, Any]) -> None:
        """Write an operation that has ended, and the end of its composition if it was deleted.

        Raises :class:`~speck.errors.StoreError`.
        """
        kind, name, state = data["kind"], data["composition"], data["state"]
        message = f"{kind} of {name!r} {state}" + (f": {data['error']}" if data["error"] else "")
        end = Event(self.clock(), state, message, name, operation=data["id"], automatic=kind in AUTOMATIC)
        with self.store.transaction() as transaction:
            transaction.put_operation(data["id"], data)
            for each in data["actions"]:
                if each["state"] == ActionState.SKIPPED:
                    message = f"job {each['job']!r} skipped: {each['error']}"
                    transaction.add_event(replace(end, kind="skipped", message=message, job=each["job"]))
            transaction.add_event(end)
            if self._is_deleted(name):
                transaction.put_deleted(self._deletion(data))
            else:
                self._put_outcome(transaction, data)

    def end_interrupted(self, data: Mapping[str, Any], error: str = "", skipped: str = "") -> None:
        """Write that an interrupted operation, which is not resumed, has failed.

        ``error`` is its own; ``skipped`` is the reason of its actions, if they are known not to be done.
        """
        why = {"state": ActionState.SKIPPED, "error": skipped, "ended": self.clock()} if skipped else {}
        actions = [each | why if each["state"] == ActionState.PENDING else each for each in data["actions"]]
        end = {"state": OperationState.FAILED, "error": error, "ended": self.clock(), "actions": actions}
        self.end({**data, **end})

    def _put_outcome(self, transaction: Transaction, data: Mapping[str, Any]) -> None:
        """Write the outcome of the composition's last revision, where the operation was on that one."""
        name, number = data["composition"], data["revision"]
        head = self.store.head(name)
        if head is None or head.deleting or head.revision != number:
            return
        before = self.store.outcome(name, number)
        if before is not None and before.state is RevisionState.APPLIED:
            return
        carried_out = self.deployments.snapshot(head).is_carried_out()
        outcome = outcome_at_end(before, data, carried_out=carried_out)
        if outcome is not None and number:
            transaction.put_outcome(name, number, outcome)

    def _is_deleted(self, composition: str) -> bool:
        head = self.store.head(composition)
        return head is not None and head.deleting and not self.store.jobs(composition)

    def _deletion(self, data: Mapping[str, Any]) -> DeletedComposition:
        """The record of a deletion that this operation ends: the deletion itself, or a healing after it."""
        name = data["composition"]
        asked = data
        if data["kind"] in AUTOMATIC:
            deletions = self.store.last_operations(
                1, accept=lambda each: (each["composition"], each["kind"]) == (name, OperationKind.DELETE)
            )
            asked = next(iter(deletions), data)
        why = asked["author"], asked["message"], asked["id"]
        return DeletedComposition(name, data["revision"], self.clock(), *why)
