"""A user's requests to a coordinator, each in one call.

``request`` are the fields of a :class:`~speck.core.change.Request`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from speck.apply.adoption import AdoptionPlan
from speck.apply.operation import Operation
from speck.coordinator import Coordinator
from speck.core.change import (
    Adopt,
    Apply,
    ApplyJob,
    Change,
    DeleteComposition,
    DeleteJob,
    Request,
    Rollback,
)
from speck.core.job import Composition, Job
from speck.core.plan import Plan
from speck.errors import Fault


def _request(leave_behind: Iterable[str] = (), **request: Any) -> Request:
    return Request(leave_behind=tuple(leave_behind), **request)


def _carried_out(coordinator: Coordinator, change: Change, request: dict[str, Any]) -> tuple[Operation, Plan]:
    operation, planned = coordinator.changes.carry_out(change, _request(**request))
    return operation, planned.plan


def _apply(
    composition: Composition,
    warnings: Iterable[str] = (),
    place: str = "new",
    all_code: bool = False,
    **request: Any,
) -> tuple[Apply, dict[str, Any]]:
    return Apply(composition, tuple(map(Fault, warnings)), place, all_code), request


def plan(
    coordinator: Coordinator,
    composition: Composition,
    base_revision: int | None = None,
    *,
    build: bool = False,
    **how: Any,
) -> Plan:
    """The plan of an apply, as a user sees it."""
    change, request = _apply(composition, base_revision=base_revision, **how)
    planned = coordinator.changes.plan(change, _request(**request))
    return coordinator.changes.inspected(planned, build=build).plan


def apply(coordinator: Coordinator, composition: Composition, **how: Any) -> tuple[Operation, Plan]:
    change, request = _apply(composition, **how)
    return _carried_out(coordinator, change, request)


def carry_out(coordinator: Coordinator, composition: Composition, **how: Any) -> Operation:
    """Apply a composition, and wait until the operation has ended, whatever became of it."""
    operation, _ = apply(coordinator, composition, **how)
    assert operation.wait(60)
    return operation


def apply_job(coordinator: Coordinator, job: Job, name: str, **request: Any) -> tuple[Operation, Plan]:
    return _carried_out(coordinator, ApplyJob(job, name), request)


def rollback(
    coordinator: Coordinator, name: str, number: int | None = None, **request: Any
) -> tuple[Operation, Plan]:
    return _carried_out(coordinator, Rollback(name, number), request)


def rollback_warnings(coordinator: Coordinator, name: str) -> list[str]:
    return [str(each) for each in coordinator.changes.plan(Rollback(name), Request()).warnings]


def plan_rollback(coordinator: Coordinator, name: str, number: int | None = None) -> tuple[Plan, int]:
    planned = coordinator.changes.plan(Rollback(name, number), Request())
    return planned.plan, planned.restored


def delete_composition(
    coordinator: Coordinator, name: str, author: str = "", message: str = "", **request: Any
) -> Operation:
    why = {"author": author, "message": message}
    return _carried_out(coordinator, DeleteComposition(name), why | request)[0]


def delete_job(coordinator: Coordinator, name: str, **request: Any) -> Operation:
    return _carried_out(coordinator, DeleteJob(name), request)[0]


def plan_adoption(
    coordinator: Coordinator, composition: Composition, jobs: Iterable[str] = (), **request: Any
) -> AdoptionPlan:
    found = coordinator.changes.plan(Adopt(composition, tuple(jobs)), _request(**request)).adoption
    assert found is not None
    return found


def adopt(
    coordinator: Coordinator,
    composition: Composition,
    jobs: Iterable[str] = (),
    warnings: Iterable[str] = (),
    **request: Any,
) -> tuple[Operation, AdoptionPlan]:
    change = Adopt(composition, tuple(jobs), tuple(map(Fault, warnings)))
    operation, planned = coordinator.changes.carry_out(change, _request(**request))
    assert planned.adoption is not None
    return operation, planned.adoption
