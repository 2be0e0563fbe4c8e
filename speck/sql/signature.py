"""The state of a query over an edit: kept, or of no use to the new form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from speck.sql.explain import length, pairs, shown, spans
from speck.sql.program import Join, Program, Windows
from speck.sql.types import Column, Type


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
    yield from _time_faults("", before, after)
    if _keys(before, old) != _keys(after, new):
        yield f"the keys change from {_change(_key_texts, before, after)}"
    if after.sends is None and (before.rank is None) != (after.rank is None):
        yield f"the query {'gets' if before.rank is None else 'loses'} its rank"
    if _totals(before, old) != _totals(after, new):
        yield f"the totals change from {_change(_total_texts, before, after)}"


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
    # The steps of the progress of a join by time are in no state.
    slides = [None if each.bounds is not None else each.windows.slide_ms for each in (old, new)]
    if pairs(old) != pairs(new) or slides[0] != slides[1]:
        yield f"the join changes from {pairs(old)} to {pairs(new)}"
    if old.distinct != new.distinct:
        yield f"the join {'gets' if new.distinct else 'loses'} its DISTINCT"
    for table, former, latter in zip(old.tables, old.sides, new.sides, strict=True):
        yield from _time_faults(f" of table {table!r}", former, latter)
        if (old.keys, _row(former)) != (new.keys, _row(latter)):
            texts = _change(_row_texts(old.keys), former, latter, _row_texts(new.keys))
            yield f"the rows of table {table!r} change from {texts}"


def _time_faults(of: str, before: Program, after: Program) -> Iterator[str]:
    """A change of the time by which rows are put into windows, or are joined."""
    times = [_compared(each.columns[0], each.input.columns) for each in (before, after)]
    if times[0] != times[1]:
        yield f"the event time{of} changes from {_change(_time_texts, before, after)}"


def leaves_slides(before: Program, after: Program) -> bool:
    """True if an input job stops merging: it has the totals of open slides, which the next form sends."""
    return before.sends is not None and before.windows is not None and after.windows is None


def merges_otherwise(before: Program, after: Program) -> bool:
    """True if an input job begins or ends to merge rows: it sends totals, or did, instead of rows."""
    parts = before.sends is not None and after.sends is not None
    return parts and (before.windows is None) != (after.windows is None)


def frames_end_elsewhere(before: Program, after: Program) -> bool:
    """True if other settings decide after which message a frame ends; the cut is not one of them."""
    if before.sends is None or after.sends is None:
        return False
    ends = [(each.step_ms, each.rows, each.frame) for each in (before.sends, after.sends)]
    return ends[0] != ends[1]


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


def _inner(program: Program) -> object:
    return _compared(program.where, program.input.columns)


# --- what is compared


def _compared(expression: Any, columns: Sequence[Column]) -> Any:
    """An expression that refers to its columns by name and type instead of by index.

    Its text would not do: operators that give different values may have one text.
    """
    if not isinstance(expression, tuple) or expression[0] == "lit":
        return expression
    if expression[0] == "col":
        column = columns[expression[1]]
        # Whole numbers have one set of operators, and one form in the state.
        return ("col", column.name, Type.BIGINT if column.type.whole else column.type)
    return (expression[0], *(_compared(each, columns) for each in expression[1:]))


def _keys(program: Program, windows: Windows) -> object:
    keys = program.columns[1 : len(windows.keys) + 1]
    return windows.keys, [_compared(each, program.input.columns) for each in keys]


def _totals(program: Program, windows: Windows) -> object:
    arguments = program.columns[len(windows.keys) + 1 :]
    return windows.merges, [_compared(each, program.input.columns) for each in arguments]


def _row(side: Program) -> object:
    types = () if side.windows is None else side.windows.keys
    return types, [_compared(each, side.input.columns) for each in side.columns[1:]]


# --- what is said

_Texts = Callable[[Program, Sequence[str]], str]


def _change(texts: _Texts, before: Program, after: Program, then: _Texts | None = None) -> str:
    """Two forms in words; with the types of all columns if they have one text without."""
    found = [one(each, _names(each)) for one, each in ((texts, before), (then or texts, after))]
    if found[0] == found[1]:
        typed = [[f"{each.name} {each.type}" for each in one.input.columns] for one in (before, after)]
        found = [texts(before, typed[0]), (then or texts)(after, typed[1])]
    return f"{found[0]} to {found[1]}"


def _names(program: Program) -> list[str]:
    return [each.name for each in program.input.columns]


def _time_texts(program: Program, names: Sequence[str]) -> str:
    return shown(program.columns[0], names)


def _typed_texts(program: Program, names: Sequence[str]) -> list[str]:
    """The columns behind the time that have a type of their own: keys, or a row of a join."""
    types = () if program.windows is None else program.windows.keys
    columns = program.columns[1 : len(types) + 1]
    return [f"{shown(each, names)} {type}" for each, type in zip(columns, types, strict=True)]


def _key_texts(program: Program, names: Sequence[str]) -> str:
    return f"({', '.join(_typed_texts(program, names))})"


def _row_texts(keys: int) -> _Texts:
    def text(program: Program, names: Sequence[str]) -> str:
        found = _typed_texts(program, names)
        return f"({', '.join(found[:keys])}: {', '.join(found[keys:])})"

    return text


def _total_texts(program: Program, names: Sequence[str]) -> str:
    windows = program.windows
    merges = () if windows is None else windows.merges
    arguments = program.columns[len(program.columns) - len(merges) :]
    totals = (
        f"{each.kind.upper()}({shown(argument, names)}) {each.type}"
        for each, argument in zip(merges, arguments, strict=True)
    )
    return f"({', '.join(totals)})"
