"""The route by which the running copies of a lost store are taken into this one."""

from __future__ import annotations

from typing import Any

from flask import request

from speck.core.change import Adopt
from speck.server.api import parameters, schemas
from speck.server.api.blueprint import blueprint, request_body
from speck.server.api.changes import load, respond, services


@blueprint.route("/adoptions", methods=["POST"])
@blueprint.doc(requestBody=request_body("Composition", yaml=True) | {"required": False})
@blueprint.arguments(parameters.AdoptionQuery, location="query")
@blueprint.response(202, schemas.OperationSchema, description="begun (200: ended within `wait`)")
@blueprint.alt_response(200, schema=schemas.AdoptionPlanSchema, description="the plan, for `dry_run`")
@blueprint.alt_response(404, schema=schemas.ProblemSchema, description="no such composition")
@blueprint.alt_response(409, schema=schemas.ProblemSchema, description="not adoptable, stale, or busy")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="every fault of the file")
@blueprint.alt_response(502, schema=schemas.ProblemSchema, description="a broker has not answered")
def adopt_composition(query: dict[str, Any]) -> Any:
    """Adopt the running copies of a lost store, for a file or (empty body) the last revision, or plan it"""
    if request.get_data():
        loaded = load(query["name"])
        composition, warnings = loaded.composition, tuple(loaded.warnings)
    else:
        deployments = services().coordinator.deployments
        composition, warnings = deployments.last(deployments.known_head(query["name"])), ()
    return respond(Adopt(composition, tuple(query["job"]), warnings), query)
