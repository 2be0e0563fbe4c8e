"""Resumes the operations that a crash or a stop interrupted, by a new plan for what was accepted before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from speck.apply.fallbacks import fallbacks_of
from speck.apply.leaving import left_sources
from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.apply.planned import PlannedChange
from speck.controller.backoff import Backoff
from speck.controller.gate import with_blocked
from speck.coordinator.planning.planner import Planner
from speck.core.clocks import Clock
from speck.core.job import Job
from speck.core.lifecycle import ActionKind, OperationKind, OperationState
from speck.core.plan import Keep, Plan
from speck.core.schedule import Leftovers, schedule
from speck.errors import SpeckError, StoreError, one_line
from speck.store import Head, Store
from speck.store.deployments import Deployments, Snapshot

_log = logging.getLogger(__name__)


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
        """Resume the last interrupted operation of each composition.

        One that cannot be planned any more, as when a site of its waves has got another name, has failed: an
        atomic one is reverted then, and the reconciler completes any other.  Raises
        :class:`~speck.errors.StoreError`.
        """
        for data in self._interrupted():
            operation = Operation.from_dict(data, self.clock)
            head = self.store.head(operation.composition)
            if head is None:
                self.operations.end_at_once(operation)
                continue
            try:
                updated = {each["job"] for each in data["actions"] if each["kind"] == ActionKind.UPDATE}
                planned = self._planned(operation, head, {each["job"] for each in data["actions"]}, updated)
            except StoreError:
                raise
            except Exception as error:  # a defect too: it must not keep the server from starting
                self._give_up(data, error)
                continue
            due = [each.job.job_name for each in planned.due.actions if not isinstance(each, Keep)]
            self.backoff.record_attempt(due, self.steady())
            self.operations.begin(planned)

    def _give_up(self, data: Mapping[str, Any], error: Exception) -> None:
        known = isinstance(error, SpeckError)
        text = one_line(error) if known else f"internal error: {error!r}"
        why = f"the operation was interrupted, and cannot be resumed: {text}"
        details = None if known else error
        _log.error("operation %s on %r: %s", data["id"], data["composition"], why, exc_info=details)
        self.operations.records.end_interrupted(data, skipped=why)

    def _interrupted(self) -> Sequence[Mapping[str, Any]]:
        """The operations that a crash or a stop interrupted, as plain data: one of a composition at most.

        Only the last one on a composition can be: an earlier one had ended before that began, and its end
        could not be stored.  It is of another revision, and at another cost, than what is to be done now.
        """
        known = self.store.operations()
        last = {data["composition"]: data["id"] for data in known}
        running = [data for data in known if data["state"] == OperationState.RUNNING]
        found = [data for data in running if data["id"] == last[data["composition"]]]
        for data in (each for each in running if each not in found):
            self.operations.records.end_interrupted(data, "its end could not be stored")
        return found

    def _planned(self, operation: Operation, head: Head, jobs: set[str], updated: set[str]) -> PlannedChange:
        """The rest of an operation on these jobs: planned again from the store and the engines.

        It was to restart those of ``updated`` at their engines.

        Actions that were tried just before are left to the reconciler, which waits: a coordinator that dies
        of a request to an engine must not repeat it again and again.  So are those that they block.
        """
        snapshot = self.deployments.snapshot(head)
        plan = self.planner.resumed(snapshot, operation.request.leave_behind, updated)
        fallbacks = fallbacks_of(self.store, plan, snapshot.records, operation.request.leave_behind)
        waits = self._waits(plan, snapshot, fallbacks)
        if operation.kind in (OperationKind.HEAL, OperationKind.ADOPT):  # the other jobs were not due
            jobs |= {each.job.job_name for each in plan.actions if isinstance(each, Keep)} & fallbacks.keys()
            plan = replace(plan, actions=tuple(each for each in plan.actions if each.job.job_name in jobs))
            waits = {name: why for name, why in waits.items() if name in jobs}
        return PlannedChange(
            request=operation.request,
            head=head,
            plan=plan,
            desired=snapshot.desired,
            deletes=head.deleting,
            resumes=operation,
            waits=waits,
            waves=self.planner.waves(operation.request.waves, plan, resumed=True),
        )

    def _waits(self, plan: Plan, snapshot: Snapshot, fallbacks: Mapping[str, Job]) -> dict[str, str]:
        """The reasons of jobs whose next try is not due yet, and of those that these block."""
        acting = (each.job.job_name for each in plan.actions if not isinstance(each, Keep))
        early = dict.fromkeys(
            filter(self._is_early, acting), "was interrupted and waits for its next attempt"
        )
        begun = snapshot.begun(self.store.first_attempt)
        left = left_sources(self.deployments.history, plan, snapshot.records)
        leftovers = Leftovers(fallbacks=fallbacks, left=left)
        steps = schedule(plan, leftovers, delete_all=not snapshot.desired)
        return with_blocked(plan, steps, early, begun)

    def _is_early(self, job: str) -> bool:
        now = self.steady()
        return (self.backoff.next_try(job) or now) > now
