"""The way back after an atomic operation that was not carried out wholly: a change like any other."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.coordinator.changes import Changes
from speck.core.change import DeleteComposition, Request, Rollback
from speck.core.lifecycle import OperationState, RevisionState
from speck.errors import ShuttingDown, SpeckError
from speck.store import Store

_log = logging.getLogger(__name__)

_REFUSED = "not reverted: "  # also in the records of earlier versions, after an error of the operation itself


@dataclass(frozen=True)
class AtomicReverts:
    """Reverts atomic operations."""

    store: Store
    operations: Operations
    changes: Changes

    def revert(self, operation: Operation) -> str:
        """Go back to the revision before an atomic operation; returns the reason why not, if so."""
        return self._revert(operation, operation.to_dict()["actions"])

    def _revert(self, operation: Operation, actions: Iterable[Mapping[str, Any]]) -> str:
        """As :meth:`revert`; ``actions`` are those of the operation as plain data."""
        try:
            with self.operations.exclusive(operation.composition):  # until what it left undone is held back
                error = self._carry_out(operation)
                if error and operation.request.waves:
                    self.changes.backoff.hold(actions)
                return error
        except ShuttingDown:
            return ""
        except SpeckError as error:
            return f"{_REFUSED}{error}"

    def _carry_out(self, operation: Operation) -> str:
        name, base, asked = operation.composition, operation.base_revision, operation.request
        if self.operations.is_closing:  # done at the next start
            return ""
        if base == operation.revision:
            return f"{_REFUSED}no earlier revision differs"
        request = Request(
            author=asked.author,
            message=f"revision {operation.revision} was only partly applied",
            base_revision=operation.revision,
            give_up=asked.give_up and base > 0,
        )
        try:
            back, _ = self.changes.carry_out(
                Rollback(name, base) if base else DeleteComposition(name), request
            )
        except ShuttingDown:  # it began while this was planned
            return ""
        except SpeckError as error:
            return f"{_REFUSED}{error}"
        except Exception as error:  # a defect: it must not keep the server from starting
            _log.exception("operation %s cannot be reverted", operation.id)
            return f"{_REFUSED}internal error: {error!r}"
        operation.replace(back.id)
        return ""

    def resume(self) -> None:
        """Revert the atomic operations after whose end the coordinator ended too."""
        for head in self.store.heads():
            outcome = self.store.outcome(head.name, head.revision)
            data = self.store.operation(outcome.operation) if outcome is not None else None
            if outcome is None or data is None or outcome.state is RevisionState.APPLIED or head.deleting:
                continue
            if self.operations.live(outcome.operation) is not None:
                continue  # it was resumed: its own thread reverts it, and a second way back would be refused
            ended = data["state"] in (OperationState.FAILED, OperationState.WAITING)
            if data.get("atomic") and ended and not data["replaced_by"] and not _is_refused(data["error"]):
                operation = Operation.from_dict(data, self.operations.clock)
                error = self._revert(operation, data["actions"])
                _log.info("revision %s of %r is reverted %s", data["revision"], head.name, error)
                self._note(operation, error)

    def _note(self, operation: Operation, error: str) -> None:
        """Write the outcome: one that cannot be reverted now is left to its user, and to no later start."""
        data = self.store.operation(operation.id)
        if data is not None:
            both = "; ".join(filter(None, [data["error"], error]))
            found = {"error": both, "replaced_by": operation.replaced_by}
            with self.store.transaction() as transaction:
                transaction.put_operation(operation.id, {**data, **found})


def _is_refused(error: str) -> bool:
    """True if this error of an operation says that its way back was refused."""
    return error.startswith(_REFUSED) or f"; {_REFUSED}" in error
