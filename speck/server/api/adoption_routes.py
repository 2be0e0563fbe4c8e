"""The route by which the running copies of a lost store are taken into this one."""

from __future__ import annotations

from typing import Any

from flask import current_app, request

from speck.server.api import parameters, schemas
from speck.server.api.problems import fault_data
from speck.server.api.routes import answer, blueprint, load, request_body, services, why


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
    coordinator, adopter = services().coordinator, services().adopter
    if request.get_data():
        loaded = load(query["name"])
        composition, warnings = loaded.composition, loaded.warnings
    else:
        coordinator.deployments.known_head(query["name"])
        composition, warnings = coordinator.desired(query["name"]), ()
    if query["dry_run"]:
        plan = adopter.plan(composition, query["job"], query["base_revision"])
        return current_app.json.response(plan.to_dict() | {"warnings": list(map(fault_data, warnings))})
    operation, _ = adopter.adopt(
        composition,
        query["job"],
        base_revision=query["base_revision"],
        warnings=list(map(str, warnings)),
        **why(query),
    )
    return answer(operation, query["wait"])
