"""The order of a plan as a tuple of steps, and the jobs that others block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from speck.core.job import Job
from speck.core.plan import Plan
from speck.core.schedule import Leftovers, Step, StepKind, blocked, schedule, schedule_data
from testbed.benches.jobs_by_hand import chain, make_job
from tests.core.plans_by_hand import (
    A_ELSEWHERE,
    B1,
    B2,
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
from tests.support.properties import property_test

E2 = "sc://e2:1"
ALL = frozenset("abc")


def steps(text: str) -> tuple[Step, ...]:
    """The steps of a text with a line for each: its kind and subject, a colon, and those of its needs."""

    def key(words: str) -> tuple[StepKind, str]:
        kind, subject = words.split()
        return StepKind(kind), subject

    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        head, _, needs = line.partition(" : ")
        found.append(Step(*key(head), frozenset(key(each) for each in needs.split(",") if each)))
    return tuple(found)


def text(found: tuple[Step, ...]) -> list[str]:
    """Steps as lines: what pytest shows of a difference."""
    return [
        f"{each.kind} {each.subject} : {', '.join(' '.join(need) for need in sorted(each.needs))}"
        for each in found
    ]


def query(name: str, reads: str, writes: str, **query: str) -> Job:
    """A job that runs a query, or a part of one."""
    return make_job(name, reads, writes, query={"program": name, **query})


WHOLE = query("q", "t0", "t1")
PARTS = [
    query("q.a", "t0", "f/a", of="q", role="input", input="a"),
    query("q.rest", "f/+", "t1", of="q", role="rest"),
]

CASES: dict[str, tuple[Plan, dict[str, Any], str]] = {
    "nothing changes": (planned([A, B], [A, B]), {}, ""),
    "three new jobs": (
        planned([], [A, B, C]),
        {},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        prepare c : broker tcp://b1:1883
        act a : prepare a, prepare b
        act b : prepare b, prepare c
        act c : prepare c
        """,
    ),
    "a loop of new jobs": (
        planned([], [make_job("p", "t0", "t1"), make_job("q", "t1", "t0")]),
        {},
        """
        broker tcp://b1:1883
        prepare p : broker tcp://b1:1883
        prepare q : broker tcp://b1:1883
        act p : prepare p, prepare q
        act q : prepare p, prepare q
        """,
    ),
    "a new job that parks, and the reader of that": (
        planned([], [PARKS, READS_PARKED]),
        {},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        act a : prepare a, prepare b
        act b : prepare b
        """,
    ),
    "a parking topic gets another name": (
        planned([PARKS, READS_PARKED], [PARKS_ELSEWHERE, READS_ELSEWHERE]),
        {},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        act a : prepare a, prepare b
        await_running a : act a
        drain b : prepare b, await_running a
        act b : prepare b, drain b
        await_running b : act b
        """,
    ),
    "a query gets a cut": (
        planned([WHOLE], PARTS),
        {"leftovers": Leftovers(reached=["q"])},
        """
        broker tcp://b1:1883
        prepare q : broker tcp://b1:1883
        prepare q.a : broker tcp://b1:1883
        prepare q.rest : broker tcp://b1:1883
        drain q : prepare q, prepare q.a, prepare q.rest
        act q : prepare q, drain q
        act q.a : prepare q.a, prepare q.rest, act q
        act q.rest : prepare q.rest, act q
        """,
    ),
    "a query loses its cut, behind another job that leaves": (
        planned([make_job("b", "x", "t0"), *PARTS], [WHOLE]),
        {"leftovers": Leftovers(reached=["b", "q.a", "q.rest"])},
        """
        broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        prepare q : broker tcp://b1:1883
        prepare q.a : broker tcp://b1:1883
        prepare q.rest : broker tcp://b1:1883
        drain b : prepare b
        act b : prepare b, drain b
        drain q.a : prepare q, prepare q.a, act b
        act q.a : prepare q.a, drain q.a
        drain q.rest : prepare q, prepare q.rest, act q.a
        act q.rest : prepare q.rest, drain q.rest
        act q : prepare q, act q.a, act q.rest
        """,
    ),
    "a part of a query that has run before": (
        planned([WHOLE, PARTS[0]], [replace(PARTS[0], trigger="1 second"), PARTS[1]], "q.a"),
        {"leftovers": Leftovers(reached=["q", "q.a"])},
        """
        broker tcp://b1:1883
        prepare q : broker tcp://b1:1883
        prepare q.a : broker tcp://b1:1883
        prepare q.rest : broker tcp://b1:1883
        drain q : prepare q, prepare q.rest
        act q : prepare q, drain q
        act q.a : prepare q.a, prepare q.rest
        act q.rest : prepare q.rest, act q
        """,
    ),
    "an update": (
        planned([A, B], [A, replace(B, trigger="1 second")]),
        {},
        """
        broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        act b : prepare b
        await_running b : act b
        """,
    ),
    "a move, its reader updated": (
        planned([A, B], [replace(A, spe_address=E2), replace(B, trigger="1 second")]),
        {},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        act a : prepare a, prepare b
        await_running a : act a
        act b : prepare b
        await_running b : act b
        """,
    ),
    "a topic between two": (
        planned([A, B, C], [A_ELSEWHERE, B_ELSEWHERE, C]),
        {},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        act a : prepare a, prepare b
        await_running a : act a
        drain b : prepare b, await_running a
        act b : prepare b, drain b
        await_running b : act b
        """,
    ),
    "a move to another broker, with drain": (
        planned(
            [A, B],
            [replace(A, spe_address=E2, sink_broker=B2), replace(B, spe_address=E2, source_broker=B2)],
        ),
        {},
        """
        broker tcp://b1:1883
        broker tcp://b2:1883
        prepare a : broker tcp://b1:1883, broker tcp://b2:1883
        prepare b : broker tcp://b1:1883, broker tcp://b2:1883
        act a : prepare a, prepare b
        await_running a : act a
        drain b : prepare b, await_running a
        act b : prepare b, drain b
        await_running b : act b
        """,
    ),
    "a chain over two brokers": (
        planned([], [replace(A, sink_broker=B2), replace(B, source_broker=B2)]),
        {},
        """
        broker tcp://b1:1883
        broker tcp://b2:1883
        prepare a : broker tcp://b1:1883, broker tcp://b2:1883
        prepare b : broker tcp://b1:1883, broker tcp://b2:1883
        act a : prepare a, prepare b
        act b : prepare b
        """,
    ),
    "a writer of a later name": (
        planned(
            [make_job("r", "t", "u"), make_job("w", "s", "t")],
            [make_job("r", "x", "u"), make_job("w", "s", "x")],
        ),
        {},
        """
        broker tcp://b1:1883
        prepare r : broker tcp://b1:1883
        prepare w : broker tcp://b1:1883
        act w : prepare w, prepare r
        await_running w : act w
        drain r : prepare r, await_running w
        act r : prepare r, drain r
        await_running r : act r
        """,
    ),
    "a dead writer": (
        planned([A, B], [A_ELSEWHERE, B_ELSEWHERE], "a"),
        {},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        act a : prepare a, prepare b
        drain b : prepare b, act a
        act b : prepare b, drain b
        await_running b : act b
        """,
    ),
    "a dead writer on trial": (
        planned([A, B], [A_ELSEWHERE, B_ELSEWHERE], "a"),
        {"leftovers": Leftovers(fallbacks={"a": A})},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        act a : prepare a, prepare b
        await_running a : act a
        drain b : prepare b, await_running a
        act b : prepare b, drain b
        await_running b : act b
        """,
    ),
    "a kept writer on trial": (
        planned([A_ELSEWHERE, B], [A_ELSEWHERE, B_ELSEWHERE]),
        {"leftovers": Leftovers(fallbacks={"a": A})},
        """
        broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        await_running a
        drain b : prepare b, await_running a
        act b : prepare b, drain b
        await_running b : act b
        """,
    ),
    "a writer on trial that is dead": (
        planned([A_ELSEWHERE, B], [A_ELSEWHERE, B_ELSEWHERE], "a"),
        {"leftovers": Leftovers(fallbacks={"a": A})},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        act a : prepare a, prepare b
        await_running a : act a
        drain b : prepare b, await_running a
        act b : prepare b, drain b
        await_running b : act b
        """,
    ),
    "a kept job on trial that writes elsewhere": (
        planned([A, B, C], [A, replace(B, source_topic="x1"), C]),
        {"leftovers": Leftovers(fallbacks={"c": replace(C, trigger="1 second")})},
        """
        broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        drain b : prepare b
        act b : prepare b, drain b
        await_running b : act b
        await_running c
        """,
    ),
    "a branch goes": (
        planned([A, B, C], [make_job("k", "p", "q")]),
        {"leftovers": Leftovers(reached=ALL)},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        prepare c : broker tcp://b1:1883
        prepare k : broker tcp://b1:1883
        drain a : prepare a
        act a : prepare a, drain a
        act k : prepare k
        drain b : prepare b, act a
        act b : prepare b, drain b
        drain c : prepare c, act b
        act c : prepare c, drain c
        """,
    ),
    "all goes, and nothing is drained": (
        planned([A, B], []),
        {"leftovers": Leftovers(reached=ALL), "delete_all": True},
        """
        broker tcp://b1:1883
        prepare a : broker tcp://b1:1883
        prepare b : broker tcp://b1:1883
        act a : prepare a
        act b : prepare b
        """,
    ),
    "what never reached its broker goes without it": (
        planned([A, B, C], [A]),
        {"leftovers": Leftovers(reached={"c"})},
        """
        broker tcp://b1:1883
        prepare b
        prepare c : broker tcp://b1:1883
        drain b : prepare b
        act b : prepare b, drain b
        drain c : prepare c, act b
        act c : prepare c, drain c
        """,
    ),
    "what goes is not waited for where it is left behind": (
        planned([A, B], [A]),
        {"leftovers": Leftovers(reached=ALL), "left_behind": {B1}},
        """
        prepare b
        drain b : prepare b
        act b : prepare b, drain b
        """,
    ),
    "what runs forms a loop": (
        planned(
            [make_job("p", "t0", "t1"), make_job("q", "t1", "t0")],
            [make_job("p", "x0", "x1"), make_job("q", "x1", "x2")],
        ),
        {},
        """
        broker tcp://b1:1883
        prepare p : broker tcp://b1:1883
        prepare q : broker tcp://b1:1883
        drain p : prepare p
        act p : prepare p, prepare q, drain p
        await_running p : act p
        drain q : prepare q
        act q : prepare q, drain q
        await_running q : act q
        """,
    ),
    "a resumed operation": (
        planned([A, B, C], [A, B, replace(C, trigger="1 second")]),
        {"leftovers": Leftovers(fallbacks={"b": B})},
        """
        broker tcp://b1:1883
        prepare c : broker tcp://b1:1883
        act c : prepare c
        await_running c : act c
        await_running b
        """,
    ),
    "prunings": (
        planned([A, B, C], [A, B, replace(C, trigger="1 second")]),
        {"leftovers": Leftovers(fallbacks={"b": B}, prunable={"a", "b", "c"})},
        """
        broker tcp://b1:1883
        prepare c : broker tcp://b1:1883
        act c : prepare c
        await_running c : act c
        await_running b
        changed traffic : await_running c
        prune a : changed traffic
        """,
    ),
    "prunings alone": (
        planned([A, B], [A, B]),
        {"leftovers": Leftovers(prunable={"a", "b"})},
        "prune a\nprune b",
    ),
}


@pytest.mark.parametrize(("plan", "given", "expected"), CASES.values(), ids=CASES.keys())
def test_the_steps_of_a_plan(plan: Plan, given: dict[str, Any], expected: str) -> None:
    found = schedule(plan, **given)
    assert text(found) == text(steps(expected))
    assert found == steps(expected)


def test_the_steps_as_data_are_numbered_and_name_the_numbers_of_their_needs() -> None:
    found = schedule(planned([A, B], [A, replace(B, trigger="1 second")]), Leftovers(prunable={"a"}))
    assert schedule_data(found) == [
        {"number": 1, "kind": "broker", "subject": B1, "needs": []},
        {"number": 2, "kind": "prepare", "subject": "b", "needs": [1]},
        {"number": 3, "kind": "act", "subject": "b", "needs": [2]},
        {"number": 4, "kind": "await_running", "subject": "b", "needs": [3]},
        {"number": 5, "kind": "changed", "subject": "traffic", "needs": [4]},
        {"number": 6, "kind": "prune", "subject": "a", "needs": [5]},
    ]


# --- any plan -------------------------------------------------------------------------------------

TOPICS = some.sampled_from(["t0", "t1", "t2", "+", "elsewhere"])
SINKS = some.sampled_from(["t0", "t1", "t2", "elsewhere"])


@some.composite
def jobs(draw: some.DrawFn) -> list[Job]:
    names = draw(some.sets(some.sampled_from("abcdef"), max_size=5))
    brokers = some.sampled_from([B1, B2])
    return [
        make_job(name, draw(TOPICS), draw(SINKS), source_broker=draw(brokers), sink_broker=draw(brokers))
        for name in sorted(names)
    ]


@property_test
@given(
    jobs(),
    jobs(),
    jobs(),
    some.sets(some.sampled_from("abcdef")),
    some.sets(some.sampled_from("abcdef")),
)
def test_each_step_comes_once_and_after_those_that_it_needs(
    former: list[Job], desired: list[Job], tried: list[Job], some_jobs: set[str], others: set[str]
) -> None:
    plan = planned(former, desired, *some_jobs)
    leftovers = Leftovers(
        reached=some_jobs,
        fallbacks={job.job_name: job for job in tried},
        prunable=some_jobs | others,
    )
    found = schedule(plan, leftovers, delete_all=not desired)
    before: set[tuple[StepKind, str]] = set()
    for step in found:
        assert step.needs <= before
        assert step.key not in before
        before.add(step.key)
    assert {each.subject for each in found if each.kind is StepKind.ACT} == {
        each.job.job_name for each in plan.changes
    }


def test_the_steps_of_many_jobs_cost_as_much_each() -> None:
    """Prunings have one need in common, not all steps each."""
    former = [make_job(f"j{number}", f"in{number}", f"out{number}") for number in range(2000)]
    desired = [replace(job, trigger="1 second") if index % 2 else job for index, job in enumerate(former)]
    found = schedule(planned(former, desired), Leftovers(prunable={job.job_name for job in former}))
    assert sum(len(each.needs) for each in found) < 5 * len(former)


# --- blocked jobs ---------------------------------------------------------------------------------


def test_a_writer_waits_for_a_reader_without_a_session() -> None:
    found = schedule(planned([], [A, B, C]))
    waits = {"b": "waits for sc://e1:1: silent"}
    assert blocked(found, waits, frozenset()) == {
        "b": "waits for sc://e1:1: silent",
        "a": "waits for job 'b', which waits for sc://e1:1: silent",
    }


def test_a_job_that_parks_waits_for_a_reader_without_a_session() -> None:
    found = schedule(planned([], [PARKS, REPAIRS]))
    assert blocked(found, {"b": "is silent"}, frozenset()) == {
        "b": "is silent",
        "a": "waits for job 'b', which is silent",
    }


def test_a_new_form_of_a_query_waits_for_the_end_of_the_former_one() -> None:
    found = schedule(planned([WHOLE], PARTS), Leftovers(reached={"q"}))
    waits = "waits for job 'q', which is silent"
    assert blocked(found, {"q": "is silent"}, {"q.a", "q.rest"}) == {
        "q": "is silent",
        "q.a": waits,
        "q.rest": waits,
    }


def test_another_query_waits_for_nobody() -> None:
    plan = planned([WHOLE], [query("r.rest", "f/+", "t2", of="r", role="rest")])
    found = schedule(plan, Leftovers(reached={"q"}))
    assert blocked(found, {"q": "is silent"}, frozenset()) == {"q": "is silent"}


def test_a_reader_with_a_session_holds_up_no_writer() -> None:
    waits = {"b": "waits for its next attempt"}
    assert blocked(schedule(planned([], [A, B, C])), waits, {"b"}) == waits


def test_a_reader_does_not_leave_its_source_before_its_writer() -> None:
    """It waits also if it has a session: the messages in the former one are drained first."""
    found = schedule(planned([A, B, C], [A_ELSEWHERE, B_ELSEWHERE, C]))
    assert blocked(found, {"a": "is silent"}, {"a", "b"}) == {
        "a": "is silent",
        "b": "waits for job 'a', which is silent",
    }


def test_a_wait_goes_along_a_branch_that_goes() -> None:
    found = schedule(planned([A, B, C], []))
    assert blocked(found, {"a": "is silent"}, frozenset()) == {
        "a": "is silent",
        "b": "waits for job 'a', which is silent",
        "c": "waits for job 'b', blocked by job 'a', which is silent",
    }


def test_the_reasons_along_a_long_chain_are_short() -> None:
    found = schedule(planned([], chain(*(f"j{number}" for number in range(1000)))))
    reasons = blocked(found, {"j999": "is silent"}, frozenset())
    assert len(reasons) == 1000
    assert reasons["j0"] == "waits for job 'j1', blocked by job 'j999', which is silent"


def test_no_job_waits_where_all_goes() -> None:
    found = schedule(planned([A, B, C], []), delete_all=True)
    assert blocked(found, {"a": "is silent"}, frozenset()) == {"a": "is silent"}


def test_a_composition_with_the_name_of_a_job_blocks_nothing() -> None:
    plan = planned([A, B], [replace(A, trigger="1 second"), B])
    found = schedule(replace(plan, composition="a"), Leftovers(prunable={"b"}))
    assert blocked(found, {"a": "is silent"}, frozenset()) == {"a": "is silent"}
