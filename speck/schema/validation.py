"""From plain data to fields that are valid by themselves; each fault is reported with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from marshmallow import ValidationError

from speck.errors import Fault, InvalidInput
from speck.schema.fault_report import MISSING, FaultReport, kind_of_value
from speck.schema.fields import StrictSchema
from speck.schema.yaml.lines import line_of

_HIDDEN = frozenset(("engine_login", "broker_login", "job_login", "token", "url"))


def require_mapping(data: object, subject: str, field: str) -> Mapping[str, Any]:
    """The data of a document, which must have ``field``.  Raises :class:`InvalidInput` for no mapping."""
    if isinstance(data, Mapping):
        return data
    message = f"the {subject} is {kind_of_value(data)} (expected a mapping with '{field}:')"
    raise InvalidInput([Fault(message, line=line_of(data))], subject)


def refuse_other_file(data: Mapping[str, Any], subject: str, field: str, other: tuple[str, str]) -> None:
    """Raise :class:`InvalidInput` for a document that has the field of the ``other`` kind, and not its own.

    ``other`` are the name of that kind and its field.
    """
    name, theirs = other
    if theirs in data and field not in data:
        message = f"this is a {name}, by its field '{theirs}:' (expected a {subject} with '{field}:')"
        raise InvalidInput([Fault(message, field=theirs, line=line_of(data, theirs))], subject)


def report_wrong_shape(report: FaultReport, field: str, expected: str) -> None:
    """Report a field that is missing or of another kind than ``expected``, without its value."""
    value = report.data.get(field)
    predicate = MISSING if field not in report.data else f"is {kind_of_value(value)}"
    report.add(field, f"{predicate} (expected {expected})", shown="")


def report_unknown_fields(data: Mapping[str, Any], schema: StrictSchema, report: FaultReport) -> None:
    """Report the fields that a schema does not have."""
    for key in data:
        if key not in schema.load_fields:
            report.add_unknown((key,), schema.load_fields)


def validate_fields(schema: StrictSchema, data: Mapping[str, Any], report: FaultReport) -> dict[str, Any]:
    """The fields that are valid by themselves; the faults of the others are added to ``report``."""
    if (sound := schema.sound(data)) is not None:
        return sound
    try:
        return dict(schema.load(data))
    except ValidationError as error:
        unknown = schema.error_messages["unknown"]
        # Unknown fields first: one of them may be a missing one, misspelt.
        for path, predicate in sorted(_flat(error.messages_dict), key=lambda each: each[1] != unknown):
            _record(schema, path, predicate, report)
        valid = error.valid_data
        return dict(valid) if isinstance(valid, Mapping) else {}


def _flat(messages: Mapping[Any, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Each message of marshmallow's nested messages, with its path in the data."""
    for key, inner in messages.items():
        here = path if key in ("_schema", "value", "key") and path else (*path, key)
        if isinstance(inner, Mapping):
            yield from _flat(inner, here)
        else:
            yield from ((here, str(message)) for message in inner)


def _record(schema: StrictSchema, path: tuple[Any, ...], predicate: str, report: FaultReport) -> None:
    if predicate == schema.error_messages["unknown"]:
        nested: Any = schema
        for step in path[:-1]:
            if not isinstance(step, int):  # all items of a list have one schema
                field = nested.load_fields[step]
                nested = getattr(field, "inner", field).schema
        report.add_unknown(path, nested.load_fields)
        return
    if predicate.startswith("("):  # of a mapping: the kind of the value is not known where it was read
        predicate = f"is {kind_of_value(report.value(path))} {predicate}"
    report.add(path, predicate, shown=None if _HIDDEN.isdisjoint(path) else "")


def by_line(faults: Iterable[Fault]) -> list[Fault]:
    """The faults in the order of their lines, those without a line first."""
    return sorted(faults, key=lambda fault: fault.line or 0)
