"""Queries without windows as input jobs and a rest: frames of rows instead of messages of one row each."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.sql.bind import bind
from speck.sql.cuts import cuts_of, form_of, input_of, rest_of, stepped, table_of, timed
from speck.sql.evaluate import evaluate
from speck.sql.types import Contract, column_of
from tests.sql.in_parts import INPUTS, Message, in_disorder, run_in_parts, with_cuts
from tests.sql.random_queries import CONTRACT, Case, stateless
from tests.support.properties import tries

PRICES = "SELECT k, a * 2 AS twice, 'x' AS kind FROM rows"
START = 1_700_000_000_000


def row(at: int, **values: object) -> Message:
    return "rows/in", json.dumps({"t": START + at, "b": 1, "k": "x", "a": 5, **values}).encode()


@tries(150)
@given(case=stateless, all_rows=st.booleans(), seed=st.integers(0, 2**32))
def test_results_without_windows_are_those_of_the_whole_query(case: Case, all_rows: bool, seed: int) -> None:
    text, dice = case.own.partition(" WHERE ")[0] if all_rows else case.own, random.Random(seed)
    whole = evaluate(bind(text, {"rows": CONTRACT}).program, in_disorder(case.rows, dice))
    assert run_in_parts(with_cuts(text), case.rows, dice) == sorted(whole.messages)


def frames_of(cut: str, *found: Message, text: str = PRICES, step_ms: int = 300) -> list[list[object]]:
    part = input_of(stepped(with_cuts(text), step_ms), cut)
    return [json.loads(each) for each in evaluate(part, found).messages]


def sizes(frames: list[list[object]]) -> list[int]:
    """The number of rows of each frame."""
    return [len(each) - 3 for each in frames]


def test_frames_of_a_query_without_windows() -> None:
    assert cuts_of(bind(PRICES, {"rows": CONTRACT}).program) == ()
    assert cuts_of(with_cuts(PRICES)) == ("columns", "rows")
    some = f"{PRICES} WHERE b > 0"
    assert cuts_of(with_cuts(some)) == ("filter", "rows")
    assert cuts_of(with_cuts("SELECT k, t FROM rows WHERE b > 0")) == ("filter",)
    assert frames_of("columns", row(0)) == [[3, 1, START, [5, "x"]]]
    assert frames_of("filter", row(0), text=some) == [[3, 2, START, [5, "x"]]]
    assert frames_of("rows", row(0), text=some) == [[3, 3, START, ["x", 10]]]
    times = frames_of("columns", row(0), row(3), text="SELECT t, k FROM rows")
    assert times == [[3, 1, START, [0, "x"]], [3, 1, START + 3, [0, "x"]]]


def test_frames_of_a_query_without_windows_end_with_a_step_of_the_event_time() -> None:
    found = [row(at) for at in (0, 10, 20, 249, 250, 260, 700)]
    for step, frames in ((250, [1, 4, 2]), (10, [1] * 7), (1000, [1, 6])):
        assert sizes(frames_of("columns", *found, step_ms=step)) == frames
    assert sizes(frames_of("columns", *(row(at) for at in range(70)))) == [1, 64, 5]


def test_another_step_changes_neither_the_rest_nor_the_topics() -> None:
    before, after = with_cuts(PRICES), stepped(with_cuts(PRICES), 50)
    assert form_of(before) == form_of(after) and rest_of(before, INPUTS) == rest_of(after, INPUTS)
    sends = input_of(after, "columns").sends
    assert sends is not None and sends.step_ms == 50
    assert input_of(table_of(rest_of(after, INPUTS), input_of(after, "columns")), "rows").sends == replace(
        sends, cut="rows"
    )


def test_a_row_that_fills_a_frame_alone_is_in_its_own() -> None:
    """A broker may refuse it as too large, with ``on_error: skip``: the others are not left out with it."""
    found = [row(at, k="x" * 40_000 if at == 3 else "x") for at in range(6)]
    frames = frames_of("columns", *found)
    assert sizes(frames) == [1, 2, 1, 2]
    assert [each[2] for each in frames] == [START, START + 2, START + 3, START + 5]
    last = [row(at, k="x" * 40_000 if at == 2 else "x") for at in range(3)]
    assert sizes(frames_of("columns", *last)) == [1, 1, 1]


def test_no_frame_is_without_a_row_where_nothing_waits_for_the_progress() -> None:
    found = [row(at, b=int(at == 3000)) for at in range(0, 5000, 100)]
    frames = frames_of("filter", *found, text=f"{PRICES} WHERE b > 0", step_ms=250)
    assert frames == [[3, 2, START + 3000, [5, "x"]]]


def test_each_row_of_a_frame_is_a_result_whatever_the_condition() -> None:
    """The number of a result in its frame is part of its stamp, and the frame may be read again later."""
    rests = [rest_of(with_cuts(f"{PRICES} WHERE {each}"), INPUTS) for each in ("b > 0", "b > 9")]
    assert rests[0] == rests[1] and rests[0].where is None
    forms = [form_of(with_cuts(f"{PRICES} WHERE {each}")) for each in ("b > 0", "b > 9", "f AND s = 'x'")]
    assert len({*forms, form_of(with_cuts(PRICES))}) == 1
    assert forms[0] != form_of(with_cuts(PRICES.replace("a * 2", "a * 3")))
    assert forms[0] != form_of(with_cuts(PRICES.replace("a * 2", "b * 2")))


def test_a_result_without_windows_may_be_null_and_may_have_constants_alone() -> None:
    for text in ("SELECT a, s FROM rows", "SELECT 5 AS five, NULLIF(a, a) AS none FROM rows WHERE b > 0"):
        program, found = with_cuts(text), [row(at, a=None) for at in range(3)]
        for cut in cuts_of(program):
            sent = evaluate(input_of(program, cut), found).messages
            frames = [("speck/sql/q/0/rows-a", each.encode()) for each in sent]
            assert evaluate(rest_of(program, INPUTS), frames).messages == evaluate(program, found).messages
    constant = with_cuts("SELECT 5 AS five FROM rows")
    assert [json.loads(each)[3:] for each in evaluate(input_of(constant, "columns"), [row(0)]).messages] == [
        [[]]
    ]


@pytest.mark.parametrize(
    "content",
    [b"[3,4,5,[1]]", b"[3,2,5,[1]]", b'[3,2,5,["x","x"]]', b"[3,2,5,5]", b"[2,0,5]", b'[1,5,5,1,"x"]'],
)
def test_what_is_no_frame_of_a_query_without_windows_is_left_out(content: bytes) -> None:
    found = evaluate(rest_of(with_cuts(PRICES), INPUTS), [("speck/sql/q/0/rows-a", content)])
    assert found.unparsable == [(0, "it is not a frame of this query")] and found.messages == []


def test_parts_of_a_query_without_windows_have_a_version_of_their_own() -> None:
    """A connector that does not know it would take the rest for a query with windows."""
    program = with_cuts(PRICES)
    parts = [rest_of(program, INPUTS), *(input_of(program, each) for each in cuts_of(program))]
    assert [json.loads(each.to_json())["version"] for each in parts] == [7] * 3
    assert json.loads(bind(PRICES, {"rows": CONTRACT}).program.to_json())["version"] == 1


def test_the_event_time_is_read_at_its_place_in_a_line() -> None:
    columns = tuple(column_of(*each) for each in (("a", "bigint"), ("t", "timestamp(ms) not null")))
    table = Contract("rows/in", "rows", "csv", columns, "t")
    program = timed(bind("SELECT a FROM rows", {"rows": table}).program, table)
    found = [("rows/in", f"{each},{START + each}".encode()) for each in (7, 300)]
    frames = [json.loads(each) for each in evaluate(input_of(program, "columns"), found).messages]
    assert frames == [[3, 1, START + 7, [7]], [3, 1, START + 300, [300]]]
    with pytest.raises(ValueError, match="table 'rows' has no event time"):
        timed(program, replace(table, event_time=None))
