"""The REST interface: a Flask application around the services of one coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flask import Flask

import speck.server.api.adoption_routes
import speck.server.api.agents.routes
import speck.server.api.code_routes
import speck.server.api.engine_plan_routes
import speck.server.api.operation_routes
import speck.server.api.placement.routes
import speck.server.api.routes
import speck.server.api.server_routes
import speck.server.api.site_routes
import speck.server.api.split.routes
import speck.server.api.workers.routes  # noqa: F401 - all add their routes to the blueprint
from speck.coordinator import Services
from speck.schema.yaml.parser import MAX_BYTES
from speck.server.api import openapi, problems
from speck.server.api.artifact_routes import FILES
from speck.server.api.blueprint import blueprint
from speck.server.api.live import Live
from speck.server.api.rules import LazyRule
from speck.server.dashboard import DASHBOARD
from speck.server.middleware import (
    authentication,
    concurrency_limit,
    origin,
    query_check,
    rate_limit,
    request_metrics,
)
from speck.server.tokens import Tokens

__all__ = ["MAX_BODY", "Protection", "create_app"]

MAX_BODY = MAX_BYTES


@dataclass(frozen=True)
class Protection:
    """The conditions of access: one of the ``tokens`` (``None``: none needed), by one of the host ``names``.

    ``rate`` is the number of requests that one client may make in a second (0: any number).
    """

    tokens: Tokens | None = None
    names: frozenset[str] = frozenset()
    rate: float = 0.0


def _accept_all(header: str) -> bool:
    """True: without tokens every request is accepted."""
    return True


def create_app(services: Services, protection: Protection | None = None) -> Flask:
    """The application; it accepts requests to numeric addresses, ``localhost`` and the names given."""
    protection = protection or Protection()
    app = Flask("speck")
    app.url_rule_class = LazyRule
    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_FORM_MEMORY_SIZE"] = MAX_BODY
    app.extensions["services"] = services
    app.extensions["metrics"] = services.metrics
    app.extensions["live"] = Live(services)
    app.extensions["is_known"] = _accept_all
    problems.register(app)
    app.register_blueprint(blueprint)
    app.register_blueprint(FILES)
    app.register_blueprint(DASHBOARD)
    request_metrics.register(app, services.metrics)
    # In this order: requests that are not for this server, too many requests, missing rights.
    origin.register(app, protection.names)
    if protection.rate:
        rate_limit.register(app, protection.rate)
    if protection.tokens is not None:
        authentication.register(app, protection.tokens)
    app.add_url_rule("/openapi.json", "openapi", lambda: _description(protection))
    query_check.register(app, openapi.query_parameters)
    concurrency_limit.register(app)
    return app


def _description(protection: Protection) -> dict[str, Any]:
    """The application's OpenAPI document."""
    document = openapi.document()
    authentication.describe(document, protection.tokens is not None)
    return document
