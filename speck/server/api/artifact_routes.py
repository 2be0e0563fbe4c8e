"""Artifacts for engines: ``GET /artifacts/HASH/TOKEN/NAME``, open to clients with the token of that hash.

An engine fetches with a plain HTTP client that takes a URL and nothing else, so the token stands in the URL.
"""

from __future__ import annotations

from flask import Blueprint, Response, current_app, send_file

from speck.coordinator import Services
from speck.server.api import problems

PREFIX = "/artifacts/"

FILES = Blueprint("files", __name__)


@FILES.get(f"{PREFIX}<sha256>/<token>/<name>")
def fetch_artifact(sha256: str, token: str, name: str) -> Response:
    """The content with this hash."""
    services: Services = current_app.extensions["services"]
    files = services.files
    path = files.find(sha256, token, name) if files is not None else None
    if path is None:  # the answer must not differ between a wrong token and a missing file
        return problems.problem(404, "there is no such artifact, or the URL does not allow it")
    return send_file(path, mimetype="application/octet-stream", as_attachment=True)
