"""The reference against DuckDB, on random queries and rows."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.sql import times
from speck.sql.bind import bind
from speck.sql.evaluate import evaluate, evaluate_tables
from tests.sql.in_parts import run_in_parts
from tests.sql.random_queries import (
    CONTRACT,
    OTHER,
    Case,
    JoinCase,
    best_keys,
    joins,
    messages,
    ranked,
    sessions,
    stateless,
    windowed,
)
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
    compare_rows(duck, case, outcome.messages)


def compare_rows(duck: object, case: Case, found: list[str]) -> None:
    own = [tuple(map(plain, json.loads(each).values())) for each in found]
    assert sorted(own, key=repr) == sorted(results_of_duckdb(duck, case), key=repr)


@tries(80)
@given(case=stateless)
def test_rows_are_those_of_duckdb(duck: object, case: Case) -> None:
    compare(duck, case)


@tries(80)
@given(case=windowed)
def test_windows_are_those_of_duckdb(duck: object, case: Case) -> None:
    compare(duck, case)


@tries(25)
@given(case=sessions)
def test_sessions_are_those_of_duckdb(duck: object, case: Case) -> None:
    compare(duck, case)


@tries(40)
@given(case=joins)
def test_joins_are_those_of_duckdb(duck: object, case: JoinCase) -> None:
    program = bind(case.own, {"rows": CONTRACT, "others": OTHER}).program
    outcome = evaluate_tables(program, [messages(case.rows), messages(case.others, "others/in")])
    assert not outcome.unparsable and not outcome.late
    own = [tuple(map(as_in_duckdb, json.loads(each).values())) for each in outcome.messages]
    duck.execute("CREATE OR REPLACE TABLE others (t TIMESTAMP, i INTEGER, k VARCHAR, x DOUBLE)")  # type: ignore[attr-defined]
    for each in case.others:
        values = [each[name] for name in ("t", "i", "k", "x")]
        duck.execute("INSERT INTO others VALUES (make_timestamp_ms(?), ?, ?, ?)", values)  # type: ignore[attr-defined]
    assert sorted(own, key=repr) == sorted(results_of_duckdb(duck, case), key=repr)


def as_in_duckdb(value: object) -> object:
    """A value, of a window's bound the number."""
    time = times.time_of(value) if isinstance(value, str) and value.startswith("20") else None
    return plain(value) if time is None else time


@tries(80)
@given(case=st.one_of(ranked, best_keys))
def test_ranks_are_those_of_duckdb(duck: object, case: Case) -> None:
    compare(duck, case)


@tries(60)
@given(case=st.one_of(windowed, sessions, ranked, best_keys), seed=st.integers(0, 2**32))
def test_parts_whose_cuts_change_in_mid_stream_give_the_rows_of_duckdb(
    duck: object, case: Case, seed: int
) -> None:
    program = bind(case.own, {"rows": CONTRACT}).program
    compare_rows(duck, case, run_in_parts(program, case.rows, random.Random(seed)))
