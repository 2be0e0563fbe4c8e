"""The routes of sites: their places as they answer now, and the work that was left there."""

from __future__ import annotations

from typing import Any

from speck.server.api import parameters, schemas
from speck.server.api.blueprint import blueprint
from speck.server.api.changes import services
from speck.server.middleware.authentication import author


@blueprint.route("/sites", methods=["GET"])
@blueprint.response(200, schemas.SiteViewSchema(many=True))
def list_sites() -> Any:
    """The sites of the inventory, and their reachability"""
    return services().sites.sites()


@blueprint.route("/sites/check", methods=["GET"])
@blueprint.response(200, schemas.CheckupSchema(many=True))
def check_sites() -> Any:
    """Each engine and broker of the inventory: version, limits, clock, faults and their remedies"""
    return services().sites.checkups()


@blueprint.route("/sites/check", methods=["POST"])
@blueprint.response(200, schemas.CheckupSchema(many=True))
def check_sites_from_engines() -> Any:
    """The same checks, and a test of the path from each engine to each broker, which briefly takes a slot"""
    return services().sites.checkups_from_engines()


@blueprint.route("/doctor", methods=["GET"])
@blueprint.response(200, schemas.DiagnosisSchema(many=True))
def diagnose() -> Any:
    """Conditions that may lose messages or block jobs, with remedies"""
    return services().doctor.diagnose()


@blueprint.route("/left-behind", methods=["GET"])
@blueprint.response(200, schemas.LeftoverSchema(many=True))
def list_left_behind() -> Any:
    """Abandoned copies and sessions, ended when their engine and broker answer again, and orphans"""
    return services().sites.left_behind()


@blueprint.route("/left-behind", methods=["DELETE"])
@blueprint.arguments(parameters.ForgettingQuery, location="query")
@blueprint.response(200, schemas.LeftoverSchema(many=True), description="the remaining ones")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="nothing is abandoned there")
def forget_left_behind(query: dict[str, Any]) -> Any:
    """Forget abandoned copies and sessions at places that never come back"""
    services().coordinator.reaper.forget(query["place"], author(query["author"]))
    return services().sites.left_behind()
