"""Cuts: a query as jobs that read its tables where they are born, and a rest with its state, if it has one.

The rest is a function of the query and the names of its inputs: it takes rows that come from behind any cut,
mixed.  So another cut restarts input jobs alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from speck.sql.frames import MOST_ROWS, MOST_WAITING
from speck.sql.program import (
    FRAME,
    TIMES_FRAME,
    Expression,
    Input,
    Program,
    Sends,
    Takes,
    Windows,
    columns_in,
    renumbered,
)
from speck.sql.types import (
    COLUMNS,
    CUTS,
    FILTER,
    PARTIALS,
    ROWS,
    STEP_MS,
    WINDOW_COLUMNS,
    Column,
    Contract,
    Type,
)

_FORM_DIGITS = 8
_SLIDES_OF_GAP = 5
_MOST_SLIDE = 10_000  # ms


def timed(program: Program, table: Contract) -> Program:
    """A query without windows and joins, such that it may be cut: it reads the event time.

    Frames end by that.  Raises :class:`ValueError` for a table without one.
    """
    column = None if table.event_time is None else table.column(table.event_time)
    if column is None:
        raise ValueError(f"table {table.name!r} has no event time")
    read = program.input
    if column not in read.columns:
        at = table.columns.index(column) if table.format == "csv" else 0
        read = replace(read, columns=(*read.columns, column), positions=(*read.positions, at))
    at = read.columns.index(column)
    return replace(program, input=replace(read, event_time=at, step_ms=STEP_MS))


def has_steps(program: Program) -> bool:
    """True if rows of input jobs wait for others of their frame, and for no windows: see :func:`stepped`."""
    join = program.join
    return program.input.step_ms is not None if join is None else join.bounds is not None


def stepped(program: Program, step_ms: int) -> Program:
    """A query that :func:`has_steps`, with another length of these, ms of event time."""
    join = program.join
    if join is None:
        return replace(program, input=replace(program.input, step_ms=step_ms))
    left, right = (
        replace(each, windows=replace(_windows(each), size_ms=step_ms, slide_ms=step_ms))
        for each in join.sides
    )
    return replace(program, join=replace(join, sides=(left, right)))


def cuts_by_table(program: Program) -> tuple[tuple[str, ...], ...]:
    """The cuts of each table of a query, the earliest first.

    A query without windows and joins has none unless it is :func:`timed`.
    """
    if program.join is not None:
        return tuple(tuple(cut for cut in _cuts(side) if cut != PARTIALS) for side in program.join.sides)
    return (_cuts(program),)


def cuts_of(program: Program) -> tuple[str, ...]:
    """The cuts that a table of a query has, the earliest first."""
    found = set().union(*cuts_by_table(program))
    return tuple(each for each in CUTS if each in found)


def _cuts(program: Program) -> tuple[str, ...]:
    windowed = program.windows is not None
    if not windowed and program.input.event_time is None:
        return ()
    computes = any(each[0] not in ("col", "lit") for each in program.columns)
    # Without windows the rest has no condition: each row of a frame is a result, whose number in the frame
    # identifies it, also if the condition changes before the frame is read again.
    columns, filters = windowed or program.where is None, program.where is not None
    found = {COLUMNS: columns, FILTER: filters, ROWS: computes, PARTIALS: windowed}
    return tuple(name for name, has in found.items() if has)


def rest_of(program: Program, *inputs: Sequence[str]) -> Program:
    """The part of a query that has its state and writes its results, over frames of each table's inputs."""
    if program.join is not None:
        sides = [_rest(*each) for each in zip(program.join.sides, inputs, strict=True)]
        names = tuple(name for each in inputs for name in each)
        join = replace(program.join, sides=(sides[0], sides[1]))
        return replace(
            program, input=Input(FRAME, (), ()), join=join, takes=Takes(names, (), (), TIMES_FRAME)
        )
    return _rest(program, inputs[0])


def _rest(program: Program, inputs: Sequence[str]) -> Program:
    read = replace(program.input, format=FRAME, positions=(0,) * len(program.input.columns), step_ms=None)
    takes = Takes(tuple(inputs), _kept(program), _computed(program), TIMES_FRAME)
    where = None if program.windows is None else program.where
    return replace(program, input=read, where=where, takes=takes)


def whole_of(rest: Program, read: Input) -> Program:
    """The query of a rest that reads one table: the inverse of :func:`rest_of`."""
    return replace(rest, input=read, takes=None)


def table_of(rest: Program, part: Program, table: int = 0) -> Program:
    """The part of a query that concerns one of its tables, of the rest and of one of its input jobs."""
    found = whole_of(rest if rest.join is None else rest.join.sides[table], part.input)
    return found if found.windows is not None else replace(found, where=part.where)


def input_of(program: Program, cut: str, table: int = 0) -> Program:
    """The part of a query up to a cut, for one input of a table."""
    if program.join is not None:
        return input_of(program.join.sides[table], cut)
    if program.windows is None:
        return _rows_of(program, cut)
    windows = program.windows
    time = program.columns[0][1]
    sends = Sends(cut, time, windows.slide_ms, MOST_WAITING, TIMES_FRAME)
    read = program.input.columns
    part = replace(
        program, windows=None, having=None, select=(), rank=None, keep=None, format=FRAME, sends=sends
    )
    if cut == COLUMNS:
        columns = tuple(("col", each) for each in range(len(read)))
        return replace(part, where=None, columns=columns, output=read)
    if cut == FILTER:
        kept = _kept(program)
        columns = tuple(("col", each) for each in kept)
        return replace(part, columns=columns, output=tuple(read[each] for each in kept))
    if cut == ROWS:
        computed = _computed(program)
        values = _values(windows, [each.type for each in windows.merges])
        columns = tuple(program.columns[each] for each in computed)
        return replace(part, columns=columns, output=tuple(values[each] for each in computed))
    return _merging(program, part, sends)


def _merging(program: Program, part: Program, sends: Sends) -> Program:
    """The part that merges the rows of each key within a slide, and sends their totals."""
    windows = _windows(program)
    behind = range(len(WINDOW_COLUMNS), len(WINDOW_COLUMNS) + len(windows.keys) + len(windows.merges))
    totals = [Type.BIGINT if each.kind == "count" else each.type for each in windows.merges]
    slide = _slide(windows)
    return replace(
        _best(program, part, len(windows.keys)),
        sends=replace(sends, rows=MOST_ROWS, step_ms=slide),
        windows=replace(windows, size_ms=slide, slide_ms=slide),
        select=tuple(("col", each) for each in (int(windows.session), *behind)),
        output=_values(windows, totals),
    )


def _rows_of(program: Program, cut: str) -> Program:
    """The part up to a cut of a query without windows: the rows that fulfil the condition, by any cut."""
    time, step = program.input.event_time, program.input.step_ms or STEP_MS
    if time is None:
        raise ValueError("the query has neither windows nor an event time (expected one with a cut)")
    part = replace(program, format=FRAME, sends=Sends(cut, time, step, MOST_WAITING, TIMES_FRAME))
    if cut == ROWS:
        found = _computed(program)
        columns = tuple(program.columns[each] for each in found)
        return replace(part, columns=columns, output=tuple(program.output[each] for each in found))
    kept = _kept(program)
    columns = tuple(("col", each) for each in kept)
    return replace(part, columns=columns, output=tuple(program.input.columns[each] for each in kept))


def _slide(windows: Windows) -> int:
    """The time, ms, within which an input job merges the rows of a key.

    Rows of sessions are less than the gap apart then; and since a result waits for them, it is a share of the
    gap, and bounded.
    """
    share = min(windows.size_ms // _SLIDES_OF_GAP, _MOST_SLIDE)
    return max(windows.slide_ms, share) if windows.session else windows.slide_ms


def _best(program: Program, part: Program, keys: int) -> Program:
    """An input job that sends the best rows of each slide alone, if the rank and HAVING depend on keys alone.

    A row that is not among the first ``n`` of its input is then behind ``n`` others in each of its windows.
    By totals it need not be: those of the other inputs are added to them.  Nor by the bounds of the windows,
    which are those of the slide here.
    """
    rank, width = program.rank, len(WINDOW_COLUMNS) + keys
    place = width + len(_windows(program).merges)
    most = None if program.keep is None else _most(program.keep, place)
    if rank is None or most is None:
        return part
    bounds = {("col", at) for at in range(len(WINDOW_COLUMNS))}
    ranked_by = {*rank.partition, *(by for by, _, _ in rank.order)} - bounds
    for each in (*ranked_by, program.having):
        if not columns_in(each) <= {*range(len(WINDOW_COLUMNS), width)}:
            return part
    keep = ("le", ("col", place), ("lit", "bigint", most))
    return replace(part, having=program.having, rank=rank, keep=keep)


def _most(condition: Expression, place: int) -> int | None:
    """The greatest value of a column that fulfils a condition; ``None`` if no constant bounds it."""
    name, *arguments = condition
    if name == "and":
        bounds = [bound for each in arguments if (bound := _most(each, place)) is not None]
        return min(bounds, default=None)
    if len(arguments) != 2 or name not in _MIRRORED:
        return None
    one, other = arguments
    if other == ("col", place):
        name, one, other = _MIRRORED[name], other, one
    if one != ("col", place) or other[0] != "lit" or type(other[2]) is not int:
        return None
    return {"eq": other[2], "le": other[2], "lt": other[2] - 1}.get(name)


_MIRRORED = {"eq": "eq", "le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}


def form_of(program: Program) -> str:
    """An identifier of the frames of a query: another one if the rest could not read those that wait."""
    forms: list[object]
    if program.join is not None:
        forms = [_form(each) for each in program.join.sides]
    elif program.windows is None:
        forms = _form_of_rows(program)
    else:
        # The totals of a slide are those of no window that begins or ends within it.
        windows = _windows(program)
        forms = [*_form(program), _slide(windows), windows.session]
    return hashlib.sha256(json.dumps(forms).encode()).hexdigest()[:_FORM_DIGITS]


def _form_of_rows(program: Program) -> list[object]:
    """Without columns that the condition alone reads, so that those of another one have the same form."""
    kept = _kept(program)
    read = [[program.input.columns[each].name, program.input.columns[each].type] for each in kept]
    numbers = {at: number for number, at in enumerate(kept)}
    columns = [renumbered(each, numbers) for each in program.columns]
    return [read, columns, [each.type for each in program.output], TIMES_FRAME]


def _form(program: Program) -> list[object]:
    windows = _windows(program)
    # Names, and expressions: frames that wait have values without either, which the rest would take for those
    # of other columns of the same types.
    read = [[each.name, each.type] for each in program.input.columns]
    merges = [[each.kind, each.type] for each in windows.merges]
    return [read, program.columns, windows.keys, merges, TIMES_FRAME]


def _windows(program: Program) -> Windows:
    if program.windows is None:
        raise ValueError("the query has no windows (expected one with a cut)")
    return program.windows


def _kept(program: Program) -> tuple[int, ...]:
    """The columns of the input that are read behind the condition."""
    return tuple(sorted(set().union(*map(columns_in, program.columns))))


def _computed(program: Program) -> tuple[int, ...]:
    return tuple(index for index, each in enumerate(program.columns) if each[0] != "lit")


def _values(windows: Windows, types: Sequence[Type]) -> tuple[Column, ...]:
    """The columns before windows: the time, the keys, and one for each aggregate function."""
    keys = [Column(f"key{at + 1}", type) for at, type in enumerate(windows.keys)]
    values = [Column(f"value{at + 1}", type) for at, type in enumerate(types)]
    return (Column("time", Type.TIMESTAMP, nullable=False), *keys, *values)
