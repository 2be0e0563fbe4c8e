"""Estimates of what the input jobs of a query send, for a cut that was not measured.

The share of rows that fulfil a condition is that of Selinger et al. ("Access path selection in a relational
database management system", SIGMOD 1979, table 1): 1/10 for an equality, 1/3 for a comparison, products for
AND.  The number of different keys among n rows is n to the power of 3/4, as by Heaps' law: between one key
(no gain by partials missed) and as many keys as rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from speck.sql.cuts import input_of
from speck.sql.frames import MOST_BYTES, MOST_ROWS
from speck.sql.program import Expression, Program, columns_in
from speck.sql.types import COLUMNS, PARTIALS, WINDOW_COLUMNS, Type

EQUAL, COMPARED, LISTED = 0.1, 1 / 3, 0.5  # LISTED: most of IN
REPEATED = 0.75  # the exponent of the number of keys
HEAD = 19  # bytes of a frame without a row: brackets, version, cut and progress
COUNT = 3  # bytes of a total of COUNT
_LEAST = 1e-9  # frames for each message, where no row passes
# Bytes of a value in a frame, with its comma.
_SIZES = {
    Type.BOOLEAN: 6,
    Type.INT: 6,
    Type.BIGINT: 6,
    Type.DOUBLE: 10,
    Type.STRING: 19,
    Type.TIMESTAMP: 2,  # the difference to that of the row before
}


@dataclass(frozen=True, slots=True)
class Flow:
    """The frames that an input job sends: ``frames`` for each message that it reads, ``rows`` in a frame.

    ``size`` is the bytes of a frame.
    """

    frames: float
    rows: float
    size: float


def passing(program: Program) -> float:
    """The share of the rows of a table that fulfil the condition of a query."""
    return 1.0 if program.where is None else _share(program.where)


def flow(program: Program, cut: str, rate: float, share: float) -> Flow:
    """The frames of an input job at a cut.

    ``rate`` is messages/s into it, ``share`` that of the rows which fulfil the condition.  Raises
    :class:`ValueError` for a query without windows and without an event time.
    """
    part = input_of(program, cut)
    assert part.sends is not None  # noqa: S101 - for the type checker
    steps = 1000 / part.sends.step_ms  # /s, of the progress
    size = _size(part)
    if rate <= 0:
        return Flow(1.0, 1.0, HEAD + size)
    rows = rate * (1.0 if cut == COLUMNS else share)
    if cut == PARTIALS and part.windows is not None:
        merged = steps * _distinct(rows / steps, bool(part.windows.keys))
        if part.windows.session:
            merged *= 2  # at most: the first and the last time of each
        rows = min(rows, merged, _best(part, rows, steps))
        most = min(MOST_ROWS, max(1.0, MOST_BYTES // (size + 1)))
        frames = steps * math.ceil(rows / steps / most) if rows >= steps else rows
        # The progress follows each slide.
        return _flow(rows, frames, min(steps, rate), rate, size + 2)
    # A step ends with a frame, or with the progress alone.  The others are full, and sent if they have a row.
    messages = max(1.0, rate / steps)
    full = math.ceil(messages / part.sends.rows) - 1
    some = 1 - (1 - rows / rate) ** part.sends.rows
    last = 1.0
    if part.input.event_time is not None:  # no progress is sent alone
        last = 1 - (1 - rows / rate) ** (messages - full * part.sends.rows)
    return _flow(rows, max(min(steps, rate) * (last + full * some), _LEAST * rate), 0.0, rate, size + 2)


def share_of(program: Program, cut: str, frames: float, size: float) -> float:
    """The share of rows that fulfil the condition, by what an input job sends behind it.

    The opposite of :func:`flow`.  ``frames`` are those for each message that it reads, ``size`` the bytes of
    one.
    """
    row = _size(input_of(program, cut)) + 2
    return min(1.0, max(0.0, frames * (size - HEAD) / row))


def _best(part: Program, rows: float, steps: float) -> float:
    """The rows/s of an input job that sends the best ones of each slide alone, without ties."""
    if part.rank is None or part.keep is None:
        return math.inf
    keyed = set().union(*map(columns_in, part.rank.partition)) > {*range(len(WINDOW_COLUMNS))}
    places: int = part.keep[2][2]
    return steps * places * _distinct(rows / steps, keyed)


def _flow(rows: float, frames: float, alone: float, rate: float, size: float) -> Flow:
    """The flow of ``rows``/s of ``size`` bytes each in ``frames``/s, beside ``alone``/s with the progress."""
    total = frames + alone
    return Flow(total / rate, rows / total, (rows * size + total * HEAD) / total)


def _distinct(rows: float, keyed: bool) -> float:
    """The number of different keys among rows, at least one."""
    return max(1.0, rows**REPEATED) if keyed else 1.0


def _size(part: Program) -> float:
    """The bytes of the values of a row, with their commas."""
    merges = () if part.windows is None else part.windows.merges
    counts = sum(each.kind == "count" for each in merges)
    return float(sum(_SIZES[each.type] for each in part.output) - counts * (_SIZES[Type.BIGINT] - COUNT))


def _share(condition: Expression) -> float:
    name, *arguments = condition
    if name == "and":
        return math.prod(map(_share, arguments))
    if name == "or":
        return 1 - math.prod(1 - _share(each) for each in arguments)
    if name == "not":
        return 1 - _share(arguments[0])
    if name in ("eq", "is_null"):
        return EQUAL
    if name == "ne":
        return 1 - EQUAL
    if name == "in":
        return min(LISTED, EQUAL * (len(arguments) - 1))
    if name == "lit":
        return float(arguments[1] is True)
    return COMPARED
