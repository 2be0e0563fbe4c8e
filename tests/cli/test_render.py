"""Lines and tables from plain data."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from speck.cli import render
from speck.cli.render.checks import clock_ahead, limit
from speck.cli.render.values import MAX_LENGTH, shown, shown_pair

LONG = "s3://bucket/" + "a" * 80


def plan(*actions: dict[str, Any]) -> dict[str, Any]:
    kinds = [each["kind"] for each in actions]
    counts = {kind: kinds.count(kind) for kind in ("start", "stop", "update", "move", "keep")}
    return {"composition": "c", "base_revision": 3, "counts": counts, "actions": list(actions)}


def update(*changes: tuple[str, Any, Any]) -> dict[str, Any]:
    listed = [{"field": field, "before": before, "after": after} for field, before, after in changes]
    return {"job": "a", "kind": "update", "reason": "it changed", "changes": listed}


def change_lines(*changes: tuple[str, Any, Any]) -> list[str]:
    return [line.plain.strip() for line in render.plan_lines(plan(update(*changes)))][2:]


def test_a_changed_field_is_shown_old_and_new() -> None:
    assert change_lines(("sink_topic", "t2", "t3"), ("parallelism", None, 4)) == [
        "sink_topic: t2 -> t3",
        "parallelism: (none) -> 4",
    ]


def test_arguments_are_compared_key_by_key() -> None:
    before = {"window": "5 minutes", "limit": 1, "same": "x", "gone": True}
    after = {"window": "10 minutes", "limit": 1.0, "same": "x", "new": "y"}
    assert change_lines(("arguments", before, after)) == [
        "arguments.gone: true -> (none)",
        "arguments.limit: 1 -> 1.0",
        "arguments.new: (none) -> y",
        "arguments.window: 5 minutes -> 10 minutes",
    ]


def test_arguments_where_there_were_none() -> None:
    assert change_lines(("arguments", {}, {"limit": 1})) == ["arguments.limit: (none) -> 1"]
    assert change_lines(("labels", {"owner": "x"}, None)) == ["labels.owner: x -> (none)"]


def test_a_code_hash_is_not_shown() -> None:
    assert change_lines(("code_hash", "0a" * 32, "1b" * 32)) == []


def test_long_values_are_shown_where_they_differ() -> None:
    (line,) = change_lines(("job_path", LONG + "/one.py", LONG + "/two.py"))
    assert line == "job_path: …aaaaaaaaaaa/one.py -> …aaaaaaaaaaa/two.py"


@pytest.mark.parametrize("before", ["x" * 500, "short", None])
def test_no_value_is_longer_than_can_be_read(before: str | None) -> None:
    old, new = shown_pair(before, "y" * 500 + "z")
    assert max(len(old), len(new)) <= MAX_LENGTH
    assert new.endswith("z")


def test_a_value_stays_in_its_line() -> None:
    assert shown("one\ntwo\x1b[31m") == "one\\ntwo\\x1b[31m"


def test_old_is_red_and_new_is_green() -> None:
    line = [*render.plan_lines(plan(update(("sink_topic", "t2", "t3"))))][-1]
    assert {line.plain[span.start : span.end]: span.style for span in line.spans} == {
        "t2": "red",
        " -> ": "dim",
        "t3": "green",
    }


def test_a_difference_is_shown_key_by_key_too() -> None:
    change = {"field": "arguments", "before": {"limit": 1}, "after": {"limit": 2, "more": "x"}}
    difference = {
        "composition": "c",
        "before": 1,
        "after": 2,
        "counts": {"added": 0, "removed": 0, "changed": 1},
        "jobs": [{"job": "a", "kind": "changed", "changes": [change]}],
    }
    assert [line.plain.strip() for line in render.difference_lines(difference)][2:] == [
        "- arguments.limit: 1",
        "+ arguments.limit: 2",
        "+ arguments.more: x",
    ]


def action(job: str, state: str, kind: str = "start") -> dict[str, Any]:
    return {"job": job, "kind": kind, "state": state, "error": ""}


def test_running_actions_beyond_the_maximum_are_counted() -> None:
    actions = [action(f"j{number}", "running") for number in range(10)] + [action("done", "done")]
    lines = [line.plain for line in render.running_lines(actions, {"j0": 5.0}, 12.0)]
    assert lines[0] == "  start   j0 … 7 s"
    assert lines[-1] == "  and 2 more running"
    assert len(lines) == 9


RATES = [
    {"job_name": "a", "waiting": 5, "input_rate": 1.0, "output_rate": None, "work_seconds": 0.1},
    {"job_name": "b", "waiting": None, "input_rate": 9.0, "output_rate": 3.0, "work_seconds": None},
    {"job_name": "c", "waiting": 70, "input_rate": None, "output_rate": 2.0, "work_seconds": 2.5},
    {"job_name": "d", "waiting": 5, "input_rate": 2.0, "output_rate": 0.0, "work_seconds": 0.0},
]


@pytest.mark.parametrize(
    ("sort", "order"),
    [("waiting", "cdab"), ("input", "bdac"), ("output", "bcda"), ("work", "cadb"), ("name", "abcd")],
)
def test_rates_are_sorted_by_a_column_and_unknown_values_come_last(sort: str, order: str) -> None:
    assert "".join(each["job_name"] for each in render.sorted_rates(RATES, sort)) == order


def job(state: str, drift: str | None = None, says: str = "") -> dict[str, Any]:
    return {"composition": "c", "state": state, "drift": drift, "waits": says, "error": "", "message": ""}


def test_changes_of_jobs() -> None:
    before = {"a": job("running"), "b": job("running"), "c": job("starting")}
    after = {"a": job("running"), "b": job("failed", "died", "no street"), "d": job("pending")}
    lines = [render.change_line(each).plain for each in render.job_changes(before, after, 0)]
    assert lines == [
        "1970-01-01 00:00:00Z  c  job b: running -> failed (died)  no street",
        "1970-01-01 00:00:00Z  c  job c: starting -> gone",
        "1970-01-01 00:00:00Z  c  job d: pending",
    ]


def test_changes_of_an_operation() -> None:
    begun = {
        "id": "op",
        "kind": "apply",
        "composition": "c",
        "message": "why",
        "state": "running",
        "error": "",
        "actions": [action("a", "running"), action("b", "pending"), action("k", "kept", "keep")],
    }
    ended = begun | {"state": "failed", "actions": [action("a", "done"), action("b", "failed")]}
    first = [render.change_line(each).plain[22:] for each in render.operation_changes(None, begun, 0)]
    then = [render.change_line(each).plain[22:] for each in render.operation_changes(begun, ended, 0)]
    assert first == ["c  apply op: running  why", "c  start a: pending -> running"]
    assert then == [
        "c  start a: running -> done",
        "c  start b: pending -> failed",
        "c  apply op: running -> failed",
    ]


@pytest.mark.parametrize(
    ("clock", "text"),
    [(None, ""), ((-0.1, 0.3), "+0.1 s"), ((-61.0, -60.8), "-60.9 s"), ((-0.4, 20.0), "-0 to +20 s")],
)
def test_clocks(clock: tuple[float, float] | None, text: str) -> None:
    assert clock_ahead(clock) == text


def test_limits_are_readable() -> None:
    assert limit("slots_free", 3) == "slots free 3"
    assert limit("memory", 629145600) == "memory 600 MiB"
    assert limit("session_timeout", "60m") == "session timeout 60m"


def test_a_fault_is_shown_with_its_remedy() -> None:
    found = [
        {"site": "A", "role": "engine", "address": "sc://a:1", "wrong": [{"message": "m", "remedy": "r"}]},
        {"site": "A", "role": "broker", "address": "tcp://a:1", "wrong": [{"message": "n", "remedy": ""}]},
    ]
    assert [line.plain for line in render.checkup_lines(found)] == [
        "A, engine sc://a:1: m",
        "    remedy: r",
        "A, broker tcp://a:1: n",
        "2 faults",
    ]
    assert [line.plain for line in render.checkup_lines([])] == ["no faults"]


def test_names_are_not_read_as_markup() -> None:
    console = Console(width=200, record=True, file=StringIO())
    table = render.watch_table([{"job_name": "[red]x", "wanted": "running", **job("running", None, "[/]")}])
    console.print(table)
    assert "[red]x" in console.export_text()
    assert isinstance(render.change_line(next(render.job_changes({}, {"[b]": job("lost")}, 0))), Text)


# -- tables on terminals

EVENTS = [
    {
        "at": 0.0,
        "kind": "started",
        "message": "job 'a' runs at sc://e1:15002",
        "author": "me@here",
        "cause": "",
    }
]


def drawn(what: Any, width: int, terminal: bool = True) -> list[str]:
    """The lines as they are printed, without the spaces at their ends."""
    console = Console(
        file=StringIO(),
        width=width,
        force_terminal=terminal,
        color_system=None,
        soft_wrap=True,
        highlight=False,
    )
    console.print(what)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            90,
            [
                "TIME                  EVENT    MESSAGE                        BY       REASON",
                "1970-01-01 00:00:00Z  started  job 'a' runs at sc://e1:15002  me@here  -",
            ],
        ),
        (
            72,
            [
                "TIME                  EVENT    MESSAGE                        BY",
                "1970-01-01 00:00:00Z  started  job 'a' runs at sc://e1:15002  me@here",
            ],
        ),
        (
            46,
            [
                "TIME         EVENT    MESSAGE          BY",
                "1970-01-01   started  job 'a' runs at  me@here",
                "00:00:00Z             sc://e1:15002",
            ],
        ),
        (
            30,
            [
                "TIME 1970-01-01 00:00:00Z",
                "  EVENT started",
                "  MESSAGE job 'a' runs at",
                "  sc://e1:15002   BY me@here",
            ],
        ),
    ],
    ids=["all of it", "what is filled", "between words", "lines of its own"],
)
def test_a_table_fits_its_terminal(width: int, lines: list[str]) -> None:
    found = drawn(render.events_table(EVENTS), width)
    assert found == lines
    assert max(map(len, found)) <= width


def test_a_table_in_a_pipe_has_all_columns_whatever_is_in_them() -> None:
    head, *_ = drawn(render.events_table(EVENTS), 100_000, terminal=False)
    assert head.split() == ["TIME", "EVENT", "MESSAGE", "BY", "REASON"]
    assert drawn(render.sites_table([]), 20) == ["SITE"]


def test_an_object_is_shown_in_full_with_the_important_fields_first() -> None:
    lines = [
        line.plain
        for line in render.facts(
            {
                "attempt": 2,
                "code_hash": "0a" * 32,
                "job_name": "a",
                "left_behind": [],
                "observed_at": 0.0,
                "sessions": [{"broker": "tcp://b:1883", "topic": "t"}],
                "state": "running",
                "up_to_date": True,
                "metrics": {
                    "input_rate": 12.3456789,
                    "batch_duration_ms": 210.4,
                    "input_rows": 1234567,
                    "details": {"bufferedBytes": 1500000, "throttledMillis": 1234},
                },
            }
        )
    ]
    assert lines == [
        "job: a",
        "state: running",
        "attempt: 2",
        "abandoned copies: -",
        "observed at: 1970-01-01 00:00:00Z",
        "sessions: broker tcp://b:1883, topic t",
        "up to date: yes",
        "metrics:",
        "  input rate: 12.3 messages/s",
        "  batch duration: 210 ms",
        "  input rows: 1,234,567",
        "  details:",
        "    buffered: 1.5 MB",
        "    throttled: 1.2 s",
    ]


JOB: dict[str, Any] = {
    **dict.fromkeys(("waits", "drift", "drift_message", "error", "next_try"), ""),
    **{"job_name": "a", "composition": "c", "job": None, "wanted": "running", "state": "failed"},
    **{"observed_at": 0.0, "message": "", "losses": []},
}


@pytest.mark.parametrize(
    ("behind", "seconds", "text"),
    [(4211, 723.0, "4,211 (12 min)"), (0, 0.0, "0"), (4211, None, "4,211"), (None, None, "-")],
)
def test_the_messages_behind_are_shown_with_the_age_of_the_oldest(
    behind: int | None, seconds: float | None, text: str
) -> None:
    jobs = [JOB | {"behind": behind, "behind_seconds": seconds}, JOB | {"job_name": "b", "behind": 7}]
    head, row, _ = drawn(render.jobs_table(jobs), 300)
    start, end = head.index("BEHIND"), head.index("OBSERVED")
    assert row[start:end].strip() == text


def test_a_long_message_is_cut_on_a_terminal_and_whole_in_a_pipe() -> None:
    message = "no such street " * 20
    job = JOB | {"message": message}
    (_, cut) = drawn(render.jobs_table([job], whole=False), 300)
    assert cut.endswith("no such street no such …") and cut.count("street") == 3
    (_, whole) = drawn(render.jobs_table([job]), 1000, terminal=False)
    assert message.strip() in whole
