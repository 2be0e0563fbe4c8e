"""The routes of operations, of the audit log, and of the live view."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from flask import Response

from speck.apply.operation import Operation
from speck.server.api import parameters, problems, schemas
from speck.server.api.blueprint import blueprint
from speck.server.api.changes import services
from speck.server.api.live import live_view
from speck.server.middleware import authentication

_STREAM_PAUSE = 15.0  # s; an idle event stream sends a comment so often


@blueprint.route("/operations", methods=["GET"])
@blueprint.arguments(parameters.OperationsQuery, location="query")
@blueprint.response(200, schemas.OperationSummarySchema(many=True))
def list_operations(query: dict[str, Any]) -> Any:
    """The stored operations, newest first, without their actions"""
    return services().queries.operations.last(**query)


@blueprint.route("/operations/<identifier>", methods=["GET"])
@blueprint.response(200, schemas.OperationSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_operation(identifier: str) -> Any:
    """The progress of one apply, action by action"""
    return services().queries.operations.data(identifier)


@blueprint.route("/operations/<identifier>/events", methods=["GET"])
@blueprint.response(200, content_type="text/event-stream", description="the operation at each change")
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def follow_operation(identifier: str) -> Response:
    """The progress of one apply as server-sent events, until it ends"""
    operation = services().queries.operations.live(identifier)
    if operation is None:
        ended = services().queries.operations.data(identifier)
        return _stream(iter((_event(ended),)))
    return _stream(_follow(operation, authentication.token_check()))


@blueprint.route("/live", methods=["GET"])
@blueprint.arguments(parameters.LiveHeaders, location="headers")
@blueprint.response(200, content_type="text/event-stream", description="the changes (docs/rest.md)")
@blueprint.alt_response(503, schema=schemas.ProblemSchema, description="too many clients are connected")
def follow_live(headers: dict[str, Any]) -> Response:
    """Jobs, operations, events and sites as server-sent events: all at first, then what changes"""
    live = live_view()
    if not live.enter():
        detail = f"{live.most} clients are connected, which is the limit (try again, or poll the other paths)"
        return problems.problem(503, detail, headers={"Retry-After": "10"})
    response = _stream(live.follow(headers["last_event_id"], authentication.token_check()))
    response.headers["Cache-Control"] = "no-store"
    response.call_on_close(live.leave)
    return response


@blueprint.route("/events", methods=["GET"])
@blueprint.arguments(parameters.EventsQuery, location="query")
@blueprint.response(200, schemas.EventSchema(many=True))
def list_events(query: dict[str, Any]) -> Any:
    """The audit log: intents with author and reason, and their outcomes"""
    return services().queries.events(**query)


def _stream(events: Iterator[str]) -> Response:
    """Events as they come; the header keeps a proxy (nginx) from buffering them."""
    headers = {"X-Accel-Buffering": "no"}
    return Response(events, content_type="text/event-stream", headers=headers)


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def _follow(operation: Operation, holds: Callable[[], bool]) -> Iterator[str]:
    seen = -1
    while True:
        changed = operation.wait_change(seen, _STREAM_PAUSE)
        if not holds():
            return
        if not changed:
            yield ": still here\n\n"
            continue
        seen = operation.version
        data = operation.to_dict()
        yield _event(data)
        if data["state"] != "running":
            return
