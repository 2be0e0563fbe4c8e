"""Edits of queries: what becomes of their state, and of the jobs that read and write the same topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from speck.coordinator.planning.query_edits import query_notes, refused_queries
from speck.core.job import Job
from speck.core.plan import Deployed
from speck.sql import joins
from speck.sql.bind import bind
from speck.sql.cuts import form_of, input_of, rest_of, timed
from speck.sql.program import Program
from speck.sql.signature import state_faults
from speck.sql.types import Contract, Type, column_of
from testbed.benches.examples import job

COLUMNS = {
    "time": "timestamp(ms) not null",
    "k": "string",
    "v": "bigint",
    "w": "bigint",
    "f": "boolean",
    "received": "timestamp(ms) not null",
}
TABLES = {
    "t": Contract("in", "t", "json", tuple(column_of(*each) for each in COLUMNS.items()), "time", 1000),
    "u": Contract(
        "other",
        "u",
        "json",
        (column_of("at", "timestamp not null"), column_of("k", "string"), column_of("x", "bigint")),
        "at",
        1000,
    ),
    "counts": Contract(
        "counts", "counts", "json", (column_of("n", "bigint not null"), column_of("k", "string"))
    ),
}
COUNT = (
    "SELECT k, COUNT(*) AS n FROM TUMBLE(t, time, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k"
)


def sql_job(name: str, text: str, source: str = "in", sink: str = "counts", **fields: object) -> Job:
    program = bind(text, TABLES).program
    return job(name, source, sink, query={"program": program.to_json()}, **fields)


def faults(before: str, after: str, **fields: object) -> list[str]:
    stored = {"a": Deployed(sql_job("a", before))}
    found = refused_queries({"a": sql_job("a", after, **fields)}, stored, [])
    assert all(each.job == "a" for each in found)
    return [each.message for each in found]


def edited(old: str, new: str) -> str:
    assert old in COUNT
    return COUNT.replace(old, new)


KEPT: Mapping[str, str] = {
    "a comment": f"-- counts\n{COUNT}",
    "a condition": edited("GROUP BY", "WHERE v > 3 GROUP BY"),
    "HAVING": f"{COUNT} HAVING COUNT(*) > 1",
    "a column over the same aggregates": edited("AS n", "AS n, COUNT(*) * 2 AS twice"),
    "another column out": edited("SELECT k", "SELECT window_end, k"),
}
REFUSED: Mapping[str, tuple[str, str]] = {
    "the length of the windows": (edited("'10' SECOND", "'20' SECOND"), "from 10 s by 10 s to 20 s by 20 s"),
    "a key": (
        edited("window_end, k", "window_end, k, w"),
        "the keys change from (k string) to (k string, w bigint)",
    ),
    "the expression of a key": (
        COUNT.replace("k,", "UPPER(k) AS k,", 1).replace("window_end, k", "window_end, UPPER(k)"),
        "the keys change",
    ),
    "another aggregate": (edited("COUNT(*)", "SUM(v)"), "from (COUNT(1) bigint) to (SUM(v) bigint)"),
    "the argument of an aggregate": (edited("COUNT(*)", "COUNT(v)"), "to (COUNT(v) bigint)"),
    "one more aggregate": (edited("AS n", "AS n, MAX(v) AS most"), "the totals change"),
    "a rank": (
        edited("AS n", "AS n, RANK() OVER (PARTITION BY window_start, window_end ORDER BY k) AS place"),
        "the query gets its rank",
    ),
    "no windows": ("SELECT k, v AS n FROM t", "the query loses its windows"),
}


@pytest.mark.parametrize("edit", KEPT)
def test_an_edit_that_the_state_outlives_is_accepted(edit: str) -> None:
    assert faults(COUNT, KEPT[edit]) == []


@pytest.mark.parametrize("edit", REFUSED)
def test_an_edit_that_the_state_does_not_outlive_is_refused(edit: str) -> None:
    after, part = REFUSED[edit]
    (message,) = faults(COUNT, after)
    assert part in message and "'upgrade: stateless'" in message


@pytest.mark.parametrize("edit", REFUSED)
def test_the_state_may_be_given_up(edit: str) -> None:
    assert faults(COUNT, REFUSED[edit][0], upgrade="stateless") == []


def keyed(key: str) -> str:
    """The query with another key."""
    return COUNT.replace("k, ", "", 1).replace("window_end, k", f"window_end, {key}")


def changed(before: str, after: str, **tables: Contract) -> list[str]:
    """The changes that the state does not outlive; the new form is over other tables."""
    old, new = bind(before, TABLES).program, bind(after, TABLES | tables).program
    whole = [*state_faults(old, new)]
    rests = [rest_of(each, ["t-a"], ["u-a"]) for each in (old, new)]
    assert [*state_faults(*rests)] == whole
    assert [*state_faults(old, Program.from_json(old.to_json()))] == []
    return whole


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "k LIKE 'a!_%'",
            "k LIKE 'a!_%' ESCAPE '!'",
            "(k LIKE 'a!_%' boolean) to (k LIKE 'a!_%' ESCAPE '!' boolean)",
        ),
        ("f IS NOT NULL", "(NOT f) IS NULL", "(f IS NOT NULL boolean) to ((NOT f) IS NULL boolean)"),
        (
            "(NOT f) = (v > 1)",
            "NOT (f = (v > 1))",
            "((NOT f) = (v > 1) boolean) to (NOT (f = (v > 1)) boolean)",
        ),
    ],
)
def test_expressions_that_differ_are_told_apart(before: str, after: str, message: str) -> None:
    assert changed(keyed(before), keyed(after)) == [f"the keys change from {message}"]


def test_expressions_with_one_text_are_told_apart_by_the_types_of_their_columns() -> None:
    columns = tuple(
        replace(each, type=Type.DOUBLE) if each.name == "v" else each for each in TABLES["t"].columns
    )
    doubles = replace(TABLES["t"], columns=columns)
    text = keyed("CAST(v AS string)")
    assert changed(text, text, t=doubles) == [
        "the keys change from (STRING(v bigint) string) to (STRING(v double) string)"
    ]


def test_another_event_time_is_refused() -> None:
    """Rows of one window would be in two: those before the change, and those after it."""
    late = replace(TABLES["t"], event_time="received")
    after = COUNT.replace("t, time", "t, received")
    assert changed(COUNT, after, t=late) == ["the event time changes from time to received"]
    after = IN_WINDOWS.replace("t, time", "t, received")
    assert changed(IN_WINDOWS, after, t=late) == ["the event time of table 't' changes from time to received"]


def test_another_distinct_of_a_join_is_refused() -> None:
    distinct = IN_WINDOWS.replace("SELECT", "SELECT DISTINCT a.window_start, a.window_end,")
    plain = distinct.replace("DISTINCT ", "")
    assert changed(plain, distinct) == ["the join gets its DISTINCT"]
    assert changed(distinct, plain) == ["the join loses its DISTINCT"]


def test_windows_do_not_move_between_engines() -> None:
    (message,) = faults(COUNT, COUNT, engine="spark", spe_address="sc://edge:15002")
    assert "cannot move between engines" in message


def test_a_query_without_windows_may_be_any_other() -> None:
    assert faults("SELECT k, v AS n FROM t", "SELECT k, w AS n FROM t WHERE v > 1", engine="spark") == []


def test_code_does_not_continue_the_state_of_a_query() -> None:
    stored = {"a": Deployed(sql_job("a", COUNT))}
    (fault,) = refused_queries({"a": job("a", "in", "counts")}, stored, [])
    assert "the job becomes code" in fault.message


def test_open_windows_with_rows_of_two_conditions_are_noted() -> None:
    stored = {"a": Deployed(sql_job("a", COUNT))}
    assert query_notes({"a": sql_job("a", KEPT["a condition"])}, stored).keys() == {"a"}
    assert query_notes({"a": sql_job("a", KEPT["HAVING"])}, stored) == {}
    like = edited("GROUP BY", "WHERE k LIKE 'a!_%' GROUP BY")
    stored = {"a": Deployed(sql_job("a", like))}
    assert query_notes({"a": sql_job("a", like.replace("%'", "%' ESCAPE '!'"))}, stored).keys() == {"a"}


BEST = (
    "SELECT k, v, n FROM (SELECT window_start, window_end, k, v, COUNT(*) AS n, "
    "RANK() OVER (PARTITION BY window_start, window_end ORDER BY v DESC) AS place "
    "FROM TUMBLE(t, time, INTERVAL '10' SECOND) GROUP BY window_start, window_end, k, v) WHERE place <= 2"
)


def input_job(text: str) -> Job:
    return job(
        "a", "in", "speck/x", query={"program": input_of(bind(text, TABLES).program, "partials").to_json()}
    )


@pytest.mark.parametrize(
    ("before", "after", "noted"),
    [
        (BEST, BEST, False),
        (BEST, BEST.replace("place <= 2", "place <= 3"), True),
        (BEST, BEST.replace("ORDER BY v DESC", "ORDER BY COUNT(*)"), True),
        (BEST.replace("ORDER BY v DESC", "ORDER BY COUNT(*)"), BEST, False),
    ],
)
def test_slides_of_which_the_best_rows_were_sent_are_noted_where_others_are_best(
    before: str, after: str, noted: bool
) -> None:
    """The state is the same: all rows of the slides that are open."""
    stored = {"a": Deployed(input_job(before))}
    assert refused_queries({"a": input_job(after)}, stored, []) == []
    assert bool(query_notes({"a": input_job(after)}, stored)) == noted


READER = sql_job("b", "SELECT n FROM counts WHERE k = 'x'", "counts", "out")
RETYPED = "SELECT k, CAST(v AS string) AS n FROM t"


def test_a_reader_that_does_not_understand_its_writer_is_named_with_it() -> None:
    writer = sql_job("a", RETYPED)
    (fault,) = refused_queries({"a": writer, "b": READER}, {}, [])
    assert fault.message == (
        "job 'a' writes 'counts', which job 'b' reads: column 'n' is string (expected bigint not null)"
    )


def test_readers_and_writers_of_other_compositions_count() -> None:
    writer = sql_job("a", RETYPED)
    (of_writer,) = refused_queries({"a": writer}, {}, [READER])
    (of_reader,) = refused_queries({"b": READER}, {}, [writer])
    assert (of_writer.job, of_reader.job) == ("a", "b")
    assert refused_queries({"c": sql_job("c", COUNT, sink="elsewhere")}, {}, [writer, READER]) == []


def test_a_column_that_becomes_nullable_or_goes_is_refused_and_a_further_one_is_not() -> None:
    nullable = sql_job("a", "SELECT k, v AS n FROM t")
    (fault,) = refused_queries({"a": nullable, "b": READER}, {}, [])
    assert "column 'n' is bigint (expected bigint not null)" in fault.message
    (fault,) = refused_queries({"a": sql_job("a", "SELECT k FROM t"), "b": READER}, {}, [])
    assert "column 'n' is missing" in fault.message
    further = sql_job("a", edited("AS n", "AS n, window_end AS at"))
    assert refused_queries({"a": further, "b": READER}, {}, []) == []


def reads(format: str, *columns: str) -> Job:
    """Job ``b`` reads nullable columns of the topic of job ``a``."""
    found = tuple(column_of(each, "bigint") for each in dict.fromkeys(("v", *columns)))
    text = "SELECT v FROM s".replace("v", ", ".join(columns))
    program = bind(text, {"s": Contract("counts", "s", format, found)}).program
    return job("b", "counts", "out", query={"program": program.to_json()})


def writes(format: str, text: str) -> Job:
    """Job ``a``, whose results have a format."""
    return job("a", "in", "counts", query={"program": bind(text, TABLES, format=format).program.to_json()})


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_nullable_column_that_its_writer_drops_is_missing(format: str) -> None:
    """Readers of JSON would take it for NULL, and readers of CSV fail."""
    dropped, reader = writes(format, "SELECT v FROM t"), reads(format, "n")
    (fault,) = refused_queries({"a": dropped}, {}, [reader])
    assert "column 'n' is missing (expected bigint)" in fault.message
    assert refused_queries({"a": writes(format, "SELECT v, w AS n FROM t")}, {}, [reader]) == []


@pytest.mark.parametrize(("format", "refused"), [("json", False), ("csv", True)])
def test_messages_that_wait_may_lack_a_new_nullable_column_of_json(format: str, refused: bool) -> None:
    stored = {"a": Deployed(writes(format, "SELECT v FROM t")), "b": Deployed(reads(format, "v"))}
    desired = {"a": writes(format, "SELECT v, w AS n FROM t"), "b": reads(format, "v", "n")}
    found = [each.message for each in refused_queries(desired, stored, [])]
    assert [("carries both forms" in each, "'n' is missing" in each) for each in found] == [
        (True, True)
    ] * refused


def test_a_column_that_was_always_missing_may_be_dropped_by_its_reader() -> None:
    writer, before, after = writes("json", "SELECT v FROM t"), reads("json", "v", "n"), reads("json", "v")
    stored = {"a": Deployed(writer), "b": Deployed(before)}
    assert refused_queries({"a": writer, "b": after}, stored, []) == []


def test_messages_that_wait_in_the_old_form_are_considered() -> None:
    """Writer and reader change together, and the topic still has messages of the old form."""
    stored = {
        "a": Deployed(sql_job("a", "SELECT k FROM t")),
        "b": Deployed(sql_job("b", "SELECT k FROM counts", "counts", "out")),
    }
    desired = {"a": sql_job("a", COUNT), "b": READER}
    found = refused_queries(desired, {"a": stored["a"], "b": stored["b"]}, [])
    assert any("carries both forms" in each.message for each in found), found
    assert refused_queries(desired, {}, []) == []


def test_jobs_without_queries_are_not_looked_at() -> None:
    assert refused_queries({"a": job("a")}, {"a": Deployed(job("a"))}, [job("b", "out", "in")]) == []


# --- joins and sessions

JOIN = (
    "SELECT t.v AS v, u.x AS x FROM t JOIN u ON t.k = u.k "
    "AND u.at BETWEEN t.time AND t.time + INTERVAL '1' HOUR"
)
SESSIONS = COUNT.replace("TUMBLE", "SESSION")
IN_WINDOWS = (
    "SELECT a.v AS v, b.x AS x FROM TUMBLE(t, time, INTERVAL '10' SECOND) a JOIN "
    "TUMBLE(u, at, INTERVAL '10' SECOND) b ON a.k = b.k AND a.window_start = b.window_start "
    "AND a.window_end = b.window_end"
)


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (
            JOIN,
            JOIN.replace("'1' HOUR", "'2' HOUR"),
            "the join changes from u later than t by 0 ms to 1 h to u ",
        ),
        (
            JOIN,
            JOIN.replace("t.v AS v", "t.w AS v"),
            "the rows of table 't' change from (k string: v bigint) to ",
        ),
        (JOIN, JOIN.replace("t.k = u.k", "t.v = u.x"), "the rows of table 't' change"),
        (JOIN, COUNT, "the query loses its join"),
        (COUNT, JOIN, "the query gets its join"),
        (IN_WINDOWS, JOIN, "the join changes from in windows of 10 s to u later than t by 0 ms to 1 h"),
        (
            IN_WINDOWS,
            IN_WINDOWS.replace("'10'", "'20'"),
            "the join changes from in windows of 10 s to in win",
        ),
        (COUNT, SESSIONS, "the windows change from 10 s by 10 s to sessions with a gap of 10 s"),
        (
            SESSIONS,
            SESSIONS.replace("'10'", "'20'"),
            "from sessions with a gap of 10 s to sessions with a gap",
        ),
    ],
)
def test_an_edit_that_the_state_of_a_join_does_not_outlive_is_refused(
    before: str, after: str, part: str
) -> None:
    (message,) = faults(before, after)
    assert part in message, message
    assert faults(before, after, upgrade="stateless") == []


def test_all_that_the_state_of_a_join_does_not_outlive_is_one_fault() -> None:
    after = JOIN.replace("t.k = u.k", "t.v = u.x").replace("'1' HOUR", "'2' HOUR")
    (message,) = faults(JOIN, after)
    assert message.startswith(
        "the join changes from u later than t by 0 ms to 1 h to u later than t by 0 ms "
    )
    assert "; the rows of table 't' change from (k string: v bigint) to " in message
    assert message.count("; the rows of table 'u' change from ") == 1
    assert message.count("the state does not fit the new form (expected the former one, ") == 1


@pytest.mark.parametrize(
    ("after", "mixed"),
    [
        (f"{JOIN} AND t.v > 3", True),
        (f"{JOIN} AND t.v > u.x", False),
        (JOIN.replace("t.v AS v", "t.v + 1 AS v"), False),
    ],
)
def test_an_edit_that_the_state_of_a_join_outlives_is_accepted(after: str, mixed: bool) -> None:
    assert faults(JOIN, after) == []
    notes = query_notes({"a": sql_job("a", after)}, {"a": Deployed(sql_job("a", JOIN))})
    assert ("a" in notes) == mixed


def test_another_step_of_the_progress_keeps_the_state_of_a_join(monkeypatch: pytest.MonkeyPatch) -> None:
    now = sql_job("a", JOIN)
    monkeypatch.setattr(joins, "STEP_MS", 1000)
    former = sql_job("a", JOIN)
    assert former != now
    for before, after in ((former, now), (now, former)):
        assert refused_queries({"a": after}, {"a": Deployed(before)}, []) == []


# --- parts of a query with a cut


def parts(
    text: str = COUNT, cut: str = "columns", inputs: Mapping[str, str] = {"t-a": "in"}, **fields: object
) -> dict[str, Job]:
    """The parts of query ``q``; ``inputs`` are their topics by name."""
    program = bind(text, TABLES).program
    program = program if program.stateful else timed(program, TABLES["t"])
    topics = f"speck/sql/q/{form_of(program)}"
    sent = {"of": "q", "role": "input", "program": input_of(program, cut).to_json()}
    rest = {"of": "q", "role": "rest", "program": rest_of(program, list(inputs)).to_json()}
    jobs = [
        job(f"q.{name}", read, f"{topics}/{name}", query=sent | {"input": name}, **fields)
        for name, read in inputs.items()
    ]
    jobs.append(job("q.rest", f"{topics}/+", "counts", query=rest, **fields))
    return {each.job_name: each for each in jobs}


def each_site(text: str, inputs: Mapping[str, str], **fields: object) -> dict[str, Job]:
    """The jobs of query ``q`` without windows at several sites."""
    program = bind(text, TABLES).program.to_json()
    found = {name: {"program": program, "of": "q", "role": "input", "input": name} for name in inputs}
    return {
        f"q.{name}": job(f"q.{name}", inputs[name], "counts", query=each, **fields)
        for name, each in found.items()
    }


def faults_of_parts(before: Mapping[str, Job], after: Mapping[str, Job]) -> list[str]:
    stored = {name: Deployed(each) for name, each in before.items()}
    return [each.message for each in refused_queries(after, stored, [])]


WHERE = edited("GROUP BY", "WHERE v > 3 GROUP BY")


def test_another_cut_changes_an_input_job_alone() -> None:
    before, after = parts(WHERE), parts(WHERE, "filter")
    assert before["q.rest"] == after["q.rest"] and before["q.t-a"] != after["q.t-a"]
    assert faults_of_parts(before, after) == []


def test_a_condition_with_another_column_changes_the_topic_between_the_jobs() -> None:
    before, after = parts(WHERE), parts(WHERE.replace("v > 3", "v > 3 AND w > 3"))
    assert before["q.rest"].source_topic != after["q.rest"].source_topic
    assert faults_of_parts(before, after) == []
    same = parts(WHERE.replace("v > 3", "v > 4"))
    assert before["q.rest"].source_topic == same["q.rest"].source_topic


def test_another_column_of_the_same_type_changes_the_topic_between_the_jobs() -> None:
    """Frames that wait have the values of the former column."""
    before, after = parts(WHERE), parts(WHERE.replace("v > 3", "w > 3"))
    assert before["q.rest"].source_topic != after["q.rest"].source_topic
    assert faults_of_parts(before, after) == []


@pytest.mark.parametrize("tables", ["t JOIN u", "u JOIN t"])
def test_another_column_of_one_side_of_a_join_changes_the_topic_between_the_jobs(tables: str) -> None:
    join = JOIN.replace("t JOIN u", tables)
    forms = [form_of(bind(each, TABLES).program) for each in (join, join.replace("t.v AS v", "t.w AS v"))]
    assert forms[0] != forms[1]
    assert forms[0] == form_of(bind(f"{join} AND t.v > u.x", TABLES).program)


def test_slides_begin_empty_and_are_sent_when_the_cut_leaves_them() -> None:
    before, after = parts(WHERE), parts(WHERE, "partials")
    assert faults_of_parts(before, after) == []
    assert query_notes(after, {name: Deployed(each) for name, each in before.items()}) == {}
    assert faults_of_parts(after, before) == []
    notes = query_notes(before, {name: Deployed(each) for name, each in after.items()})
    assert notes.keys() == {"q.t-a"} and "are sent first" in notes["q.t-a"]
    started = {name: Deployed(each, started=False) for name, each in after.items()}
    assert query_notes(before, started) == {}


def test_slides_do_not_leave_their_engine() -> None:
    merging, elsewhere = parts(cut="partials"), parts(engine="spark", spe_address="sc://edge:15002")
    elsewhere["q.rest"] = merging["q.rest"]
    (message,) = faults_of_parts(merging, elsewhere)
    assert "the state cannot move between engines" in message
    assert faults_of_parts(parts(), elsewhere) == []


def test_a_fault_of_all_jobs_of_a_query_is_reported_once() -> None:
    merging = parts(cut="partials", inputs=AT_TWO)
    (message,) = faults_of_parts(merging, parts(edited("'10'", "'20'"), "partials", AT_TWO))
    assert message.startswith("the windows change from 10 s by 10 s to 20 s by 20 s: the state does not fit ")
    assert message.endswith("; likewise q.rest, q.t-b")
    elsewhere = parts(cut="partials", inputs=AT_TWO, engine="spark", spe_address="sc://edge:15002")
    (message,) = faults_of_parts(merging, elsewhere)
    assert message.startswith("the state cannot move between engines (")
    assert message.endswith("; likewise q.rest, q.t-b")
    reader = sql_job("r", "SELECT k FROM counts", "counts", "elsewhere")
    (message,) = faults_of_parts({}, each_site("SELECT v AS n FROM t", AT_TWO) | {"r": reader})
    assert message.startswith("job 'q.t-a' writes 'counts', which job 'r' reads: column 'k' is missing")
    assert message.endswith("; likewise q.t-b")


def test_a_fault_of_all_jobs_of_a_query_is_reported_once_whatever_the_topic_is_called() -> None:
    writer = sql_job("w", "SELECT k FROM t", sink="o'hare")
    readers = each_site("SELECT v AS n FROM t", {"t-a": "o'hare", "t-b": "o'hare"})
    (message,) = faults_of_parts({}, readers | {"w": writer})
    assert message.startswith("job 'w' writes \"o'hare\", which job 'q.t-a' reads: column 'v' is missing")
    assert message.endswith("; likewise q.t-b")


def test_the_first_cut_and_the_last_one_have_other_jobs_for_the_state() -> None:
    whole = {"q": sql_job("q", COUNT)}
    (message,) = faults_of_parts(whole, parts())
    assert message.startswith("the query gets a cut: the state is that of 'q' (expected as before")
    (message,) = faults_of_parts(parts(), whole)
    assert message.startswith(
        "the query loses its cut: the state is that of 'q.rest' (expected 'cut: columns'"
    )
    at_a = {"q": sql_job("q", COUNT, site="A")}
    (message,) = faults_of_parts(parts(), at_a)
    assert "'cut: columns' with 'rest: A', which runs all of it where its table is published" in message
    assert faults_of_parts(whole, parts(upgrade="stateless")) == []
    assert faults_of_parts(parts(), {"q": sql_job("q", COUNT, upgrade="stateless")}) == []


def test_a_query_does_not_read_the_frames_of_another_one() -> None:
    reader = sql_job("r", "SELECT k FROM t", "speck/sql/#", "elsewhere")
    (message,) = faults_of_parts({}, parts() | {"r": reader})
    assert "which job 'r' reads: its messages are frame (expected json)" in message


# --- queries that continue in other jobs

PLAIN = "SELECT k, v AS n FROM t"
AT_TWO = {"t-a": "in", "t-b": "in/b"}
Jobs = dict[str, Job]
WINDOWS_LEFT: Mapping[str, tuple[Jobs, Jobs, str]] = {
    "whole to each site": (
        {"q": sql_job("q", COUNT)},
        each_site(PLAIN, AT_TWO),
        "loses its windows: the state is that of 'q'",
    ),
    "parts to each site": (
        parts(inputs=AT_TWO),
        each_site(PLAIN, AT_TWO),
        "loses its windows: the state is that of 'q.rest'",
    ),
    "parts to whole": (
        parts(inputs=AT_TWO),
        {"q": sql_job("q", PLAIN)},
        "loses its windows: the state is that of 'q.rest'",
    ),
    "merging parts to whole": (
        parts(cut="partials"),
        {"q": sql_job("q", COUNT)},
        "loses its cut: the state is that of 'q.rest'",
    ),
    "parts to code": (parts(), {"q": job("q")}, "loses its cut: the state is that of 'q.rest'"),
    "one merging input less": (
        parts(cut="partials", inputs=AT_TWO),
        parts(cut="partials"),
        "loses an input: 'q.t-b' has totals of slides that are open (expected 'cut: {t-b: columns}' first, ",
    ),
    "two merging inputs less": (
        parts(cut="partials", inputs={"t-a": "in", "t-b": "in/b", "t-c": "in/c"}),
        parts(cut="partials"),
        "loses inputs: 'q.t-b', 'q.t-c' have totals of slides that are open (expected 'cut: {t-b: columns, ",
    ),
}


@pytest.mark.parametrize("case", WINDOWS_LEFT)
def test_a_query_does_not_leave_open_windows_to_a_job_that_it_loses(case: str) -> None:
    before, after, part = WINDOWS_LEFT[case]
    (message,) = faults_of_parts(before, after)
    assert part in message and "'upgrade: stateless'" in message, message
    given_up = {name: replace(each, upgrade="stateless") for name, each in after.items()}
    assert faults_of_parts(before, given_up) == []
    never_ran = {name: Deployed(each, started=False) for name, each in before.items()}
    assert refused_queries(after, never_ran, []) == []


def test_inputs_without_state_may_come_and_go() -> None:
    one, two = parts(), parts(inputs=AT_TWO)
    assert faults_of_parts(one, two) == faults_of_parts(two, one) == []
    assert notes_of_parts(two, one) == {}
    assert faults_of_parts(two, {}) == []  # the query has ended


def test_an_input_does_not_change_its_name_while_its_rows_are_counted() -> None:
    renamed = parts(inputs={"u-a": "in"})
    (message,) = faults_of_parts(parts(), renamed)
    assert message.startswith(
        "input 't-a' becomes 'u-a', and rows that arrive during the change would be counted twice"
    )
    (both,) = faults_of_parts(parts(inputs=AT_TWO), parts(inputs={"u-a": "in", "u-b": "in/b"}))
    assert both.startswith(
        "inputs 't-a' becomes 'u-a', 't-b' becomes 'u-b', and rows that arrive during the "
    )
    given_up = parts(inputs={"u-a": "in"}, upgrade="stateless")
    assert faults_of_parts(parts(), given_up) == [message]
    assert faults_of_parts(parts(), parts(inputs={"u-a": "elsewhere"})) == []
    half_way = {**parts(), **renamed}  # it runs under both names: an earlier change was not completed
    assert faults_of_parts(half_way, renamed) == []


def notes_of_parts(before: Mapping[str, Job], after: Mapping[str, Job]) -> dict[str, str]:
    return query_notes(after, {name: Deployed(each) for name, each in before.items()})


ANEW = (
    "results of windows that are open at the change lack the rows before it, and some windows are written "
    "by both"
)
TWICE = (
    "messages that arrive during the change are also read by {!r}: their results may come twice; none are "
    "lost"
)


def test_the_plan_says_what_a_query_loses_with_its_former_jobs() -> None:
    whole, cut = {"q": sql_job("q", COUNT, upgrade="stateless")}, parts(upgrade="stateless")
    assert notes_of_parts(whole, cut) == {"q.rest": f"starts without the state of 'q': {ANEW}"}
    assert notes_of_parts(cut, whole) == {"q": f"starts without the state of 'q.rest': {ANEW}"}
    assert notes_of_parts(whole, each_site(PLAIN, AT_TWO)) == dict.fromkeys(
        ("q.t-a", "q.t-b"), "the windows that are open in 'q' are lost"
    )
    assert notes_of_parts({}, cut) == notes_of_parts(cut, {}) == notes_of_parts(cut, cut) == {}


def test_the_plan_says_what_both_jobs_of_a_query_without_windows_read() -> None:
    whole, at_two = {"q": sql_job("q", PLAIN)}, each_site(PLAIN, AT_TWO)
    assert faults_of_parts(whole, at_two) == faults_of_parts(at_two, whole) == []
    assert notes_of_parts(whole, at_two) == {"q.t-a": TWICE.format("q")}
    assert notes_of_parts(at_two, whole) == {"q": TWICE.format("q.t-a")}
    assert notes_of_parts(at_two, each_site(PLAIN, {"t-a": "in", "t-c": "in/c"})) == {}
    assert notes_of_parts(whole, parts()) == {}  # the results are others


# --- the rest of a query without windows

SOME = f"{PLAIN} WHERE v > 3"


def test_an_edit_of_a_query_without_windows_needs_no_state() -> None:
    before = parts(SOME, "filter", AT_TWO)
    condition = parts(f"{PLAIN} WHERE w > 3", "filter", AT_TWO)
    columns = parts(SOME.replace("v AS n", "v + 1 AS n"), "rows", AT_TWO)
    assert before["q.rest"].source_topic == condition["q.rest"].source_topic
    assert before["q.rest"].source_topic != columns["q.rest"].source_topic
    for after in (condition, columns):
        assert faults_of_parts(before, after) == faults_of_parts(after, before) == []
        assert notes_of_parts(before, after) == {}


@pytest.mark.parametrize("whole", [{"q": sql_job("q", PLAIN)}, each_site(PLAIN, AT_TWO)], ids=["one", "two"])
def test_a_query_without_windows_gets_and_loses_its_rest_on_request(whole: Jobs) -> None:
    """Results would come twice after a failure: those of the former form are in another topic."""
    cut = parts(PLAIN, inputs=AT_TWO if len(whole) > 1 else {"t-a": "in"})
    (gets,), (loses,) = faults_of_parts(whole, cut), faults_of_parts(cut, whole)
    assert gets.startswith("the query gets its rest (expected as before, another job_name, or 'upgrade: sta")
    assert loses.startswith("the query loses its rest (expected as before, another job_name")
    for before, after in ((whole, cut), (cut, whole)):
        given_up = {name: replace(each, upgrade="stateless") for name, each in after.items()}
        assert faults_of_parts(before, given_up) == []
        (note,) = notes_of_parts(before, given_up).values()
        assert "come twice; none are lost" in note
        never_ran = {name: Deployed(each, started=False) for name, each in before.items()}
        assert refused_queries(after, never_ran, []) == []


def test_a_query_with_a_rest_gets_no_windows_without_their_state() -> None:
    (message,) = faults_of_parts(parts(PLAIN), parts())
    assert "the query gets its windows" in message
    (message,) = faults_of_parts(parts(), parts(PLAIN))
    assert "the query loses its windows" in message
