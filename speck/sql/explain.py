"""A program in words: its operators in their order, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from speck.sql import times
from speck.sql.program import FRAME, TOPIC_POSITION, Expression, Join, Merge, Program, Rank, Sends, Windows
from speck.sql.types import WINDOW_COLUMNS, Column

_INFIX: Mapping[str, str] = {
    **{f"{name}_{kind}": sign for kind in "ld" for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"))},
    **{f"{name}_{kind}": sign for kind in "ld" for name, sign in (("div", "/"), ("mod", "%"))},
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "concat": "||",
    "like": "LIKE",
    "and": "AND",
    "or": "OR",
}
_SUFFIXES = ("_l", "_d", "_s", "_b", "_t")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def operators(program: Program) -> list[tuple[str, str]]:
    """The operators of a program, each as its name and what it does."""
    return [(name, text) for name, text in _operators(program) if text]


def by_operator(text: str) -> dict[str, str]:
    """The operators of a program in canonical form, by name; none of one that this version cannot read."""
    try:
        return dict(operators(Program.from_json(text)))
    except (KeyError, TypeError, ValueError):
        return {}


def _operators(program: Program) -> Iterator[tuple[str, str]]:
    if program.join is not None:
        yield from _joined(program, program.join)
        return
    read = program.input
    names = [each.name for each in read.columns]
    decoded = [each for each, at in zip(read.columns, read.positions, strict=True) if at != TOPIC_POSITION]
    if program.sends is not None:
        yield "cut", program.sends.cut
        yield "frame", _frame(program.sends)
    if program.takes is not None:
        yield "inputs", ", ".join(program.takes.inputs)
    yield "decode", _messages(read.format, decoded)
    yield "filter", shown(program.where, names)
    if program.windows is None:
        yield "columns", _named(program.output, program.columns, names)
    else:
        yield "windows", _windows(program.windows, read.watermark_ms or 0, program.columns, names)
        behind = _names_behind(program.windows, program.columns, names)
        yield "having", shown(program.having, behind)
        if program.rank is not None:
            yield "rank", _rank(program.rank, behind)
            behind = [*behind, program.rank.kind.upper()]
            yield "keep", shown(program.keep, behind)
        yield "columns", _named(program.output, program.select, behind)
    yield "encode", _messages(program.format, program.output)


def _frame(sends: Sends) -> str:
    return "" if sends.rows == 1 else f"up to {sends.rows} rows of {length(sends.step_ms)}"


def _joined(program: Program, join: Join) -> Iterator[tuple[str, str]]:
    """The operators of a join: those of each table by its name, and those behind it."""
    if program.takes is not None:
        yield "inputs", ", ".join(program.takes.inputs)
    names = [*WINDOW_COLUMNS]
    keys = []
    for table, side in zip(join.tables, join.sides, strict=True):
        for name, text in _side(side):
            yield f"{table}: {name}", text
        columns = [f"{table}.{text}" for text in rows_of(side)]
        keys.append(columns[1 : join.keys + 1])
        names += columns
    equal = " AND ".join(f"{one} = {other}" for one, other in zip(*keys, strict=True))
    yield "join", f"{equal}, {pairs(join)}"
    yield "progress", "" if join.bounds is None else f"in steps of {length(join.windows.slide_ms)}"
    yield "keep", shown(program.having, names)
    distinct = "DISTINCT " if join.distinct else ""
    yield "columns", f"{distinct}{_named(program.output, program.select, names)}"
    yield "encode", _messages(program.format, program.output)


def _side(side: Program) -> Iterator[tuple[str, str]]:
    read = side.input
    decoded = [each for each, at in zip(read.columns, read.positions, strict=True) if at != TOPIC_POSITION]
    yield "decode", _messages(read.format, decoded)
    yield "filter", shown(side.where, [each.name for each in read.columns])


def rows_of(side: Program) -> list[str]:
    """The columns of the rows of a table for a join, in words."""
    names = [each.name for each in side.input.columns]
    return [shown(each, names) for each in side.columns]


def pairs(join: Join) -> str:
    """The rows that a join takes together, in words."""
    if join.bounds is None:
        return f"in windows of {spans(join.windows)}"
    low, high = (f"-{length(-each)}" if each < 0 else length(each) for each in join.bounds)
    return f"{join.tables[1]} later than {join.tables[0]} by {low} to {high}"


def spans(windows: Windows) -> str:
    """The length of windows, and their slide if it is another one."""
    if windows.session:
        return f"sessions with a gap of {length(windows.size_ms)}"
    slides = f" by {length(windows.slide_ms)}" if windows.slide_ms != windows.size_ms else ""
    return f"{length(windows.size_ms)}{slides}"


def _messages(format: str, columns: Sequence[Column]) -> str:
    """Messages in words; of frames the columns are those of the operators before or behind them."""
    return format if format == FRAME else f"{format}: {_columns(columns) or 'no columns'}"


def _columns(columns: Sequence[Column]) -> str:
    return ", ".join(f"{each.name} {each.written_type}" for each in columns)


def _named(output: Sequence[Column], expressions: Sequence[Expression], names: Sequence[str]) -> str:
    pairs = ((each.name, shown(one, names)) for each, one in zip(output, expressions, strict=True))
    return ", ".join(name if name == text else f"{text} AS {name}" for name, text in pairs)


def _rank(rank: Rank, names: Sequence[str]) -> str:
    orders = (
        f"{shown(by, names)}{' DESC' if desc else ''} NULLS {'FIRST' if nulls_first else 'LAST'}"
        for by, desc, nulls_first in rank.order
    )
    partition = ", ".join(shown(each, names) for each in rank.partition)
    return f"{rank.kind.upper()} of ({partition}) by {', '.join(orders)}"


def _windows(windows: Windows, watermark: int, columns: Sequence[Expression], names: Sequence[str]) -> str:
    behind = _names_behind(windows, columns, names)[len(WINDOW_COLUMNS) :]
    keys, totals = behind[: len(windows.keys)], behind[len(windows.keys) :]
    return (
        f"{spans(windows)} of {shown(columns[0], names)}, "
        f"rows up to {length(watermark)} late; "
        f"by {', '.join(keys) or 'no key'}: {', '.join(totals) or 'no totals'}"
    )


def _names_behind(windows: Windows, columns: Sequence[Expression], names: Sequence[str]) -> list[str]:
    """The names of the columns behind windows: of keys and totals what they are."""
    texts = [shown(each, names) for each in columns[1:]]
    keys, arguments = texts[: len(windows.keys)], texts[len(windows.keys) :]
    totals = (_total(each, text) for each, text in zip(windows.merges, arguments, strict=True))
    return [*WINDOW_COLUMNS, *keys, *totals]


def _total(merge: Merge, argument: str) -> str:
    return f"{merge.kind.upper()}({'*' if merge.kind == 'count' and argument == '1' else argument})"


def length(ms: int) -> str:
    """A length of time, such as ``10 s``."""
    for unit, size in _UNITS:
        if ms and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def shown(expression: Any, names: Sequence[str]) -> str:
    """An expression as text close to SQL; empty for none."""
    if expression is None:
        return ""
    name, *arguments = expression
    if name == "col":
        return str(names[arguments[0]])
    if name == "lit":
        return _literal(*arguments)
    texts = [shown(each, names) for each in arguments]
    if name == "like":
        escape = "" if len(texts) < 3 or arguments[2] == _NO_ESCAPE else f" ESCAPE {texts[2]}"
        return f"{_bracketed(arguments[0], texts[0])} LIKE {texts[1]}{escape}"
    if (sign := _INFIX.get(name)) is not None:
        bare = ("not",) if name in ("and", "or") else ()
        return f" {sign} ".join(
            text if each[0] in bare else _bracketed(each, text)
            for each, text in zip(arguments, texts, strict=True)
        )
    if name == "is_null":
        return f"{_bracketed(arguments[0], texts[0])} IS NULL"
    if name == "not" and arguments[0][0] == "is_null":
        return f"{texts[0].removesuffix(' IS NULL')} IS NOT NULL"
    if name == "not":
        return f"NOT {_bracketed(arguments[0], texts[0])}"
    if name == "case":
        pairs = "".join(f" WHEN {one} THEN {two}" for one, two in zip(texts[::2], texts[1::2], strict=False))
        return f"CASE{pairs} ELSE {texts[-1]} END"
    if name == "in":
        return f"{_bracketed(arguments[0], texts[0])} IN ({', '.join(texts[1:])})"
    word = name[:-2] if name.endswith(_SUFFIXES) else name
    return f"{_WORDS.get(word, word.upper())}({', '.join(texts)})"


_WORDS = {"long": "BIGINT", "text": "STRING", "time": "TIMESTAMP", "neg": "-"}


_NO_ESCAPE = ("lit", "string", "\\")  # the escape of LIKE where none is given


def _bracketed(expression: Expression, text: str) -> str:
    return f"({text})" if expression[0] in _BRACKETED else text


_BRACKETED = {*_INFIX, "not"} - {"like"}


def _literal(type: str, value: Any) -> str:
    if type == "timestamp" and value is not None:
        return f"'{times.text_of(value)}'"
    if isinstance(value, str):
        return "'{}'".format(value.replace("'", "''"))
    return "NULL" if value is None else json.dumps(value)
