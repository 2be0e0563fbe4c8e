"""Frames: the messages between the parts of a query.

A frame is an array of JSON: version, number of the cut (its place in ``CUTS``, from 1), progress, and the
values of one row, or in versions 2 and 3 an array for each row.  In version 3, each time is the difference to
that of the row before it, or to the progress.  The progress is a time (ms since 1970): no later
row of the input belongs to a window that ends before it.  The cut 0 has no row: the frame is for the progress
alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from speck.sql import times
from speck.sql.groups import added, begin
from speck.sql.messages import UnparsableMessage, json_of, scalar
from speck.sql.operators import Row, Value, compiled
from speck.sql.program import ROWS_FRAME, TIMES_FRAME, Join, Program, Sends, Takes, Windows
from speck.sql.types import CUTS, Column, Type

VERSION = 1  # of a frame without a row, or with the values of one
MOST_ROWS = 64  # of a frame
MOST_BYTES = 8 * 1024  # of a frame with several rows, if each had its own times
# Messages whose rows are in a frame of an input job without windows.  A broker that delivers fewer before the
# first is acknowledged slows the job down; its check says so.
MOST_WAITING = 64
MOST_READ_BYTES = 32 * 1024  # of these messages
_BIGINTS = range(-(2**63), 2**63)
_HEAD = 3  # version, cut and progress
_NOT_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


@dataclass(frozen=True)
class Frame:
    """A frame as the rest of a query takes it: a row has the time, the keys, and a total for each merge.

    Without windows it is a result.  ``side`` is the number of the table of a join.
    """

    input: str
    progress: int
    rows: tuple[Row, ...]
    side: int = 0


def text_of(cut: str | None, progress: int, row: Sequence[Value] = ()) -> str:
    """The text of a frame; without a cut it has no row."""
    return _json([VERSION, _number(cut), max(progress, 0), *map(_written, row)])


@dataclass(frozen=True)
class FrameWriter:
    """Writes the rows of an input job as frames."""

    sends: Sends
    columns: Sequence[Column]

    def is_full(self, messages: int, size: int) -> bool:
        """True if a frame with the rows of ``messages``, of ``size`` bytes, has to be sent."""
        bound = MOST_READ_BYTES if self.sends.frame == TIMES_FRAME else MOST_BYTES
        return messages >= self.sends.rows or size >= bound

    def frame(self, rows: Sequence[Row], progress: int) -> str:
        """The frame of rows in their order."""
        if len(rows) == 1 and self.sends.frame == ROWS_FRAME:
            return text_of(self.sends.cut, progress, rows[0])
        return self._several(rows, progress)

    def frames(self, rows: Iterable[Row], progress: int) -> Iterator[str]:
        """The frames of rows, in an order that the rows alone decide."""
        texts = [(_json([*map(_written, each)]), each) for each in rows]
        texts.sort(key=lambda each: each[0].encode("utf-16-be"))
        if self.sends.rows == 1:
            yield from (text_of(self.sends.cut, progress, each) for _, each in texts)
            return
        waiting, size = list[Row](), 0
        for text, row in texts:
            length = len(text.encode())
            if waiting and (len(waiting) == self.sends.rows or size + length > MOST_BYTES):
                yield self._several(waiting, progress)
                waiting, size = [], 0
            waiting.append(row)
            size += length
        if waiting:
            yield self._several(waiting, progress)

    def _several(self, rows: Sequence[Row], progress: int) -> str:
        head = [self.sends.frame, _number(self.sends.cut), max(progress, 0)]
        found = list(rows)
        if self.sends.frame == TIMES_FRAME:
            times = [each.type is Type.TIMESTAMP for each in self.columns]
            found = [*_differences(rows, times, max(progress, 0))]
        return _json([*head, *([*map(_written, each)] for each in found)])


def _differences(rows: Iterable[Row], times: Sequence[bool], progress: int) -> Iterator[Row]:
    """Rows with the differences of times: to that of the row before which has one, or to the progress."""
    before = [progress] * len(times)
    for row in rows:
        found = list(row)
        for at, value in enumerate(row):
            if times[at] and value is not None:
                found[at], before[at] = value - before[at], value
        yield found


def _sums(rows: Iterable[Row], times: Sequence[bool], progress: int) -> Iterator[Row]:
    """The inverse of :func:`_differences`.  Raises :class:`UnparsableMessage`."""
    before = [progress] * len(times)
    for row in rows:
        found = list(row)
        for at, value in enumerate(row):
            if times[at] and value is not None:
                if (time := before[at] + value) not in _BIGINTS:
                    raise UnparsableMessage(_NO_FRAME)
                found[at] = before[at] = time
        yield found


@dataclass
class OpenFrame:
    """The rows of an input job without windows that wait for others of their frame.

    It is closed when the progress has moved a step, since results wait for that, and once it is full: it
    follows from the messages alone, by no clock.  A query without windows has such steps for frames alone.
    """

    writer: FrameWriter
    _rows: list[Row] = field(default_factory=list)
    _messages: int = 0
    _bytes: int = 0
    _progress: int = 0

    def add(self, row: Row | None, progress: int, size: int) -> bool:
        """Add the row of a message of ``size`` bytes, and return True if the frame is full."""
        if row is not None:
            self._rows.append(row)
        self._messages += 1
        self._bytes += size
        self._progress = max(self._progress, progress)
        return self.writer.is_full(self._messages, self._bytes)

    def close(self) -> str | None:
        """The text of the frame; ``None`` without a row."""
        text = self.writer.frame(self._rows, self._progress) if self._rows else None
        self._rows, self._messages, self._bytes, self._progress = [], 0, 0, 0
        return text


def _json(values: Sequence[object]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _number(cut: str | None) -> int:
    return 0 if cut is None else CUTS.index(cut) + 1


def _written(value: Value) -> Value:
    """The value for JSON, whose numbers are finite: a sum of doubles may have left their range."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def reader(program: Program) -> Callable[[str, bytes], Frame]:
    """A function from a message's topic and content to a frame.  It raises :class:`UnparsableMessage`."""
    if program.join is not None:
        return _reader_of_sides(program.join)
    forms = _forms(program)

    def read(topic: str, content: bytes) -> Frame:
        version, number, progress, rows = _parsed(content)
        if number == 0 and rows == [[]]:
            return Frame(topic.rpartition("/")[2], progress, ())
        if not 0 < number <= len(forms):
            raise UnparsableMessage(_NO_FRAME)
        form = forms[number - 1]
        values: Iterable[Row] = (form.values(each) for each in rows)
        if version == TIMES_FRAME:
            values = _sums(values, [each is Type.TIMESTAMP for each in form.types], progress)
        kept = tuple(row for each in values if (row := _row(form, each)) is not None)
        return Frame(topic.rpartition("/")[2], progress, kept)

    return read


def _row(form: _Form, values: Row) -> Row | None:
    """The row before the windows; ``None`` for one that the condition leaves out."""
    row = form.rest(values)
    if row is not None and row[0] is None and form.timed:
        raise UnparsableMessage(_NO_FRAME)
    return row


def _reader_of_sides(join: Join) -> Callable[[str, bytes], Frame]:
    """A function that reads the frames of both tables, whose names are the begins of those of the inputs."""
    readers = [reader(each) for each in join.sides]

    def read(topic: str, content: bytes) -> Frame:
        table = topic.rpartition("/")[2].partition("-")[0]
        if table not in join.tables:
            raise UnparsableMessage(_NO_FRAME)
        side = join.tables.index(table)
        return replace(readers[side](topic, content), side=side)

    return read


_NO_FRAME = "it is not a frame of this query"


def _parsed(content: bytes) -> tuple[int, int, int, list[Any]]:
    """Version, number of the cut, progress, and the values of each row."""
    data = json_of(content)
    if not isinstance(data, list) or len(data) < _HEAD:
        raise UnparsableMessage(_NO_FRAME)
    version, number, progress = (scalar(Type.BIGINT, each) for each in data[:_HEAD])
    if version is None or number is None or progress is None or not 0 <= progress <= times.HIGHEST:
        raise UnparsableMessage(_NO_FRAME)
    if version not in (VERSION, ROWS_FRAME, TIMES_FRAME):
        raise UnparsableMessage(f"the frame has version {version} (expected at most {TIMES_FRAME})")
    return version, number, progress, [data[_HEAD:]] if version == VERSION else data[_HEAD:]


@dataclass(frozen=True)
class _Form:
    """The values of the frames of a cut, and the row before the windows that they are.

    Such a row is ``timed``: it begins with its time.
    """

    types: Sequence[Type]
    rest: Callable[[Row], Row | None]
    timed: bool = True

    def values(self, written: object) -> Row:
        """The values of a row.  Raises :class:`UnparsableMessage`."""
        if not isinstance(written, list) or len(written) != len(self.types):
            raise UnparsableMessage(_NO_FRAME)
        return [_value(type, each) for type, each in zip(self.types, written, strict=True)]


def _value(type: Type, written: object) -> Value:
    if written is None:
        return None
    if type is Type.DOUBLE and isinstance(written, str) and written in _NOT_FINITE:
        return _NOT_FINITE[written]
    if (value := scalar(Type.BIGINT if type in (Type.INT, Type.TIMESTAMP) else type, written)) is None:
        raise UnparsableMessage(_NO_FRAME)
    return value


def _forms(program: Program) -> list[_Form]:
    """The form of each cut, for the rest of a query."""
    takes, windows = program.takes, program.windows
    assert takes is not None  # noqa: S101 - for the type checker
    where = (lambda row: True) if program.where is None else compiled(program.where)
    columns = [compiled(each) for each in program.columns]
    read = [each.type for each in program.input.columns]
    values = [each.type for each in program.output] if windows is None else _types_before(windows)

    def behind(row: Row) -> Row:
        return row if windows is None else totals_of(windows, row)

    def calculated(row: Row) -> Row:
        return behind([each(row) for each in columns])

    def kept(found: Row) -> Row:
        row: list[Value] = [None] * len(read)
        for index, value in zip(takes.kept, found, strict=True):
            row[index] = value
        return calculated(row)

    def computed(found: Row) -> Row:
        row = [None if each[0] != "lit" else each[2] for each in program.columns]
        for index, value in zip(takes.computed, found, strict=True):
            row[index] = value
        return behind(row)

    timed, kept_types = windows is not None, [read[each] for each in takes.kept]
    forms = [
        _Form(kept_types, kept, timed),
        _Form([values[each] for each in takes.computed], computed, timed),
    ]
    if windows is None:
        return [forms[0], *forms]
    totals = [Type.TIMESTAMP, *windows.keys, *(_total_type(each.kind, each.type) for each in windows.merges)]
    all_columns = _Form(read, lambda row: calculated(row) if where(row) is True else None)
    return [all_columns, *forms, _Form(totals, lambda row: row)]


def _types_before(windows: Windows) -> list[Type]:
    """The types of the columns before windows."""
    return [Type.TIMESTAMP, *windows.keys, *(each.type for each in windows.merges)]


def _total_type(kind: str, type: Type) -> Type:
    return Type.BIGINT if kind == "count" else type


def totals_of(windows: Windows, row: Row) -> Row:
    """A row before windows with the totals of itself alone, in the place of values."""
    first = len(windows.keys) + 1
    values = zip(windows.merges, row[first:], strict=True)
    return [*row[:first], *(added(merge, begin(merge), value) for merge, value in values)]


@dataclass
class Tracker:
    """The watermark of the rest of a query: the least progress of all inputs, once each has sent its own.

    It moves in steps of ``step_ms``.  Another input, which an edit has left out, holds nothing back.
    """

    takes: Takes
    step_ms: int
    _reached: dict[str, int] = field(default_factory=dict)

    def advance(self, input: str, progress: int) -> int | None:
        """The watermark after a frame."""
        if input in self.takes.inputs:
            self._reached[input] = max(progress, self._reached.get(input, 0))
        if len(self._reached) < len(self.takes.inputs):
            return None
        return min(self._reached.values()) // self.step_ms * self.step_ms


@dataclass
class Steps:
    """The progress of an input job, in steps: windows end at no other times."""

    step_ms: int
    reached: int | None = None

    def advance(self, progress: int) -> int | None:
        """The progress to send; ``None`` if it has been sent."""
        step = max(progress, 0) // self.step_ms * self.step_ms
        if self.reached is not None and step <= self.reached:
            return None
        self.reached = step
        return step
