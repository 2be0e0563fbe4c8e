"""The routes of placements, policies, the profiles that both need, and the adaptation of placements."""

from __future__ import annotations

from typing import Any

from flask import request

from speck.coordinator.placing.request import PlacementRequest
from speck.core.change import Apply, Pin
from speck.placement.policies import catalogue
from speck.server.api import parameters, schemas
from speck.server.api.blueprint import blueprint, request_body
from speck.server.api.changes import begun, load, requested, respond, services
from speck.server.api.placement.adaptation import AdaptationSchema, AdaptationsSchema
from speck.server.api.placement.profiles import LinkSchema, MeasurementSchema, ProfilesSchema
from speck.server.api.placement.schemas import PolicySchema, ProposalSchema
from speck.server.middleware.authentication import may_write

__all__ = ["blueprint"]


@blueprint.route("/placements", methods=["POST"])
@blueprint.doc(requestBody=request_body("Composition", yaml=True) | {"required": False})
@blueprint.arguments(parameters.PlacementQuery, location="query")
@blueprint.response(200, ProposalSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema, description="no such composition runs")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="every fault of the file")
@blueprint.alt_response(503, schema=schemas.ProblemSchema, description="another one is being computed")
def place_composition(query: dict[str, Any]) -> Any:
    """Propose a placement of a file, or of what runs (empty body); nothing is changed"""
    placement = PlacementRequest(
        policy=query["policy"],
        constraints=dict(map(_constraint, query["site_constraints"])),
        pins=query["pin"],
        explain=query["explain"],
        compare=query["compare"],
    )
    if not request.get_data():
        return services().retained_plans.advise(query["composition"], placement)
    loaded = load(query["composition"])
    return services().retained_plans.propose(Apply(loaded.composition, tuple(loaded.warnings)), placement)


def _constraint(text: str) -> tuple[str, list[str]]:
    job, _, sites = text.partition("=")
    return job, sites.split(",")


@blueprint.route("/placements", methods=["GET"])
@blueprint.response(200, ProposalSchema(many=True))
def list_placements() -> Any:
    """The recently proposed placements, newest first"""
    return services().retained_plans.placements(lines=may_write())


@blueprint.route("/placements/<identifier>", methods=["GET"])
@blueprint.response(200, ProposalSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_placement(identifier: str) -> Any:
    """One proposed placement"""
    return services().retained_plans.placement(identifier, lines=may_write())


@blueprint.route("/placements/<identifier>/accept", methods=["POST"])
@blueprint.arguments(parameters.AcceptanceQuery, location="query")
@blueprint.response(202, schemas.OperationSchema, description="begun (200: ended within `wait`)")
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
@blueprint.alt_response(
    409, schema=schemas.ProblemSchema, description="stale (revision or inputs), accepted already, or busy"
)
@blueprint.alt_response(410, schema=schemas.ProblemSchema, description="expired")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="the reason why it cannot be applied")
def accept_placement(query: dict[str, Any], identifier: str) -> Any:
    """Apply a proposed placement; that makes a new revision"""
    request, accept = requested(query), services().retained_plans.accept_placement
    return begun(lambda: accept(identifier, request), request, query["wait"])


@blueprint.route("/policies", methods=["GET"])
@blueprint.response(200, PolicySchema(many=True))
def list_policies() -> Any:
    """The placement policies"""
    return catalogue()


@blueprint.route("/jobs/<name>/pin", methods=["POST"])
@blueprint.arguments(parameters.PinQuery, location="query")
@blueprint.response(202, schemas.OperationSchema, description="begun (200: ended within `wait`)")
@blueprint.alt_response(200, schema=schemas.PlanSchema, description="the plan, for `dry_run`")
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
@blueprint.alt_response(409, schema=schemas.ProblemSchema)
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="the reason why it cannot be pinned")
def pin_job(query: dict[str, Any], name: str) -> Any:
    """Keep a movable job where it runs, or let it be moved again; that makes a new revision"""
    return respond(Pin(name, query["pin"], query["site"]), query)


@blueprint.route("/profile", methods=["GET"])
@blueprint.arguments(parameters.ProfileQuery, location="query")
@blueprint.response(200, ProfilesSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_profile(query: dict[str, Any]) -> Any:
    """The load of each job (rates, bytes, cost, state), and the power of each site"""
    return services().profiles.profile(query["composition"])


@blueprint.route("/profile", methods=["POST"])
@blueprint.arguments(parameters.MeasurementQuery, location="query")
@blueprint.response(202, MeasurementSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
@blueprint.alt_response(409, schema=schemas.ProblemSchema, description="probes are already running")
def measure_profile(query: dict[str, Any]) -> Any:
    """Sample the jobs for some time; the profiles follow from the samples"""
    return services().profiles.measure(**query)


@blueprint.route("/links", methods=["GET"])
@blueprint.response(200, LinkSchema(many=True))
def list_links() -> Any:
    """The links between sites: round trip, bandwidth, load"""
    return services().profiles.links()


@blueprint.route("/adapt", methods=["GET"])
@blueprint.response(200, AdaptationsSchema)
def list_adaptations() -> Any:
    """The loop that adapts placements: its state and its last decision for each composition"""
    return services().adaptation.all()


@blueprint.route("/adapt/<name>", methods=["GET"])
@blueprint.response(200, AdaptationSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def show_adaptation(name: str) -> Any:
    """The last decisions of the loop for a composition with their reasons, its steps, and its bans"""
    return services().adaptation.show(name)


@blueprint.route("/adapt/<name>", methods=["POST"])
@blueprint.arguments(parameters.AdaptationQuery, location="query")
@blueprint.response(200, AdaptationSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def pause_adaptation(query: dict[str, Any], name: str) -> Any:
    """Pause the adaptation of a composition for some time, or resume it"""
    adaptation = services().adaptation
    return adaptation.resume(name) if query["resume"] else adaptation.pause(name, query["pause"])
