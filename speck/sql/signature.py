"""The state of a query over an edit: kept, or of no use to the new form."""

from __future__ import annotations

from collections.abc import Iterator

from speck.sql.explain import length, pairs, rows_of, shown, spans
from speck.sql.program import Join, Program, Windows


def state_faults(before: Program, after: Program) -> Iterator[str]:
    """The changes of a query after which the state of the former one does not fit.

    Engines do not find them all: with another length of windows, Flink and Spark restore the state and give
    wrong counts.  A change of conditions, formats, or of columns behind the aggregation keeps the state.
    """
    if before.join is not None or after.join is not None:
        yield from _join_faults(before.join, after.join)
        return
    old, new = before.windows, after.windows
    if before.sends is not None and after.sends is not None and (old is None or new is None):
        # All rows were sent, so that slides begin empty; or the totals of open slides are sent first.
        return
    if old is None or new is None:
        if old is not new:
            yield f"the query {'gets' if old is None else 'loses'} its windows"
        return
    if (old.size_ms, old.slide_ms, old.session) != (new.size_ms, new.slide_ms, new.session):
        yield f"the windows change from {_lengths(old)} to {_lengths(new)}"
    keys = [_keys(each) for each in (before, after)]
    if keys[0] != keys[1]:
        yield f"the keys change from ({', '.join(keys[0])}) to ({', '.join(keys[1])})"
    if after.sends is None and (before.rank is None) != (after.rank is None):
        yield f"the query {'gets' if before.rank is None else 'loses'} its rank"
    totals = [_totals(each) for each in (before, after)]
    if totals[0] != totals[1]:
        yield f"the totals change from ({', '.join(totals[0])}) to ({', '.join(totals[1])})"


def _lengths(windows: Windows) -> str:
    slide = f" by {length(windows.slide_ms)}"
    return spans(windows) if windows.session else f"{length(windows.size_ms)}{slide}"


def _join_faults(old: Join | None, new: Join | None) -> Iterator[str]:
    """The changes of a join; its state are the rows of both tables, as texts."""
    if old is None or new is None:
        yield f"the query {'gets' if old is None else 'loses'} its join"
        return
    if old.tables != new.tables:
        yield f"the join is of {' and '.join(new.tables)}, and was of {' and '.join(old.tables)}"
        return
    if (pairs(old), old.windows.slide_ms) != (pairs(new), new.windows.slide_ms):
        yield f"the join changes from {pairs(old)} to {pairs(new)}"
    for table, former, latter in zip(old.tables, old.sides, new.sides, strict=True):
        rows = [_rows(each, join.keys) for each, join in ((former, old), (latter, new))]
        if rows[0] != rows[1]:
            yield f"the rows of table {table!r} change from {rows[0]} to {rows[1]}"


def _rows(side: Program, keys: int) -> str:
    windows = side.windows
    types = windows.keys if windows is not None else ()
    texts = [f"{text} {type}" for text, type in zip(rows_of(side)[1:], types, strict=True)]
    return f"({', '.join(texts[:keys])}: {', '.join(texts[keys:])})"


def leaves_slides(before: Program, after: Program) -> bool:
    """True if an input job stops merging: it has the totals of open slides, which the next form sends."""
    return before.sends is not None and before.windows is not None and after.windows is None


def mixes(before: Program, after: Program) -> bool:
    """True if open windows would have rows of two conditions or two inputs after an edit."""
    if before.join is not None and after.join is not None:
        return [*map(_inner, before.join.sides)] != [*map(_inner, after.join.sides)]
    if after.windows is None or (before.sends is not None and before.windows is None):
        return False
    # An input job that sent all rows has sent the best ones, too.
    others = before.sends is not None and before.rank is not None and _best(before) != _best(after)
    return others or _inner(before) != _inner(after)


def _best(program: Program) -> tuple[object, ...]:
    return program.having, program.rank, program.keep


def _inner(program: Program) -> str:
    names = [each.name for each in program.input.columns]
    return shown(program.where, names)


def _keys(program: Program) -> list[str]:
    windows, names = program.windows, [each.name for each in program.input.columns]
    count = len(windows.keys) if windows is not None else 0
    types = windows.keys if windows is not None else ()
    keys = program.columns[1 : count + 1]
    return [f"{shown(each, names)} {type}" for each, type in zip(keys, types, strict=True)]


def _totals(program: Program) -> list[str]:
    windows, names = program.windows, [each.name for each in program.input.columns]
    if windows is None:
        return []
    arguments = program.columns[len(windows.keys) + 1 :]
    return [
        f"{each.kind.upper()}({shown(argument, names)}) {each.type}"
        for each, argument in zip(windows.merges, arguments, strict=True)
    ]
