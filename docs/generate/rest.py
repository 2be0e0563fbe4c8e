"""The reference of the REST interface, from its OpenAPI document."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.generate import tables
from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Inventory
from speck.schema.schemas import JobSchema
from speck.server.api import create_app
from speck.store import Store

_METHODS = ("get", "post", "put", "patch", "delete")
_SCHEMAS = "#/components/schemas/"

Document = dict[str, Any]


def document() -> Document:
    """The OpenAPI document of a server with an empty store."""
    with tempfile.TemporaryDirectory() as directory, Store(Path(directory) / "store") as store:
        services = build(store, installed(), Inventory())
        try:
            answer = create_app(services).test_client().get("/openapi.json")
            data: Document = json.loads(answer.data)
        finally:
            services.coordinator.close()
    return data


def operations(document: Document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each method (upper case) of each path, with its description in the document."""
    for path, item in sorted(document["paths"].items()):
        for method in _METHODS:
            if method in item:
                shared = item.get("parameters", [])
                own = item[method].get("parameters", [])
                yield method.upper(), path, item[method] | {"parameters": [*shared, *own]}


def page(document: Document) -> str:
    """The reference of all paths, with their parameters, bodies and answers."""
    return tables.page(_lines(document))


def _lines(document: Document) -> Iterator[str]:
    yield from ("# Paths of the REST interface", "")
    yield "Generated from the OpenAPI document, which every server has at `/openapi.json`. [The REST"
    yield from (
        "interface](../rest.md) describes types, errors and limits, which are common to all paths.",
        "",
    )
    found = list(operations(document))
    rows = [[_link(method, path), _summary(each)] for method, path, each in found]
    yield from tables.table(["method and path", "purpose"], rows)
    for method, path, each in found:
        yield from _operation(method, path, each, document)
    yield from ("## Bodies of requests and answers", "")
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _summary(operation: dict[str, Any]) -> str:
    return str(operation.get("summary") or operation.get("description") or "")


def _operation(method: str, path: str, operation: dict[str, Any], document: Document) -> Iterator[str]:
    yield from (f"## {method} {path}", "", tables.sentence(_summary(operation)), "")
    if operation.get("summary") and operation.get("description"):
        yield from (operation["description"], "")
    parameters = [resolved(each, document) for each in operation["parameters"]]
    yield from tables.table(["parameter", "place", "meaning", "form"], map(_parameter, parameters))
    yield from _body(operation.get("requestBody"))
    rows = [_answer(status, each, document) for status, each in sorted(operation["responses"].items())]
    yield from tables.table(["status", "case", "body"], rows)


def _parameter(parameter: dict[str, Any]) -> list[str]:
    schema = parameter.get("schema", {})
    description = parameter.get("description") or schema.get("description", "")
    return [tables.code(parameter["name"]), parameter["in"], description, _form(schema)]


def _body(body: dict[str, Any] | None) -> Iterator[str]:
    if body is None:
        return
    kinds = " or ".join(tables.code(each) for each in body["content"])
    (first, *_) = body["content"].values()
    schema = _kind(first.get("schema", {}))
    yield from (f"Body ({kinds}): {schema}", "")
    if example := first.get("example"):
        yield from ("```json", json.dumps(_in_order(example), indent=2), "```", "")


def _in_order(data: Any) -> Any:
    """An example with its fields in the order of the schemas; the document sorts them by name."""
    if isinstance(data, list):
        return [_in_order(each) for each in data]
    if not isinstance(data, dict):
        return data
    known = ["name", *JobSchema().load_fields]
    order = sorted(data, key=lambda name: known.index(name) if name in known else len(known))
    return {name: _in_order(data[name]) for name in order}


def _answer(status: str, response: dict[str, Any], document: Document) -> list[str]:
    response = resolved(response, document)
    content = response.get("content", {})
    bodies = [f"{_kind(each.get('schema', {}))} ({tables.code(kind)})" for kind, each in content.items()]
    when = "any other error" if status == "default" else response.get("description", "")
    return [status, when, ", ".join(bodies)]


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"### {name}", "")
    if description := schema.get("description"):
        yield from (tables.sentence(description), "")
    needed = schema.get("required", ())
    rows = [
        [tables.code(each), field.get("description", ""), _form(field), "yes" if each in needed else ""]
        for each, field in schema.get("properties", {}).items()
    ]
    yield from tables.table(["field", "meaning", "form", "required"], rows)


def _form(schema: dict[str, Any]) -> str:
    """The type, bounds and default of a value."""
    parts = [_kind(schema)]
    if "enum" in schema:
        parts = [" or ".join(tables.code(each) for each in schema["enum"] if each is not None)]
    words = (("from", "minimum"), ("to", "maximum"))
    if bounds := " ".join(f"{word} {schema[key]:,g}" for word, key in words if key in schema):
        parts.append(bounds)
    if (default := schema.get("default")) not in (None, "", []):
        parts.append(f"default {tables.code(f'{default:g}' if isinstance(default, float) else default)}")
    return ", ".join(each for each in parts if each)


def _kind(schema: dict[str, Any]) -> str:
    if (name := schema.get("$ref", "")).startswith(_SCHEMAS):
        name = name.removeprefix(_SCHEMAS)
        return f"[{name}](#{name.lower()})"
    for word in ("oneOf", "allOf", "anyOf"):
        if word in schema:
            return " or ".join(_kind(each) for each in schema[word])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything")) if schema else "anything"


def resolved(each: dict[str, Any], document: Document) -> dict[str, Any]:
    """The object behind a reference, or the object itself."""
    found: Any = each
    if "$ref" in each:
        found = document
        for step in each["$ref"].removeprefix("#/").split("/"):
            found = found[step]
    return dict(found)


def _link(method: str, path: str) -> str:
    return f"[{method} {path}](#{anchor(method, path)})"


def anchor(method: str, path: str) -> str:
    """A heading's anchor as Markdown readers make it: lower case, no punctuation, dashes for spaces."""
    text = f"{method} {path}".lower()
    return "".join("-" if each == " " else each for each in text if each.isalnum() or each in " -_")
