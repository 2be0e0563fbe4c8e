"""The requests that change what is deployed: each is planned only, or accepted as an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import current_app
from flask import request as http

from speck.apply.executor import schedule_of
from speck.apply.operation import Operation
from speck.apply.planned import PlannedChange
from speck.coordinator import Services
from speck.core.change import SETTLE, Change, Request, request_key
from speck.core.lifecycle import OperationState
from speck.core.plan import Plan, plan_data
from speck.core.schedule import schedule_data
from speck.core.split import shown_job
from speck.core.waves import waves_data
from speck.errors import Fault, InvalidInput, SpeckError
from speck.schema.compositions import Loaded, load_composition
from speck.schema.fault_report import fault_data
from speck.server.api.submission import submission
from speck.server.middleware.authentication import author

KEY = "Idempotency-Key"
LONGEST_KEY = 200  # characters


def services() -> Services:
    """The services of the application's coordinator."""
    found: Services = current_app.extensions["services"]
    return found


def load(name: str) -> Loaded:
    """The composition in the request's body; ``name`` is that of one without."""
    coordinator = services().coordinator
    sent = submission("composition", services().uploads)
    return load_composition(
        sent.text,
        inventory=coordinator.inventory.snapshot,
        registry=coordinator.registry,
        root=coordinator.settings.roots,
        default_name=name,
        format=sent.format,
        sent=sent.sent,
    )


def requested(query: dict[str, Any]) -> Request:
    """The author, reason and cost of a change, from the query of a request; the author is that of a token."""
    return Request(
        author=author(query["author"]),
        message=query["message"],
        base_revision=query.get("base_revision"),
        leave_behind=tuple(query.get("leave_behind", ())),
        give_up=query.get("give_up", False),
        atomic=query.get("atomic", False),
        key=_key(),
        waves=tuple(query.get("wave", ())),
        settle=query.get("settle", SETTLE),
    )


def _key() -> str:
    """The key of the present request; empty if its client has not chosen one."""
    given = http.headers.get(KEY, "")
    if len(given) > LONGEST_KEY:
        text = f"{KEY} has {len(given)} characters (expected {LONGEST_KEY} or fewer)"
        raise InvalidInput([Fault(text)], "request")
    return request_key(f"{http.method} {http.path}", given) if given else ""


def respond(change: Change, query: dict[str, Any]) -> Any:
    """Carry a change out, or plan it for ``dry_run``."""
    changes, request = services().changes, requested(query)
    if not query.get("dry_run"):
        return begun(lambda: changes.carry_out(change, request)[0], request, query["wait"])
    planned = changes.inspected(changes.plan(change, request), build=query.get("build", False))
    return plan_response(planned, query)


def begun(
    begin: Callable[[], Operation], request: Request, wait: float
) -> tuple[dict[str, Any], int, dict[str, str]]:
    """The answer to a request that begins an operation: 200 if it ended within ``wait`` (s), else 202.

    If the same request (by its key) has begun one before, ``begin`` refuses it, and that one is answered.
    """
    operations = services().changes.operations
    try:
        identifier = begin().id
    except SpeckError:
        found = operations.of_request(request)
        if found is None:
            raise
        identifier = found
    if wait and (live := operations.live(identifier)) is not None:
        live.wait(wait)
    data = operations.data(identifier)
    ended = data["state"] != OperationState.RUNNING
    return data, 200 if ended else 202, {"Location": f"/operations/{identifier}"}


def plan_response(planned: PlannedChange, query: dict[str, Any], **more: Any) -> Any:
    """A planned change as the answer for ``dry_run``, with its steps if the query asks for them."""
    warnings = [fault_data(each) for each in (*planned.warnings, *map(Fault, planned.plan.unbuilt))]
    if planned.adoption is not None:
        return current_app.json.response(planned.adoption.to_dict() | {"warnings": warnings})
    if planned.waves:
        more["waves"] = waves_data(planned.waves)
    if planned.restored:
        more["restored"] = planned.restored
    if query.get("steps"):
        more["steps"] = schedule_data(schedule_of(services().changes.store, planned))
    plan = planned.plan
    shown = {"warnings": warnings, "jobs": plan_jobs(plan)}
    return current_app.json.response(plan_data(plan, lines=True) | shown | more)  # for the role write alone


def plan_jobs(plan: Plan) -> list[dict[str, Any]]:
    """Each job of a plan in its new form, or in its present one when it stops, with its addresses."""
    return [shown_job(each.job) for each in plan.actions]
