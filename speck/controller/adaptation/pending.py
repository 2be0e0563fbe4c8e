"""The pending step of a composition: its operation, its jobs, and its effect as far as that is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from speck.apply.operations import Operations
from speck.controller.adaptation.mover import Mover, Present
from speck.controller.adaptation.observations import Observations
from speck.controller.adaptation.obstacles import Obstacles
from speck.core.adaptation import Cuts, StepRecord
from speck.core.lifecycle import OperationKind, OperationState
from speck.errors import NotFound
from speck.placement.adaptation import verdict
from speck.placement.adaptation.situation import Progress, Realised
from speck.store import Head
from speck.store.deployments import Deployments

RECENT = 20  # operations among which that of a step is looked for


@dataclass(frozen=True)
class PendingStep:
    """A step that was decided and is not judged yet, on the composition of a ``head``."""

    record: StepRecord
    head: Head
    deployments: Deployments
    operations: Operations
    obstacles: Obstacles
    mover: Mover

    def has_made_revision(self) -> bool:
        """True if its operation has made the last revision; the author of that proves nothing."""
        return self.head.revision == self.record.revision and self.has_begun()

    def has_begun(self) -> bool:
        """True if its operation was begun."""
        return bool(self.record.operation) or self._operation() is not None

    def progress(self) -> Progress | None:
        """The progress of its operation; ``None`` if that was not begun."""
        step = self.record
        if self.head.revision < step.revision:
            return None
        data = self._operation()
        if data is None:  # too long ago to be stored
            return Progress(state=OperationState.SUCCEEDED)
        state = OperationState(data["state"])
        # What an operation leaves waiting is done later, by heals.
        waits = state is OperationState.WAITING
        if waits and (step.due or self.deployments.snapshot(self.head).runs_as_desired(step.jobs)):
            return Progress(state=OperationState.SUCCEEDED)
        failed = [each for each in data["actions"] if each["state"] == "failed"]
        why = "; ".join(filter(None, [data["error"], *(each["error"] for each in failed)]))
        return Progress(state=state, ended=data["ended"] or 0.0, error=why)

    def failing(self, now: float) -> list[str]:
        """The jobs that have failed since it was looked at, or wait for their next attempt.

        ``now`` is Unix time, s.
        """
        step = self.record
        since = step.looked - now + self.obstacles.clock() if step.due else math.inf  # repairs begin it
        return self.obstacles.failing(self.head.name, step.jobs, since)

    def realised(self, present: Present, observed: Observations) -> Realised | None:
        """Its effect, where the figures of its jobs are measured at the target; noted in ``observed``."""
        step = self.record
        judged = verdict.judged_jobs(present.model, step)
        lags = observed.falls_behind(judged, max(verdict.WINDOW, present.inputs.interval))
        if lags is None or not step.due:
            return None
        if isinstance(step.target, Cuts):
            found = self.mover.recut_effect(self.head.name, step, present, lag_grows=lags)
        elif not {step.source, step.target} <= present.model.draft.inventory.sites.keys():
            return None  # the model has its sites by the names that they had when it was made
        else:
            costs = present.inputs.measured_costs()
            found = verdict.realised(present.model, step, costs, lag_grows=lags)
        predicted = verdict.predicted_gain(step)
        observed.realised = found.gain / predicted if found is not None and predicted else None
        return found

    def _operation(self) -> dict[str, Any] | None:
        """Its operation as plain data; ``None`` if it was not begun, or is not stored any more."""
        step = self.record
        identifier = step.operation or next(
            (
                each["id"]
                for each in self.operations.last(RECENT, composition=self.head.name)
                if each["kind"] == OperationKind.PLACE and each["revision"] == step.revision
            ),
            "",
        )
        try:
            return self.operations.data(identifier)
        except NotFound:
            return None
