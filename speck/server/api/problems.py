"""Errors as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from speck.errors import (
    BinderError,
    Conflict,
    Expired,
    InvalidInput,
    NotFound,
    Overloaded,
    ShuttingDown,
    SpeckError,
    StoreError,
    StoreFull,
    UnreadableInput,
)
from speck.schema.fault_report import fault_data
from speck.schema.yaml.parser import MAX_BYTES

_PASSED_HEADERS = frozenset(("Allow", "Retry-After"))
_DETAILS = {
    404: "no such path (see /openapi.json)",
    405: "method not allowed for this path (see the header Allow)",
    413: f"the body is too large (at most {MAX_BYTES:,} bytes are accepted)",
}

_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[SpeckError], HTTPStatus], ...] = (
    (UnreadableInput, HTTPStatus.BAD_REQUEST),
    (InvalidInput, HTTPStatus.UNPROCESSABLE_ENTITY),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Expired, HTTPStatus.GONE),
    (ShuttingDown, HTTPStatus.SERVICE_UNAVAILABLE),
    (Conflict, HTTPStatus.CONFLICT),
    (Overloaded, HTTPStatus.SERVICE_UNAVAILABLE),
    (BinderError, HTTPStatus.BAD_GATEWAY),
    (StoreFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
)


def problem_body(status: int, detail: str, **members: Any) -> str:
    """The body of an error, as JSON text."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return json.dumps(body | members)


def problem(
    status: int, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any
) -> Response:
    """An error as a response."""
    return Response(
        problem_body(status, detail, **members),
        status,
        headers=dict(headers or {}),
        content_type="application/problem+json",
    )


def _of_speck(error: SpeckError) -> Response:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)
    if isinstance(error, InvalidInput):
        return problem(status, str(error), faults=[fault_data(each) for each in error.faults])
    if isinstance(error, ShuttingDown):
        return problem(status, str(error), headers={"Retry-After": "1"}, shutting_down=True)
    headers = {"Retry-After": "5"} if isinstance(error, Overloaded) else None
    return problem(status, str(error), headers=headers)


def of_http(error: HTTPException) -> Response:
    """An error of the web framework: a wrong path, method, or query parameter, a body too large."""
    status = error.code or 500
    messages = getattr(error, "data", {}).get("messages")
    if not messages:
        headers = {name: value for name, value in error.get_headers() if name in _PASSED_HEADERS}
        return problem(status, _DETAILS.get(status, error.description or ""), headers=headers)
    wrong = [
        {"field": name, "message": " ".join(map(str, texts))}
        for group in messages.values()
        for name, texts in group.items()
    ]
    return problem(status, "; ".join(f"{each['field']}: {each['message']}" for each in wrong), faults=wrong)


def _unexpected(error: Exception) -> Response:
    _log.exception("unexpected error", exc_info=error)
    return problem(500, "an error inside SpecK (the server's log has the details)")


def register(app: Flask) -> None:
    """Make the application answer every error as a problem."""
    app.register_error_handler(SpeckError, _of_speck)
    app.register_error_handler(HTTPException, of_http)
    app.register_error_handler(Exception, _unexpected)
