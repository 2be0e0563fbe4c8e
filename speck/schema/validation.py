"""From plain data to fields that are right by themselves; each fault is reported with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from marshmallow import ValidationError

from speck.errors import Fault, InvalidInput
from speck.schema.fault_report import Report, kind_of_value
from speck.schema.fields import StrictSchema
from speck.schema.secret_detection import WRITTEN_OUT
from speck.schema.yaml.parser import line_of

_HIDDEN = frozenset(("engine_login", "broker_login", "job_login"))


def mapping_or_refuse(data: object, what: str, field: str) -> Mapping[str, Any]:
    """The data, or :class:`InvalidInput` when they are no mapping; ``field`` is one that it has."""
    if isinstance(data, Mapping):
        return data
    message = f"the {what} is {kind_of_value(data)} (expected a mapping with '{field}:')"
    raise InvalidInput([Fault(message, line=line_of(data))], what)


def refuse_shape(report: Report, field: str, expected: str) -> None:
    """Report that a field is not what is ``expected``, without its value."""
    value = report.data.get(field)
    predicate = "is missing" if field not in report.data else f"is {kind_of_value(value)}"
    report.add(field, f"{predicate} (expected {expected})", shown="")


def unknown_beside(data: Mapping[str, Any], schema: StrictSchema, report: Report) -> None:
    """Report the fields that a schema does not know."""
    for key in data:
        if key not in schema.load_fields:
            report.unknown((key,), schema.load_fields)


def checked(schema: StrictSchema, data: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """The fields that are right by themselves; the others are reported."""
    try:
        return dict(schema.load(data))
    except ValidationError as error:
        for path, predicate in _flat(error.messages_dict):
            _record(schema, path, predicate, report)
        valid = error.valid_data
        return dict(valid) if isinstance(valid, Mapping) else {}


def _flat(messages: Mapping[Any, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """The messages of marshmallow, nested as the data are, one by one with their paths."""
    for key, inner in messages.items():
        here = path if key in ("_schema", "value", "key") and path else (*path, key)
        if isinstance(inner, Mapping):
            yield from _flat(inner, here)
        else:
            yield from ((here, str(message)) for message in inner)


def _record(schema: StrictSchema, path: tuple[Any, ...], predicate: str, report: Report) -> None:
    if predicate == schema.error_messages["unknown"]:
        nested: Any = schema
        for step in path[:-1]:
            if not isinstance(step, int):  # a list has one schema for all of its places
                field = nested.load_fields[step]
                nested = getattr(field, "inner", field).schema
        report.unknown(path, nested.load_fields)
    else:
        secret = predicate.startswith(WRITTEN_OUT) or not _HIDDEN.isdisjoint(path)
        report.add(path, predicate, shown="" if secret else None)


def in_order(faults: Iterable[Fault]) -> list[Fault]:
    """In the order of the text, as far as it is known."""
    return sorted(faults, key=lambda fault: fault.line or 0)
