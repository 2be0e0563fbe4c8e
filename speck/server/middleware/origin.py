"""Refuses requests that a browser sends for pages of other origins.

A page of another origin can send requests from its visitor's network, which may be this very machine.  It
cannot read answers (there is no cross-origin sharing), must not frame this server's page, and must not change
anything.  With a name of its own that resolves to this server (DNS rebinding) it would be of the same origin;
so only requests to names of this server are answered.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping

from flask import Flask, Response, request
from werkzeug.datastructures import Headers

from speck.schema.fault_report import show
from speck.server.api import problems
from speck.server.middleware.authentication import READING

# For every answer: pages and errors need no distinction.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            "connect-src 'self'",
            "worker-src 'self'",
            "manifest-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOT_STORED = {"Cache-Control": "no-store"}  # unless a route sets its own, as the dashboard's does

_PAGE = "dashboard.page"

# Content types that a page of another origin may send without a preflight request.
_FORM = "multipart/form-data"
_SIMPLE = frozenset(("text/plain", "application/x-www-form-urlencoded", _FORM))
# A header that a page of another origin may not send without a preflight request either.
_ASKED = "X-Requested-By"


def register(app: Flask, names: Collection[str]) -> None:
    """Make the application refuse requests of other pages, and add the headers that protect browsers.

    ``names`` are the host names, in lower case, under which it is reached besides numeric addresses and
    ``localhost``.
    """

    @app.before_request
    def check() -> Response | None:
        host = request.environ.get("HTTP_HOST", "")
        if host and not is_ours(host, names):
            return problems.problem(421, _MISDIRECTED.format(show(host_of(host))))
        page = request.endpoint == _PAGE
        if (why := foreign(request.headers, host, request.method, page=page)) is not None:
            return problems.problem(403, why)
        simple = request.mimetype in _SIMPLE and not (request.mimetype == _FORM and _ASKED in request.headers)
        if request.method not in READING and simple:
            return problems.problem(415, _SIMPLE_TYPE.format(request.mimetype))
        return None

    @app.after_request
    def instruct(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers[name] = value
        for name, value in _NOT_STORED.items():
            response.headers.setdefault(name, value)
        return response


_MISDIRECTED = "host {} is not a name of this server (expected its address, or a name given to --allow-host)"
_SIMPLE_TYPE = (
    "content type {!r} is not accepted (expected application/json, application/yaml, or multipart/form-data "
    "with a header X-Requested-By)"
)


def is_ours(host: str, names: Collection[str]) -> bool:
    """True if a ``Host`` header names this server.  A numeric address does: no name was resolved for it."""
    name = host_of(host)
    return name in names or name == "localhost" or name.endswith(".localhost") or _is_number(name)


def foreign(headers: Headers, host: str, method: str, *, page: bool = False) -> str | None:
    """The reason why a request counts as another page's; ``None`` if it does not.

    Browsers send the origin of a request, other clients send none.  A link on another page may lead to the
    dashboard's page (``page``), which contains nothing.  It may not lead to other paths: a frame of that page
    would request them as well, without end, in the name of its visitor.
    """
    changes = method not in READING
    site = headers.get("Sec-Fetch-Site", "none")
    follows = page and not changes and headers.get("Sec-Fetch-Mode") == "navigate"
    if site not in ("none", "same-origin") and not follows:
        return f"the request comes from another page (Sec-Fetch-Site: {show(site)})"
    origin = headers.get("Origin")
    if changes and origin is not None and not _same(origin, host):
        return f"the request comes from another page (Origin: {show(origin)})"
    return None


def host_of(address: str) -> str:
    """The name or number in ``HOST:PORT``, in lower case."""
    if address.startswith("["):
        return address[1:].partition("]")[0].lower()
    return address.partition(":")[0].rstrip(".").lower()


def _same(origin: str, host: str) -> bool:
    """True if an origin is this host, with any scheme: behind a proxy that terminates TLS it is unknown."""
    scheme, _, name = origin.lower().partition("://")
    default = {"http": ":80", "https": ":443"}.get(scheme)
    if default is None:
        return False
    return name.removesuffix(default) == host.lower().removesuffix(default)


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
