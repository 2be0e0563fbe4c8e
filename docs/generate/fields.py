"""The references of compositions and site inventories, from their marshmallow schemas."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

from marshmallow import Schema
from marshmallow import fields as kinds

from docs.generate.tables import code, page, sentence, table
from speck.core.job import JOB_FIELDS, ChangeCost, Job, shown_name
from speck.schema.inventory_schemas import InventorySchema
from speck.schema.schemas import CompositionSchema

_COST = {
    ChangeCost.NOTE: "is stored; no engine is contacted",
    ChangeCost.UPDATE: "restarts it in place",
    ChangeCost.MOVE: "moves it",
}
_OF_CODE = "is stored; another *content* restarts it in place"  # plans compare the file's hash

Column = Callable[[str], str]


def composition_page() -> str:
    """The reference of a composition's fields."""
    return page(
        [
            "# Fields of a composition",
            "",
            "Generated from the schemas by which SpecK reads the file. [Compositions](../composition.md)",
            "describes the form of the file and its checks.",
            "",
            *_sections(CompositionSchema(), "Composition", {"Job": ("effect of a change", change_of)}),
        ]
    )


def inventory_page() -> str:
    """The reference of the site inventory's fields."""
    return page(
        [
            "# Fields of the site inventory",
            "",
            "Generated from the schemas by which SpecK reads the file. The purpose of the inventory is in",
            "[Compositions](../composition.md#the-site-inventory).",
            "",
            *_sections(InventorySchema(), "Inventory", {}),
        ]
    )


def change_of(name: str) -> str:
    """The effect of a change of a field on its job."""
    if name == "job_path":
        return _OF_CODE
    costs = {shown_name(field): cost for field, cost in JOB_FIELDS.items()}
    return _COST[costs[name]] if name in costs else "makes it another job"


def written_fields(schema: Schema) -> Iterator[tuple[Schema, str, Any]]:
    """Each writable field with its schema, nested schemas included; each schema once."""
    seen: set[type[Schema]] = set()
    queue = [schema]
    while queue:
        found = queue.pop(0)
        if type(found) in seen:
            continue
        seen.add(type(found))
        for name, field in found.load_fields.items():
            yield found, name, field
            if (nested := nested_schema(field)) is not None:
                queue.append(nested)


def nested_schema(field: Any) -> Schema | None:
    """The schema of a field's value, or of the members of a list or a mapping."""
    if isinstance(field, kinds.List):
        return nested_schema(field.inner)
    if isinstance(field, kinds.Dict):
        return nested_schema(field.value_field) if field.value_field is not None else None
    return field.schema if isinstance(field, kinds.Nested) else None


def describe(field: Any) -> str:
    """The description of a field, or that of its nested schema."""
    nested = nested_schema(field)
    inner = (type(nested).__doc__ or "").strip().splitlines()[0] if nested is not None else ""
    return str(field.metadata.get("description") or inner)


def title(schema: Schema) -> str:
    """The name of a schema's object."""
    return type(schema).__name__.removesuffix("Schema")


def _sections(schema: Schema, heading: str, more: dict[str, tuple[str, Column]]) -> Iterator[str]:
    rows: dict[str, list[tuple[str, Any]]] = {}
    docs: dict[str, str] = {}
    for each, name, field in written_fields(schema):
        rows.setdefault(title(each), []).append((name, field))
        docs[title(each)] = sentence(" ".join((type(each).__doc__ or "").split()))
    for name, found in rows.items():
        extra = more.get(name)
        yield from (f"## {name}", "", docs[name], "")
        head = ["field", "meaning", "form", "default", *([extra[0]] if extra else [])]
        yield from table(head, [_row(each, field, extra) for each, field in found])


def _row(name: str, field: Any, extra: tuple[str, Column] | None) -> list[str]:
    description = describe(field)
    if (nested := nested_schema(field)) is not None:
        description += f" ([{title(nested)}](#{title(nested).lower()}))"
    row = [code(name), description, _form(field), "**required**" if field.required else _default(name)]
    return [*row, extra[1](name)] if extra else row


def _default(name: str) -> str:
    default = {each.name: each.default for each in dataclasses.fields(Job)}.get(name)
    return code(default) if isinstance(default, str) and default else ""


def _form(field: Any) -> str:
    metadata = field.metadata
    if metadata.get("enum"):
        return " or ".join(code(each) for each in metadata["enum"])
    example = metadata.get("example")
    if example is None:
        return ""
    text = json.dumps(example) if isinstance(example, dict | list | bool) else str(example)
    return f"for example {code(text)}"
