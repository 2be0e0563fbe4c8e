"""The routes for the code of jobs, which clients send before the compositions that name it."""

from __future__ import annotations

from typing import Any

from flask import request

from speck.server.api import parameters, problems, schemas
from speck.server.api.blueprint import blueprint
from speck.server.api.changes import services
from speck.store.uploads import NOT_ACCEPTED

_OCTETS = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@blueprint.route("/artifacts/<sha256>", methods=["GET"])
@blueprint.response(200, schemas.ArtifactSchema)
@blueprint.alt_response(404, schema=schemas.ProblemSchema, description="`received`: the bytes that are there")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="it is no hash")
def show_artifact(sha256: str) -> Any:
    """Ask if the code with this hash is here already"""
    uploads = services().uploads
    received, complete = uploads.received(sha256)
    if not uploads.most_bytes:
        return problems.problem(404, NOT_ACCEPTED, accepted=False)
    if not complete:
        return problems.problem(404, f"artifact {sha256[:12]} is not on this server", received=received)
    return {"sha256": sha256, "received": received, "complete": True}


@blueprint.route("/artifacts/<sha256>", methods=["PUT"])
@blueprint.doc(requestBody=_OCTETS)
@blueprint.arguments(parameters.ArtifactQuery, location="query")
@blueprint.response(200, schemas.ArtifactSchema)
@blueprint.alt_response(409, schema=schemas.ProblemSchema, description="another part is expected: ask for it")
@blueprint.alt_response(422, schema=schemas.ProblemSchema, description="too large, or not of this hash")
@blueprint.alt_response(507, schema=schemas.ProblemSchema, description="too much was sent and not applied")
def send_artifact(query: dict[str, Any], sha256: str) -> Any:
    """Send code, or a part of it, to be named by a composition within an hour"""
    uploads = services().uploads
    uploads.receive(sha256, request.stream, query["offset"], query["size"])  # type: ignore[arg-type]
    received, complete = uploads.received(sha256)
    return {"sha256": sha256, "received": received, "complete": complete}
