"""Runs a program in Python, without an engine: the reference, and ``speck sql try``.

Rows are taken in the order of their messages.  A window is closed, and its rows are written, once a row is
later than its end by the watermark; a row whose windows are all closed is dropped and counted.  The rest of a
query has the progress of its inputs in the place of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, TypeVar

from speck.sql.cuts import input_of, rest_of
from speck.sql.frames import FrameWriter, OpenFrame, Steps, Tracker, reader, text_of, totals_of
from speck.sql.groups import Groups, Sessions, Spans, groups_of
from speck.sql.messages import UnparsableMessage, decoder, encoder
from speck.sql.operators import Row, Value, compiled, finite
from speck.sql.pairs import pairs_of
from speck.sql.program import Expression, Join, Program, Sends, Takes, Windows
from speck.sql.ranks import ranked
from speck.sql.types import COLUMNS

Messages = Iterable[tuple[str, bytes]]
_Found = TypeVar("_Found")
_Timed = tuple[Row | None, int | None]  # a row before windows, and the watermark behind it


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


def evaluate(program: Program, messages: Messages, *, end: bool = True) -> Outcome:
    """Run a program on messages (topic and content); with ``end``, the open windows are closed at last."""
    outcome = Outcome()
    if program.windows is not None and program.sends is not None:
        outcome.messages += _partials(program, program.windows, program.sends, messages, outcome, end)
    elif program.sends is not None:
        outcome.messages += _frames(program, program.sends, messages, outcome)
    elif program.join is not None:
        outcome.rows += _joined(program, program.join, messages, outcome, end)
        outcome.messages += map(encoder(program.format, program.output), outcome.rows)
    elif program.windows is None:
        outcome.rows += _passed(program, messages, outcome)
        outcome.messages += map(encoder(program.format, program.output), outcome.rows)
    else:
        timed = _timed(program, program.windows, messages, outcome)
        groups = groups_of(program.windows, totals=program.is_part)
        closed = [row for _, rows in _closed(groups, timed, outcome, end) for row in rows]
        outcome.rows += _selected(program, closed)
        outcome.messages += map(encoder(program.format, program.output), outcome.rows)
    return outcome


def _decoded(
    decode: Callable[[str, bytes], _Found], messages: Messages, outcome: Outcome
) -> Iterator[_Found]:
    for index, (topic, content) in enumerate(messages):
        try:
            yield decode(topic, content)
        except UnparsableMessage as error:
            outcome.unparsable.append((index, str(error)))


def _rows(program: Program, messages: Messages, outcome: Outcome) -> Iterator[tuple[Row | None, Row]]:
    """The columns of each row, none of one that does not fulfil the condition, and what was read."""
    select = _selector(program)
    for row in _decoded(decoder(program.input), messages, outcome):
        yield select(row), row


def _passed(program: Program, messages: Messages, outcome: Outcome) -> Iterator[Row]:
    """The results of a query without windows, of what was read or of frames."""
    if program.takes is None:
        yield from (row for row, _ in _rows(program, messages, outcome) if row is not None)
        return
    for frame in _decoded(reader(program), messages, outcome):
        yield from (list(map(_result, row)) for row in frame.rows)


def _selector(program: Program) -> Callable[[Row], Row | None]:
    """A function from what was read to the columns; ``None`` of a row that does not fulfil the condition."""
    where, columns = _condition(program.where), [compiled(each) for each in program.columns]
    return lambda row: [each(row) for each in columns] if where(row) is True else None


def _timed(program: Program, windows: Windows, messages: Messages, outcome: Outcome) -> Iterator[_Timed]:
    """The rows before windows, and the watermarks behind them, in steps of the slide as on the engines."""
    if program.takes is not None:
        yield from _taken(program, program.takes, windows, messages, outcome)
        return
    time, lag = compiled(program.columns[0]), program.input.watermark_ms or 0
    for row, read in _rows(program, messages, outcome):
        yield row, (time(read) - lag) // windows.slide_ms * windows.slide_ms


def _taken(
    program: Program, takes: Takes, windows: Windows, messages: Messages, outcome: Outcome
) -> Iterator[_Timed]:
    tracker = Tracker(takes, windows.slide_ms)
    for frame in _decoded(reader(program), messages, outcome):
        yield from ((row, None) for row in frame.rows)
        yield None, tracker.advance(frame.input, frame.progress)


def _joined(program: Program, join: Join, messages: Messages, outcome: Outcome, end: bool) -> Iterator[Row]:
    """The results of a join, of a program that takes frames."""
    if program.takes is None:
        raise ValueError("the query has a join (expected its rest, over frames)")
    tracker, pairs = Tracker(program.takes, join.windows.slide_ms), pairs_of(join)
    seen = set[tuple[Value, ...]]()

    def results(found: Iterator[Row]) -> Iterator[Row]:
        for row in _selected(program, found):
            if not join.distinct or tuple(row) not in seen:  # which have the bounds of their window
                seen.add(tuple(row))
                yield row

    for frame in _decoded(reader(program), messages, outcome):
        for row in frame.rows:
            yield from results(pairs.add(frame.side, row))
        if (mark := tracker.advance(frame.input, frame.progress)) is not None:
            yield from results(pairs.advance(mark))
    outcome.late = pairs.late
    yield from results(pairs.close() if end else iter(()))


def evaluate_tables(program: Program, tables: Sequence[Messages], *, end: bool = True) -> Outcome:
    """Run a query on the messages of each of its tables, in the order of FROM.

    ``unparsable`` has the messages of the first table, then those of the next one.
    """
    if program.join is None:
        return evaluate(program, tables[0], end=end)
    frames, unparsable, count = list[tuple[str, bytes]](), list[tuple[int, str]](), 0
    for number, (name, messages) in enumerate(zip(program.join.tables, map(list, tables), strict=True)):
        sent = evaluate(input_of(program, COLUMNS, number), messages)
        frames += ((f"{name}-all", each.encode()) for each in sent.messages)
        unparsable += ((count + index, reason) for index, reason in sent.unparsable)
        count += len(messages)
    outcome = evaluate(rest_of(program, *([f"{name}-all"] for name in program.join.tables)), frames, end=end)
    return replace(outcome, unparsable=unparsable)


def _closed(
    groups: Groups | Sessions, timed: Iterable[_Timed], outcome: Outcome, end: bool
) -> Iterator[tuple[int | None, list[Row]]]:
    """The rows of windows with the watermark that closed them; at the end without one."""
    for row, mark in timed:
        if row is not None:
            groups.add(row)
        if mark is not None:
            yield mark, groups.advance(mark)
    outcome.late = groups.late
    if end:
        yield None, groups.close()


def _frames(program: Program, sends: Sends, messages: Messages, outcome: Outcome) -> Iterator[str]:
    """The frames of an input job without windows: of rows, or of a progress that is new.

    If the query has no windows either, nothing waits for the progress.
    """
    progresses = program.input.event_time is None
    steps, lag = Steps(sends.step_ms), program.input.watermark_ms or 0
    frame = OpenFrame(FrameWriter(sends, program.output))
    decode, select = decoder(program.input), _selector(program)

    def sized(topic: str, content: bytes) -> tuple[Row, int]:
        return decode(topic, content), len(content)

    for read, size in _decoded(sized, messages, outcome):
        progress = read[sends.time] - lag
        step, row = steps.advance(progress), select(read)
        # A row that fills a frame alone: a broker that refuses it as too large takes the others.
        if frame.writer.is_full(1, size) and (text := frame.close()) is not None:
            yield text
        if frame.add(row, progress, size) or step is not None:
            if (text := frame.close()) is not None:
                yield text
            elif step is not None and progresses:
                yield text_of(None, step)
    if (text := frame.close()) is not None:
        yield text


def _partials(
    program: Program, windows: Windows, sends: Sends, messages: Messages, outcome: Outcome, end: bool
) -> Iterator[str]:
    """The frames of an input job with panes: those of a pane once it is over, then the progress."""
    steps, lag = Steps(sends.step_ms), program.input.watermark_ms or 0
    timed = (
        (None if row is None else totals_of(windows, row), steps.advance(read[sends.time] - lag))
        for row, read in _rows(program, messages, outcome)
    )
    writer = FrameWriter(sends, program.output)
    slides = Spans(windows) if windows.session else Groups(windows, totals=True)
    for mark, closed in _closed(slides, timed, outcome, end):
        for start, rows in groupby(_selected(program, closed), lambda row: windows.starts(row[0])[0]):
            yield from writer.frames(rows, start)
        if mark is not None:
            yield text_of(None, mark)


def _condition(expression: Expression | None) -> Any:
    return (lambda row: True) if expression is None else compiled(expression)


def _selected(program: Program, rows: Iterable[Row]) -> Iterator[Row]:
    having, select = _condition(program.having), [compiled(each) for each in program.select]
    results = rows if program.sends is not None else (list(map(_result, row)) for row in rows)
    found: Iterable[Row] = (row for row in results if having(row) is True)
    if program.rank is not None:
        keep = _condition(program.keep)
        found = (row for row in ranked(program.rank, list(found)) if keep(row) is True)
    for row in found:
        yield [each(row) for each in select]


def _result(value: Value) -> Value:
    """A total as a result: a sum of doubles may have left their range."""
    return finite(value) if isinstance(value, float) else value
