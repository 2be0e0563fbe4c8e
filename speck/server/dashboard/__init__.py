"""The dashboard: a page that shows and changes all by the REST interface alone.

It is files and nothing else, all of them in this package; a browser needs no other place.  The files hold
no secret, so no token is needed for them: the page itself asks for the token that the REST interface
demands.
"""

from __future__ import annotations

from pathlib import Path

from flask import Blueprint, Response, send_from_directory

ASSETS = Path(__file__).parent / "assets"

DASHBOARD = Blueprint("dashboard", __name__)


@DASHBOARD.get("/")
def page() -> Response:
    """The page."""
    return send_from_directory(ASSETS, "index.html")


@DASHBOARD.get("/dashboard/<path:name>")
def asset(name: str) -> Response:
    """A script, a style or a picture of the page."""
    return send_from_directory(ASSETS, name)


@DASHBOARD.after_request
def keep(response: Response) -> Response:
    """Make the browser revalidate each time; the response is 304 if the file is the same."""
    response.headers["Cache-Control"] = "no-cache"
    return response
