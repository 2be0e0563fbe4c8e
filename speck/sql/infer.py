"""The schema of a topic as a sample of its messages suggests it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from speck.sql.messages import Number, UnparsableMessage, csv_values, decoder, json_of, read_value
from speck.sql.program import Input
from speck.sql.types import TOPIC, WINDOW_COLUMNS, Column, Contract, Type, Unit, table_name

MOST_COLUMNS = 256
_PLAIN = re.compile(r"[^\W\d][\w/+.-]*\Z")
_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
_LEAST_LAG = 1000  # ms: the watermark of a sample in which no row was late
# 2001 to 2100: numbers in these bounds are taken for times.
_SECONDS = (978_307_200, 4_133_894_400)
_TIME_NAME = re.compile(r"time|date|stamp|when|(?:\A|_)(?:ts|at)\Z", re.IGNORECASE)
_RESERVED = (TOPIC, *WINDOW_COLUMNS)
# The types that fit the values of a column, the narrowest first.
_TYPES = (
    *(Column("", Type.TIMESTAMP, unit=each) for each in (Unit.ISO, Unit.MILLISECONDS, Unit.SECONDS)),
    *(Column("", each) for each in (Type.BOOLEAN, Type.BIGINT, Type.DOUBLE, Type.STRING)),
)


@dataclass
class Inferred:
    """A contract that fits a sample, and remarks on what it leaves out or leaves open.

    ``times`` are the names of the columns that may be the event time, the one that was chosen first.
    """

    contract: Contract
    messages: int
    unparsable: int
    times: tuple[str, ...]
    notes: list[str] = field(default_factory=list)


def infer(topic: str, messages: Sequence[tuple[str, bytes]], sites: Sequence[str] = ()) -> Inferred | None:
    """The contract of the messages (topic, content) of a topic filter; ``None`` if none has columns.

    The messages are JSON if most of them are objects of JSON, else CSV.
    """
    objects = [each for _, content in messages if (each := _object(content)) is not None]
    is_json = bool(objects) and 2 * len(objects) >= len(messages)
    lines = [] if is_json else [line for _, content in messages if (line := _fields(content))]
    form, fitting = ("json", len(objects)) if is_json else ("csv", len(lines))
    found = _of_objects(objects) if is_json else _of_lines(lines)
    notes = list(found.notes)
    if not found.columns:
        return None
    columns = found.columns
    contract = Contract(topic, table_name(topic) or "messages", form, columns, sites=tuple(sites))
    candidates = tuple(each.name for each in columns if each.type is Type.TIMESTAMP and not each.nullable)
    if candidates:
        lag = _lag(contract, candidates[0], messages)
        contract = Contract(
            topic, contract.name, form, columns, candidates[0], _whole_seconds(lag), tuple(sites)
        )
        notes.append(f"rows were up to {lag / 1000:g} s late in this sample; the watermark is an estimate")
    return Inferred(contract, len(messages), len(messages) - fitting, candidates, notes)


def entry(found: Inferred) -> list[str]:
    """The lines of a ``topics:`` block with a contract, as YAML; its remarks are comments."""
    contract = found.contract
    lines = ["topics:", f"  {_scalar(contract.topic)}:"]
    if contract.name != table_name(contract.topic):
        lines.append(f"    as: {contract.name}")
    if contract.sites:
        lines.append(f"    at: [{', '.join(map(_scalar, contract.sites))}]")
    lines += [f"    format: {contract.format}", "    schema:"]
    lines += [f"      {_scalar(each.name)}: {each.written_type}" for each in contract.columns]
    if contract.event_time is not None and contract.watermark_ms is not None:
        lines.append(f"    event_time: {_scalar(contract.event_time)}{_others(found.times)}")
        lines.append(f"    watermark: {contract.watermark_ms // 1000} s")
    return [*lines, *(f"    # {note}" for note in found.notes)]


def _others(names: Sequence[str]) -> str:
    return f"  # or: {', '.join(names[1:])}" if len(names) > 1 else ""


def _scalar(text: str) -> str:
    """A text in YAML, in quotes if it needs them."""
    plain = _PLAIN.match(text) and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)


@dataclass(frozen=True)
class _Found:
    columns: tuple[Column, ...]
    notes: tuple[str, ...]


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json_of(content)
    except UnparsableMessage:
        return None
    return found if isinstance(found, dict) else None


def _fields(content: bytes) -> list[Any] | None:
    try:
        return csv_values(content)
    except UnparsableMessage:
        return None


def _of_objects(objects: Sequence[dict[str, Any]]) -> _Found:
    names = dict.fromkeys(name for each in objects for name in each)
    notes, columns = [], list[Column]()
    for name in names:
        if fault := _name_fault(name, columns):
            notes.append(f"{name!r} is left out: {fault}")
            continue
        column = _column(name, [each.get(name) for each in objects])
        if isinstance(column, Column):
            columns.append(column)
        else:
            notes.append(f"{name!r} is left out: {column}")
    if len(columns) > MOST_COLUMNS:
        notes.append(
            f"{len(columns) - MOST_COLUMNS} further columns are left out: a topic has {MOST_COLUMNS}"
        )
    return _Found(tuple(columns[:MOST_COLUMNS]), tuple(notes))


def _of_lines(lines: Sequence[Sequence[Any]]) -> _Found:
    """The columns that all lines have."""
    if not lines:
        return _Found((), ())
    least, most = min(map(len, lines)), max(map(len, lines))
    found = [
        _column(f"column{at + 1}", [each[at] for each in lines]) for at in range(min(least, MOST_COLUMNS))
    ]
    notes = ["the names of the columns are not in the messages: replace them"]
    if most > least:
        notes.append(f"lines have {least} to {most} fields; the columns are those of all lines")
    # A column that is always empty keeps its place.
    columns = (
        each if isinstance(each, Column) else Column(f"column{at + 1}", Type.STRING)
        for at, each in enumerate(found)
    )
    return _Found(tuple(columns), tuple(notes))


def _name_fault(name: str, columns: Iterable[Column]) -> str:
    if not name.isidentifier():
        return "names of columns are letters, digits and '_', the first no digit"
    if name.lower() in _RESERVED:
        return "SpecK gives a column of this name"
    if any(each.name.lower() == name.lower() for each in columns):
        return "another column has this name in another case"
    return ""


def _column(name: str, values: Sequence[Any]) -> Column | str:
    """The column of the narrowest type that fits all values, or the reason why there is none."""
    present = [each for each in values if each is not None]
    nullable = len(present) < len(values)
    if not present:
        return "it is always null"
    for each in _TYPES:
        if all(_fits(each, name, value) for value in present):
            return Column(name, each.type, nullable, each.unit)
    kinds = sorted({_kind(each) for each in present})
    return f"its values are {' and '.join(kinds)}"


def _fits(column: Column, name: str, value: Any) -> bool:
    found = read_value(column, value)
    if found is None:
        return False
    if column.type is not Type.TIMESTAMP or column.unit is Unit.ISO:
        return True
    low, high = _SECONDS
    # A number of seconds is as large as many identifiers: the name decides.
    return low <= found / 1000 < high and (
        column.unit is Unit.MILLISECONDS or _TIME_NAME.search(name) is not None
    )


def _kind(value: Any) -> str:
    if isinstance(value, Number):
        return "numbers"
    names = {bool: "booleans", dict: "objects", list: "lists"}
    return names.get(type(value), "texts")


def _lag(contract: Contract, name: str, messages: Iterable[tuple[str, bytes]]) -> int:
    """The most by which a row is older than a row before it, in ms."""
    at = [each.name for each in contract.columns].index(name)
    read = decoder(Input(contract.format, (contract.columns[at],), (at,)))
    newest, lag = -math.inf, 0
    for topic, content in messages:
        try:
            (time,) = read(topic, content)
        except UnparsableMessage:
            continue
        newest = max(newest, time)
        lag = max(lag, int(newest - time))
    return lag


def _whole_seconds(lag: int) -> int:
    return max(_LEAST_LAG, math.ceil(lag / 1000) * 1000)
