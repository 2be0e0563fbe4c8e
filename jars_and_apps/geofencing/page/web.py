"""The page's application: its files, the stream of what changes, and messages about fences and questions."""

from __future__ import annotations

import ipaddress
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flask import Flask, Response, abort, jsonify, request, send_from_directory
from werkzeug.exceptions import HTTPException

from jars_and_apps.geofencing.fences import LARGEST_FENCE, LARGEST_ID, compact
from jars_and_apps.geofencing.page.world import World, refusal

ASSETS = Path(__file__).parent / "assets"
MOST = 8  # pages at once, each of which holds a thread
PERIOD = 0.25  # s between two events of a stream
BEAT = 10.0  # s; a stream has an event at least so often

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_IN_TOPICS = "/+#\0"  # characters that the id of a fence cannot have, since it ends the topic

# Publishes a message to the broker in the cloud: topic, value, and true to retain it.
Publish = Callable[[str, bytes, bool], None]


class Unreachable(Exception):
    """A message could not be published; the text says why."""


def create_app(world: World, publish: Publish, sites: list[str]) -> Flask:
    """The application; ``publish`` raises :class:`Unreachable`."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = 2 * LARGEST_FENCE
    streams, drawing = threading.BoundedSemaphore(MOST), threading.Lock()
    _guard(app)

    @app.get("/")
    def page() -> Response:
        return send_from_directory(ASSETS, "index.html")

    @app.get("/assets/<path:name>")
    def asset(name: str) -> Response:
        return send_from_directory(ASSETS, name)

    @app.get("/news")
    def news() -> Response:
        if not streams.acquire(blocking=False):
            abort(503, f"{MOST} pages are open (expected at most {MOST})")
        return Response(_stream(world, sites, streams), mimetype="text/event-stream")

    @app.put("/fences/<fence>")
    def draw(fence: str) -> Response:
        geometry = _geometry(fence)
        topic = f"fences/{fence}"
        with drawing:  # versions of a fence have different times
            feature = _feature(fence, geometry, world)
            payload = compact(feature).encode()
            if why := refusal(topic, payload):
                abort(400, f"fence {fence!r}: {why}")
            publish(topic, payload, True)
            world.drawn(topic, payload, retained=False)
        return jsonify(fence=fence, time=feature["properties"].get("time"))

    @app.post("/questions")
    def ask() -> Response:
        question = {"question": uuid.uuid4().hex[:12]} | _subject()
        publish("tracks/questions", compact(question).encode(), False)
        return jsonify(question=question["question"])

    return app


def _geometry(fence: str) -> object:
    """The geometry in the body of a request for a fence; 400 without one, or if the id is not valid."""
    if len(fence) > LARGEST_ID or any(each in fence for each in _IN_TOPICS):
        abort(400, f"fence {fence!r:.60} is not an id (expected 1 to {LARGEST_ID} characters without / + #)")
    body = _body()
    if "geometry" not in body:
        abort(400, f"fence {fence!r:.60}: it has no geometry (expected one of GeoJSON, or null to delete it)")
    return body["geometry"]


def _subject() -> dict[str, str]:
    """The fence or the mover that the body of a question names; 400 unless it names one of them."""
    body = _body()
    subject = {each: body[each] for each in ("fence", "mover") if isinstance(body.get(each), str)}
    if len(subject) != 1 or len(*subject.values()) > LARGEST_ID:
        abort(
            400, f"a question has a fence or a mover (expected one of them, at most {LARGEST_ID} characters)"
        )
    return subject


def _guard(app: Flask) -> None:
    """Answer errors in JSON, and refuse requests that a browser sends for pages of other origins."""

    @app.before_request
    def check() -> None:
        if not _is_number(request.host):
            abort(
                421, f"host {request.host!r:.60} is no address of this page (expected a number or localhost)"
            )
        # A link may lead to the page, which has nothing in it.
        is_link = request.path == "/" and request.headers.get("Sec-Fetch-Mode") == "navigate"
        is_own = request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        if not (is_own or is_link):
            abort(403, "the request comes from another page")
        if request.method not in ("GET", "HEAD", "OPTIONS") and not request.is_json:
            abort(415, f"content type {request.mimetype!r:.60} is not accepted (expected application/json)")

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> tuple[Response, int]:
        return jsonify(detail=error.description), error.code or 500

    @app.errorhandler(Unreachable)
    def fail(error: Unreachable) -> tuple[Response, int]:
        return jsonify(detail=str(error)), 503


def _is_number(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True


def _body() -> dict[str, Any]:
    body = request.get_json()
    if not isinstance(body, dict):
        abort(400, f"the body is a {type(body).__name__} (expected an object)")
    return body


def _feature(fence: str, geometry: object, world: World) -> dict[str, Any]:
    """A Feature with another geometry and the other properties as they were, from soon on."""
    properties = dict(world.feature(fence).get("properties") or {})
    for name in ("time", "radius"):
        properties.pop(name, None)
    if (soon := world.soon(fence)) is not None:
        properties["time"] = soon
    return {"type": "Feature", "id": fence, "geometry": geometry, "properties": properties}


def _stream(world: World, sites: list[str], streams: threading.BoundedSemaphore) -> Iterator[str]:
    try:
        version, items = world.news(0)
        yield _event({"sites": sites, "items": items})
        pause = threading.Event()
        while not world.ended:
            if world.wait(version, BEAT):
                pause.wait(PERIOD)  # what comes together is sent together
            version, items = world.news(version)
            yield _event({"items": items})
    finally:
        streams.release()


def _event(data: object) -> str:
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n"
