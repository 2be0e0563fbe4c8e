"""Estimates of what the input jobs of a query send, for a cut that was not measured.

The share of rows that fulfil a condition is that of Selinger et al. ("Access path selection in a relational
database management system", SIGMOD 1979, table 1): 1/10 for an equality, 1/3 for a comparison, products for
AND.  The number of different keys among n rows is n to the power of 3/4, as by Heaps' law: between one key
(no gain by partials missed) and as many keys as rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from speck.sql.cuts import input_of
from speck.sql.frames import MOST_BYTES, MOST_ROWS
from speck.sql.program import Expression, Program
from speck.sql.types import COLUMNS, PARTIALS, Column, Type

EQUAL, COMPARED, LISTED = 0.1, 1 / 3, 0.5  # LISTED: most of IN
REPEATED = 0.75  # the exponent of the number of keys
HEAD = 19  # bytes of a frame without a row: brackets, version, cut and progress
# Bytes of a value in a frame, with its comma.
_SIZES = {
    Type.BOOLEAN: 6,
    Type.INT: 6,
    Type.BIGINT: 8,
    Type.DOUBLE: 10,
    Type.STRING: 19,
    Type.TIMESTAMP: 14,
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
    :class:`ValueError` for a query without windows.
    """
    part = input_of(program, cut)
    assert part.sends is not None  # noqa: S101 - for the type checker
    steps = 1000 / part.sends.step_ms  # /s, of the progress
    size = _size(part.output)
    if cut == COLUMNS or rate <= 0:
        return Flow(1.0, 1.0, HEAD + size)
    rows = rate * share
    if cut == PARTIALS and part.windows is not None:
        rows = min(rows, steps * _distinct(rows / steps, bool(part.windows.keys)))
        together = max(1.0, min(rows / steps, MOST_ROWS, MOST_BYTES / (size + 1)))
        return _with_progress(rows / together, rate, steps, together, HEAD + together * (size + 2))
    return _with_progress(rows, rate, steps, 1.0, HEAD + size)


def _with_progress(frames: float, rate: float, steps: float, rows: float, size: float) -> Flow:
    """The flow with the frames that carry the progress alone, of steps in which no row is sent."""
    alone = max(0.0, min(steps, rate) - frames)
    total = frames + alone
    return Flow(total / rate, rows * frames / total, (frames * size + alone * HEAD) / total)


def _distinct(rows: float, keyed: bool) -> float:
    """The number of different keys among rows, at least one."""
    return max(1.0, rows**REPEATED) if keyed else 1.0


def _size(columns: Sequence[Column]) -> float:
    return float(sum(_SIZES[each.type] for each in columns))


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
