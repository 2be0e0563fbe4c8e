"""Counts and times requests by route: the paths that clients write make no series of their own."""

from __future__ import annotations

import time

from flask import Flask, Response, g, request

from speck.observe.metrics import Metrics

OTHER = "other"  # a path that no route has, a method that is none of these
REFUSED = "refused"  # the route of requests that do not reach the application
_METHODS = frozenset(("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"))


def register(app: Flask, metrics: Metrics) -> None:
    """Make the application count its requests.  To be registered before all that may refuse one."""

    @app.before_request
    def begin() -> None:
        g.begun = time.monotonic()

    @app.after_request
    def end(response: Response) -> Response:
        route = OTHER if request.url_rule is None else request.url_rule.rule
        method = request.method if request.method in _METHODS else OTHER
        metrics.requested(route, method, f"{response.status_code // 100}xx", time.monotonic() - g.begun)
        return response
