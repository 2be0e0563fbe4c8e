"""Errors as ``application/problem+json`` (RFC 9457)."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import Any

from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from speck.errors import (
    BinderError,
    Conflict,
    Fault,
    InvalidInput,
    NotFound,
    SpeckError,
    StoreError,
    StoreFull,
)

_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[SpeckError], HTTPStatus], ...] = (
    (InvalidInput, HTTPStatus.UNPROCESSABLE_ENTITY),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Conflict, HTTPStatus.CONFLICT),
    (BinderError, HTTPStatus.BAD_GATEWAY),
    (StoreFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
)


def fault_data(fault: Fault) -> dict[str, Any]:
    """A fault as plain data."""
    value = fault.value
    shown = value if isinstance(value, str | int | float | bool | None) else repr(value)
    return {
        "job": fault.job,
        "field": fault.field,
        "value": shown,
        "line": fault.line,
        "message": fault.message,
    }


def problem(status: int, detail: str, **members: Any) -> Response:
    """An answer that says what went wrong."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Response(json.dumps(body | members), status, content_type="application/problem+json")


def _of_speck(error: SpeckError) -> Response:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)
    if isinstance(error, InvalidInput):
        return problem(status, str(error), faults=[fault_data(each) for each in error.faults])
    return problem(status, str(error))


def of_http(error: HTTPException) -> Response:
    """An error of the web framework: a wrong path, method, or query parameter, a body too large."""
    status = error.code or 500
    messages = getattr(error, "data", {}).get("messages")
    if not messages:
        return problem(status, error.description or "")
    wrong = [
        {"field": name, "message": " ".join(map(str, texts))}
        for group in messages.values()
        for name, texts in group.items()
    ]
    return problem(status, "; ".join(f"{each['field']}: {each['message']}" for each in wrong), faults=wrong)


def _unexpected(error: Exception) -> Response:
    _log.exception("unexpected error", exc_info=error)
    return problem(500, "an error inside SpecK; its log says more")


def register(app: Flask) -> None:
    """Have the application answer every error as a problem."""
    app.register_error_handler(SpeckError, _of_speck)
    app.register_error_handler(HTTPException, of_http)
    app.register_error_handler(Exception, _unexpected)
