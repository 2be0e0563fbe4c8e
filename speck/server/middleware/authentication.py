"""Authentication and authorization: bearer tokens (RFC 6750) with roles, where the server has tokens."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, g, request

from speck.server.api import problems
from speck.server.api.artifact_routes import FILES, PREFIX
from speck.server.tokens import Owner, Role, Tokens

READING = frozenset(("GET", "HEAD", "OPTIONS"))
# Open without a token: signs of life, without details; the page and its assets, which hold no data; and
# artifacts, whose URLs have tokens of their own in them.
_SIGNS_OF_LIFE = frozenset(("speck.healthz", "speck.readyz"))
_OPEN_BLUEPRINTS = frozenset(("dashboard",))
# They only read, but code.
_FOR_WRITERS = frozenset(("speck.back_up_store", "speck.show_code_difference"))
_SCHEME = "bearer"
_PAUSE = 1.0  # s between two lines of the log about wrong tokens

_log = logging.getLogger(__name__)


def author(given: str) -> str:
    """The author for the history: the token's owner, or the ``given`` name where tokens have no names."""
    owner: Owner | None = g.get("owner")
    return owner.name if owner is not None and owner.name else given


def may_write() -> bool:
    """True if the request has the role write, as every request where the server has no tokens."""
    owner: Owner | None = g.get("owner")
    return owner is None or owner.role is Role.WRITE


def owner_data() -> dict[str, str]:
    """Name and role of the request's owner; without tokens every request has the role write."""
    owner: Owner | None = g.get("owner")
    return {"name": owner.name if owner else "", "role": (owner.role if owner else Role.WRITE).value}


def token_check() -> Callable[[], bool]:
    """A function that is true, also after this request, while its token has the same owner and role."""
    holds: Callable[[], bool] = g.get("holds", _always)
    return holds


def _always() -> bool:
    return True


def register(app: Flask, tokens: Tokens) -> None:
    """Make the application demand a token, and one with the role write for changes."""
    wrong_tokens = _WrongTokenLog()
    app.extensions["is_known"] = lambda header: tokens.owner(_token_in(header)) is not None

    @app.before_request
    def check() -> Response | None:
        given = _token_in(request.headers.get("Authorization", ""))
        owner = g.owner = tokens.owner(given) if given else None
        g.holds = lambda: tokens.owner(given) == owner
        if owner is None and not _open_to_all():
            if given:
                wrong_tokens.note()
            return _unauthorized(wrong=bool(given))
        if owner is not None and owner.role is Role.READ and _changes():
            return _forbidden(owner)
        return None

    @app.after_request
    def hide(response: Response) -> Response:
        if request.endpoint in _SIGNS_OF_LIFE and g.get("owner") is None:
            return _without_details(response)
        return response


def describe(document: dict[str, Any], demanded: bool) -> None:
    """Describe the tokens in the OpenAPI document."""
    schemes = document["components"].setdefault("securitySchemes", {})
    schemes[_SCHEME] = {
        "type": "http",
        "scheme": "bearer",
        "description": "A token that reads, or one that reads and writes; where the server asks for one.",
    }
    document["security"] = [{_SCHEME: []}] if demanded else [{}, {_SCHEME: []}]
    for path in ("/healthz", "/readyz"):
        for operation in document["paths"].get(path, {}).values():
            if isinstance(operation, dict):
                operation["security"] = [{}]


def _token_in(header: str) -> bytes:
    scheme, _, token = header.partition(" ")
    return token.strip().encode("latin-1", "replace") if scheme.lower() == _SCHEME else b""


def _open_to_all() -> bool:
    by_route = request.endpoint in _SIGNS_OF_LIFE or request.blueprint in _OPEN_BLUEPRINTS
    unknown = request.url_rule is None and request.path.startswith(PREFIX)
    return by_route or request.blueprint == FILES.name or unknown


def _changes() -> bool:
    return request.method not in READING or request.endpoint in _FOR_WRITERS


def _unauthorized(*, wrong: bool) -> Response:
    detail = "the token is not valid here (expected one that this server accepts)" if wrong else _NEEDED
    challenge = 'Bearer realm="SpecK"' + (', error="invalid_token"' if wrong else "")
    return problems.problem(401, detail, headers={"WWW-Authenticate": challenge})


_NEEDED = "a bearer token is needed (Authorization: Bearer TOKEN; speck takes it from SPECK_TOKEN)"


def _forbidden(owner: Owner) -> Response:
    detail = f"the token of {owner.name!r} can only read (expected a token with the role write)"
    challenge = 'Bearer realm="SpecK", error="insufficient_scope", scope="write"'
    return problems.problem(403, detail, headers={"WWW-Authenticate": challenge})


def _without_details(response: Response) -> Response:
    if response.status_code < HTTPStatus.BAD_REQUEST:
        response.set_data(json.dumps({"status": "ok"}))
        return response
    headers = {name: value for name, value in response.headers.items() if name == "Retry-After"}
    return problems.problem(response.status_code, "unhealthy (authenticate for details)", headers=headers)


class _WrongTokenLog:
    """Logs that wrong tokens were given, without a line for each."""

    def __init__(self) -> None:
        self._next = 0.0

    def note(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE
            _log.warning("a wrong token was given by %s", request.remote_addr)
