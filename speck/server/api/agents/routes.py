"""The routes of agents, which are added to the blueprint of all routes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask import current_app

from speck.server.api import schemas
from speck.server.api.agents.schemas import (
    InvitationSchema,
    RemovalSchema,
    RevocationSchema,
    UpgradeQuery,
    UpgradeSchema,
)
from speck.server.api.blueprint import blueprint
from speck.server.api.changes import services
from speck.server.middleware.authentication import author


@blueprint.route("/sites/<name>/agent", methods=["POST"])
@blueprint.response(201, InvitationSchema)
@blueprint.alt_response(409, schema=schemas.ProblemSchema, description="the server accepts no agents")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="it cannot have an agent")
def invite_site(name: str) -> Any:
    """Make a code with which a site joins; earlier ones of it become invalid"""
    return asdict(services().agents.invite(name, author("")))


@blueprint.route("/sites/<name>/agent", methods=["DELETE"])
@blueprint.response(200, RevocationSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
def revoke_site(name: str) -> Any:
    """Refuse the agent of a site from now on; its connection ends within a second"""
    services().agents.revoke(name, author(""))
    return {"site": name, "brokers": services().sites.brokers_of_jobs(name)}


@blueprint.route("/sites/<name>", methods=["DELETE"])
@blueprint.response(200, RemovalSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema)
@blueprint.alt_response(409, schema=schemas.ProblemSchema, description="jobs use it")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="it is in the server's own inventory")
def remove_site(name: str) -> Any:
    """Remove a site that joined from the inventory, and refuse its agent from now on"""
    services().agents.remove(name, author(""))
    return {"site": name}


@blueprint.route("/sites/upgrade", methods=["POST"])
@blueprint.arguments(UpgradeQuery, location="query")
@blueprint.response(202, UpgradeSchema, description="begun")
@blueprint.alt_response(200, schema=UpgradeSchema, description="the plan, for `dry_run`")
@blueprint.alt_response(404, schema=schemas.ProblemSchema, description="no such site")
@blueprint.alt_response(
    409, schema=schemas.ProblemSchema, description="the server accepts no agents, or a change is in progress"
)
@blueprint.alt_response(
    422, schema=schemas.ProblemSchema, description="every agent that cannot be upgraded; none was touched"
)
def upgrade_sites(query: dict[str, Any]) -> Any:
    """Upgrade the agents of sites to the server's version, in waves, or plan it"""
    upgrades = services().upgrades
    planned = upgrades.plan(query["site"], query["wave"], query["settle"])
    if query["dry_run"]:
        return current_app.json.response(planned.to_dict())
    return upgrades.begin(planned, author(query["author"])).to_dict()


@blueprint.route("/sites/upgrade", methods=["GET"])
@blueprint.response(200, UpgradeSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema, description="none since the server's start")
def show_upgrade() -> Any:
    """The upgrade of agents in progress, or the last one"""
    return services().upgrades.last().to_dict()
