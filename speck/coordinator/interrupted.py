"""Resumes the operations that a crash or a stop interrupted, by a new plan for what was accepted before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.controller.backoff import Backoff
from speck.coordinator.planning.planner import Planner
from speck.core.clocks import Clock
from speck.core.lifecycle import OperationKind
from speck.core.plan import Keep
from speck.store import Store
from speck.store.deployments import Deployments


@dataclass(frozen=True)
class InterruptedOperations:
    """Resumes operations; ``clock`` gives Unix time, ``steady`` that of the reconciler's back-off, s."""

    store: Store
    deployments: Deployments
    operations: Operations
    planner: Planner
    backoff: Backoff
    clock: Callable[[], float]
    steady: Clock

    def resume(self) -> None:
        """Resume the last interrupted operation of each composition."""
        for data in self.operations.interrupted():
            self._resume(data)

    def _resume(self, data: Mapping[str, Any]) -> None:
        """Resume an operation that did not end: plan again from the store and the engines.

        Actions that were tried just before are left to the reconciler, which waits: a coordinator that dies
        of a request to an engine must not repeat it again and again.
        """
        head = self.store.head(data["composition"])
        operation = Operation.from_dict(data, self.clock)
        if head is None:
            self.operations.end_at_once(operation)
            return
        snapshot = self.deployments.snapshot(head)
        plan = self.planner.resumed(snapshot, operation.request.leave_behind)
        if operation.kind in (OperationKind.HEAL, OperationKind.ADOPT):  # the other jobs were not due
            names = {each["job"] for each in data["actions"]}
            plan = replace(plan, actions=tuple(each for each in plan.actions if each.job.job_name in names))
        acting = [each.job.job_name for each in plan.actions if not isinstance(each, Keep)]
        waits = dict.fromkeys(
            filter(self._is_early, acting), "was interrupted and waits for its next attempt"
        )
        self.backoff.record_attempt([name for name in acting if name not in waits], self.steady())
        self.operations.resume(operation, snapshot.desired, plan, waits)

    def _is_early(self, job: str) -> bool:
        """True for a job whose next try is not due yet."""
        now = self.steady()
        return (self.backoff.next_try(job) or now) > now
