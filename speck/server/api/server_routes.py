"""The routes of the server itself: its health, its store, its metrics, and the owner of a token."""

from __future__ import annotations

import json
from typing import Any

from flask import Response

from speck.server.api import exposition, problems, schemas
from speck.server.api.blueprint import blueprint
from speck.server.api.changes import services
from speck.server.api.live import live_view
from speck.server.api.submission import JSON
from speck.server.middleware import authentication


@blueprint.route("/whoami", methods=["GET"])
@blueprint.response(200, schemas.OwnerSchema)
def show_owner() -> Any:
    """The owner of the request's token, and its role"""
    return authentication.owner_data()


@blueprint.route("/healthz", methods=["GET"])
@blueprint.response(200, schemas.HealthSchema)
@blueprint.alt_response(503, schema=schemas.ProblemSchema, description="only a restart can repair it")
def healthz() -> Response:
    """Liveness; `store` has the reason why the store cannot be written, if it cannot"""
    if faults := [*services().coordinator.faults(), *live_view().faults()]:
        return problems.problem(503, "; ".join(faults))
    failure = services().coordinator.store.failure
    data: dict[str, Any] = {"status": "ok"} | ({"store": str(failure)} if failure else {})
    if (primary := services().primary) is not None:
        data["standby"] = primary.status()
    return Response(json.dumps(data), content_type=JSON)


@blueprint.route("/readyz", methods=["GET"])
@blueprint.response(200, schemas.HealthSchema)
@blueprint.alt_response(
    503, schema=schemas.ProblemSchema, description="the reasons why the server is not ready"
)
def readyz() -> Response:
    """Readiness: interrupted operations resumed, engines observed, store writable"""
    if reasons := [*services().coordinator.faults(), *services().coordinator.unready_reasons()]:
        return problems.problem(503, "; ".join(reasons), headers={"Retry-After": "2"})
    return Response(json.dumps({"status": "ok"}), content_type=JSON)


@blueprint.route("/store/check", methods=["GET"])
@blueprint.response(200, schemas.FindingSchema(many=True))
@blueprint.alt_response(503, schema=schemas.ProblemSchema)
def check_store() -> Any:
    """The faults of the store: records, references, and the code stored beside it"""
    return services().queries.check_store()


@blueprint.route("/store/backup", methods=["GET"])
@blueprint.response(200, content_type="application/gzip", description="a backup, whole when it ends well")
@blueprint.alt_response(503, schema=schemas.ProblemSchema)
def back_up_store() -> Response:
    """The store as it is at this moment, with the code stored beside it, and without any secret"""
    return Response(services().queries.backup(), content_type="application/gzip")


@blueprint.route("/metrics", methods=["GET"])
@blueprint.response(200, content_type="text/plain", description="Prometheus's text format")
def show_metrics() -> Response:
    """Metrics for Prometheus"""
    return Response(exposition.exposition(services()), content_type=exposition.CONTENT_TYPE)
