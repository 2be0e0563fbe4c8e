"""The references of the two files that a user writes, from their marshmallow schemas."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

from marshmallow import Schema
from marshmallow import fields as kinds

from docs.generate.tables import code, page, sentence, table
from speck.core.job import JOB_FIELDS, Change, Job
from speck.schema import CompositionSchema, InventorySchema

_COST = {
    Change.NOTE: "is noted, and touches no engine",
    Change.UPDATE: "restarts it in place",
    Change.MOVE: "moves it",
}
_OF_CODE = "is noted; another *content* restarts it in place"  # the model compares the file's hash

Column = Callable[[str], str]


def composition_page() -> str:
    """The reference of a composition's fields."""
    return page(
        [
            "# Fields of a composition",
            "",
            "Made of the schemas by which SpecK reads the file. How a file is written, and what is",
            "refused in one, is in [Compositions](../composition.md).",
            "",
            *_sections(CompositionSchema(), "Composition", {"Job": ("a change of it", change_of)}),
        ]
    )


def inventory_page() -> str:
    """The reference of the site inventory's fields."""
    return page(
        [
            "# Fields of the site inventory",
            "",
            "Made of the schemas by which SpecK reads the file. What the inventory is for is in",
            "[Compositions](../composition.md#the-site-inventory).",
            "",
            *_sections(InventorySchema(), "Inventory", {}),
        ]
    )


def change_of(name: str) -> str:
    """What a change of a job's field does to the job."""
    if name == "job_path":
        return _OF_CODE
    return _COST[JOB_FIELDS[name]] if name in JOB_FIELDS else "makes another job of it"


def written_fields(schema: Schema) -> Iterator[tuple[Schema, str, Any]]:
    """Each field that may be written, with the schema it is of, nested ones included; each schema once."""
    seen: set[type[Schema]] = set()
    waiting = [schema]
    while waiting:
        found = waiting.pop(0)
        if type(found) in seen:
            continue
        seen.add(type(found))
        for name, field in found.load_fields.items():
            yield found, name, field
            if (nested := nested_schema(field)) is not None:
                waiting.append(nested)


def nested_schema(field: Any) -> Schema | None:
    """The schema of what stands in a field, in a list there, or by name."""
    if isinstance(field, kinds.List):
        return nested_schema(field.inner)
    if isinstance(field, kinds.Dict):
        return nested_schema(field.value_field) if field.value_field is not None else None
    return field.schema if isinstance(field, kinds.Nested) else None


def describe(field: Any) -> str:
    """A field's description; of a field that holds another kind of thing, what that is."""
    nested = nested_schema(field)
    inner = (type(nested).__doc__ or "").strip().splitlines()[0] if nested is not None else ""
    return str(field.metadata.get("description") or inner)


def title(schema: Schema) -> str:
    """What a schema is of."""
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
        head = ["field", "what it is", "form", "by default", *([extra[0]] if extra else [])]
        yield from table(head, [_row(each, field, extra) for each, field in found])


def _row(name: str, field: Any, extra: tuple[str, Column] | None) -> list[str]:
    description = describe(field)
    if (nested := nested_schema(field)) is not None:
        description += f" ([{title(nested)}](#{title(nested).lower()}))"
    row = [code(name), description, _form(field), "**must be given**" if field.required else _default(name)]
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
    text = json.dumps(example) if isinstance(example, dict) else str(example)
    return f"for example {code(text)}"
