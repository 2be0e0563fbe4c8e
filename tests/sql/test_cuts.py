"""Queries as input jobs and a rest: the rows of the whole query, whatever the cuts and their changes."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.sql.bind import bind
from speck.sql.cuts import cuts_of, form_of, input_of, rest_of
from speck.sql.evaluate import evaluate, evaluate_tables
from speck.sql.frames import MOST_WAITING, FrameWriter, reader
from speck.sql.program import ROWS_FRAME, TIMES_FRAME, Program, Sends
from speck.sql.types import PARTIALS, Column, Type
from tests.sql.in_parts import INPUTS, LAG, Input, Message, in_disorder, interleaved, run_in_parts, with_cuts
from tests.sql.random_queries import (
    CONTRACT,
    OTHER,
    Case,
    JoinCase,
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


def program_of(case: Case, where: str | None = None) -> Program:
    text = case.own if where is None else case.own.replace(" GROUP BY", f" WHERE {where} GROUP BY")
    return bind(text, {"rows": CONTRACT}).program


@tries(150)
@given(case=windowed, where=st.none() | conditions, seed=st.integers(0, 2**32))
def test_rows_are_those_of_the_whole_query(case: Case, where: object, seed: int) -> None:
    program = program_of(case, getattr(where, "own", None))
    dice = random.Random(seed)
    whole = evaluate(program, in_disorder(case.rows, dice))
    assert not whole.unparsable and not whole.late
    assert run_in_parts(program, case.rows, dice) == sorted(whole.messages)


@tries(80)
@given(case=st.one_of(ranked, best_keys), seed=st.integers(0, 2**32))
def test_ranks_are_those_of_the_whole_query(case: Case, seed: int) -> None:
    program, dice = bind(case.own, {"rows": CONTRACT}).program, random.Random(seed)
    whole = evaluate(program, in_disorder(case.rows, dice))
    assert run_in_parts(program, case.rows, dice) == sorted(whole.messages)


@tries(25)
@given(case=sessions, seed=st.integers(0, 2**32))
def test_sessions_are_those_of_the_whole_query(case: Case, seed: int) -> None:
    program, dice = bind(case.own, {"rows": CONTRACT}).program, random.Random(seed)
    whole = evaluate(program, in_disorder(case.rows, dice))
    assert not whole.late
    assert run_in_parts(program, case.rows, dice) == sorted(whole.messages)


@tries(40)
@given(case=joins, seed=st.integers(0, 2**32))
def test_joins_do_not_depend_on_cuts_and_on_the_order_of_inputs(case: JoinCase, seed: int) -> None:
    program, dice = bind(case.own, {"rows": CONTRACT, "others": OTHER}).program, random.Random(seed)
    whole = evaluate_tables(program, [messages(case.rows), messages(case.others, "others/in")])
    inputs = {f"{table}-{at}": number for number, table in enumerate(("rows", "others")) for at in "ab"}
    parts: dict[str, list[dict[str, object]]] = {name: [] for name in inputs}
    for table, found in enumerate((case.rows, case.others)):
        for each in found:
            parts[dice.choice([name for name in inputs if inputs[name] == table])].append(each)
    sent = {
        name: Input(program, in_disorder(found, dice), dice, inputs[name]).frames()
        for name, found in parts.items()
    }
    rest = rest_of(program, *([name for name in inputs if inputs[name] == table] for table in range(2)))
    assert Program.from_json(rest.to_json()) == rest
    outcome = evaluate(rest, interleaved(sent, dice))
    assert not outcome.unparsable and not outcome.late
    assert sorted(outcome.messages) == sorted(whole.messages)


@tries(60)
@given(case=st.one_of(windowed, stateless))
def test_parts_are_read_again_as_they_were_written(case: Case) -> None:
    program = with_cuts(case.own)
    parts = [rest_of(program, INPUTS), *(input_of(program, each) for each in cuts_of(program))]
    assert [Program.from_json(each.to_json()) for each in parts] == parts
    assert form_of(program) == form_of(Program.from_json(program.to_json()))


SESSIONS = (
    "SELECT window_start, k, COUNT(*) AS n, MIN(a) AS low, SUM(d) AS sum "
    "FROM SESSION(rows, t, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k"
)
COUNT = (
    "SELECT window_start, k, COUNT(*) AS n, MIN(a) AS low, SUM(d) AS sum "
    "FROM HOP(rows, t, INTERVAL '2' SECOND, INTERVAL '4' SECOND) WHERE b > 0 "
    "GROUP BY window_start, window_end, k"
)
START = 1_700_000_000_000


def row(at: int, **values: object) -> Message:
    return "rows/in", json.dumps({"t": START + at, "b": 1, "k": "x", "a": 5, "d": 0.5, **values}).encode()


def frames_of(cut: str, *found: Message, text: str = COUNT, end: bool = False) -> list[list[object]]:
    program = bind(text, {"rows": CONTRACT}).program
    return [json.loads(each) for each in evaluate(input_of(program, cut), found, end=end).messages]


def test_frames_of_each_cut() -> None:
    progress = START - LAG
    t, mark = START, START + 2000
    assert frames_of("columns", row(0)) == [[3, 1, progress, [LAG, 5, 1, 0.5, "x"]]]
    assert frames_of("filter", row(0)) == [[3, 2, progress, [LAG, 5, 0.5, "x"]]]
    computed = COUNT.replace("k,", "UPPER(k) AS k,", 1).replace("window_end, k", "window_end, UPPER(k)")
    assert frames_of("rows", row(0), text=computed) == [[3, 3, progress, [LAG, "X", 5, 0.5]]]
    partials = frames_of("partials", row(0), row(500, a=3, d=2), row(3000, b=0))
    assert partials == [[1, 0, START - 2000], [3, 4, t, [0, "x", 2, 3, 2.5]], [1, 0, mark]]


def test_the_totals_of_a_slide_travel_together() -> None:
    found = [row(each, k=f"{each:02}") for each in range(70)]
    sizes = [len(each) - 3 for each in frames_of("partials", *found, row(3000)) if each[1] == 4]
    assert sizes == [64, 6]
    long = [row(each, k=f"{each:02}{'x' * 3000}") for each in range(5)]
    assert [len(each) - 3 for each in frames_of("partials", *long, row(3000)) if each[1] == 4] == [2, 2, 1]


def sizes_of(frames: list[list[object]]) -> list[int]:
    """The number of rows of each frame, 0 for a progress alone."""
    return [len(each) - 3 if each[0] != 1 else int(each[1] != 0) for each in frames]


def test_the_rows_of_some_messages_travel_together_until_the_progress_moves() -> None:
    found = [row(each, a=each) for each in range(70)]
    assert sizes_of(frames_of("filter", *found)) == [1, 64, 5]  # the first message moves the progress
    frames = frames_of("filter", *found, row(1200), row(1300), row(1100))
    assert sizes_of(frames) == [1, 64, 6, 2]
    assert [each[2] for each in frames] == [START - LAG + each for each in (0, 64, 1200, 1300)]
    assert [each[1] for each in frames[1][3:] if isinstance(each, list)] == [*range(1, 65)]


def test_messages_count_for_a_frame_and_not_their_rows() -> None:
    """A change of the condition does not change where frames end."""
    found = [row(each, b=each % 5) for each in range(1, 101)]
    assert sizes_of(frames_of("columns", *found)) == [1, 64, 35]
    assert sizes_of(frames_of("filter", *found)) == [1, 51, 28]
    assert sizes_of(frames_of("filter", *(row(each, b=0) for each in range(128)))) == [0]
    long = [row(each, k="x" * 12_000) for each in range(8)]
    assert sizes_of(frames_of("columns", *long)) == [1, 3, 3, 1]


@tries(80)
@given(case=windowed, seed=st.integers(0, 2**32))
def test_frames_of_several_rows_are_those_of_one_row_each(case: Case, seed: int) -> None:
    """Late rows are dropped alike, since a row that moves the progress is the last one of its frame."""
    program, dice = program_of(case), random.Random(seed)
    found = messages(case.rows) * 3
    dice.shuffle(found)
    outcomes = []
    for rows in (1, MOST_WAITING):
        part = input_of(program, dice.choice(("columns", "filter")) if program.where else "columns")
        assert part.sends is not None
        sent = evaluate(replace(part, sends=replace(part.sends, rows=rows)), found).messages
        frames = [("speck/sql/q/0/rows-a", each.encode()) for each in sent]
        outcomes.append(evaluate(rest_of(program, ["rows-a"]), frames))
    assert outcomes[0].messages == outcomes[1].messages
    assert outcomes[0].late == outcomes[1].late


BEST = (
    "SELECT k, a, n FROM (SELECT window_start, window_end, k, a, COUNT(*) AS n, "
    "RANK() OVER (PARTITION BY window_start, window_end ORDER BY a DESC) AS place "
    "FROM HOP(rows, t, INTERVAL '2' SECOND, INTERVAL '4' SECOND) GROUP BY window_start, window_end, k, a) "
    "WHERE place = 1"
)


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        (BEST, [9]),
        (BEST.replace("place = 1", "place < 3 AND n > 0"), [9, 7]),
        (BEST.replace("place = 1", "2 >= place"), [9, 7]),
        (
            BEST.replace("PARTITION BY window_start, window_end", "PARTITION BY window_start, window_end, k"),
            [9, 7],
        ),
        (BEST.replace("window_end, k, a)", "window_end, k, a HAVING k = 'y')"), [7]),
        # Where other inputs may change the order, or nothing bounds the places, all are sent.
        (BEST.replace("ORDER BY a DESC", "ORDER BY COUNT(*) DESC"), [9, 7, 3]),
        (BEST.replace("window_end, k, a)", "window_end, k, a HAVING COUNT(*) > 0)"), [9, 7, 3]),
        (BEST.replace("place = 1", "place > 1"), [9, 7, 3]),
        (BEST.replace("place = 1", "place = 1 OR n > 5"), [9, 7, 3]),
        (BEST.replace("place = 1", "place <> n"), [9, 7, 3]),
        # A slide has other bounds than the windows.
        (BEST.replace("ORDER BY a DESC", "ORDER BY a % EPOCH_MS(window_start) DESC"), [9, 7, 3]),
        (
            BEST.replace("window_end ORDER", "window_end, (a + EPOCH_MS(window_start)) % 9 ORDER"),
            [9, 7, 3],
        ),
    ],
)
def test_of_ranks_by_keys_the_best_rows_are_sent(text: str, sent: list[int]) -> None:
    found = [row(0, a=3), row(10, a=9), row(15, a=9), row(20, a=7, k="y"), row(3000)]
    frames = [each for each in frames_of("partials", *found, text=text) if each[1] == 4]
    rows = [each for frame in frames for each in frame[3:] if isinstance(each, list)]
    assert sorted((each[2] for each in rows), reverse=True) == sent


def test_a_rank_by_the_start_of_a_window_is_that_of_the_whole_query() -> None:
    text = (
        "SELECT window_end, b, n FROM (SELECT window_start, window_end, b, COUNT(*) AS n, "
        "RANK() OVER (PARTITION BY window_start, window_end "
        "ORDER BY b % (EPOCH_MS(window_start) / 1000 % 10 + 1) DESC) AS place "
        "FROM HOP(rows, t, INTERVAL '1' SECOND, INTERVAL '4' SECOND) "
        "GROUP BY window_start, window_end, b) WHERE place = 1"
    )
    program = bind(text, {"rows": CONTRACT}).program
    found = [row(0, b=each) for each in range(1, 9)]
    whole = evaluate(program, found).messages
    for cut in cuts_of(program):
        frames = evaluate(input_of(program, cut), found).messages
        rest = rest_of(program, ["rows-a"])
        assert sorted(evaluate(rest, [("q/rows-a", each.encode()) for each in frames]).messages) == sorted(
            whole
        )


def test_the_form_of_a_part_with_the_best_rows_is_refused_by_a_connector_of_before() -> None:
    versions = [
        json.loads(input_of(bind(text, {"rows": CONTRACT}).program, PARTIALS).to_json())["version"]
        for text in (BEST, BEST.replace("ORDER BY a DESC", "ORDER BY COUNT(*) DESC"), SESSIONS)
    ]
    assert versions == [6, 6, 6]


def test_the_rows_of_a_session_are_sent_at_their_first_and_last_time() -> None:
    """Those of a fifth of the gap: 2 s."""
    found = [row(2000), row(2300, a=3), row(2900, a=1, d=2), row(3999, k="y"), row(10_000)]
    frames = [each for each in frames_of("partials", *found, text=SESSIONS) if each[1] == 4]
    at = START + 2000
    assert frames == [[3, 4, at, [0, "x", 3, 1, 3.0], [900, "x", 0, None, None], [1099, "y", 1, 5, 0.5]]]


def test_the_slides_of_sessions_are_bounded() -> None:
    steps = {}
    for gap in ("'500' MILLISECOND", "'3' SECOND", "'10' SECOND", "'30' MINUTE"):
        text = SESSIONS.replace("'10' SECOND", gap)
        sends = input_of(bind(text, {"rows": CONTRACT}).program, PARTIALS).sends
        assert sends is not None
        steps[gap] = sends.step_ms
    assert list(steps.values()) == [500, 1000, 2000, 10_000]


def test_a_row_is_late_for_a_session_by_the_one_that_it_would_have_alone() -> None:
    """Also if it fits one that is open.  The watermark moves in steps of a second, as on the engines."""
    early = [row(0), row(9000), row(18_000), row(21_900, k="y")]  # the watermark is at 20 s
    found = [*early, row(10_500), row(10_000), row(9900)]
    program = bind(SESSIONS, {"rows": CONTRACT}).program
    whole = evaluate(program, found)
    assert whole.late == 2 and [each[2] for each in whole.rows] == [4, 1]
    frames = [("q/rows-a", each.encode()) for each in evaluate(input_of(program, "columns"), found).messages]
    in_parts = evaluate(rest_of(program, ["rows-a"]), frames)
    assert in_parts.late == 2 and in_parts.messages == whole.messages


def test_frames_of_one_row_are_read_beside_those_of_several() -> None:
    """Those of a version of before, and its input jobs."""
    ends: list[tuple[str, list[object]]] = [(name, [1, 0, START + 4000]) for name in INPUTS]
    one: list[tuple[str, list[object]]]
    one = [("rows-a", [1, 4, START, START, key, 1, 1, 1.5]) for key in "xy"]
    both: tuple[str, list[object]]
    both = ("rows-a", [2, 4, START, [START, "x", 1, 1, 1.5], [START, "y", 1, 1, 1.5]])
    assert len(results(*one, *ends)) == 4
    assert results(*one, *ends) == results(both, *ends)
    former = bind(COUNT, {"rows": CONTRACT}).program
    sent = json.loads(input_of(former, PARTIALS).to_json())
    del sent["sends"]["rows"], sent["sends"]["frame"]
    frames = evaluate(Program.from_json(json.dumps(sent)), [row(0), row(3000)]).messages
    assert [1, 4] in [json.loads(each)[:2] for each in frames]
    sent = json.loads(input_of(former, "columns").to_json())
    assert sent["version"] == 6
    del sent["sends"]["rows"], sent["sends"]["frame"]
    frames = evaluate(Program.from_json(json.dumps(sent)), [row(each) for each in range(9)]).messages
    assert [json.loads(each)[:2] for each in frames] == [[1, 1]] * 9


def test_rows_that_the_condition_leaves_out_tell_the_progress_once_a_slide() -> None:
    found = [row(each, b=0) for each in range(0, 5000, 100)]
    assert [each[1] for each in frames_of("filter", *found)] == [0, 0, 0]
    assert [each[2] for each in frames_of("filter", *found)] == [START - 2000, START, START + 2000]


def results(*found: tuple[str, list[object]]) -> list[str]:
    program = bind(COUNT, {"rows": CONTRACT}).program
    messages = [(f"speck/sql/q/0/{name}", json.dumps(frame).encode()) for name, frame in found]
    return evaluate(rest_of(program, INPUTS), messages, end=False).messages


def test_a_window_is_closed_once_all_inputs_are_behind_it() -> None:
    a = [("rows-a", [1, 4, START, START, "x", 1, 1, 1.5]), ("rows-a", [1, 0, START + 60_000])]
    assert results(*a) == []
    assert results(*a, ("rows-b", [1, 0, START + 1999])) == []
    assert len(results(*a, ("rows-b", [1, 0, START + 2000]))) == 1
    assert len(results(*a, ("rows-b", [1, 0, START + 4000]))) == 2


def test_an_input_that_an_edit_left_out_gives_rows_and_holds_nothing_back() -> None:
    late = [("rows-c", [1, 4, START, START, "x", 1, 1, 1.5])]
    sent = [(name, [1, 0, START + 4000]) for name in INPUTS]
    assert len(results(*late, *sent)) == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", "it is not UTF-8"),
        (b"[1", "it is not JSON"),
        (b'{"a":1}', "it is not a frame of this query"),
        (b"[1,0]", "it is not a frame of this query"),
        (b"[4,0,5]", "the frame has version 4 (expected at most 3)"),
        (b"[2,0,5]", "it is not a frame of this query"),
        (b"[3,0,5]", "it is not a frame of this query"),
        (b'[3,4,5,5,"x",1,1,1.5]', "it is not a frame of this query"),
        (b'[3,4,5,[9223372036854775807,"x",1,1,1.5]]', "it is not a frame of this query"),
        (b'[3,4,5,["x","x",1,1,1.5]]', "it is not a frame of this query"),
        (b'[3,4,5,[null,"x",1,1,1.5]]', "it is not a frame of this query"),
        (b"[2,4,5,6]", "it is not a frame of this query"),
        (b'[2,4,5,[5,"x",1,1,1.5],[5]]', "it is not a frame of this query"),
        (b"[1,0,-5]", "it is not a frame of this query"),
        (b"[1,0,5,6]", "it is not a frame of this query"),
        (b"[1,7,5,6]", "it is not a frame of this query"),
        (b'[1,4,5,5,"x",1,1]', "it is not a frame of this query"),
        (b'[1,4,5,5,"x",1,"y",1.5]', "it is not a frame of this query"),
        (b'[1,4,5,null,"x",1,1,1.5]', "it is not a frame of this query"),
    ],
)
def test_what_is_no_frame_is_left_out_with_the_reason(content: bytes, reason: str) -> None:
    program = rest_of(bind(COUNT, {"rows": CONTRACT}).program, INPUTS)
    assert evaluate(program, [("speck/sql/q/0/rows-a", content)]).unparsable == [(0, reason)]


def test_a_sum_that_leaves_the_range_of_doubles_does_so_in_parts_too() -> None:
    text = COUNT.replace("WHERE b > 0 ", "")
    program = bind(text, {"rows": CONTRACT}).program
    found = [row(0, d=1.7e308), row(100, d=1.7e308), row(200, d=-1.7e308)]
    sent = evaluate(input_of(program, PARTIALS), found).messages
    parts = [("speck/sql/q/0/rows-a", each.encode()) for each in sent]
    assert evaluate(rest_of(program, INPUTS), parts).messages == evaluate(program, found).messages


def test_the_form_depends_on_what_frames_have() -> None:
    def form(text: str) -> str:
        return form_of(bind(text, {"rows": CONTRACT}).program)

    assert form(COUNT) == form(COUNT.replace("b > 0", "b > 1"))
    assert form(COUNT) != form(COUNT.replace("b > 0", "b > 0 AND s IS NULL"))
    assert form(COUNT) != form(COUNT.replace("MIN(a)", "MIN(d)"))
    assert form(COUNT) != form(COUNT.replace("MIN(a)", "MIN(a + 1)"))
    # Of another slide are the totals that wait, if the new form begins without its state.
    assert form(COUNT) != form(COUNT.replace("'2'", "'1'"))
    assert form(COUNT) == form(COUNT.replace("'4'", "'8'"))
    assert form(SESSIONS) != form(SESSIONS.replace("'10'", "'5'"))
    tumble = SESSIONS.replace("SESSION(rows, t, INTERVAL '10'", "TUMBLE(rows, t, INTERVAL '2'")
    assert form(SESSIONS) != form(tumble)


# --- joins by time, whose rows come at once


BY_TIME = (
    "SELECT r.a AS a, o.x AS x FROM rows AS r JOIN others AS o ON r.k = o.k "
    "AND o.t BETWEEN r.t - INTERVAL '1' SECOND AND r.t + INTERVAL '2' SECOND"
)


def joined(*found: tuple[str, list[object]]) -> list[str]:
    """The results of frames ``[cut, progress, value...]`` of the inputs."""
    program = bind(BY_TIME, {"rows": CONTRACT, "others": OTHER}).program
    frames = [(f"speck/sql/q/0/{name}", json.dumps([1, *frame]).encode()) for name, frame in found]
    return evaluate(rest_of(program, ["rows-a"], ["others-a"]), frames, end=False).messages


def left(at: int, progress: int) -> tuple[str, list[object]]:
    return "rows-a", [1, START + progress, START + at, at, "x"]


def right(at: int, progress: int) -> tuple[str, list[object]]:
    return "others-a", [1, START + progress, START + at, "x", at]


@pytest.mark.parametrize(("later", "found"), [(-1001, 0), (-1000, 1), (2000, 1), (2001, 0)])
def test_rows_are_joined_up_to_the_bounds_of_the_time(later: int, found: int) -> None:
    frames = [left(5000, 0), right(5000 + later, 0)]
    assert len(joined(*frames)) == len(joined(*reversed(frames))) == found


def test_a_row_is_dropped_once_no_other_one_can_come() -> None:
    behind = [left(9000, 9000), right(9000, 9000)]
    assert joined(left(5000, 0), *behind, right(7000, 9000)) == joined(*behind)
    assert len(joined(left(5000, 0), right(6000, 6000), right(7000, 7000))) == 2


def test_a_late_row_is_not_joined_with_those_that_are_kept() -> None:
    in_time = [left(9100, 9100), right(9100, 9100)]
    assert joined(*in_time, right(9099, 9100)) == joined(*in_time)
    assert len(joined(*in_time, right(9100, 9100))) == 2
    # The watermark moves in steps of 300 ms since 1970.
    between = [left(9399, 9399), right(9399, 9399)]
    assert joined(*between, right(9099, 9399)) == joined(*between)
    assert len(joined(*between, right(9100, 9399))) == 2


def test_frames_of_a_third_table_are_none_of_the_query() -> None:
    program = bind(BY_TIME, {"rows": CONTRACT, "others": OTHER}).program
    found = evaluate(rest_of(program, ["rows-a"], ["others-a"]), [("speck/sql/q/0/more-a", b"[1,0,5]")])
    assert found.unparsable == [(0, "it is not a frame of this query")]
    left_out = evaluate(rest_of(program, ["rows-a"], ["others-a"]), [("speck/sql/q/0/rows-c", b"[1,0,5]")])
    assert not left_out.unparsable


# --- differences of times


@tries(60)
@given(case=windowed, seed=st.integers(0, 2**32))
def test_frames_with_differences_have_the_rows_of_those_without(case: Case, seed: int) -> None:
    """Those of a version of before, whose input jobs a rest may still read."""
    program, dice = program_of(case), random.Random(seed)
    found, cut = in_disorder(case.rows * 3, dice), dice.choice(cuts_of(program))
    part = input_of(program, cut)
    assert part.sends is not None
    read = reader(rest_of(program, ["rows-a"]))
    rows = []
    for version in (ROWS_FRAME, TIMES_FRAME):
        sends = replace(part.sends, frame=version, rows=8)
        former = replace(part, sends=sends)
        assert Program.from_json(former.to_json()) == former
        frames = [read("q/rows-a", each.encode()) for each in evaluate(former, found).messages]
        rows.append([(each.progress, each.rows) for each in frames])
    assert rows[0] == rows[1]


def test_a_rest_of_before_reads_all_frames_and_one_of_now_is_refused_by_its_connector() -> None:
    now = rest_of(bind(COUNT, {"rows": CONTRACT}).program, INPUTS)
    assert now.takes is not None
    former = replace(now, takes=replace(now.takes, frame=ROWS_FRAME))
    versions = [json.loads(each.to_json())["version"] for each in (former, now)]
    assert versions == [2, 6] and Program.from_json(former.to_json()) == former
    sent = [("rows-a", [1, 4, START, START, "x", 1, 1, 1.5]), ("rows-b", [3, 4, START, [7, "x", 2, 1, 1.5]])]
    found = [(f"q/{name}", json.dumps(each).encode()) for name, each in sent]
    outcomes = [evaluate(each, found) for each in (former, now)]
    assert outcomes[0] == outcomes[1] and outcomes[0].rows[-1][2] == 3


def test_times_that_are_missing_do_not_count() -> None:
    rows = [[START, None], [START + 5, START - 9], [START + 7, None], [START + 4, START + 1]]
    columns = (Column("t", Type.TIMESTAMP), Column("f", Type.TIMESTAMP))
    writer = FrameWriter(Sends("columns", 0, 1000, 32, TIMES_FRAME), columns)
    assert writer.frame(rows, START) == f"[3,1,{START},[0,null],[5,-9],[2,null],[-3,10]]"
