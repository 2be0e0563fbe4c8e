"""Messages as rows, and rows as messages: the reference of the connectors' decoder and encoder in Java."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from speck.sql import times
from speck.sql.operators import HIGHEST, LOWEST, Row, Value, double_of_text
from speck.sql.program import TOPIC_POSITION, Input
from speck.sql.types import Column, Type, Unit

_SHOWN = 60  # characters of a value in a reason
_WHOLE = re.compile(r"[+-]?\d{1,19}\Z", re.ASCII)
_DECIMAL = re.compile(r"[+-]?\d{1,19}(?:\.(\d{1,9}))?\Z", re.ASCII)
_RANGES = {Type.INT: (-(2**31), 2**31 - 1), Type.BIGINT: (LOWEST, HIGHEST)}


class UnparsableMessage(ValueError):
    """A message that does not fit its contract; the text is the reason, with column and value.

    ``column`` is the name of the column that does not fit (empty: none can be read).
    """

    def __init__(self, reason: str, column: str = "") -> None:
        self.column = column
        super().__init__(reason)


@dataclass(frozen=True)
class Number:
    """A number of JSON, as it is written."""

    text: str


class _CsvText(str):
    """A field of CSV, which may be the text of any value."""

    __slots__ = ()


def _not_finite(name: str) -> None:
    raise ValueError(name)


def decoder(read: Input) -> Callable[[str, bytes], Row]:
    """A function from a message's topic and content to a row of its columns.

    It raises :class:`UnparsableMessage`.
    """
    fields = _csv_fields if read.format == "csv" else _json_fields
    parts = list(zip(read.columns, read.positions, strict=True))

    def decode(topic: str, content: bytes) -> Row:
        found = fields(_text(content), read)
        return [
            topic if at == TOPIC_POSITION else _value(column, each)
            for (column, at), each in zip(parts, found, strict=True)
        ]

    return decode


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UnparsableMessage("it is not UTF-8") from None


def json_of(content: bytes) -> Any:
    """The data of a message of JSON; :func:`scalar` reads its values.  Raises :class:`UnparsableMessage`."""
    return _json(_text(content))


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_not_finite)
    except (ValueError, RecursionError):
        raise UnparsableMessage("it is not JSON") from None


def _json_fields(text: str, read: Input) -> list[Any]:
    data = _json(text)
    if not isinstance(data, dict):
        raise UnparsableMessage("it is not a JSON object")
    return [data.get(each.name) for each in read.columns]


def _csv_fields(text: str, read: Input) -> list[Any]:
    fields = csv_fields(text)
    for column, at in zip(read.columns, read.positions, strict=True):
        if at >= len(fields):
            reason = f"column {column.name!r} is missing (the line has {len(fields)} fields)"
            raise UnparsableMessage(reason, column.name)
    return [None if at == TOPIC_POSITION else _csv_value(fields[at]) for at in read.positions]


def csv_values(content: bytes) -> list[Any]:
    """The fields of a line of CSV, for :func:`read_value`.  Raises :class:`UnparsableMessage`."""
    return [_csv_value(each) for each in csv_fields(_text(content))]


def _csv_value(field: str | None) -> _CsvText | None:
    return None if field is None else _CsvText(field)


def csv_fields(text: str) -> list[str | None]:
    """The fields of a line as of RFC 4180; ``None`` for one that is empty and not in quotes.

    Raises :class:`UnparsableMessage` for a quote that is not closed, or text after one.
    """
    line = text.removesuffix("\n").removesuffix("\r")
    fields, at = list[str | None](), 0
    while True:
        if line[at : at + 1] == '"':
            quoted, at = _quoted(line, at + 1)
            fields.append(quoted)
        else:
            end = line.find(",", at)
            end = len(line) if end < 0 else end
            fields.append(line[at:end] or None)
            at = end
        if at >= len(line):
            return fields
        if line[at] != ",":
            raise UnparsableMessage(f"a comma is missing after field {len(fields)}")
        at += 1


def _quoted(line: str, at: int) -> tuple[str, int]:
    parts = []
    while (end := line.find('"', at)) >= 0:
        parts.append(line[at:end])
        if line[end + 1 : end + 2] != '"':
            return "".join(parts), end + 1
        parts.append('"')
        at = end + 2
    raise UnparsableMessage("a quote is not closed")


def _value(column: Column, field: Any) -> Value:
    if field is None:
        if column.nullable:
            return None
        reason = f"column {column.name!r} is missing or null (expected {column.written_type})"
        raise UnparsableMessage(reason, column.name)
    value = read_value(column, field)
    if value is None:
        reason = f"column {column.name!r} is {_shown(field)} (expected {column.written_type})"
        raise UnparsableMessage(reason, column.name)
    return value


def scalar(type: Type, field: Any) -> Value:
    """The value of a field of JSON; ``None`` if it is of another type."""
    return read_value(Column("", type), field)


def read_value(column: Column, field: Any) -> Value:
    """The value of a field as of :func:`json_of` or :func:`csv_values`; ``None`` if it does not fit."""
    try:
        return _READERS[column.type](column, field)
    except (TypeError, ValueError):
        return None


def _shown(field: Any) -> str:
    if isinstance(field, dict):
        return "an object"
    if isinstance(field, list):
        return "a list"
    if isinstance(field, bool):
        return "true" if field else "false"
    text = field.text if isinstance(field, Number) else f"'{field}'"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _boolean(_: Column, field: Any) -> bool | None:
    if isinstance(field, _CsvText):
        return {"true": True, "false": False}.get(field.lower())
    return field if isinstance(field, bool) else None


def _whole(column: Column, field: Any) -> int | None:
    text = _number_text(field)
    low, high = _RANGES[column.type]
    return number if _WHOLE.match(text) and low <= (number := int(text)) <= high else None


def _double(_: Column, field: Any) -> float | None:
    text = _number_text(field)
    return None if " " in text else double_of_text(text)


def _number_text(field: Any) -> str:
    """The text of a number; of CSV all fields are texts.  Raises :class:`TypeError` for another value."""
    if isinstance(field, Number):
        return field.text
    if isinstance(field, _CsvText):
        return str(field)
    raise TypeError(field)


def _string(_: Column, field: Any) -> str | None:
    return str(field) if isinstance(field, str) and (field.isascii() or _is_text(field)) else None


def _is_text(text: str) -> bool:
    """False for half a pair of surrogates, which JSON can escape."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _timestamp(column: Column, field: Any) -> int | None:
    if column.unit is Unit.ISO:
        time = times.time_of(field) if isinstance(field, str) else None
    else:
        time = _since_1970(column.unit, _number_text(field))
    return time if time is not None and 0 <= time <= times.HIGHEST else None


def _since_1970(unit: Unit, text: str) -> int | None:
    """Milliseconds of a number of seconds, or of milliseconds; of more digits none counts."""
    found = _DECIMAL.match(text)
    if found is None:
        return None
    if unit is Unit.MILLISECONDS:
        return int(text) if found[1] is None else None
    millis = int((found[1] or "").ljust(3, "0")[:3])
    return int(text.partition(".")[0]) * 1000 + millis


_READERS: Mapping[Type, Callable[[Column, Any], Value]] = {
    Type.BOOLEAN: _boolean,
    Type.INT: _whole,
    Type.BIGINT: _whole,
    Type.DOUBLE: _double,
    Type.STRING: _string,
    Type.TIMESTAMP: _timestamp,
}


def encoder(format: str, columns: Sequence[Column]) -> Callable[[Row], str]:
    """A function from a row to the text of its message."""
    if format == "csv":
        return lambda row: ",".join(map(_csv_text, columns, row))
    names = [json.dumps(each.name, ensure_ascii=False) for each in columns]

    def encode(row: Row) -> str:
        pairs = (
            f"{name}:{_json_text(each, value)}" for name, each, value in zip(names, columns, row, strict=True)
        )
        return f"{{{','.join(pairs)}}}"

    return encode


def _json_text(column: Column, value: Value) -> str:
    if value is None:
        return "null"
    if column.type is Type.TIMESTAMP:
        return f'"{times.text_of(value)}"'
    return json.dumps(value, ensure_ascii=False)


def _csv_text(column: Column, value: Value) -> str:
    if value is None:
        return ""
    if column.type is Type.TIMESTAMP:
        return times.text_of(value)
    if isinstance(value, str):
        quoted = not value or any(each in value for each in ',"\r\n')
        return '"{}"'.format(value.replace('"', '""')) if quoted else value
    return json.dumps(value)
