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
PART_VERSION = 2  # of a query in parts or with ranks, of which an older connector would miss some
FRAME = "frame"  # the format of the messages between the parts of a query
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
class Rank:
    """The place of a row behind windows among those with the same ``partition``: ``rank`` or ``row_number``.

    ``order`` are the expressions by which they are sorted, each with ``desc`` and ``nulls_first``.
    """

    kind: str
    partition: tuple[Expression, ...]
    order: tuple[tuple[Expression, bool, bool], ...]


@dataclass(frozen=True, slots=True)
class Sends:
    """The frames that an input job of a query writes, behind the operators of its ``cut``.

    ``time`` is the index of the event time among the columns of the input; ``step_ms`` the slide of the
    query's windows, in which the progress is sent without a row.
    """

    cut: str
    time: int
    step_ms: int


@dataclass(frozen=True, slots=True)
class Takes:
    """The frames that the rest of a query reads: rows of each of ``inputs``, behind any cut.

    ``kept`` are the indexes of the columns behind the condition, ``computed`` those of the program's columns
    that are no constants.
    """

    inputs: tuple[str, ...]
    kept: tuple[int, ...]
    computed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A query: rows of ``input`` that fulfil ``where``, the ``columns`` of them, then perhaps ``windows``.

    Behind windows, ``having`` and ``select`` are over their rows; without them ``columns`` are the result.
    ``rank`` adds a column to the rows that fulfil ``having``, and ``keep`` is the condition behind it.
    A part of a query has ``sends`` or ``takes`` (:mod:`speck.sql.cuts`).
    """

    input: Input
    where: Expression | None
    columns: tuple[Expression, ...]
    windows: Windows | None
    having: Expression | None
    select: tuple[Expression, ...]
    format: str
    output: tuple[Column, ...]
    sends: Sends | None = None
    takes: Takes | None = None
    rank: Rank | None = None
    keep: Expression | None = None

    @property
    def is_part(self) -> bool:
        """True for a part of a query, whose windows are over totals instead of values."""
        return self.sends is not None or self.takes is not None

    def to_json(self) -> str:
        """The program as canonical JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def to_dict(self) -> dict[str, Any]:
        """The program as plain data."""
        windows = None if self.windows is None else dataclasses.asdict(self.windows)
        later: dict[str, Any] = {
            name: dataclasses.asdict(part) for name in _LATER if (part := getattr(self, name))
        }
        later |= {} if self.rank is None else {"keep": self.keep}
        return later | {
            "version": PART_VERSION if later else VERSION,
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
        if data["version"] not in (VERSION, PART_VERSION):
            raise ValueError(f"the query has version {data['version']} (expected at most {PART_VERSION})")
        read, windows = data["input"], data["windows"]
        sends, takes, rank = (data.get(each) for each in _LATER)
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
            sends=None if sends is None else Sends(**sends),
            takes=None if takes is None else Takes(**{name: tuple(each) for name, each in takes.items()}),
            rank=None if rank is None else Rank(**{name: _expression(each) for name, each in rank.items()}),
            keep=_expression(data.get("keep")),
        )


_LATER = ("sends", "takes", "rank")  # in the form of a query that has them


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
