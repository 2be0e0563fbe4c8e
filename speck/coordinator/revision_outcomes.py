"""Writes the outcomes of revisions when a change is accepted, and reverts failed atomic operations."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from speck.apply.operation import OPEN, Operation, overtaken
from speck.apply.operations import Operations
from speck.core.lifecycle import OperationKind, OperationState, RevisionState
from speck.core.plan import Plan
from speck.errors import SpeckError
from speck.store import RevisionOutcome, Store, Transaction

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RevisionOutcomes:
    """``rollback`` and ``delete`` are the coordinator's: a revert is accepted like any other change."""

    store: Store
    operations: Operations
    rollback: Callable[..., tuple[Operation, Plan]]
    delete: Callable[..., Operation]

    def put_accepted(self, transaction: Transaction, operation: Operation, number: int) -> None:
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

    def revert_atomic(self, operation: Operation) -> str:
        """Roll back to the revision before an atomic operation; returns the reason if it cannot."""
        name, base = operation.composition, operation.base_revision
        if self.operations.is_closing:  # done at the next start
            return ""
        if base == operation.revision:
            return "not reverted: no earlier revision differs"
        change: dict[str, Any] = {
            "author": operation.request.author,
            "message": f"revision {operation.revision} was only partly applied",
            "base_revision": operation.revision,
        }
        try:
            if base:
                back, _ = self.rollback(name, base, give_up=operation.request.give_up, **change)
            else:
                back = self.delete(name, **change)
        except SpeckError as error:
            return f"not reverted: {error}"
        operation.replace(back.id)
        return ""

    def resume_reverts(self) -> None:
        """Revert the atomic operations that failed just before the coordinator ended."""
        for head in self.store.heads():
            outcome = self.store.outcome(head.name, head.revision)
            data = self.store.operation(outcome.operation) if outcome is not None else None
            if outcome is None or data is None or outcome.state is RevisionState.APPLIED or head.deleting:
                continue
            ended = data["state"] in (OperationState.FAILED, OperationState.WAITING)
            if data.get("atomic") and ended and not data["replaced_by"] and not data["error"]:
                error = self.revert_atomic(Operation.from_dict(data, self.operations.clock))
                _log.info("revision %s of %r is reverted %s", data["revision"], head.name, error)
