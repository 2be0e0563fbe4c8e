"""The fields that many schemas have."""

from __future__ import annotations

from typing import Any

from marshmallow import fields

UNIX = {"description": "Unix time, s"}


def text(description: str = "", **kwargs: Any) -> fields.String:
    """A text, with its description for the OpenAPI document."""
    return fields.String(metadata={"description": description}, **kwargs)
