"""Queries written by hand, for rows with NULLs, bounds of types, and times at the edges of windows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle, islice

Message = tuple[str, bytes]

_DAY = 86_400_000
_TIMES = (  # ms, in order
    *(0, 1, 999, 1000, 1999, 2000, 2000, 3999, 4000, 9999, 10_000),
    *(_DAY - 1, _DAY, 951_782_400_000, 951_868_799_999),  # the last day of February 2000
    *(1_774_745_999_999, 1_774_746_000_000),  # clocks are set forward in Europe
    *(1_798_761_599_999, 1_798_761_600_000),  # the turn of 2026
)
_TEXTS = (
    *(
        None,
        "",
        "a",
        "a,b,,c",
        "%",
        "a_c",
        "abc",
        "\\",
        "  x ",
        "\u00c4\u00df\u0130",
        "\U0001f600x",
        "\uffff",
        "12",
    ),
    *("-9223372036854775808", "9223372036854775808", "1e3", "TRUE", "2026-03-29T01:00+01:00"),
)
_VALUES: dict[str, tuple[object, ...]] = {
    "a": (None, 0, -1, 2**63 - 1, -(2**63), 7, 253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_001),
    "b": (0, 1, -1, 3, 2, 0, -4),
    "i": (None, 0, 2**31 - 1, -(2**31), 3, -3, 2),
    "d": (None, 0.0, -0.5, 2.5, 1e308, -1e308, 5e-324, 1e15, 123456789012345.6, 0.1, 9007199254740993.0),
    "s": _TEXTS,
    "k": ("x", "y", "\u00e4", "\U0001f600"),
    "f": (None, True, False, True),
}


def messages() -> list[Message]:
    """Rows whose columns take their values in turn, at each time three."""
    times = [time for time in _TIMES for _ in range(3)]
    columns = {name: islice(cycle(values), len(times)) for name, values in _VALUES.items()}
    rows = zip(times, *columns.values(), strict=True)
    return [("rows/in", json.dumps(dict(zip(("t", *columns), row, strict=True))).encode()) for row in rows]


_EXPRESSIONS = """
a + 1
a - b - i
a - (b - i)
a * 2
-a
-a % 3
ABS(a)
a / b
a % b
MOD(i, b)
i * i
a + d
d + d
d / 0
d / b
d % 2.5
FLOOR(d)
CEIL(d)
FLOOR(i)
ROUND(d)
ROUND(d, 3)
ROUND(d, 15)
SQRT(d)
POWER(0.0, b)
LN(d * 0)
CAST(a AS string) || CAST(d AS string)
CAST(f AS string)
CAST(t AS string)
CAST(f AS bigint)
CAST(i AS double)
TRY_CAST(s AS bigint)
TRY_CAST(s AS double)
TRY_CAST(s AS boolean)
TRY_CAST(s AS timestamp)
TRY_CAST(d AS bigint)
s || k
UPPER(s)
LOWER(s)
TRIM(s)
LENGTH(s)
SUBSTRING(s, i)
SUBSTRING(s, a)
SUBSTRING(s, -1, 3)
SUBSTRING(s, 2, 0)
SUBSTRING(s, a, i)
SPLIT_PART(s, ',', b)
SPLIT_PART(s, '', 1)
REPLACE(s, '', 'x')
REPLACE(s, 'a', '')
POSITION('' IN s)
POSITION('x' IN s)
s LIKE '%'
s LIKE ''
s LIKE '_'
s LIKE 'a\\_c'
s LIKE '\\\\'
s LIKE 'a!_%' ESCAPE '!'
s NOT LIKE '_%_'
s = NULL
s IN (NULL, 'a')
s NOT IN ('a', NULL)
a IN (d, b, i)
a BETWEEN NULL AND 5
b BETWEEN 3 AND 1
NOT a BETWEEN -1 AND 1
NOT a = b
f IS TRUE
f IS NOT TRUE
f IS FALSE
f AND NULL
f OR NULL
NOT f AND a > b OR s IS NULL
f = (a > 0) IS NULL
s < k
d < a
CASE WHEN f THEN a END
CASE s WHEN 'a' THEN 1 WHEN NULL THEN 2 ELSE i END
CASE WHEN NULL THEN d ELSE b END
COALESCE(a, i, 7)
NULLIF(a, a)
NULLIF(s, k)
GREATEST(a, NULL, i)
GREATEST(d, a)
LEAST(s, k)
EXTRACT(epoch FROM t)
EXTRACT(second FROM t) + EXTRACT(doy FROM t) * 100
EXTRACT(dow FROM t)
DATE_TRUNC('week', t)
DATE_TRUNC('month', t)
DATE_TRUNC('hour', t - INTERVAL '1' MILLISECOND)
t + INTERVAL '366' DAY
FROM_EPOCH_MS(a)
EPOCH_MS(t - INTERVAL '1.5 hours')
t BETWEEN '1970-01-01' AND '2000-02-29T23:59:59.999Z'
""".strip()

_TUMBLE = "TUMBLE(rows, t, INTERVAL '2' SECOND)"
_HOP = "HOP(rows, t, INTERVAL '1' SECOND, INTERVAL '3' SECOND)"
_BOUNDS = "GROUP BY window_start, window_end"
_RANKED = (
    "SELECT k, n, place FROM (SELECT window_start, window_end, k, {n} AS n, {rank} "
    f"OVER (PARTITION BY window_start, window_end{{also}} ORDER BY {{order}}) AS place FROM {_HOP} "
    f"{_BOUNDS}, k) WHERE place <= 2"
)
_WINDOWED = (
    f"SELECT window_start, window_end, COUNT(*) AS n, COUNT(a) AS c, SUM(a) AS s, AVG(i) AS m FROM {_TUMBLE} "
    f"{_BOUNDS}",
    f"SELECT window_start, MIN(s) AS a, MAX(s) AS b, MIN(f) AS c, MAX(d) AS d, MAX(t) AS e, MIN(i) AS g "
    f"FROM {_HOP} {_BOUNDS}",
    f"SELECT s, f, COUNT(NULLIF(a, a)) AS n, SUM(d) AS s2 FROM {_TUMBLE} {_BOUNDS}, s, f",
    f"SELECT d, COUNT(f) AS n FROM {_HOP} {_BOUNDS}, d",
    f"SELECT CASE WHEN f THEN k END AS g, COUNT(*) FILTER (WHERE a > 5) AS n, SUM(i) FILTER (WHERE f) AS m, "
    f"AVG(d) FILTER (WHERE s = 'nothing') AS mean FROM {_TUMBLE} {_BOUNDS}, CASE WHEN f THEN k END",
    f"SELECT k, COUNT(*) AS n FROM {_HOP} WHERE a <> 0 {_BOUNDS}, k HAVING MIN(s) IS NULL OR SUM(i) > 0",
    f"SELECT EXTRACT(hour FROM t) AS h, MAX(t - INTERVAL '1' DAY) AS last FROM {_TUMBLE} "
    f"{_BOUNDS}, EXTRACT(hour FROM t)",
    f"SELECT DISTINCT window_start, window_end, f FROM {_HOP}",
    f"SELECT window_end FROM {_TUMBLE} {_BOUNDS}",
    "SELECT k, window_start, window_end, COUNT(*) AS n, MAX(d) AS m "
    f"FROM SESSION(rows, t, INTERVAL '1' SECOND) {_BOUNDS}, k",
    f"SELECT s, COUNT(*) AS n, MIN(t) AS first FROM SESSION(rows, t, INTERVAL '1' DAY) {_BOUNDS}, s",
    _RANKED.format(n="SUM(i)", rank="RANK()", also="", order="SUM(i) DESC"),
    _RANKED.format(n="SUM(i)", rank="RANK()", also="", order="SUM(i) DESC NULLS LAST, MIN(s)"),
    _RANKED.format(n="MAX(f)", rank="RANK()", also=", MAX(f)", order="COUNT(*)"),
    _RANKED.format(n="COUNT(a)", rank="ROW_NUMBER()", also="", order="COUNT(a), k DESC"),
    _RANKED.format(n="1", rank="RANK()", also="", order="k"),
)


def queries() -> Iterator[str]:
    """The texts of all queries."""
    for each in _EXPRESSIONS.splitlines():
        yield f"SELECT t, {each} AS x FROM rows"
    yield "SELECT k, topic FROM rows WHERE f AND NOT a > 0 OR d IS NULL AND s LIKE 'a%'"
    yield from _WINDOWED
