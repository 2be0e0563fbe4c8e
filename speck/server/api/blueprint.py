"""The blueprint of all routes, and the description of requests with a body."""

from __future__ import annotations

from typing import Any

from flask_smorest import Blueprint

from speck.server.api.submission import FORM, JSON

blueprint = Blueprint("speck", __name__, description="Jobs, compositions, operations")

_EXAMPLE = {
    "job_name": "A",
    "spe_address": "http://172.16.39.7:8081/",
    "source_broker": "tcp://172.16.39.7:1883",
    "source_topic": "T-1",
    "sink_broker": "tcp://172.16.192.18:1883",
    "sink_topic": "T-C-filter",
    "entry_class": "package.ExampleJob",
    "job_path": "jars_and_apps/test-1.jar",
}


def request_body(schema: str, *, yaml: bool) -> dict[str, Any]:
    """The description of a request's body, with an example."""
    example = _EXAMPLE if schema == "Job" else {"name": "figure-3", "jobs": [_EXAMPLE]}
    content: dict[str, Any] = {
        JSON: {"schema": {"$ref": f"#/components/schemas/{schema}"}, "example": example}
    }
    if yaml:
        content["application/yaml"] = {"schema": {"type": "string"}}
    content[FORM] = {
        "schema": {
            "type": "object",
            "description": "its text, and for each job_path in it a file, or the text sha256:HASH of one "
            "that is here; with a header X-Requested-By",
            "properties": {schema.lower(): {"type": "string", "format": "binary"}},
            "required": [schema.lower()],
            "additionalProperties": {"type": "string", "format": "binary"},
        }
    }
    return {"required": True, "content": content}
