"""The outcomes of revisions: pure decisions, which the operations store with their own ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from speck.core.lifecycle import ActionState, OperationState, RevisionState
from speck.store import Outcome

OPEN = frozenset({RevisionState.PENDING, RevisionState.PARTLY})  # the reconciler may still apply it


def outcome_at_end(
    before: Outcome | None, operation: Mapping[str, Any], *, carried_out: bool
) -> Outcome | None:
    """The outcome of the last revision after an operation on it (as plain data); ``None``: as before.

    ``carried_out`` is true if every job is in its desired form.  A revision that was applied once stays so,
    whatever becomes of its jobs.
    """
    if before is not None and before.state not in OPEN | {RevisionState.FAILED}:
        return None
    if carried_out:
        state = RevisionState.APPLIED
    elif any(each["state"] == ActionState.DONE for each in operation["actions"]):
        state = RevisionState.PARTLY
    elif before is not None and before.operation != operation["id"]:  # a healing that got nothing done
        return None
    else:
        waits = operation["state"] == OperationState.WAITING
        state = RevisionState.PENDING if waits else RevisionState.FAILED
    asked = operation["id"] if before is None else before.operation
    return Outcome(state, asked)


def overtaken(before: Outcome | None, by: int, *, rolled_back: bool) -> Outcome | None:
    """The outcome of the last revision when another change is accepted; ``None``: as before."""
    if before is None:
        return Outcome(RevisionState.ROLLED_BACK, "", by) if rolled_back else None
    if rolled_back:
        return replace(before, state=RevisionState.ROLLED_BACK, by=by)
    return replace(before, state=RevisionState.SUPERSEDED, by=by) if before.state in OPEN else None
