"""The evaluation in Java, which the connectors have, against the reference in Python."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binders.common.java import java
from speck.sql.bind import bind
from speck.sql.cuts import cuts_by_table, cuts_of, input_of, rest_of
from speck.sql.evaluate import evaluate
from speck.sql.program import Program
from speck.sql.types import PARTIALS, Contract, column_of
from testbed import ROOT
from tests.sql.by_hand import messages as messages_by_hand
from tests.sql.by_hand import queries
from tests.sql.in_parts import Left, Message, in_disorder, run_in_parts, with_cuts
from tests.sql.random_queries import (
    CONTRACT,
    OTHER,
    Case,
    JoinCase,
    Text,
    best_keys,
    conditions,
    joins,
    messages,
    ranked,
    sessions,
    stateless,
    windowed,
)
from tests.support.properties import tries

CLASSES = ROOT / "jars_and_apps" / "connectors" / "sql-core" / "target"

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (CLASSES / "test-classes").is_dir(), reason="the connectors are not built here (make jars)"
    ),
]


@dataclass
class Java:
    process: subprocess.Popen[str]

    def run(self, program: Program, found: list[Message]) -> dict[str, Any]:
        return self._answer({"program": program.to_json(), "messages": encoded(found)})

    def run_input(
        self, part: Program, found: list[Message], left: Left, last: bool
    ) -> tuple[list[str], Left]:
        """The frames of an input job, and what it leaves (:data:`tests.sql.in_parts.Run`)."""
        order = {"program": part.to_json(), "messages": encoded(found), "slides": left, "open": not last}
        got = self._answer(order)
        assert not got["unparsable"]
        return got["messages"], got["slides"]

    def run_rows(
        self, part: Program, found: list[Message], progress: int | None = None, *, last: bool = False
    ) -> dict[str, Any]:
        """An input job without windows, from a progress that another one has left."""
        order = {"program": part.to_json(), "messages": encoded(found), "waits": not last}
        return self._answer(order | ({} if progress is None else {"progress": progress}))

    def _answer(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(order)}\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))


def encoded(found: list[Message]) -> list[list[str]]:
    return [[topic, base64.b64encode(content).decode()] for topic, content in found]


@pytest.fixture(name="runner", scope="module")
def runner_fixture() -> Iterator[Java]:
    with started("-Dspeck.sql.aheadSeconds=0") as runner:  # the reference has no clock
        yield runner


@contextmanager
def started(*more: str) -> Iterator[Java]:
    path = f"{CLASSES / 'classes'}:{CLASSES / 'test-classes'}"
    # With a locale whose digits are not 0 to 9: no value is written in those.
    options = ["-XX:TieredStopAtLevel=1", "-Duser.language=fa", "-Duser.country=IR", *more]
    command = [java("Spark"), *options, "-cp", path, "io.speck.sql.ProgramRunner"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        yield Java(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def compare(runner: Java, program: Program, found: list[tuple[str, bytes]]) -> None:
    expected = evaluate(program, found)
    got = runner.run(program, found)
    assert got["unparsable"] == [list(each) for each in expected.unparsable]
    assert sorted(got["messages"]) == sorted(expected.messages)


def test_a_row_of_the_far_future_does_not_fit() -> None:
    """The watermark would follow it, and all rows after it would be late.  Old rows can be read again."""
    query = (
        "SELECT COUNT(*) AS n FROM TUMBLE(rows, t, INTERVAL '10' SECOND) GROUP BY window_start, window_end"
    )
    program = bind(query, {"rows": CONTRACT}).program
    day, now = 86_400_000, round(time.time() * 1000)
    times = [now - 3650 * day, now - 1000, now + day - 60_000, now + day + 60_000, now + 2 * day, 4 * 10**12]
    rows = [("rows/in", json.dumps({"t": each}).encode()) for each in times]
    plain = bind("SELECT t FROM rows", {"rows": CONTRACT}).program
    parts = [input_of(program, "columns"), input_of(program, PARTIALS)]
    parts.append(input_of(with_cuts("SELECT t FROM rows"), "columns"))
    with started() as runner:
        for each in (program, *parts):
            refused = runner.run(each, rows)["unparsable"]
            assert [index for index, _ in refused] == [3, 4, 5]
            assert "is more than 86400 s ahead of the clock of this machine" in refused[0][1]
        assert runner.run(plain, rows)["unparsable"] == []
        results = [json.loads(each)["n"] for each in runner.run(program, rows)["messages"]]
        assert results == [1, 1, 1]


@tries(150)
@given(case=stateless)
def test_rows_are_those_of_the_reference(runner: Java, case: Case) -> None:
    compare(runner, bind(case.own, {"rows": CONTRACT}).program, messages(case.rows))


@tries(80)
@given(case=windowed)
def test_windows_are_those_of_the_reference(runner: Java, case: Case) -> None:
    compare(runner, bind(case.own, {"rows": CONTRACT}, format="csv").program, messages(case.rows))


@tries(80)
@given(case=st.one_of(ranked, best_keys))
def test_ranks_are_those_of_the_reference(runner: Java, case: Case) -> None:
    program = bind(case.own, {"rows": CONTRACT}).program
    compare(runner, program, messages(case.rows))
    compare(runner, input_of(program, PARTIALS), messages(case.rows))


@tries(25)
@given(case=sessions)
def test_sessions_are_those_of_the_reference(runner: Java, case: Case) -> None:
    program = bind(case.own, {"rows": CONTRACT}).program
    compare(runner, program, messages(case.rows))
    compare(runner, input_of(program, PARTIALS), messages(case.rows))


@tries(40)
@given(case=joins)
def test_joins_are_those_of_the_reference(runner: Java, case: JoinCase) -> None:
    program = bind(case.own, {"rows": CONTRACT, "others": OTHER}).program
    found = (messages(case.rows), messages(case.others, "others/in"))
    frames, inputs = [], []
    for table, name in enumerate(("rows", "others")):
        inputs.append([f"{name}-{cut}" for cut in cuts_by_table(program)[table]])
        for cut in cuts_by_table(program)[table]:
            sent = evaluate(input_of(program, cut, table), found[table]).messages
            frames += [(f"speck/sql/q/0/{name}-{cut}", each.encode()) for each in sent]
    compare(runner, rest_of(program, *inputs), frames)


@tries(60)
@given(case=windowed, where=st.none() | conditions)
def test_parts_are_those_of_the_reference(runner: Java, case: Case, where: Text | None) -> None:
    text = case.own if where is None else case.own.replace(" GROUP BY", f" WHERE {where.own} GROUP BY")
    program = bind(text, {"rows": CONTRACT}).program
    compare_parts(runner, program, messages(case.rows))


def compare_parts(runner: Java, program: Program, found: list[tuple[str, bytes]]) -> None:
    """Compare an input job at each cut, and a rest that takes the frames of all."""
    frames = list[tuple[str, bytes]]()
    for cut in cuts_of(program):
        part = input_of(program, cut)
        compare(runner, part, found)
        sent = evaluate(part, found).messages
        frames += [(f"speck/sql/q/0/{cut}", each.encode()) for each in sent]
    compare(runner, rest_of(program, cuts_of(program)), frames)


@tries(60)
@given(case=stateless, all_rows=st.booleans())
def test_parts_of_a_query_without_windows_are_those_of_the_reference(
    runner: Java, case: Case, all_rows: bool
) -> None:
    program = with_cuts(case.own.partition(" WHERE ")[0] if all_rows else case.own)
    compare_parts(runner, program, messages(case.rows))


@tries(80)
@given(case=st.one_of(windowed, ranked, best_keys, sessions, stateless), seed=st.integers(0, 2**32))
def test_input_jobs_whose_cuts_change_in_mid_stream_lose_and_double_nothing(
    runner: Java, case: Case, seed: int
) -> None:
    program, dice = with_cuts(case.own), random.Random(seed)
    whole = evaluate(program, in_disorder(case.rows, dice))
    assert run_in_parts(program, case.rows, dice, runner.run_input) == sorted(whole.messages)


@tries(60)
@given(case=st.one_of(windowed, stateless), seed=st.integers(0, 2**32))
def test_frames_end_at_the_same_messages_when_those_of_rows_that_wait_are_read_again(
    runner: Java, case: Case, seed: int
) -> None:
    program, dice = with_cuts(case.own), random.Random(seed)
    part = input_of(program, dice.choice([each for each in cuts_of(program) if each != PARTIALS]))
    found = in_disorder(case.rows * 3, dice)
    frames, begin, progress = [], 0, None
    for end in sorted(dice.sample(range(len(found)), min(3, len(found)))):
        if end > begin:
            got = runner.run_rows(part, found[begin:end], progress)
            frames, begin, progress = [*frames, *got["messages"]], begin + got["read"], got["progress"]
    frames += runner.run_rows(part, found[begin:], progress, last=True)["messages"]
    assert frames == runner.run(part, found)["messages"]


@pytest.mark.parametrize("text", [*queries()])
def test_queries_by_hand_are_those_of_the_reference(runner: Java, text: str) -> None:
    found = messages_by_hand()
    compare(runner, bind(text, {"rows": CONTRACT}).program, found)
    compare_parts(runner, with_cuts(text), found)


_frames = st.lists(
    st.one_of(st.integers(-1, 5), st.sampled_from((0.5, 1e300, "x", "Infinity", None, True, [])))
    | st.integers(-(2**64), 2**64),
    max_size=8,
).map(lambda each: json.dumps(each).encode())


_rows = st.tuples(
    st.integers(0, 10) | st.sampled_from((None, "x", 0.5)),
    st.sampled_from(("x", None, 5)),
    st.integers(0, 2),
    st.none() | st.just(1.5),
)
_OUT_OF_RANGE = b'[3,4,5,[9223372036854775807,"x",1,1.5]]'
_several = st.tuples(st.integers(1, 4), st.integers(0, 5), st.integers(0, 9), _rows, _rows).map(
    lambda each: json.dumps(each).encode()
)


@tries(200)
@given(found=st.lists(_frames | _several | st.just(_OUT_OF_RANGE) | st.binary(max_size=6), max_size=8))
def test_damaged_frames_are_refused_alike(runner: Java, found: list[bytes]) -> None:
    text = (
        "SELECT k, COUNT(*) AS n, SUM(d) AS sum FROM TUMBLE(rows, t, INTERVAL '10' SECOND) "
        "GROUP BY window_start, window_end, k"
    )
    for each in (text, "SELECT k, d, 'x' AS kind FROM rows"):
        compare(runner, rest_of(with_cuts(each), ["a"]), [("speck/sql/q/0/a", content) for content in found])


COLUMNS = {
    "b": "boolean",
    "i": "int",
    "l": "bigint",
    "d": "double",
    "s": "string",
    "t": "timestamp",
    "m": "timestamp(ms)",
    "n": "timestamp(s) not null",
}
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.floats().map(repr),
    st.text(max_size=5),
    st.integers(-(10**13), 10**13).map(str),
    st.sampled_from(
        (
            "2026-01-31T12:00:00Z",
            "2026-02-30",
            "0001-01-01",
            "9999-12-31T23:59:59.999+01:00",
            "12:00",
            "1e400",
        )
    ),
    st.lists(st.integers(), max_size=1),
    st.dictionaries(st.text(max_size=1), st.booleans(), max_size=1),
)
_json = st.fixed_dictionaries({}, optional=dict.fromkeys(COLUMNS, _scalars)).map(
    lambda each: json.dumps({"n": 5, **each}).encode()
)
_csv = st.lists(_scalars.map(str) | st.text('a",\n\r \u00e4', max_size=5), min_size=6, max_size=9).map(
    lambda each: ",".join([*each, "7"]).encode()
)
_damaged = st.one_of(
    st.binary(max_size=8),
    st.text('{}[]",:0123456789.eE+-truefalsn\\u ', max_size=12).map(
        lambda each: f'{{"n":5,"d":{each}}}'.encode()
    ),
)
_SELECT = (
    "SELECT *, CAST(d AS string) AS text, TRY_CAST(s AS double) AS number, CAST(t AS string) AS time "
    "FROM rows"
)


@tries(300)
@given(found=st.lists(_json | _csv | _damaged, min_size=1, max_size=8))
@pytest.mark.parametrize("format", ["json", "csv"])
def test_messages_are_read_and_written_alike(runner: Java, format: str, found: list[bytes]) -> None:
    columns = tuple(column_of(name, type) for name, type in COLUMNS.items())
    table = Contract("rows/in", "rows", format, columns)
    program = bind(_SELECT, {"rows": table}, format=format).program
    compare(runner, program, [("rows/in", content) for content in found])


def test_values_at_the_ends_of_their_ranges_are_those_of_the_reference(runner: Java) -> None:
    columns = tuple(column_of(name, type) for name, type in COLUMNS.items())
    text = (
        "SELECT CAST(d AS string) AS text, ROUND(d, 15) AS rounded, SUBSTRING(s, l) AS rest, "
        "SUBSTRING(s, l, 2) AS two, TRY_CAST(s AS boolean) AS truth, CAST(n AS string) AS time FROM rows"
    )
    program = bind(text, {"rows": Contract("rows/in", "rows", "json", columns)}).program
    numbers = (5e-324, 2.5e-323, -2.2250738585072014e-308, 123456789012345.6, -0.0, 1.7976931348623157e308)
    starts = (-(2**63), 2**63 - 1, 0, -1)
    found = [
        ("rows/in", json.dumps({"n": n, "d": d, "l": start, "s": s}).encode())
        for d in numbers
        for start in starts
        for n, s in ((0, "fal\u017fe"), (253_402_300_799, "TRUE"))
    ]
    compare(runner, program, found)


def test_frames_end_at_the_same_messages_if_they_are_decoded_beforehand(runner: Java) -> None:
    """As with ``on_error: skip``, which a user may set because the job failed in the midst of a batch."""
    text = (
        "SELECT k, COUNT(*) AS n FROM TUMBLE(rows, t, INTERVAL '1' DAY) GROUP BY window_start, window_end, k"
    )
    program = bind(text, {"rows": CONTRACT}).program
    found = [
        (
            "rows/in",
            json.dumps(
                {"t": at, "b": 1, "k": "x", "s": "y" * (50_000 if at in (7, 8, 30) else 5000)}
            ).encode(),
        )
        for at in range(40)
    ]
    compare(runner, input_of(program, "columns"), found)
    compare(runner, input_of(with_cuts("SELECT k, s FROM rows"), "columns"), found)
