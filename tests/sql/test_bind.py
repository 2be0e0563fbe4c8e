"""Queries that are refused, each with its place, and equal programs of texts that mean the same."""

from __future__ import annotations

import pytest

from speck.sql.bind import bind
from speck.sql.evaluate import evaluate
from speck.sql.faults import SqlError
from speck.sql.parse import MOST_DEPTH
from speck.sql.program import LATEST_VERSION, Program
from speck.sql.types import Contract, column_of

COLUMNS = {
    "time": "timestamp(ms) not null",
    "town": "string not null",
    "speed": "double",
    "lanes": "bigint",
    "small": "int",
    "wet": "boolean",
}
TABLES = {
    "readings": Contract(
        "sensors/+/speed",
        "readings",
        "csv",
        tuple(column_of(*each) for each in COLUMNS.items()),
        "time",
        1000,
    ),
    "untimed": Contract("plain", "untimed", "json", (column_of("n", "bigint"),)),
    "works": Contract(
        "works/+",
        "works",
        "json",
        (column_of("since", "timestamp not null"), column_of("town", "string"), column_of("cost", "int")),
        "since",
        0,
    ),
}
TUMBLE = "TUMBLE(readings, time, INTERVAL '10' SECOND)"
WORKS = "TUMBLE(works, since, INTERVAL '10' SECOND) AS w"
EQUAL = "r.window_start = w.window_start AND r.window_end = w.window_end"
BOUNDS = "GROUP BY window_start, window_end"
PARTITION = "PARTITION BY window_start, window_end"


def program(text: str, **arguments: object) -> Program:
    return bind(text, TABLES, arguments).program


def faults(text: str, **arguments: object) -> list[tuple[int, int, str]]:
    with pytest.raises(SqlError) as caught:
        bind(text, TABLES, arguments)
    return [(each.line, each.column, each.message) for each in caught.value.faults]


REFUSED = {
    "": "the query is empty",
    "SELEC town FROM readings": "the query begins with 'SELEC'",
    "DROP TABLE readings": "the query begins with 'DROP'",
    "COPY readings TO '/x'": "the query begins with 'COPY'",
    "SELECT FROM readings": "SELECT has no columns",
    "SELECT town, FROM readings": "an expression is missing before 'FROM'",
    "SELECT town FROM readings WHERE speed >": "an expression is missing at '>'",
    "SELECT town FROM readings; SELECT 1": "a second statement begins here",
    "SELECT 1 AS n": "FROM is missing",
    "SELECT town FROM reading": "did you mean 'readings'?",
    "SELECT twon FROM readings": "did you mean 'town'?",
    "SELECT x.town FROM readings": "'x' is not a table here",
    "SELECT speed FROM readings, works": "the join has no key (expected ON with an equality of columns",
    "SELECT speed FROM readings CROSS JOIN works": "the join has no key",
    "SELECT speed FROM readings JOIN works ON cost > lanes": "the join has no key",
    "SELECT speed FROM readings JOIN works ON cost = lanes": "the time between the rows of the join has no b",
    "SELECT speed FROM readings JOIN works ON cost = lanes AND since > time": "the time between the rows of",
    "SELECT n FROM readings JOIN untimed ON n = lanes": "table 'untimed' has no event_time",
    "SELECT r.town FROM readings r LEFT JOIN works w ON r.town = w.town": "outer joins are not supported",
    "SELECT speed FROM readings JOIN works USING (town)": "USING is not supported",
    "SELECT speed FROM readings NATURAL JOIN works": "NATURAL JOIN is not supported",
    "SELECT town FROM readings JOIN works ON cost = lanes": (
        "column 'town' is in both tables (expected readings.town or works.town)"
    ),
    "SELECT w.speed FROM readings r JOIN works w ON r.town = w.town": "column 'speed' is not known",
    "SELECT x.speed FROM readings r JOIN works w ON r.town = w.town": "expected 'r' or 'w'",
    "SELECT speed FROM readings r JOIN works w ON r.town = w.cost": "the operands of = do not fit",
    "SELECT a.speed FROM readings a JOIN readings b ON a.town = b.town": "a table is joined with itself",
    "SELECT speed FROM readings r JOIN works w ON r.town = w.town JOIN untimed ON n = cost": "a second join",
    "SELECT speed FROM readings r JOIN (SELECT town FROM works) w ON r.town = w.town": "a SELECT is joined",
    "SELECT speed FROM (SELECT r.speed FROM readings r JOIN works w ON r.town = w.town)": (
        "a join is inside of FROM (SELECT ...)"
    ),
    f"SELECT speed FROM {TUMBLE} r JOIN works w ON r.town = w.town": "the windows of both tables differ",
    f"SELECT speed FROM {TUMBLE} r JOIN {WORKS} ON r.town = w.town": (
        "the join has no equality of window_start and of window_end"
    ),
    f"SELECT COUNT(*) AS n FROM {TUMBLE} r JOIN {WORKS} ON r.town = w.town AND {EQUAL}": (
        "the rows of a join are aggregated (expected a second job"
    ),
    f"SELECT DISTINCT r.town FROM {TUMBLE} r JOIN {WORKS} ON r.town = w.town AND {EQUAL}": (
        "SELECT DISTINCT has no window_start"
    ),
    f"SELECT r.town, RANK() OVER (PARTITION BY r.window_start ORDER BY cost) AS n FROM {TUMBLE} r "
    f"JOIN {WORKS} ON r.town = w.town AND {EQUAL}": "the rows of a join are ranked",
    "SELECT speed FROM readings r JOIN works w ON r.town = w.town AND since BETWEEN time + INTERVAL '2' DAY "
    "AND time + INTERVAL '1' DAY": "the bounds of the time exclude each other",
    "SELECT speed FROM readings r JOIN works w ON r.town = w.town AND since BETWEEN time "
    "AND time + INTERVAL '400' DAY": "longer than 366 days",
    f"SELECT COUNT(*) AS n FROM SESSION(readings, time, INTERVAL '1' DAY) {BOUNDS}": (
        "the sessions have no key"
    ),
    "SELECT town FROM SESSION(readings, time)": "SESSION does not have this form (expected SESSION(table",
    f"SELECT RANK() OVER ({PARTITION} ORDER BY COUNT(*)) AS n "
    f"FROM SESSION(readings, time, INTERVAL '1' DAY) {BOUNDS}, town": "RANK is of the rows of a session",
    "SELECT town FROM readings ORDER BY town": "ORDER BY is supported in OVER only",
    "SELECT town FROM readings LIMIT 3": "LIMIT is not supported",
    "WITH x AS (SELECT 1) SELECT * FROM x": "WITH is not supported",
    "SELECT town FROM readings UNION SELECT town FROM readings": "UNION is not supported",
    "SELECT town FROM readings WHERE lanes IN (SELECT n FROM untimed)": "subqueries in conditions",
    "SELECT * FROM read_csv('/etc/passwd')": "a query reads no files",
    "SELECT pg_read_file('/etc/passwd') AS x FROM readings": "the function pg_read_file is not supported",
    "SELECT java_method('a', 'b') AS x FROM readings": "the function java_method is not supported",
    "SELECT NOW() AS x FROM readings": "queries have no clock",
    "SELECT RANDOM() AS x FROM readings": "RANDOM is not supported",
    "SELECT COUNT(*) OVER (PARTITION BY town) AS n FROM readings": "OVER is supported for RANK",
    "SELECT DENSE_RANK() OVER (ORDER BY town) AS n FROM readings": "DENSE_RANK is not supported",
    "SELECT RANK() AS n FROM readings": "RANK has no OVER",
    "SELECT RANK() OVER (PARTITION BY time, town ORDER BY lanes) AS n FROM readings": (
        "RANK is not of the rows of a window (expected it behind an aggregation"
    ),
    f"SELECT RANK() OVER (PARTITION BY window_start ORDER BY COUNT(*)) AS n FROM {TUMBLE} {BOUNDS}": (
        "expected PARTITION BY window_start, window_end"
    ),
    f"SELECT RANK() OVER ({PARTITION}) AS n FROM {TUMBLE} {BOUNDS}": "RANK has no ORDER BY",
    f"SELECT RANK() OVER ({PARTITION} ORDER BY COUNT(*)) + 1 AS n FROM {TUMBLE} {BOUNDS}": (
        "RANK does not fit in an expression"
    ),
    f"SELECT RANK() OVER ({PARTITION} ORDER BY 1 ROWS 2 PRECEDING) AS n FROM {TUMBLE} {BOUNDS}": (
        "frames of OVER are not supported"
    ),
    f"SELECT ROW_NUMBER() OVER ({PARTITION} ORDER BY COUNT(*)) AS n FROM {TUMBLE} {BOUNDS}, town": (
        "the order of ROW_NUMBER leaves rows without a place of their own (expected all keys"
    ),
    f"SELECT RANK() OVER ({PARTITION} ORDER BY COUNT(*)) AS n, "
    f"ROW_NUMBER() OVER ({PARTITION} ORDER BY COUNT(*)) AS m FROM {TUMBLE} {BOUNDS}": "a second rank",
    "SELECT town[1] AS x FROM readings": "elements of arrays are not supported: a Python or Java job before",
    "SELECT ARRAY[1] AS x FROM readings": "arrays are not supported: a Python or Java job before",
    "SELECT x.id AS id FROM readings AS r CROSS JOIN UNNEST(r.town) AS x(id)": (
        "UNNEST is not supported, since no column is an array: a Python or Java job before this one can write"
    ),
    "SELECT town FROM readings, UNNEST(ARRAY[1]) AS x": "UNNEST is not supported",
    "SELECT UNNEST(town) AS x FROM readings": "UNNEST is not supported",
    "SELECT x FROM readings CROSS JOIN LATERAL UNNEST(town) AS x(y)": "LATERAL is not supported",
    "SELECT CAST(town AS bigint) AS n FROM readings": "expected TRY_CAST(x AS bigint)",
    "SELECT CAST(lanes AS int) AS n FROM readings": "expected bigint",
    "SELECT CAST(lanes AS decimal) AS n FROM readings": "the type DECIMAL is not supported",
    "SELECT town + 1 AS n FROM readings": "+ does not take (string, bigint)",
    "SELECT town FROM readings WHERE town = 1": "the operands of = do not fit: string = bigint",
    "SELECT town FROM readings WHERE lanes": "the condition is of type bigint",
    "SELECT town FROM readings WHERE town LIKE town": "the pattern of LIKE is not a constant",
    "SELECT town FROM readings WHERE time > 'noon'": "'noon' is not a timestamp",
    "SELECT time + INTERVAL '1' MONTH AS t FROM readings": "the interval is not supported",
    "SELECT 99999999999999999999 AS n FROM readings": "is not a 64-bit number",
    "SELECT NULL AS n FROM readings": "column 'n' is always NULL",
    "SELECT 1 FROM readings": "a column has no name",
    "SELECT town, lanes AS TOWN FROM readings": "column 'TOWN' is given twice",
    "SELECT :least AS n FROM readings": ":least has no value",
    "SELECT COUNT(*) AS n FROM readings": "an aggregation without windows would never end",
    "SELECT town FROM readings WHERE COUNT(*) > 1": "an aggregate function does not fit here",
    f"SELECT town FROM {TUMBLE}": "rows in windows are not aggregated",
    f"SELECT COUNT(*) AS n FROM {TUMBLE} GROUP BY window_end": "GROUP BY has no window_start",
    f"SELECT DISTINCT town FROM {TUMBLE}": "SELECT DISTINCT has no window_start and no window_end",
    f"SELECT lanes, COUNT(*) AS n FROM {TUMBLE} {BOUNDS}": "column 'lanes' has several values in a group",
    f"SELECT SUM(town) AS n FROM {TUMBLE} {BOUNDS}": "SUM does not take string",
    f"SELECT COUNT() AS n FROM {TUMBLE} {BOUNDS}": "COUNT has no argument (expected COUNT(*), or a column)",
    "SELECT ABS(*) AS n FROM readings": "* does not fit here",
    "SELECT town FROM readings WHERE lanes = (SELECT n FROM untimed)": "subqueries are supported in FROM",
    f"SELECT DISTINCT window_end, COUNT(*) AS n FROM {TUMBLE} {BOUNDS}, town": "DISTINCT of groups is not",
    f"SELECT DISTINCT town, COUNT(*) AS n FROM {TUMBLE} {BOUNDS}, town": "DISTINCT of groups is not",
    "SELECT DATE_TRUNC('day', time, 'CET') AS day FROM readings": "does not take the zone 'CET'",
    f"SELECT COUNT(DISTINCT town) AS n FROM {TUMBLE} {BOUNDS}": "SELECT DISTINCT in one job",
    f"SELECT COUNT(*) AS n FROM {TUMBLE} WHERE window_end > '2026-01-01' {BOUNDS}": (
        "only after the aggregation"
    ),
    "SELECT COUNT(*) AS n FROM TUMBLE(untimed, n, INTERVAL '1' SECOND) GROUP BY window_start, window_end": (
        "table 'untimed' has no event_time"
    ),
    f"SELECT COUNT(*) AS n FROM TUMBLE(readings, lanes, INTERVAL '1' DAY) {BOUNDS}": "expected 'time'",
    f"SELECT COUNT(*) AS n FROM TUMBLE(readings, time, INTERVAL '0' DAY) {BOUNDS}": (
        "a window has no such length"
    ),
    f"SELECT COUNT(*) AS n FROM HOP(readings, time, INTERVAL '3' DAY, INTERVAL '7' DAY) {BOUNDS}": (
        "the size of the windows is not a multiple of their slide"
    ),
    f"SELECT COUNT(*) AS n FROM HOP(readings, time, INTERVAL '1' SECOND, INTERVAL '1' DAY) {BOUNDS}": (
        "a window has 86,400 slides"
    ),
    f"SELECT n + 1 AS m, COUNT(*) AS k FROM (SELECT COUNT(*) AS n FROM {TUMBLE} {BOUNDS}) GROUP BY n": (
        "a second aggregation in a query"
    ),
    f"SELECT town FROM readings WHERE {'(' * 60}wet{')' * 60}": f"at most {MOST_DEPTH} levels",
    f"SELECT town FROM readings WHERE {'NOT ' * 60}wet": f"at most {MOST_DEPTH} levels",
    f"SELECT {'+'.join(['lanes'] * 1000)} AS n FROM readings": "the expression is too long",
    f"SELECT town FROM readings WHERE town = '{'x' * 70_000}'": "more than 65,536 bytes",
    f"SELECT {', '.join(f'lanes AS c{n}' for n in range(300))} FROM readings": "300 columns (at most 256)",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:60])
def test_a_query_that_is_not_offered_is_refused_by_name(text: str) -> None:
    assert any(REFUSED[text] in message for _, _, message in faults(text)), faults(text)


def test_distinct_beside_all_columns_of_group_by_changes_nothing() -> None:
    text = f"SELECT window_end, town, COUNT(*) AS n FROM {TUMBLE} {BOUNDS}, town"
    assert bind(text.replace("SELECT", "SELECT DISTINCT"), TABLES) == bind(text, TABLES)


def test_all_faults_of_a_query_are_reported_with_their_places() -> None:
    text = "SELECT twon,\n  lanes || 'x' AS x\nFROM readings\nWHERE sped > 1 AND lanes = town"
    found = [(line, column) for line, column, _ in faults(text)]
    assert sorted(found) == [(1, 8), (2, 3), (4, 7), (4, 20)]


def test_a_wrong_name_that_is_used_again_is_one_fault() -> None:
    text = (
        "SELECT x.town,\n  x.lanes, w.cost\nFROM readings r JOIN works w\n"
        "ON x.town = w.town AND w.since BETWEEN x.time AND x.time + INTERVAL '1' HOUR"
    )
    places = "line 2, column 3; line 4, column 4; line 4, column 40"
    assert faults(text) == [(1, 8, f"'x' is not a table here (expected 'r' or 'w'); likewise in {places}")]
    text = f"SELECT {', '.join(f'twon AS t{each}' for each in range(9))} FROM readings"
    ((_, _, message),) = faults(text)
    assert message.startswith(
        "column 'twon' is not known (did you mean 'town'?); likewise in line 1, column "
    )
    assert message.endswith(" and 3 more places")


def test_an_argument_that_is_not_used_is_a_fault() -> None:
    assert "argument 'most' is not used" in faults("SELECT town FROM readings", most=3)[0][2]


def test_comments_layout_and_aliases_of_tables_do_not_count() -> None:
    one = program("SELECT town, speed FROM readings WHERE speed > 3 AND wet")
    other = program(
        "-- fast\nselect R.town,\n R.SPEED AS speed from READINGS r where (R.wet) and r.speed > 3"
    )
    assert one == other and one.to_json() == other.to_json()


def test_columns_that_are_not_used_do_not_count() -> None:
    used = program("SELECT town FROM readings WHERE wet")
    assert [each.name for each in used.input.columns] == ["town", "wet"]
    assert used.input.positions == (1, 5)


def test_a_join_reads_the_columns_of_each_table_that_it_needs() -> None:
    found = program(
        f"SELECT r.speed, cost FROM {TUMBLE} r JOIN {WORKS} ON r.town = w.town AND {EQUAL} "
        "WHERE wet AND cost > 3 AND cost > lanes"
    )
    assert found.join is not None
    left, right = found.join.sides
    assert [each.name for each in left.input.columns] == ["time", "town", "speed", "lanes", "wet"]
    assert [each.name for each in right.input.columns] == ["since", "town", "cost"]
    assert left.where is not None and right.where is not None and found.having is not None
    assert Program.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("conditions", "bounds"),
    [
        ("since BETWEEN time AND time + INTERVAL '1' HOUR", (0, 3_600_000)),
        ("time <= since + INTERVAL '1' HOUR AND since < time", (-3_600_000, -1)),
        ("time > since - INTERVAL '1' SECOND AND since > time - INTERVAL '2' SECOND", (-1999, 999)),
        ("since = time", (0, 0)),
        ("since - INTERVAL '1' SECOND = time", (1000, 1000)),
        (
            "since >= time AND since >= time + INTERVAL '1' SECOND AND since <= time + INTERVAL '1' DAY",
            (1000, 86_400_000),
        ),
    ],
)
def test_bounds_of_the_time_may_be_written_in_any_way(conditions: str, bounds: tuple[int, int]) -> None:
    found = program(f"SELECT speed FROM readings r JOIN works w ON r.town = w.town AND {conditions}")
    assert found.join is not None and found.join.bounds == bounds and found.having is None


def test_programs_of_before_joins_keep_their_form() -> None:
    form = program(f"SELECT town, COUNT(*) AS n FROM {TUMBLE} {BOUNDS}, town").to_dict()
    assert form["version"] == 1 and "join" not in form
    assert form["windows"].keys() == {"size_ms", "slide_ms", "keys", "merges"}


def test_a_stored_program_is_read_again() -> None:
    query = f"SELECT window_end, town, AVG(speed) AS s FROM {TUMBLE} {BOUNDS}, town HAVING COUNT(*) > :n"
    found = program(query, n=3)
    assert Program.from_json(found.to_json()) == found


def test_a_program_of_a_later_version_is_refused() -> None:
    later = LATEST_VERSION + 1
    text = program("SELECT town FROM readings").to_json().replace('"version":1', f'"version":{later}')
    with pytest.raises(ValueError, match=f"version {later} "):
        Program.from_json(text)


ROWS = [b"1000,Ulm,50.5,2,1,true", b"2500,Bonn,,3,2,", b"12000,Ulm,7,1,3,false", b"500,Ulm,1,1,1,true"]


def results(text: str, **arguments: object) -> list[str]:
    found = bind(text, TABLES, arguments, "csv").program
    return evaluate(found, [("sensors/A/speed", row) for row in ROWS]).messages


def test_values_of_rows() -> None:
    assert results("SELECT town, speed * 2 AS twice, SPLIT_PART(topic, '/', 2) AS site FROM readings") == [
        "Ulm,101.0,A",
        "Bonn,,A",
        "Ulm,14.0,A",
        "Ulm,2.0,A",
    ]


def test_a_late_row_is_left_out_unless_its_window_is_open() -> None:
    found = bind(f"SELECT window_end, COUNT(*) AS n FROM {TUMBLE} {BOUNDS}", TABLES).program
    outcome = evaluate(found, [("sensors/A/speed", row) for row in ROWS])
    assert [row[1] for row in outcome.rows] == [2, 1]
    assert outcome.late == 1  # the window of the last row was closed by the row before it


def test_a_row_that_the_condition_leaves_out_closes_windows() -> None:
    found = bind(
        f"SELECT window_end, COUNT(*) AS n FROM {TUMBLE} WHERE town = 'Ulm' {BOUNDS}", TABLES
    ).program
    rows = [ROWS[0], b"30000,Bonn,1,1,4,true", ROWS[3]]
    outcome = evaluate(found, [("sensors/A/speed", row) for row in rows], end=False)
    assert [row[1] for row in outcome.rows] == [1] and outcome.late == 1


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("1 / 0", ""),
        ("1.0 / 0", ""),
        ("9223372036854775807 + 1", "-9223372036854775808"),
        ("SQRT(-1)", ""),
        ("ROUND(2.5)", "3.0"),
        ("ROUND(-2.5)", "-3.0"),
        ("ROUND(1.005, 2)", "1.01"),
        ("ROUND(123456789012345.6, 15)", "123456789012345.6"),
        ("1e15", "1000000000000000.0"),
        ("1e16", "1e+16"),
        ("TRY_CAST(' 12 ' AS bigint)", "12"),
        ("TRY_CAST('twelve' AS bigint)", ""),
        ("TRY_CAST(1.9 AS bigint)", "1"),
        ("CAST(1.5 AS string)", "1.5"),
        ("TIMESTAMP '2026-01-31' + INTERVAL '1' DAY", "2026-02-01T00:00:00.000Z"),
        ("DATE_TRUNC('week', TIMESTAMP '2026-02-01')", "2026-01-26T00:00:00.000Z"),
        ("DATE_TRUNC('day', TIMESTAMP '2026-02-01 01:00:00', 'UTC')", "2026-02-01T00:00:00.000Z"),
        ("EXTRACT(dow FROM TIMESTAMP '2026-02-01')", "0"),
        ("EPOCH_MS(TIMESTAMP '1970-01-01T00:00:01.5Z')", "1500"),
        ("'a_c' LIKE 'a!_c' ESCAPE '!'", "true"),
        ("'abc' LIKE 'a!_c' ESCAPE '!'", "false"),
        ("NULL IN (1, 2)", ""),
        ("1 IN (2, NULL)", ""),
        ("1 IN (1, NULL)", "true"),
        ("SUBSTRING('äöü', 2)", "öü"),
        ("SUBSTRING('abc', -1, 3)", "a"),
        ("GREATEST(1, NULL, 3)", "3"),
        ("UPPER('straße') || '!'", "STRASSE!"),
        ("TRUE AND NULL", ""),
        ("FALSE AND NULL", "false"),
        ("'' ", '""'),
    ],
)
def test_values_of_expressions(expression: str, value: str) -> None:
    assert results(f"SELECT {expression} AS x FROM readings")[0] == value
