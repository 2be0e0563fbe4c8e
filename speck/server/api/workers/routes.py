"""The routes of workers, which are added to the blueprint of all routes."""

from __future__ import annotations

from typing import Any

from speck.server.api import schemas
from speck.server.api.blueprint import blueprint
from speck.server.api.changes import services
from speck.server.api.workers.schemas import WorkersSchema


@blueprint.route("/workers", methods=["GET"])
@blueprint.response(200, WorkersSchema(many=True))
def list_workers() -> Any:
    """The engines whose workers come and go, with their workers"""
    return services().sites.workers()


@blueprint.route("/sites/<name>/workers", methods=["GET"])
@blueprint.response(200, WorkersSchema(many=True))
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def list_workers_of_site(name: str) -> Any:
    """The workers of the engines of one site"""
    return services().sites.workers(name)
