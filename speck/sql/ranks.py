"""The ranks of rows in a window: the reference of those of the engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from speck.sql.operators import Row, Value, compiled
from speck.sql.program import Rank

ROW_NUMBER = "row_number"


def ranked(rank: Rank, rows: Sequence[Row]) -> Iterator[Row]:
    """The rows of all windows that have ended, each with its rank behind its columns."""
    partition = [compiled(each) for each in rank.partition]
    parts: dict[tuple[Value, ...], list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(each(row) for each in partition), []).append(row)
    for part in parts.values():
        yield from _numbered(rank, part)


def _numbered(rank: Rank, rows: list[Row]) -> Iterator[Row]:
    by = [compiled(each) for each, _, _ in rank.order]
    for value, (_, desc, nulls_first) in reversed(list(zip(by, rank.order, strict=True))):  # sorts are stable
        rows.sort(key=_key(value, 1 if desc == nulls_first else 0), reverse=desc)
    place = 1
    for _, ties in groupby(rows, lambda row: [value(row) for value in by]):
        found = list(ties)
        for offset, row in enumerate(found):
            yield [*row, place + (offset if rank.kind == ROW_NUMBER else 0)]
        place += len(found)


def _key(by: Callable[[Row], Value], of_null: int) -> Callable[[Row], tuple[int, Any]]:
    """A key by which NULLs come before (0) or behind all other values (1)."""

    def key(row: Row) -> tuple[int, Any]:
        value = by(row)
        return (of_null, 0) if value is None else (1 - of_null, value)

    return key
