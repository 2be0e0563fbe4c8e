"""The canonical form of a query: what a job runs, names resolved, as plain data.

Texts that differ by comments, layout and aliases of tables alone have equal programs.  An expression is a
list: ``["col", i]``, ``["lit", type, value]`` or ``[operator, argument...]``, with the operators of
:mod:`speck.sql.operators`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from speck.sql.types import Column, Type, Unit

VERSION = 1
Expression = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """The columns that a query reads.

    ``positions`` are those of the columns in a line of CSV, counted from 0 (``TOPIC_POSITION``: the topic of
    the message).  ``event_time`` is the index of a column, ``watermark_ms`` the lag of rows.
    """

    format: str
    columns: tuple[Column, ...]
    positions: tuple[int, ...]
    watermark_ms: int | None = None


TOPIC_POSITION = -1


@dataclass(frozen=True, slots=True)
class Merge:
    """An aggregate function over the argument of its place: ``count``, ``sum``, ``min`` or ``max``."""

    kind: str
    type: Type  # of the argument


@dataclass(frozen=True, slots=True)
class Windows:
    """An aggregation in windows of event time.

    The rows before it are the time, then ``keys`` key columns, then an argument for each of ``merges``.  Rows
    behind it are start and end of the window, the keys and the results of the merges.
    """

    size_ms: int
    slide_ms: int
    keys: tuple[Type, ...]
    merges: tuple[Merge, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A query: rows of ``input`` that fulfil ``where``, the ``columns`` of them, then perhaps ``windows``.

    Behind windows, ``having`` and ``select`` are over their rows; without them ``columns`` are the result.
    """

    input: Input
    where: Expression | None
    columns: tuple[Expression, ...]
    windows: Windows | None
    having: Expression | None
    select: tuple[Expression, ...]
    format: str
    output: tuple[Column, ...]

    def to_json(self) -> str:
        """The program as canonical JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def to_dict(self) -> dict[str, Any]:
        """The program as plain data."""
        windows = None if self.windows is None else dataclasses.asdict(self.windows)
        return {
            "version": VERSION,
            "input": {
                "format": self.input.format,
                "columns": [
                    _column(each) | {"at": at}
                    for each, at in zip(self.input.columns, self.input.positions, strict=True)
                ],
                "watermark_ms": self.input.watermark_ms,
            },
            "where": self.where,
            "columns": self.columns,
            "windows": windows,
            "having": self.having,
            "select": self.select,
            "format": self.format,
            "output": [_column(each) for each in self.output],
        }

    @classmethod
    def from_json(cls, text: str) -> Program:
        """The inverse of :meth:`to_json`.  Raises :class:`ValueError` for one of a later version."""
        data = json.loads(text)
        if data["version"] != VERSION:
            raise ValueError(f"the query has version {data['version']} (expected {VERSION})")
        read, windows = data["input"], data["windows"]
        return cls(
            input=Input(
                read["format"],
                tuple(map(_column_of, read["columns"])),
                tuple(each["at"] for each in read["columns"]),
                read["watermark_ms"],
            ),
            where=_expression(data["where"]),
            columns=tuple(map(_expression, data["columns"])),
            windows=None if windows is None else _windows(windows),
            having=_expression(data["having"]),
            select=tuple(map(_expression, data["select"])),
            format=data["format"],
            output=tuple(map(_column_of, data["output"])),
        )


def _column(column: Column) -> dict[str, Any]:
    return {"name": column.name, "type": column.type, "null": column.nullable, "unit": column.unit}


def _column_of(data: Mapping[str, Any]) -> Column:
    return Column(data["name"], Type(data["type"]), data["null"], Unit(data["unit"]))


def _windows(data: Mapping[str, Any]) -> Windows:
    merges = tuple(Merge(each["kind"], Type(each["type"])) for each in data["merges"])
    return Windows(data["size_ms"], data["slide_ms"], tuple(map(Type, data["keys"])), merges)


def _expression(data: Any) -> Any:
    """Lists as tuples, which compare and hash."""
    return tuple(map(_expression, data)) if isinstance(data, Sequence) and not isinstance(data, str) else data


def columns_in(expression: Expression | None) -> set[int]:
    """The indexes of the columns that an expression reads."""
    if expression is None or expression[0] == "lit":
        return set()
    if expression[0] == "col":
        return {expression[1]}
    return {index for each in expression[1:] if isinstance(each, tuple) for index in columns_in(each)}


def renumbered(expression: Any, numbers: Mapping[int, int]) -> Any:
    """An expression with other indexes of its columns."""
    if not isinstance(expression, tuple) or expression[0] == "lit":
        return expression
    if expression[0] == "col":
        return ("col", numbers[expression[1]])
    return (expression[0], *(renumbered(each, numbers) for each in expression[1:]))
