"""The jobs of a plan that leave their source, and the writers that leave it as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speck.core.graph import Endpoint
from speck.core.job import Job
from speck.core.rewiring import rewirings
from speck.core.schedule import Leftovers, StepKind, schedule
from testbed.benches.jobs_by_hand import make_job
from tests.core.plans_by_hand import (
    A_ELSEWHERE,
    B1,
    B_ELSEWHERE,
    PARKS,
    PARKS_ELSEWHERE,
    READS_ELSEWHERE,
    READS_PARKED,
    REPAIRS,
    A,
    B,
    C,
    planned,
)


def waits(former: list[Job], desired: list[Job]) -> dict[str, set[str]]:
    """For each job that must process what waits: the writers that it waits for."""
    actions = {each.job.job_name: each for each in planned(former, desired).actions}
    found = rewirings(actions, delete_all=not desired)
    return {name: set(each.writers) for name, each in found.items()}


REWIRINGS = {
    "nothing changes": ([A, B, C], [A, B, C], {}),
    "code changes only": ([A, B], [A, replace(B, trigger="1 second")], {}),
    "topic between two": ([A, B, C], [A_ELSEWHERE, B_ELSEWHERE, C], {"b": {"a"}}),
    "writer stays as it is": ([A, B, C], [A, B_ELSEWHERE, C], {"b": set()}),
    "writer changes and writes on": ([A, B], [replace(A, trigger="1 second"), B_ELSEWHERE], {"b": set()}),
    "middle one goes": ([A, B, C], [A_ELSEWHERE, replace(C, source_topic="x1")], {"b": {"a"}, "c": {"b"}}),
    "branch goes": ([A, B, C], [make_job("k", "p", "q")], {"a": set(), "b": {"a"}, "c": {"b"}}),
    "reader goes and writer stays": ([A, B], [A], {"b": set()}),
    "all goes": ([A, B, C], [], {}),
    "wildcard": (
        [A, make_job("w", "+", "out/w")],
        [A_ELSEWHERE, make_job("w", "elsewhere", "out/w")],
        {"w": {"a"}},
    ),
    "parking topic": ([PARKS, READS_PARKED], [PARKS_ELSEWHERE, READS_ELSEWHERE], {"b": {"a"}}),
    "job that parks goes with the reader": ([PARKS, READS_PARKED, C], [C], {"a": set(), "b": {"a"}}),
    "job parks no more": ([PARKS, READS_PARKED], [replace(PARKS, park_topic=None)], {"b": {"a"}}),
    "parking topic alone": (
        [PARKS, B],
        [PARKS_ELSEWHERE, replace(B, source_topic="other")],
        {"b": set()},
    ),
    "repaired messages go back": ([PARKS, REPAIRS, C], [C], {"a": {"b"}, "b": set()}),
    "what runs forms a cycle": (
        [make_job("p", "t0", "t1"), make_job("q", "t1", "t0")],
        [make_job("p", "x0", "x1"), make_job("q", "x1", "x2")],
        {"p": set(), "q": set()},
    ),
}


@pytest.mark.parametrize(("former", "desired", "expected"), REWIRINGS.values(), ids=REWIRINGS.keys())
def test_who_waits_for_whom(former: list[Job], desired: list[Job], expected: dict[str, set[str]]) -> None:
    assert waits(former, desired) == expected


@pytest.mark.parametrize("topic", ["x1", "+"])
def test_a_reader_waits_for_the_writers_of_each_session_that_it_leaves(topic: str) -> None:
    """Its writer was switched before, and the reader never came to read there."""
    plan = planned([A_ELSEWHERE, B], [replace(A, sink_topic="x2"), replace(B, source_topic="x2")])
    left = {"b": [Endpoint(B1, topic)]}
    actions = {each.job.job_name: each for each in plan.actions}
    assert {name: each.writers for name, each in rewirings(actions).items()} == {"b": frozenset()}
    assert rewirings(actions, left=left)["b"].writers == {"a"}
    drain = next(each for each in schedule(plan, Leftovers(left=left)) if each.kind is StepKind.DRAIN)
    assert (StepKind.AWAIT_RUNNING, "a") in drain.needs


def test_sessions_of_other_revisions_make_no_cycle() -> None:
    plan = planned(
        [A_ELSEWHERE, B],
        [replace(A, source_topic="y0", sink_topic="y1"), replace(B, source_topic="y1", sink_topic="y2")],
    )
    actions = {each.job.job_name: each for each in plan.actions}
    left = {"a": [Endpoint(B1, "t2")], "b": [Endpoint(B1, "x1")]}
    found = rewirings(actions, left=left)
    assert {name: each.writers for name, each in found.items()} == {"a": frozenset(), "b": frozenset()}
