"""The OpenAPI document, with the parts that flask-smorest has no way to state route by route."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from flask import Flask
from flask_smorest import Api

import speck
from speck.schema.schemas import CompositionSchema, JobSchema
from speck.server.api.blueprint import blueprint
from speck.server.api.changes import KEY, LONGEST_KEY
from speck.server.api.schemas import ProblemSchema

_JSON, _PROBLEM = "application/json", "application/problem+json"
# Written by users; an empty field there counts as left out.
_WRITTEN = ("Job", "Expects", "Composition", "Placement", "Weights")
_PLACES = {  # parameters of paths
    "name": "the name of the job, the composition or the split",
    "number": "the number of a revision",
    "sha256": "the SHA-256 of the content, 64 hexadecimal digits",
    "identifier": "the id of the operation or placement",
}
_PLACE = re.compile(r"<(?:\w+:)?(\w+)>")  # of a route
_INFO = {
    "description": "Compositions of streaming jobs on several engines: plans, operations, history, metrics. "
    "The rules common to all paths are in docs/rest.md.",
    "contact": {"name": "SpecK"},
    "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
}
# Relative to the document (OpenAPI 3.0.3, section 4.7.5): right behind any proxy.
_SERVERS = [{"url": "/", "description": "the server that has this document"}]
# Requests that come together, the first of a server, must not register the routes at the same time.
_MAKING = threading.Lock()
_KEY = {
    "name": KEY,
    "in": "header",
    "description": "identifies this request: a repetition with the same key is answered with the operation "
    "that the first one began",
    "schema": {"type": "string", "default": "", "maxLength": LONGEST_KEY},
}
_METHODS = frozenset(("get", "post", "put", "patch", "delete"))


class _ProblemApi(Api):  # type: ignore[misc]
    """flask-smorest's API, whose errors are problems."""

    ERROR_SCHEMA = ProblemSchema


def document() -> dict[str, Any]:
    """A new copy of the document."""
    with _MAKING:
        text = _text()
    copy: dict[str, Any] = json.loads(text)
    return copy


@cache
def _text() -> str:
    """The document as JSON.  flask-smorest takes longer for it than all else takes to make an application."""
    app = Flask("speck")
    app.config |= {"API_TITLE": "SpecK", "API_VERSION": speck.__version__, "OPENAPI_VERSION": "3.0.3"}
    app.config["API_SPEC_OPTIONS"] = {"info": _INFO, "servers": _SERVERS}
    api = _ProblemApi(app)
    api.spec.components.schema("Job", schema=JobSchema)
    api.spec.components.schema("Composition", schema=CompositionSchema)
    api.register_blueprint(blueprint)
    # A copy: the original shares the metadata of the schemas' fields.
    return json.dumps(_complete(json.loads(json.dumps(api.spec.to_dict())), dict(_names(app))))


def _names(app: Flask) -> Iterator[tuple[tuple[str, str], str]]:
    """The name of each operation, by its method and path: that of the function of its route."""
    for rule in app.url_map.iter_rules():
        path = _PLACE.sub(r"{\1}", rule.rule)
        for method in rule.methods or ():
            yield (method.lower(), path), rule.endpoint.rpartition(".")[2]


def _complete(document: dict[str, Any], names: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """The document with names of operations, problem+json, 200 beside each 202, and null if optional."""
    shared = document["components"].get("responses", {})
    for path, method, operation in _operations(document):
        operation["operationId"] = names[method, path]
        responses = operation["responses"]
        operation.setdefault("description", _description(operation, responses))
        if _begins(responses):
            operation.setdefault("parameters", []).append(_KEY)
            responses["503"] = _unavailable(responses.get("503"))
        _add_ended(responses)
        for response in (*responses.values(), *shared.values()):
            _as_problem(response)
    for item in document["paths"].values():
        _describe_places(item)
    schemas = document["components"]["schemas"]
    schemas.pop("PaginationMetadata", None)  # flask-smorest's own; no route has pages
    for name in _WRITTEN:
        _allow_null(schemas[name])
    _need_code_or_query(schemas["Job"])
    return document


@cache
def query_parameters() -> dict[tuple[str, str], dict[str, bool]]:
    """The query parameters of each method (upper case) and path (as in the document), by name.

    Each with whether it is a list, of which several may be given.
    """
    return {
        (method.upper(), path): {
            each["name"]: each.get("schema", {}).get("type") == "array"
            for each in operation.get("parameters", ())
            if each.get("in") == "query"
        }
        for path, method, operation in _operations(document())
    }


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in _METHODS & item.keys():
            yield path, method, item[method]


def _describe_places(item: dict[str, Any]) -> None:
    for operation in (item, *(item[method] for method in _METHODS & item.keys())):
        for parameter in operation.get("parameters", ()):
            if parameter.get("in") == "path" and parameter["name"] in _PLACES:
                parameter.setdefault("description", _PLACES[parameter["name"]])


def _description(operation: dict[str, Any], responses: dict[str, Any]) -> str:
    summary = str(operation["summary"]).rstrip(".")
    if not _begins(responses):
        return f"{summary}."
    return f"{summary}. An operation that takes longer than `wait` continues after the response (202)."


def _begins(responses: dict[str, Any]) -> bool:
    """True if a request may begin an operation."""
    begun = responses.get("202", {}).get("content", {}).get(_JSON, {}).get("schema", {})
    return str(begun.get("$ref", "")).endswith("/Operation")


def _unavailable(other: dict[str, Any] | None) -> dict[str, Any]:
    """The answer of a server that begins no operation now; ``other``: as the route states it."""
    also = f", {other['description']}" if other else ""
    return {
        "description": f"shutting down, overloaded{also}, a standby, or without its store",
        "headers": {
            "Retry-After": {
                "description": "the time to wait, s, before the same request is sent again",
                "schema": {"type": "integer"},
            }
        },
        "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def _add_ended(responses: dict[str, Any]) -> None:
    """Add 200 beside 202: an operation may end within ``wait``."""
    if "202" not in responses:
        return
    operation = responses["202"]["content"][_JSON]["schema"]
    other = responses.get("200")
    schema = operation if other is None else {"oneOf": [other["content"][_JSON]["schema"], operation]}
    description = "ended within `wait`" + (f"; or {other['description']}" if other else "")
    responses["200"] = {"description": description, "content": {_JSON: {"schema": schema}}}


def _as_problem(response: dict[str, Any]) -> None:
    content = response.get("content", {})
    schema = content.get(_JSON, {}).get("schema", {})
    if schema.get("$ref", "").endswith("/Problem"):
        content[_PROBLEM] = content.pop(_JSON)


def _need_code_or_query(job: dict[str, Any]) -> None:
    """Require the fields that a query gives of a job without one alone."""
    given = [name for name in job["required"] if name in JobSchema.by_query]
    job["required"] = [name for name in job["required"] if name not in given]
    job["anyOf"] = [{"required": ["sql"]}, {"required": given}]


def _allow_null(schema: dict[str, Any]) -> None:
    needed = schema.get("required", ())
    for name, field in schema["properties"].items():
        if name in needed or field.get("readOnly"):
            continue
        if "oneOf" in field:  # `nullable` needs a `type` beside it (OpenAPI 3.0.3, section 4.7.24)
            field["oneOf"][0]["nullable"] = True
            continue
        if "$ref" in field:
            field["allOf"] = [{"$ref": field.pop("$ref")}]
        if "allOf" in field:
            field["type"] = "object"
        field["nullable"] = True
        if "enum" in field:
            field["enum"] = [*field["enum"], None]
