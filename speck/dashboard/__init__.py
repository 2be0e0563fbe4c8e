"""The dashboard: a page that shows and changes all by the REST interface alone.

It is files and nothing else, all of them in this package; a browser needs no other place.  The files hold
no secret, so they are given to whoever asks: the page itself asks for the token that the REST interface
demands.
"""

from __future__ import annotations

from pathlib import Path

from flask import Blueprint, Response, send_from_directory

ASSETS = Path(__file__).parent / "assets"

# Scripts, styles and requests go to this server only; none stands in the page itself, none is made of data.
POLICY = "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # asked for again each time, and answered with 304 when it is the same
}

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
def guard(response: Response) -> Response:
    """Have the browser keep to the policy."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Cache-Control"] = _HEADERS["Cache-Control"]
    return response
