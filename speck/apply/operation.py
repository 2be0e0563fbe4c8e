"""One operation, its progress, which others read while it runs, and the outcome of its revision."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from speck.core.change import Request
from speck.core.lifecycle import ActionState, OperationKind, OperationState, RevisionState
from speck.core.plan import Keep, Plan, action_data
from speck.store import RevisionOutcome

OPEN = frozenset({RevisionState.PENDING, RevisionState.PARTLY})  # the reconciler may still apply it


@dataclass
class Progress:
    """One action.  ``started`` and ``ended`` are Unix times, s.

    ``consequence`` was known when it was planned; ``note`` is a remark for the user on an action that was
    carried out.  ``wave`` is the wave of a roll-out to which it belongs, such as ``wave 2 of 3``.
    """

    job: str
    kind: str
    reason: str
    changes: list[dict[str, Any]]
    state: ActionState = ActionState.PENDING
    error: str = ""
    note: str = ""
    consequence: str = ""
    wave: str = ""
    started: float | None = None
    ended: float | None = None


def end_state(error: str, actions: Iterable[Progress]) -> OperationState:
    """The final state of an operation with these actions, and an ``error`` of its own or an empty one."""
    states = {each.state for each in actions}
    if error or states & {ActionState.FAILED, ActionState.SKIPPED}:
        return OperationState.FAILED
    return OperationState.WAITING if ActionState.WAITING in states else OperationState.SUCCEEDED


def summary_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """An operation (as plain data) with the number of its actions in each state instead of them."""
    rest = {name: value for name, value in data.items() if name != "actions"}
    return rest | {"counts": dict(Counter(each["state"] for each in data["actions"]))}


@dataclass
class Operation:
    """An apply, a rollback, a delete or a healing.

    ``state`` is ``running``; then ``succeeded``, ``failed``, or ``waiting`` when nothing failed and something
    waits, which is done later and not as part of it.
    ``request`` says who asked for it, why, and at what cost.  Times are Unix times, s.

    ``calls`` counts the calls made to engines, by method.  An atomic one that is not carried out wholly is
    followed by the way back to the revision that it was requested from.  ``replaced_by`` is the id of the
    operation that went on in its place before its revision was applied.
    Of a roll-out in waves, ``wave`` is the number of the one that changes or settles, from 1, and ``waits``
    says what the next one waits for while it settles.
    Safe to use from several threads.
    """

    id: str
    composition: str
    revision: int
    request: Request
    started: float
    clock: Callable[[], float]
    warnings: list[str] = field(default_factory=list)
    replaced_by: str = ""
    actions: dict[str, Progress] = field(default_factory=dict)
    state: OperationState = OperationState.RUNNING
    ended: float | None = None
    error: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    wave: int = 0
    waits: str = ""
    version: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], clock: Callable[[], float]) -> Operation:
        """The operation of this plain data, at its beginning."""
        return cls(
            data["id"],
            data["composition"],
            data["revision"],
            Request.from_dict(data),
            data["started"],
            clock,
            list(data["warnings"]),
        )

    @property
    def kind(self) -> OperationKind:
        """The kind of the request."""
        return self.request.kind

    @property
    def base_revision(self) -> int:
        """The number of the last revision before this operation (0: there was none)."""
        return self.request.base_revision or 0

    def plan(self, plan: Plan) -> None:
        """Add the actions of a plan; kept ones end at once."""
        with self._changed:
            for action in plan.actions:
                consequence = plan.consequences.get(action.job.job_name, "")
                progress = Progress(**action_data(action), consequence=consequence)
                progress.state = ActionState.KEPT if isinstance(action, Keep) else ActionState.PENDING
                self.actions[progress.job] = progress
            self._notify()

    def count(self, call: str) -> None:
        """Count one call to an engine."""
        with self._changed:
            self.calls[call] += 1

    def reopen(self, job: str) -> None:
        """Reopen the ended action of a kept job, for which something remains to be done."""
        with self._changed:
            self.actions[job].state = ActionState.PENDING
            self._notify()

    def begin(self, job: str) -> None:
        """Begin the action of a job."""
        with self._changed:
            progress = self.actions[job]
            if progress.state is ActionState.PENDING:
                progress.state, progress.started = ActionState.RUNNING, round(self.clock(), 3)
            self._notify()

    def finish(self, job: str, state: ActionState, error: str = "") -> None:
        """End the action of a job in a final state; the first end counts."""
        with self._changed:
            progress = self.actions[job]
            if progress.state in (ActionState.PENDING, ActionState.RUNNING):
                progress.state, progress.error, progress.ended = state, error, round(self.clock(), 3)
            self._notify()

    def note(self, job: str, text: str) -> None:
        """Add a remark for the user on the action of a job."""
        with self._changed:
            progress = self.actions[job]
            progress.note = "; ".join(filter(None, [progress.note, text]))
            self._notify()

    def assign(self, job: str, wave: str) -> None:
        """Name the wave of a job."""
        with self._changed:
            self.actions[job].wave = wave
            self._notify()

    def roll_out(self, wave: int, waits: str = "") -> None:
        """Show the wave that changes, or settles, and what the next one waits for then."""
        with self._changed:
            if (self.wave, self.waits) != (wave, waits):
                self.wave, self.waits = wave, waits
                self._notify()

    def end(self, error: str = "") -> None:
        """End the operation (see :func:`end_state`)."""
        with self._changed:
            state = end_state(error, self.actions.values())
            self.state, self.error, self.ended, self.waits = state, error, self.clock(), ""
            self._notify()

    def replace(self, by: str) -> None:
        """Note the operation that continues instead of this one."""
        with self._changed:
            self.replaced_by = by
            self._notify()

    def wait(self, seconds: float) -> bool:
        """Wait until the operation has ended; returns true if it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self.state is not OperationState.RUNNING, seconds)

    def wait_change(self, version: int, seconds: float) -> bool:
        """Wait for a change since ``version``; returns true if there was one."""
        with self._changed:
            return self._changed.wait_for(lambda: self.version != version, seconds)

    def _notify(self) -> None:
        self.version += 1
        self._changed.notify_all()

    def to_dict(self) -> dict[str, Any]:
        """The operation as plain data."""
        with self._changed:
            return {
                "id": self.id,
                "composition": self.composition,
                "revision": self.revision,
                **self.request.to_dict(),
                "state": self.state,
                "started": self.started,
                "ended": self.ended,
                "error": self.error,
                "warnings": list(self.warnings),
                "replaced_by": self.replaced_by,
                "engine_calls": dict(self.calls),
                **({"wave": self.wave, "waits": self.waits} if self.wave else {}),
                "actions": [vars(each) | {"changes": [*each.changes]} for each in self.actions.values()],
            }


# --- outcomes of revisions: pure decisions, which the operations store with their own ends


def outcome_at_end(
    before: RevisionOutcome | None, operation: Mapping[str, Any], *, carried_out: bool
) -> RevisionOutcome | None:
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
    return RevisionOutcome(state, asked)


def overtaken(before: RevisionOutcome | None, by: int, *, rolled_back: bool) -> RevisionOutcome | None:
    """The outcome of the last revision when another change is accepted; ``None``: as before."""
    if before is None:
        return RevisionOutcome(RevisionState.ROLLED_BACK, "", by) if rolled_back else None
    if rolled_back:
        return replace(before, state=RevisionState.ROLLED_BACK, by=by)
    return replace(before, state=RevisionState.SUPERSEDED, by=by) if before.state in OPEN else None
