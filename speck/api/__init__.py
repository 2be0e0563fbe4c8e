"""The REST interface: a Flask application around one coordinator."""

from __future__ import annotations

import hmac

from flask import Flask, Response, request
from flask_smorest import Api
from werkzeug.exceptions import HTTPException

import speck
from speck.api import document, patience, problems, queries
from speck.api.files import FILES, PREFIX
from speck.api.patience import Patience
from speck.api.routes import blueprint
from speck.api.schemas import ProblemSchema
from speck.coordinator import Coordinator
from speck.schema import CompositionSchema, JobSchema
from speck.schema.yamltext import MAX_BYTES

__all__ = ["MAX_BODY", "Patience", "create_app"]

MAX_BODY = MAX_BYTES


class _ProblemApi(Api):  # type: ignore[misc]
    """flask-smorest's API, with errors as problem+json."""

    ERROR_SCHEMA = ProblemSchema

    def handle_http_exception(self, error: HTTPException) -> Response:
        return problems.of_http(error)


def create_app(coordinator: Coordinator, token: str | None = None) -> Flask:
    """The application.  With a ``token``, every request must bear it but the liveness check and artifacts."""
    app = Flask("speck")
    app.config |= {
        "API_TITLE": "SpecK",
        "API_VERSION": speck.__version__,
        "OPENAPI_VERSION": "3.0.3",
        "MAX_CONTENT_LENGTH": MAX_BODY,
    }
    app.extensions["coordinator"] = coordinator
    problems.register(app)
    api = _ProblemApi(app)
    api.spec.components.schema("Job", schema=JobSchema)
    api.spec.components.schema("Composition", schema=CompositionSchema)
    api.register_blueprint(blueprint)
    app.register_blueprint(FILES)
    if token:
        _demand_token(app, token)
    described = document.complete(api.spec.to_dict())
    app.add_url_rule("/openapi.json", "openapi", lambda: described)
    queries.register(app, document.query_parameters(described))
    patience.register(app)
    return app


def _demand_token(app: Flask, token: str) -> None:
    expected = f"Bearer {token}".encode()

    @app.before_request
    def check() -> Response | None:
        given = request.headers.get("Authorization", "").encode()
        # The URL of an artifact has a token of its own in it.
        open_to_all = request.path in ("/healthz", "/readyz") or request.path.startswith(PREFIX)
        if open_to_all or hmac.compare_digest(given, expected):
            return None
        detail = "a bearer token is needed (Authorization: Bearer TOKEN)"
        return problems.problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
