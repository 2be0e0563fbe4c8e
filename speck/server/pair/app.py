"""The application of a standby and of a witness: requests of the pair, and a refusal of all others."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, Response, request

from speck.errors import SpeckError
from speck.observe.metrics import Metrics
from speck.server.api import problems
from speck.standby.messages import BadRequest, Handler, Header, Refused, number_in, parts_of, text_in
from speck.standby.wire import LONGEST, PATH, PIECE

_JSON = "application/json"
_HEADER = 64 << 10  # bytes, of a request beside its piece
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


@dataclass
class _Pieces:
    """The pieces of one request, the last one that was begun: the primary sends one after the other."""

    _message: str = ""
    _body: bytearray = field(default_factory=bytearray)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, header: Header, piece: bytes) -> None:
        message, offset = text_in(header, "message"), number_in(header, "offset")
        with self._guard:
            if not offset:
                self._message, self._body = message, bytearray()
            if message != self._message or offset != len(self._body) or offset + len(piece) > LONGEST:
                raise BadRequest(f"a piece does not follow the one before it (at most {LONGEST:,} bytes)")
            self._body += piece

    def whole(self, header: Header, payload: bytes) -> tuple[Header, bytes]:
        """The request that was sent in pieces, or the one that came whole."""
        if "message" not in header:
            return header, payload
        with self._guard:
            if text_in(header, "message") != self._message:
                raise BadRequest("the pieces of this request are not here")
            body, self._message, self._body = bytes(self._body), "", bytearray()
        return parts_of(body)


def create_pair_app(handle: Handler, token: str, state: Callable[[], dict[str, Any]]) -> Flask:
    """``handle`` answers requests with the ``token`` of the pair; ``state`` describes the server for others.

    A member ``detail`` of that says in a sentence what they can do, ``primary`` where the dashboard is.
    """
    app, pieces = Flask("speck"), _Pieces()
    app.config["MAX_CONTENT_LENGTH"] = PIECE + _HEADER
    expected = f"Bearer {token}".encode()
    app.extensions["metrics"] = Metrics()
    app.extensions["is_known"] = lambda header: hmac.compare_digest(header.encode(), expected)

    @app.before_request
    def answer() -> Response:
        if not request.path.startswith(PATH):
            found = state()
            if request.path == "/" and request.method == "GET" and (primary := found.get("primary")):
                # A browser has a token for each address of its own, and sends none with this.
                return Response(status=307, headers={"Location": f"{primary}/"})
            return problems.problem(503, found.pop("detail"), headers={"Retry-After": "5"}, **found)
        if not app.extensions["is_known"](request.headers.get("Authorization", "")):
            return problems.problem(401, "the token is not that of the pair (see --standby-token)")
        if request.method != "POST":
            return problems.problem(405, "method not allowed for this path (expected POST)")
        return _answer(handle, pieces, request.path.removeprefix(PATH), request.get_data())

    @app.after_request
    def instruct(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers[name] = value
        return response

    return app


def _answer(handle: Handler, pieces: _Pieces, operation: str, body: bytes) -> Response:
    try:
        header, payload = parts_of(body)
        if operation == "piece":
            pieces.add(header, payload)
            return Response("{}", content_type=_JSON)
        header, payload = pieces.whole(header, payload)
        return Response(json.dumps(handle(operation, header, payload)), content_type=_JSON)
    except Refused as error:
        return problems.problem(409, str(error), epoch=error.epoch, holder=error.holder)
    except BadRequest as error:
        return problems.problem(400, str(error))
    except SpeckError as error:
        return problems.problem(503, str(error))
