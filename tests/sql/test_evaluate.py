"""The reference against DuckDB, on random queries and rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import given

from speck.sql.bind import bind
from speck.sql.evaluate import evaluate
from tests.sql.random_queries import CONTRACT, Case, messages, ranked, stateless, windowed
from tests.support.properties import tries

duckdb = pytest.importorskip("duckdb")

_DUCK_TYPES = "t TIMESTAMP, a BIGINT, b BIGINT, i INTEGER, d DOUBLE, s VARCHAR, k VARCHAR, f BOOLEAN"


@pytest.fixture(name="duck", scope="module")
def duck_fixture() -> Iterator[object]:
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def results_of_duckdb(duck: object, case: Case) -> list[tuple[object, ...]]:
    duck.execute(f"CREATE OR REPLACE TABLE rows ({_DUCK_TYPES})")  # type: ignore[attr-defined]
    for each in case.rows:
        values = [each[name] for name in ("t", "a", "b", "i", "d", "s", "k", "f")]
        duck.execute("INSERT INTO rows VALUES (make_timestamp_ms(?), ?, ?, ?, ?, ?, ?, ?)", values)  # type: ignore[attr-defined]
    return [tuple(map(plain, row)) for row in duck.execute(case.duck).fetchall()]  # type: ignore[attr-defined]


def plain(value: object) -> object:
    """A value as the reference writes it: no number that is not finite, no negative zero."""
    if isinstance(value, float):
        return round(value, 9) + 0.0 if math.isfinite(value) else None
    return value


def compare(duck: object, case: Case) -> None:
    program = bind(case.own, {"rows": CONTRACT}).program
    outcome = evaluate(program, messages(case.rows))
    assert not outcome.unparsable and not outcome.late
    own = [tuple(map(plain, json.loads(each).values())) for each in outcome.messages]
    assert sorted(own, key=repr) == sorted(results_of_duckdb(duck, case), key=repr)


@tries(80)
@given(case=stateless)
def test_rows_are_those_of_duckdb(duck: object, case: Case) -> None:
    compare(duck, case)


@tries(80)
@given(case=windowed)
def test_windows_are_those_of_duckdb(duck: object, case: Case) -> None:
    compare(duck, case)


@tries(60)
@given(case=ranked)
def test_ranks_are_those_of_duckdb(duck: object, case: Case) -> None:
    compare(duck, case)
