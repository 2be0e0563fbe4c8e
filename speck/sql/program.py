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
from functools import lru_cache
from typing import Any

from speck.sql.types import Column, Type, Unit

VERSION = 1
PART_VERSION = 2  # of a query in parts or with ranks, of which an older connector would miss some
THIRD_VERSION = 3  # of a query with a join or with sessions, or with frames of several rows
FOURTH_VERSION = 4  # of a part of a query that sends the best rows of a slide
FIFTH_VERSION = 5  # of a part of a query that merges rows of sessions
SIXTH_VERSION = 6  # of a part of a query whose frames have differences of times
LATEST_VERSION = 7  # of a part of a query without windows and joins
FRAME = "frame"  # the format of the messages between the parts of a query
# Versions of frames with several rows: as written, and with differences of times.
ROWS_FRAME, TIMES_FRAME = 2, 3
Expression = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """The columns that a query reads.

    ``positions`` are those of the columns in a line of CSV, counted from 0 (``TOPIC_POSITION``: the topic of
    the message).  ``watermark_ms`` is the lag of rows.  For the parts of a query without windows and joins,
    ``event_time`` is the index of that column, and ``step_ms`` the time after which a frame ends; both are
    ``None`` for other programs.
    """

    format: str
    columns: tuple[Column, ...]
    positions: tuple[int, ...]
    watermark_ms: int | None = None
    event_time: int | None = None
    step_ms: int | None = None


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
    behind it are start and end of the window, the keys and the results of the merges.  The windows of a
    ``session`` are those of the rows of a key that are less than ``size_ms`` apart, from the first row to as
    long behind the last one; ``slide_ms`` is then the step of the progress.  An input job that merges rows of
    sessions has slides of ``size_ms``; its output rows have the start of the slide and one time instead of
    start and end: see :class:`~speck.sql.groups.Spans`.
    """

    size_ms: int
    slide_ms: int
    keys: tuple[Type, ...]
    merges: tuple[Merge, ...]
    session: bool = False

    def starts(self, time: int) -> list[int]:
        """The starts of the windows of a time, the latest first."""
        last = time // self.slide_ms * self.slide_ms
        return [last - offset for offset in range(0, self.size_ms, self.slide_ms)]


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
    query's windows, in which the progress is sent without a row; in a query without windows, the time after
    which a frame ends.  ``rows`` is the largest number of rows of a frame, or of the messages whose rows are
    in it; ``frame`` is the version of one with several rows.
    """

    cut: str
    time: int
    step_ms: int
    rows: int = 1
    frame: int = ROWS_FRAME


@dataclass(frozen=True, slots=True)
class Takes:
    """The frames that the rest of a query reads: rows of each of ``inputs``, behind any cut.

    ``kept`` are the indexes of the columns behind the condition, ``computed`` those of the program's columns
    that are no constants.  ``frame`` is the latest version of a frame that comes.
    """

    inputs: tuple[str, ...]
    kept: tuple[int, ...]
    computed: tuple[int, ...]
    frame: int = ROWS_FRAME


@dataclass(frozen=True, slots=True)
class Join:
    """A join of the rows of two ``tables``, which the programs of its ``sides`` give.

    The rows of a side are the time, ``keys`` columns that have to be equal, and other columns.  Those of one
    window are joined; with ``bounds`` (ms) those whose times differ, the second less the first, within them.
    Rows behind it are start and end of the window, or twice the later time, then the rows of both sides.
    ``distinct``: of equal results in a window there is one.
    """

    tables: tuple[str, str]
    sides: tuple[Program, Program]
    keys: int
    bounds: tuple[int, int] | None
    distinct: bool

    @property
    def windows(self) -> Windows:
        """The windows; with ``bounds`` the steps of the progress."""
        found = self.sides[0].windows
        assert found is not None  # noqa: S101 - for the type checker
        return found


@dataclass(frozen=True, slots=True)
class Program:
    """A query: rows of ``input`` that fulfil ``where``, the ``columns`` of them, then perhaps ``windows``.

    Behind windows, ``having`` and ``select`` are over their rows; without them ``columns`` are the result.
    ``rank`` adds a column to the rows that fulfil ``having``, and ``keep`` is the condition behind it.
    A query with a ``join`` has two inputs, those of its sides, and ``having`` and ``select`` over their rows.
    A part of a query has ``sends`` or ``takes`` (:mod:`speck.sql.cuts`); the rest of one without windows has
    no ``where``, which its inputs have applied.
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
    join: Join | None = None

    @property
    def stateful(self) -> bool:
        """True for a query with windows or with a join."""
        return self.windows is not None or self.join is not None

    @property
    def is_part(self) -> bool:
        """True for a part of a query, whose windows are over totals instead of values."""
        return self.sends is not None or self.takes is not None

    def to_json(self) -> str:
        """The program as canonical JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def to_dict(self) -> dict[str, Any]:
        """The program as plain data."""
        windows = None if self.windows is None else _windows_dict(self.windows)
        later: dict[str, Any] = {
            name: dataclasses.asdict(part) for name in _LATER if (part := getattr(self, name))
        }
        for name, part in later.items():
            if name in _FRAMED and part["frame"] == ROWS_FRAME:
                del part["frame"]
        if self.sends is not None and self.sends.rows == 1:
            del later["sends"]["rows"]
        later |= {} if self.rank is None else {"keep": self.keep}
        if self.join is not None:
            later["join"] = _join(self.join)
        return later | {
            "version": self._version(bool(later)),
            "input": _input_dict(self.input),
            "where": self.where,
            "columns": self.columns,
            "windows": windows,
            "having": self.having,
            "select": self.select,
            "format": self.format,
            "output": [_column(each) for each in self.output],
        }

    def _version(self, later: bool) -> int:
        """The version of the form; ``later`` is true if the first one had not all of its fields."""
        if self.input.event_time is not None:
            return LATEST_VERSION
        if TIMES_FRAME in (each.frame for each in (self.sends, self.takes) if each is not None):
            return SIXTH_VERSION
        session = self.windows is not None and self.windows.session
        if self.sends is not None and session:
            return FIFTH_VERSION
        if self.sends is not None and self.rank is not None:
            return FOURTH_VERSION
        third = self.join is not None or session
        third |= self.sends is not None and self.sends.rows > 1
        return THIRD_VERSION if third else PART_VERSION if later else VERSION

    @classmethod
    def from_json(cls, text: str) -> Program:
        """The inverse of :meth:`to_json`.  Raises :class:`ValueError` for one of a later version."""
        return cls._of_dict(json.loads(text))

    @classmethod
    def _of_dict(cls, data: Mapping[str, Any]) -> Program:
        if data["version"] not in range(VERSION, LATEST_VERSION + 1):
            raise ValueError(f"the query has version {data['version']} (expected at most {LATEST_VERSION})")
        read, windows = data["input"], data["windows"]
        sends, takes, rank = (data.get(each) for each in _LATER)
        return cls(
            input=Input(
                read["format"],
                tuple(map(_column_of, read["columns"])),
                tuple(each["at"] for each in read["columns"]),
                read["watermark_ms"],
                read.get("event_time"),
                read.get("step_ms"),
            ),
            where=_expression(data["where"]),
            columns=tuple(map(_expression, data["columns"])),
            windows=None if windows is None else _windows(windows),
            having=_expression(data["having"]),
            select=tuple(map(_expression, data["select"])),
            format=data["format"],
            output=tuple(map(_column_of, data["output"])),
            sends=None if sends is None else Sends(**sends),
            takes=None if takes is None else _takes(takes),
            rank=None if rank is None else Rank(**{name: _expression(each) for name, each in rank.items()}),
            keep=_expression(data.get("keep")),
            join=_join_of(data["join"]) if "join" in data else None,
        )


def _join(join: Join) -> dict[str, Any]:
    fields = {each.name: getattr(join, each.name) for each in dataclasses.fields(join)}
    return fields | {"sides": [each.to_dict() for each in join.sides]}


def _join_of(data: Mapping[str, Any]) -> Join:
    bounds = data["bounds"]
    left, right = map(Program._of_dict, data["sides"])
    return Join(
        (data["tables"][0], data["tables"][1]),
        (left, right),
        data["keys"],
        None if bounds is None else (bounds[0], bounds[1]),
        data["distinct"],
    )


_LATER = ("sends", "takes", "rank")  # in the form of a query that has them
_FRAMED = ("sends", "takes")


def _takes(data: Mapping[str, Any]) -> Takes:
    inputs, kept, computed = (tuple(data[name]) for name in ("inputs", "kept", "computed"))
    return Takes(inputs, kept, computed, data.get("frame", ROWS_FRAME))


def _input_dict(read: Input) -> dict[str, Any]:
    """The input as plain data, without a field that older versions do not have."""
    columns = zip(read.columns, read.positions, strict=True)
    later = {"event_time": read.event_time, "step_ms": read.step_ms}
    return {
        "format": read.format,
        "columns": [_column(each) | {"at": at} for each, at in columns],
        "watermark_ms": read.watermark_ms,
        **{name: value for name, value in later.items() if value is not None},
    }


def _column(column: Column) -> dict[str, Any]:
    return {"name": column.name, "type": column.type, "null": column.nullable, "unit": column.unit}


def _column_of(data: Mapping[str, Any]) -> Column:
    return Column(data["name"], Type(data["type"]), data["null"], Unit(data["unit"]))


def _windows_dict(windows: Windows) -> dict[str, Any]:
    """The windows as plain data, without fields that older versions do not have."""
    found = dataclasses.asdict(windows)
    if not windows.session:
        del found["session"]
    return found


def _windows(data: Mapping[str, Any]) -> Windows:
    merges = tuple(Merge(each["kind"], Type(each["type"])) for each in data["merges"])
    keys = tuple(map(Type, data["keys"]))
    return Windows(data["size_ms"], data["slide_ms"], keys, merges, data.get("session", False))


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


@lru_cache(maxsize=1024)
def parsed(text: str) -> Program:
    """The program of a text of :meth:`Program.to_json`, parsed once.  Raises :class:`ValueError`."""
    return Program.from_json(text)
