"""The steps of a plan as a table."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from speck.cli.render import plan_lines, steps_table
from speck.cli.render.steps import _ranges
from speck.core.plan import Deployed, Plan, make_plan, plan_data
from speck.core.schedule import schedule, schedule_data
from testbed import ROOT
from testbed.benches.jobs_by_hand import chain, make_job

A, B, C = chain("a", "b", "c")


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], ""),
        ([4], "4"),
        ([1, 2], "1, 2"),
        ([1, 2, 3], "1-3"),
        ([1, 2, 3, 7, 9, 10, 11, 12], "1-3, 7, 9-12"),
    ],
)
def test_numbers_in_a_row_are_a_range(numbers: list[int], expected: str) -> None:
    assert ", ".join(_ranges(numbers)) == expected


def shown(plan: Plan) -> list[str]:
    """The output of ``speck plan --steps``."""
    data = plan_data(plan) | {"steps": schedule_data(schedule(plan))}
    console = Console(file=StringIO(), width=100)
    for each in (*plan_lines(data), "", steps_table(data)):
        console.print(each)
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_row_for_each_step_with_those_that_it_waits_for() -> None:
    desired = [replace(A, sink_topic="x"), replace(B, source_topic="x")]
    plan = make_plan(
        "traffic", 1, {each.job_name: each for each in desired}, {"a": Deployed(A), "c": Deployed(C)}
    )
    assert [line.split() for line in shown(plan)][-10:] == [
        ["STEP", "ACTION", "TARGET", "WAITS", "FOR"],
        ["1", "check", "broker", "tcp://b1:1883", "-"],
        ["2", "prepare", "a", "1"],
        ["3", "prepare", "b", "1"],
        ["4", "prepare", "c", "-"],
        ["5", "update", "a", "2,", "3"],
        ["6", "await", "running", "a", "5"],
        ["7", "start", "b", "3"],
        ["8", "drain", "source", "c", "4"],
        ["9", "stop", "c", "4,", "8"],
    ]


def test_the_example_of_the_documentation() -> None:
    site_a, site_b = ("tcp://site-a:1883", "tcp://site-b:1883")
    clean = make_job("clean", "air/raw", "air/clean", source_broker=site_a, sink_broker=site_a)
    count = make_job("count", "air/clean", "air/counts", source_broker=site_a, sink_broker=site_b)
    store = make_job("store", "air/counts", "air/stored", source_broker=site_b, sink_broker=site_b)
    desired = [replace(clean, sink_topic="air/valid"), replace(count, source_topic="air/valid"), store]
    stored = {"clean": Deployed(clean), "count": Deployed(count)}
    lines = shown(make_plan("air", 3, {each.job_name: each for each in desired}, stored))
    assert "\n".join(lines) in (ROOT / "docs" / "apply.md").read_text()
