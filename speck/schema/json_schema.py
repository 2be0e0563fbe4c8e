"""JSON Schemas (draft 2020-12) of the documents that users write, for editors: made from the field schemas.

They accept what SpecK accepts: empty fields, and variables (``${NAME}``) where a number is expected.  Checks
beyond a field's form (addresses, topics, files, other jobs) are SpecK's own, ``speck validate``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema, fields

from speck.schema.fields import (
    Cut,
    Labels,
    Mode,
    NameOrNames,
    NameOrPlace,
    Names,
    NumberOrPlaces,
    Numbers,
    Quantity,
)
from speck.schema.inventory_schemas import InventorySchema
from speck.schema.schemas import CompositionSchema, JobSchema, TopicSchema

KINDS: Mapping[str, type[Schema]] = {"composition": CompositionSchema, "inventory": InventorySchema}

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NULL = {"type": "null"}  # an empty field is its default
_TEXT = {"type": "string"}
_VARIABLE = {"type": "string", "pattern": r"\$\{"}
_SCALARS = {"type": ["string", "number", "boolean"]}
_OF_KIND: Mapping[type, Mapping[str, Any]] = {Labels: _TEXT, Numbers: {"type": "number"}}
_WITHOUT_TEXT = ("integer", "number", "boolean")  # a variable may stand for them
_RENAMED = {"example": "examples"}


def json_schema(kind: str) -> dict[str, Any]:
    """The schema of a ``composition`` or an ``inventory``.  Raises ``KeyError`` for another kind."""
    writer = _Writer()
    root = writer.object_of(KINDS[kind]())
    about = {"$schema": _DIALECT, "title": f"A {kind} of SpecK"}
    return about | root | {"$defs": dict(sorted(writer.definitions.items()))}


class _Writer:
    """Writes the schemas of objects, each once, under ``definitions``."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        plugin = MarshmallowPlugin()
        APISpec("", "", "3.1.0", plugins=[plugin])
        self._converter: Any = plugin.converter

    def object_of(self, schema: Schema) -> dict[str, Any]:
        """The schema of an object."""
        written = schema.load_fields
        properties = {name: self._field(field) for name, field in written.items()}
        either = schema.by_query if isinstance(schema, JobSchema) else ()
        needed = sorted(name for name, field in written.items() if field.required and name not in either)
        return {
            "type": "object",
            "description": " ".join((type(schema).__doc__ or "").split()),
            "properties": {name: properties[name] for name in sorted(properties)},
            **({"required": needed} if needed else {}),
            **({"anyOf": [{"required": ["sql"]}, {"required": list(either)}]} if either else {}),
            "additionalProperties": False,
        }

    def _field(self, field: fields.Field[Any]) -> dict[str, Any]:
        """A field's forms: its own, and those that are read as well."""
        form = self._form(field)
        others = [] if field.required else [_NULL]
        if form.get("type") in _WITHOUT_TEXT or "enum" in form:
            others.append(_VARIABLE)
        about = {key: form.pop(key) for key in ("description", "examples") if key in form}
        return about | {"anyOf": [form, *others]} if others else about | form

    def _form(self, field: fields.Field[Any]) -> dict[str, Any]:
        about = _about(field)
        match field:
            case NameOrPlace():
                return {"anyOf": [_TEXT, self._reference(field.schema)]} | about
            case fields.Nested():
                return self._reference(field.schema) | about
            case NumberOrPlaces():
                places = {"type": "array", "items": self._form(field.inner), "minItems": 1}
                return about | {"anyOf": [{"type": "integer", "minimum": 1}, places]}
            case NameOrNames() | Quantity() | Cut():
                return about | {"anyOf": about.pop("oneOf")}
            case fields.List():
                unique = {"uniqueItems": True} if isinstance(field, Names) else {}
                return about | {"type": "array", "items": self._form(field.inner)} | unique
            case fields.Dict():
                return about | {"type": "object", "additionalProperties": self._value(field)}
            case Mode():
                return about | {"enum": [*about["enum"], False]}  # YAML reads `off` so
        found: dict[str, Any] = self._converter.field2property(field)
        return about | {key: value for key, value in found.items() if key not in _RENAMED}

    def _value(self, field: fields.Dict) -> dict[str, Any]:
        """The schema of the values of a mapping."""
        if field.value_field is None:
            return dict(_OF_KIND.get(type(field), _SCALARS))
        form = self._form(field.value_field)
        nested = field.value_field.schema if isinstance(field.value_field, fields.Nested) else None
        return {"anyOf": [form, _TEXT, _NULL]} if isinstance(nested, TopicSchema) else form

    def _reference(self, schema: Schema | type[Schema]) -> dict[str, Any]:
        made = schema() if isinstance(schema, type) else schema
        name = type(made).__name__.removesuffix("Schema")
        if name not in self.definitions:
            self.definitions[name] = {}  # before its own fields, of which one may refer to it
            self.definitions[name] = self.object_of(made)
        return {"$ref": f"#/$defs/{name}"}


def _about(field: fields.Field[Any]) -> dict[str, Any]:
    """The metadata of a field as keywords of JSON Schema."""
    return {
        _RENAMED.get(key, key): [value] if key == "example" else value
        for key, value in field.metadata.items()
    }


def schema_files() -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of the file of each schema, and its content."""
    for kind in KINDS:
        yield f"{kind}.schema.json", json_schema(kind)
