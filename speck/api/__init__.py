"""The REST interface: a Flask application around one coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Flask, Response
from flask_smorest import Api
from werkzeug.exceptions import HTTPException

import speck
from speck.api import access, browsers, document, measured, patience, problems, queries, throttle
from speck.api.files import FILES
from speck.api.live import Live
from speck.api.patience import Patience
from speck.api.routes import blueprint
from speck.api.schemas import ProblemSchema
from speck.coordinator import Coordinator
from speck.dashboard import DASHBOARD
from speck.schema import CompositionSchema, JobSchema
from speck.schema.yaml.parser import MAX_BYTES
from speck.tokens import Tokens

__all__ = ["MAX_BODY", "Patience", "Protection", "create_app"]

MAX_BODY = MAX_BYTES


@dataclass(frozen=True)
class Protection:
    """Who is let in: whoever has one of the ``tokens`` (``None``: everybody), by one of the host ``names``.

    ``rate`` is how many requests a second one client may make (0: any number).
    """

    tokens: Tokens | None = None
    names: frozenset[str] = frozenset()
    rate: float = 0.0


class _ProblemApi(Api):  # type: ignore[misc]
    """flask-smorest's API, with errors as problem+json."""

    ERROR_SCHEMA = ProblemSchema

    def handle_http_exception(self, error: HTTPException) -> Response:
        return problems.of_http(error)


def _anybody(header: str) -> bool:
    """Where no token is asked for, nobody is a stranger."""
    return True


def create_app(coordinator: Coordinator, protection: Protection | None = None) -> Flask:
    """The application; it takes requests to numeric addresses and ``localhost``, unless told more."""
    protection = protection or Protection()
    app = Flask("speck")
    app.config |= {
        "API_TITLE": "SpecK",
        "API_VERSION": speck.__version__,
        "OPENAPI_VERSION": "3.0.3",
        "MAX_CONTENT_LENGTH": MAX_BODY,
    }
    app.extensions["coordinator"] = coordinator
    app.extensions["live"] = Live(coordinator)
    app.extensions["known"] = _anybody
    problems.register(app)
    api = _ProblemApi(app)
    api.spec.components.schema("Job", schema=JobSchema)
    api.spec.components.schema("Composition", schema=CompositionSchema)
    api.register_blueprint(blueprint)
    app.register_blueprint(FILES)
    app.register_blueprint(DASHBOARD)
    measured.register(app, coordinator.gauges)
    # In this order: what is no business of this server, what is too much, who asks.
    browsers.register(app, protection.names)
    if protection.rate:
        throttle.register(app, protection.rate)
    if protection.tokens is not None:
        access.register(app, protection.tokens)
    described = document.complete(api.spec.to_dict())
    access.describe(described, protection.tokens is not None)
    app.add_url_rule("/openapi.json", "openapi", lambda: described)
    queries.register(app, document.query_parameters(described))
    patience.register(app)
    return app
