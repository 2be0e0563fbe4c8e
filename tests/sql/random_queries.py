"""Random typed queries, as texts for SpecK and for DuckDB, and random rows for them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hypothesis import strategies as st

from speck.sql.types import Contract, column_of

TYPES = {
    "t": "timestamp(ms) not null",
    "a": "bigint",
    "b": "bigint not null",
    "i": "int",
    "d": "double",
    "s": "string",
    "k": "string not null",
    "f": "boolean",
}
CONTRACT = Contract(
    "rows/in", "rows", "json", tuple(column_of(name, type) for name, type in TYPES.items()), "t", 1000
)
BEGIN = 1_700_000_000_000


@dataclass(frozen=True)
class Text:
    """An expression in SpecK's text, and in DuckDB's."""

    own: str
    duck: str


def both(text: str, *parts: Text, duck: str = "") -> Text:
    return Text(
        text.format(*(each.own for each in parts)), (duck or text).format(*(each.duck for each in parts))
    )


_WORDS = st.text("abcXYZ ,%_\"'ä😀", max_size=6)


def _quoted(word: str) -> Text:
    text = "'{}'".format(word.replace("'", "''"))
    return Text(text, text)


def _column(*names: str) -> st.SearchStrategy[Text]:
    return st.sampled_from([Text(name, name) for name in names])


_LONG_LITERALS = st.integers(-50, 50).map(lambda n: Text(f"({n})", f"CAST({n} AS BIGINT)"))
_DOUBLE_LITERALS = st.sampled_from(("0.5", "1.25", "3.0", "100.125")).map(
    lambda n: Text(n, f"CAST({n} AS DOUBLE)")
)

numbers = st.deferred(lambda: _numbers)
doubles = st.deferred(lambda: _doubles)
texts = st.deferred(lambda: _texts)
conditions = st.deferred(lambda: _conditions)

_numbers: st.SearchStrategy[Text] = st.one_of(
    _column("a", "b", "i").map(lambda each: Text(each.own, f"CAST({each.duck} AS BIGINT)")),
    _LONG_LITERALS,
    st.tuples(st.sampled_from("+-*"), numbers, numbers).map(
        lambda of: both(f"({{0}} {of[0]} {{1}})", of[1], of[2])
    ),
    st.tuples(numbers, numbers).map(
        # Truncating, as DuckDB's own // is for whole numbers.
        lambda of: both("({0} / {1})", *of, duck="({0} // {1})")
    ),
    st.tuples(numbers, numbers).map(lambda of: both("({0} % {1})", *of)),
    numbers.map(lambda of: both("ABS({0})", of)),
    texts.map(lambda of: both("LENGTH({0})", of)),
    st.tuples(texts, texts).map(lambda of: both("POSITION({1} IN {0})", *of)),
    st.tuples(conditions, numbers, numbers).map(lambda of: both("CASE WHEN {0} THEN {1} ELSE {2} END", *of)),
    st.tuples(numbers, numbers).map(lambda of: both("COALESCE({0}, {1})", *of)),
    st.tuples(numbers, numbers).map(lambda of: both("NULLIF({0}, {1})", *of)),
    st.tuples(numbers, numbers).map(lambda of: both("GREATEST({0}, {1})", *of)),
    st.sampled_from(("year", "month", "day", "hour", "minute", "dow", "doy")).map(
        lambda field: Text(f"EXTRACT({field} FROM t)", f"EXTRACT({field} FROM t)")
    ),
)
_doubles: st.SearchStrategy[Text] = st.one_of(
    _column("d"),
    _DOUBLE_LITERALS,
    st.tuples(st.sampled_from("+-*/"), doubles, doubles).map(
        lambda of: both(f"({{0}} {of[0]} {{1}})", of[1], of[2])
    ),
    numbers.map(lambda of: both("CAST({0} AS double)", of)),
    doubles.map(lambda of: both("FLOOR({0})", of)),
    st.tuples(conditions, doubles).map(lambda of: both("CASE WHEN {0} THEN {1} END", *of)),
)
_texts: st.SearchStrategy[Text] = st.one_of(
    _column("s", "k"),
    _WORDS.map(_quoted),
    st.tuples(texts, texts).map(lambda of: both("({0} || {1})", *of)),
    texts.map(lambda of: both("TRIM({0})", of, duck="TRIM({0}, ' ')")),
    st.tuples(texts, st.integers(1, 4), st.integers(0, 4)).map(
        lambda of: both(f"SUBSTRING({{0}}, {of[1]}, {of[2]})", of[0])
    ),
    st.tuples(texts, st.sampled_from(("a", ",", "ab")), st.integers(1, 3)).map(
        lambda of: both(f"SPLIT_PART({{0}}, '{of[1]}', {of[2]})", of[0])
    ),
    numbers.map(lambda of: both("CAST({0} AS string)", of)),
    st.tuples(texts, texts).map(lambda of: both("LEAST({0}, {1})", *of)),
)
_pairs = st.one_of(st.tuples(numbers, numbers), st.tuples(doubles, doubles), st.tuples(texts, texts))
_conditions: st.SearchStrategy[Text] = st.one_of(
    _column("f"),
    st.tuples(st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), _pairs).map(
        lambda of: both(f"({{0}} {of[0]} {{1}})", *of[1])
    ),
    st.tuples(st.sampled_from(("AND", "OR")), conditions, conditions).map(
        lambda of: both(f"({{0}} {of[0]} {{1}})", of[1], of[2])
    ),
    conditions.map(lambda of: both("(NOT {0})", of)),
    st.one_of(numbers, texts).map(lambda of: both("({0} IS NULL)", of)),
    st.tuples(texts, _WORDS).map(lambda of: both("({0} LIKE {1})", of[0], _quoted(of[1]))),
    st.tuples(numbers, numbers, numbers).map(lambda of: both("({0} IN ({1}, {2}))", *of)),
    st.tuples(numbers, numbers, numbers).map(lambda of: both("({0} BETWEEN {1} AND {2})", *of)),
)

_values = {
    "a": st.none() | st.integers(-20, 20),
    "b": st.integers(-5, 5),
    "i": st.none() | st.integers(-100, 100),
    "d": st.none() | st.integers(-64, 64).map(lambda n: n / 8),
    "s": st.none() | _WORDS,
    "k": st.sampled_from(("x", "y", "ä", "😀")),
    "f": st.none() | st.booleans(),
}
_row = st.fixed_dictionaries({"t": st.integers(0, 20_000).map(lambda ms: BEGIN + ms), **_values})
rows = st.lists(_row, max_size=12)
# Of few keys and windows, so that groups have several rows.
_grouped_rows = st.lists(_row, min_size=6, max_size=20)


def messages(found: list[dict[str, object]], topic: str = "rows/in") -> list[tuple[str, bytes]]:
    """The rows as messages, in the order of their times."""
    ordered = sorted(found, key=lambda each: str(each["t"]))
    return [(topic, json.dumps(each).encode()) for each in ordered]


@dataclass(frozen=True)
class Case:
    """A query in both texts, and rows for it."""

    own: str
    duck: str
    rows: list[dict[str, object]]


def _stateless(columns: list[Text], where: Text, found: list[dict[str, object]]) -> Case:
    names = [f"c{at}" for at in range(len(columns))]
    own = ", ".join(f"{each.own} AS {name}" for each, name in zip(columns, names, strict=True))
    duck = ", ".join(f"{each.duck} AS {name}" for each, name in zip(columns, names, strict=True))
    return Case(
        f"SELECT {own} FROM rows WHERE {where.own}", f"SELECT {duck} FROM rows WHERE {where.duck}", found
    )


stateless = st.builds(
    _stateless,
    st.lists(st.one_of(numbers, doubles, texts, conditions), min_size=1, max_size=3),
    conditions,
    rows,
)

_WINDOWS = ((10_000, 10_000), (10_000, 2000), (6000, 3000))
_TOTALS = ("COUNT(*)", "COUNT({0})", "SUM({0})", "MIN({0})", "MAX({0})", "AVG({0})")


def _in_windows(window: tuple[int, int]) -> Text:
    """The rows of each window, for FROM."""
    size, slide = window
    starts = f"epoch_ms(t) // {slide} * {slide}"
    return Text(
        f"HOP(rows, t, INTERVAL '{slide}' MILLISECOND, INTERVAL '{size}' MILLISECOND)",
        f"(SELECT *, unnest(generate_series({starts} - {size - slide}, {starts}, {slide})) "
        "AS window_start FROM rows)",
    )


def _windowed(
    window: tuple[int, int],
    key: str,
    totals: list[tuple[str, Text, Text | None]],
    found: list[dict[str, object]],
) -> Case:
    columns = [(both(total, of), None if condition is None else condition) for total, of, condition in totals]

    def listed(kind: str) -> str:
        texts = (
            getattr(each, kind) + ("" if condition is None else f" FILTER (WHERE {getattr(condition, kind)})")
            for each, condition in columns
        )
        return ", ".join(f"{text} AS c{at}" for at, text in enumerate(texts))

    windows = _in_windows(window)
    own = (
        f"SELECT EPOCH_MS(window_start) AS w, {key} AS g, {listed('own')} FROM {windows.own} "
        f"GROUP BY window_start, window_end, {key}"
    )
    duck = (
        f"SELECT window_start AS w, {key} AS g, {listed('duck')} FROM {windows.duck} "
        f"GROUP BY window_start, {key}"
    )
    return Case(own, duck, found)


# Shallow ones, so that groups have several values: deep expressions are those of the other strategy.
_shallow = st.sampled_from(("f", "(a > 0)", "(d < 1.5)", "(s IS NULL)")).map(lambda text: Text(text, text))
windowed = st.builds(
    _windowed,
    st.sampled_from(_WINDOWS),
    st.sampled_from(("k", "f")),
    st.lists(
        st.tuples(st.sampled_from(_TOTALS), _column("a", "b", "d", "i"), st.none() | _shallow),
        min_size=2,
        max_size=5,
    ),
    _grouped_rows,
)


def _ranked(case: Case, kind: str, orders: list[tuple[str, str]], most: int) -> Case:
    """The best rows of each window, by columns that have several values and NULLs."""
    listed = ", ".join(f"c{at} {direction} NULLS {nulls}" for at, (direction, nulls) in enumerate(orders))
    order = f"{listed}, g NULLS FIRST" if kind == "ROW_NUMBER" else listed
    own = case.own.replace("SELECT ", "SELECT window_start, window_end, ", 1)
    rank = f"{kind}() OVER (PARTITION BY {{}} ORDER BY {order}) AS place"
    columns = ", ".join(["w", "g", "place", *(f"c{at}" for at in range(len(orders)))])
    inner = ", ".join(["w", "g", *(f"c{at}" for at in range(len(orders)))])
    own = f"SELECT {inner}, {rank.format('window_start, window_end')} FROM ({own})"
    duck = f"SELECT {inner}, {rank.format('w')} FROM ({case.duck})"
    return Case(
        f"SELECT {columns} FROM ({own}) WHERE place <= {most}",
        f"SELECT {columns} FROM ({duck}) WHERE place <= {most}",
        case.rows,
    )


ranked = st.builds(
    _ranked,
    windowed,
    st.sampled_from(("RANK", "ROW_NUMBER")),
    st.lists(
        st.tuples(st.sampled_from(("ASC", "DESC")), st.sampled_from(("FIRST", "LAST"))),
        min_size=1,
        max_size=2,
    ),
    st.integers(1, 2),
)


def _best_keys(
    window: tuple[int, int],
    kind: str,
    order: str,
    most: int,
    apart: bool,
    also: str,
    found: list[dict[str, object]],
) -> Case:
    """The best rows of each window by their keys, of which an input job sends no others."""
    windows, by = _in_windows(window), f"{order}, d, k, a" if kind == "ROW_NUMBER" else order

    def text(of: str, start: str, bounds: str) -> str:
        rank = f"{kind}() OVER (PARTITION BY {bounds}{', k' if apart else ''} ORDER BY {by}) AS place"
        keys = "k, a, d"
        return (
            f"SELECT w, k, a, d, n, m, place FROM (SELECT {start} AS w, {keys}, COUNT(*) AS n, MAX(b) AS m, "
            f"{rank} FROM {of} GROUP BY {bounds}, {keys}{also}) WHERE place <= {most}"
        )

    own = text(windows.own, "EPOCH_MS(window_start)", "window_start, window_end")
    few = [{**each, "a": int(str(each["b"])) // 3, "d": None if each["d"] is None else 0.5} for each in found]
    return Case(own, text(windows.duck, "window_start", "window_start"), few)


best_keys = st.builds(
    _best_keys,
    st.sampled_from(_WINDOWS),
    st.sampled_from(("RANK", "ROW_NUMBER")),
    st.sampled_from(("a DESC NULLS LAST", "d NULLS LAST, k DESC", "a % 2, a")),
    st.integers(1, 2),
    st.booleans(),
    st.sampled_from(("", " HAVING k <> 'x'", " HAVING COUNT(*) > 1")),
    st.lists(_row, min_size=8, max_size=24),
)


# --- sessions


def _sessions(gap: int, key: str, total: str, found: list[dict[str, object]]) -> Case:
    """Sessions of a key, which DuckDB has by the time since the row before."""
    spread = [{**each, "t": int(str(each["t"])) // 500 * 500} for each in found]
    own = (
        f"SELECT EPOCH_MS(window_start) AS w, EPOCH_MS(window_end) AS e, {key} AS g, COUNT(*) AS n, "
        f"{total} AS m FROM SESSION(rows, t, INTERVAL '{gap}' MILLISECOND) "
        f"GROUP BY window_start, window_end, {key}"
    )
    before = f"LAG(epoch_ms(t)) OVER (PARTITION BY {key} ORDER BY t)"
    begins = f"SELECT *, COALESCE(epoch_ms(t) - {before} >= {gap}, true)::INTEGER AS begins FROM rows"
    numbered = (
        f"SELECT *, SUM(begins) OVER (PARTITION BY {key} ORDER BY t ROWS UNBOUNDED PRECEDING) AS number "
        f"FROM ({begins})"
    )
    duck = (
        f"SELECT MIN(epoch_ms(t)) AS w, MAX(epoch_ms(t)) + {gap} AS e, {key} AS g, COUNT(*) AS n, "
        f"{total} AS m FROM ({numbered}) GROUP BY {key}, number"
    )
    return Case(own, duck, spread)


sessions = st.builds(
    _sessions,
    st.sampled_from((500, 1500, 2000, 6500)),
    st.sampled_from(("k", "f")),
    st.sampled_from(("SUM(b)", "MIN(s)", "MAX(d)")),
    _grouped_rows,
)

# --- joins

OTHER_TYPES = {"t": "timestamp(ms) not null", "i": "int", "k": "string not null", "x": "double"}
OTHER = Contract(
    "others/in",
    "others",
    "json",
    tuple(column_of(name, type) for name, type in OTHER_TYPES.items()),
    "t",
    1000,
)
_other_row = st.fixed_dictionaries(
    {
        "t": st.integers(0, 20_000).map(lambda ms: BEGIN + ms),
        "i": st.none() | st.integers(-5, 5),
        "k": _values["k"],
        "x": _values["d"],
    }
)


@dataclass(frozen=True)
class JoinCase(Case):
    """A query over two tables; ``others`` are the rows of the second one."""

    others: list[dict[str, object]]


_ON = (
    ("r.k = o.k", "r.k = o.k"),
    ("r.b = o.i", "r.b = o.i"),
    ("r.k = o.k AND r.b = o.i", "r.k = o.k AND r.b = o.i"),
    ("r.d = o.i", "r.d = o.i"),
    ("UPPER(r.k) = o.k", "UPPER(r.k) = o.k"),
)
_DISTINCT = ("r.k AS k, o.x AS x", "r.k AS k, r.s AS s", "o.x AS x")  # of both tables, and of one alone
_ALSO = ("r.b > 0", "o.x < 1.5", "r.a < o.i", "(r.f OR o.x IS NULL)", "o.t >= r.t")


def _joined(
    on: tuple[str, str],
    also: list[str],
    window: tuple[int, int] | None,
    bounds: tuple[int, int],
    distinct: str | None,
    found: list[dict[str, object]],
    others: list[dict[str, object]],
) -> JoinCase:
    conditions = "".join(f" AND {each}" for each in also)
    columns = "r.k AS k, r.s AS s, o.x AS x, r.b + o.i AS sum"
    if window is None:
        low, high = bounds
        own = (
            f"SELECT {columns}, EPOCH_MS(o.t) - EPOCH_MS(r.t) AS later FROM rows AS r JOIN others AS o "
            f"ON {on[0]} AND o.t BETWEEN r.t - INTERVAL '{low}' MILLISECOND "
            f"AND r.t + INTERVAL '{high}' MILLISECOND{conditions}"
        )
        times = "epoch_ms(o.t) - epoch_ms(r.t)"
        duck = (
            f"SELECT {columns}, {times} AS later FROM rows AS r JOIN others AS o "
            f"ON {on[1]} AND {times} BETWEEN {-low} AND {high}{conditions}"
        )
        return JoinCase(own, duck, found, others)
    size, slide = window
    tables = [
        f"HOP({each}, t, INTERVAL '{slide}' MILLISECOND, INTERVAL '{size}' MILLISECOND)"
        for each in ("rows", "others")
    ]
    starts = f"epoch_ms(t) // {slide} * {slide}"
    windows = (
        f"(SELECT *, unnest(generate_series({starts} - {size - slide}, {starts}, {slide})) AS w FROM {{}})"
    )
    columns = distinct or columns
    own = (
        f"SELECT {'DISTINCT ' if distinct else ''}r.window_start, r.window_end, {columns} "
        f"FROM {tables[0]} AS r JOIN {tables[1]} AS o ON {on[0]} AND r.window_start = o.window_start "
        f"AND r.window_end = o.window_end WHERE 1 = 1{conditions}"
    )
    duck = (
        f"SELECT {'DISTINCT ' if distinct else ''}r.w AS window_start, r.w + {size} AS window_end, {columns} "
        f"FROM {windows.format('rows')} AS r JOIN {windows.format('others')} AS o ON {on[1]} AND r.w = o.w"
        f"{conditions}"
    )
    return JoinCase(own, duck, found, others)


joins = st.builds(
    _joined,
    st.sampled_from(_ON),
    st.lists(st.sampled_from(_ALSO), max_size=2, unique=True),
    st.none() | st.sampled_from(_WINDOWS),
    st.tuples(st.sampled_from((0, 2000)), st.sampled_from((0, 1000, 5000))),
    st.none() | st.sampled_from(_DISTINCT),
    st.lists(_row, min_size=4, max_size=16),
    st.lists(_other_row, min_size=4, max_size=16),
)
