"""Runs a program in Python, without an engine: the reference, and ``speck sql try``.

Rows are taken in the order of their messages.  A window is closed, and its rows are written, once a row is
later than its end by the watermark; a row whose windows are all closed is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from speck.sql.messages import UnparsableMessage, decoder, encoder
from speck.sql.operators import Row, Value, compiled, finite, wrapped
from speck.sql.program import Expression, Merge, Program, Windows
from speck.sql.types import Type


@dataclass
class Outcome:
    """The messages of a program, and what it left out.

    ``unparsable`` are the index and the reason of each message that does not fit the contract; ``late`` is
    the number of rows whose windows were all closed.
    """

    messages: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    unparsable: list[tuple[int, str]] = field(default_factory=list)
    late: int = 0


def evaluate(program: Program, messages: Iterable[tuple[str, bytes]], *, end: bool = True) -> Outcome:
    """Run a program on messages (topic and content); with ``end``, the open windows are closed at last."""
    outcome = Outcome()
    rows = _rows(program, messages, outcome)
    if program.windows is None:
        outcome.rows += rows
    else:
        lag = program.input.watermark_ms or 0
        groups = Groups(program.windows, lag)
        closed = [each for row in rows for each in groups.add(row)]
        outcome.rows += _selected(program, [*closed, *(groups.close() if end else ())])
        outcome.late = groups.late
    outcome.messages += map(encoder(program.format, program.output), outcome.rows)
    return outcome


def _rows(program: Program, messages: Iterable[tuple[str, bytes]], outcome: Outcome) -> Iterator[Row]:
    decode, where = decoder(program.input), _condition(program.where)
    columns = [compiled(each) for each in program.columns]
    for index, (topic, content) in enumerate(messages):
        try:
            row = decode(topic, content)
        except UnparsableMessage as error:
            outcome.unparsable.append((index, str(error)))
            continue
        if where(row) is True:
            yield [each(row) for each in columns]


def _condition(expression: Expression | None) -> Any:
    return (lambda row: True) if expression is None else compiled(expression)


def _selected(program: Program, rows: Iterable[Row]) -> Iterator[Row]:
    having, select = _condition(program.having), [compiled(each) for each in program.select]
    for row in rows:
        if having(row) is True:
            yield [each(row) for each in select]


class Groups:
    """The open windows of an aggregation, and what they have by key."""

    def __init__(self, windows: Windows, lag_ms: int) -> None:
        self._windows = windows
        self._lag = lag_ms
        self._newest: int | None = None
        self._open: dict[int, dict[tuple[Value, ...], list[Value]]] = {}
        self.late = 0

    def add(self, row: Row) -> list[Row]:
        """Add a row; returns the rows of the windows that it closes, in order of windows and keys."""
        time, key = row[0], tuple(row[1 : len(self._windows.keys) + 1])
        arguments = row[len(self._windows.keys) + 1 :]
        mark = None if self._newest is None else self._newest - self._lag
        starts = [each for each in self._starts(time) if mark is None or each + self._windows.size_ms > mark]
        self.late += not starts
        for start in starts:
            values = self._open.setdefault(start, {}).setdefault(key, _begin(self._windows))
            for index, (merge, value) in enumerate(zip(self._windows.merges, arguments, strict=True)):
                values[index] = merged(merge, values[index], value)
        self._newest = time if self._newest is None else max(self._newest, time)
        return self._closed(self._newest - self._lag)

    def _starts(self, time: int) -> list[int]:
        slide = self._windows.slide_ms
        last = time // slide * slide
        return [last - offset for offset in range(0, self._windows.size_ms, slide)]

    def _closed(self, mark: int) -> list[Row]:
        return [
            row
            for start in sorted(self._open)
            if start + self._windows.size_ms <= mark
            for row in self._taken(start)
        ]

    def close(self) -> list[Row]:
        """The rows of the windows that are still open."""
        return [row for start in sorted(self._open) for row in self._taken(start)]

    def _taken(self, start: int) -> list[Row]:
        groups = self._open.pop(start)
        end = start + self._windows.size_ms
        ordered = sorted(groups.items(), key=lambda each: [(one is not None, one) for one in each[0]])
        return [[start, end, *key, *map(_result, values)] for key, values in ordered]


def _begin(windows: Windows) -> list[Value]:
    return [0 if each.kind == "count" else None for each in windows.merges]


def _result(value: Value) -> Value:
    return finite(value) if isinstance(value, float) else value


def merged(merge: Merge, total: Value, value: Value) -> Value:
    """The total of an aggregate function with one more value; NULL counts in none."""
    if value is None:
        return total
    if merge.kind == "count":
        return total + 1
    if total is None:
        return value
    if merge.kind == "sum":
        return total + value if merge.type is Type.DOUBLE else wrapped(total + value)
    return min(total, value) if merge.kind == "min" else max(total, value)
