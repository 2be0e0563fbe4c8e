"""The state of a query over an edit: kept, or of no use to the new form."""

from __future__ import annotations

from collections.abc import Iterator

from speck.sql.explain import length, shown
from speck.sql.program import Program


def state_faults(before: Program, after: Program) -> Iterator[str]:
    """The changes of a query after which the state of the former one does not fit.

    Engines do not find them all: with another length of windows, Flink and Spark restore the state and give
    wrong counts.  A change of conditions, formats, or of columns behind the aggregation keeps the state.
    """
    old, new = before.windows, after.windows
    if old is None or new is None:
        if old is not new:
            yield f"the query {'gets' if old is None else 'loses'} its windows"
        return
    if (old.size_ms, old.slide_ms) != (new.size_ms, new.slide_ms):
        spans = [f"{length(each.size_ms)} by {length(each.slide_ms)}" for each in (old, new)]
        yield f"the windows change from {spans[0]} to {spans[1]}"
    keys = [_keys(each) for each in (before, after)]
    if keys[0] != keys[1]:
        yield f"the keys change from ({', '.join(keys[0])}) to ({', '.join(keys[1])})"
    if (before.rank is None) != (after.rank is None):
        yield f"the query {'gets' if before.rank is None else 'loses'} its rank"
    totals = [_totals(each) for each in (before, after)]
    if totals[0] != totals[1]:
        yield f"the totals change from ({', '.join(totals[0])}) to ({', '.join(totals[1])})"


def mixes(before: Program, after: Program) -> bool:
    """True if open windows would have rows of two conditions or two inputs after an edit."""
    return after.windows is not None and _inner(before) != _inner(after)


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
