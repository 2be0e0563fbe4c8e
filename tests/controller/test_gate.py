"""The actions of a plan that are due, and the reasons of those that wait."""

from __future__ import annotations

from dataclasses import replace

from speck.controller.gate import Blockers, GatedPlan, engines_of, gate_actions
from speck.core.graph import Endpoint
from speck.core.job import Job
from speck.core.plan import Deployed, Plan, make_plan
from speck.core.schedule import Leftovers, schedule
from testbed.benches.jobs_by_hand import chain

E1, E2, B1, B2 = "sc://e1:1", "sc://e2:1", "tcp://b1:1883", "tcp://b2:1883"
A, B, C = chain("a", "b", "c")
A_ELSEWHERE, B_ELSEWHERE = replace(A, sink_topic="x1"), replace(B, source_topic="x1")


def planned(former: list[Job], desired: list[Job]) -> Plan:
    stored = {job.job_name: Deployed(job) for job in former}
    return make_plan("traffic", 1, {job.job_name: job for job in desired}, stored)


def gated(
    plan: Plan,
    *begun: str,
    delayed: dict[str, str] | None = None,
    silent: dict[str, str] | None = None,
    left_behind: frozenset[str] = frozenset(),
    delete_all: bool = False,
    left: dict[str, list[Endpoint]] | None = None,
) -> GatedPlan:
    engines = {each.job.job_name: engines_of(each) for each in plan.actions}
    steps = schedule(plan, Leftovers(left=left or {}), delete_all=delete_all)
    blockers = Blockers(delayed=delayed or {}, silent=silent or {}, left_behind=left_behind)
    return gate_actions(plan, steps, engines, set(begun), blockers)


def due(found: GatedPlan) -> list[str]:
    return [each.job.job_name for each in found.due]


def test_all_is_due_where_nothing_waits() -> None:
    found = gated(planned([], [A, B, C]))
    assert (due(found), found.waits) == (["a", "b", "c"], {})


def test_what_is_unchanged_is_not_due() -> None:
    assert due(gated(planned([A, B], [A, B, C]))) == ["c"]


def test_a_silent_engine_delays_its_jobs_and_the_writers_of_new_ones() -> None:
    found = gated(planned([], [A, replace(B, spe_address=E2), C]), silent={E2: "is silent"})
    assert due(found) == ["c"]
    assert found.waits == {
        "a": "waits for job 'b', which waits for sc://e2:1: is silent",
        "b": "waits for sc://e2:1: is silent",
    }


def test_a_writer_is_due_beside_a_reader_with_a_session() -> None:
    found = gated(planned([], [A, replace(B, spe_address=E2), C]), "b", silent={E2: "is silent"})
    assert due(found) == ["a", "c"]


def test_the_session_of_a_reader_whose_source_changes_counts_for_nothing() -> None:
    plan = planned([A, B], [A_ELSEWHERE, replace(B_ELSEWHERE, spe_address=E2)])
    found = gated(plan, "a", "b", silent={E2: "is silent"})
    assert due(found) == []
    assert found.waits["a"] == "waits for job 'b', which waits for sc://e2:1: is silent"


def test_a_reader_waits_for_the_writer_of_its_former_source() -> None:
    found = gated(
        planned([A, B], [A_ELSEWHERE, B_ELSEWHERE]), "a", "b", delayed={"a": "waits for its next attempt"}
    )
    assert found.waits == {
        "a": "waits for its next attempt",
        "b": "waits for job 'a', which waits for its next attempt",
    }


def test_a_reader_waits_for_the_writer_of_a_source_that_it_never_came_to_read() -> None:
    plan = planned([A_ELSEWHERE, B], [replace(A, sink_topic="x2"), replace(B, source_topic="x2")])
    delayed = {"a": "waits for its next attempt"}
    assert due(gated(plan, "a", "b", delayed=delayed)) == ["b"]
    assert due(gated(plan, "a", "b", delayed=delayed, left={"b": [Endpoint(B1, "x1")]})) == []


def test_a_broker_that_is_left_behind_delays_only_what_stays_there() -> None:
    plan = planned([A, B], [replace(A, spe_address=E2)])
    silent = {E1: "is silent", B1: "is silent"}
    found = gated(plan, silent=silent, left_behind=frozenset({E1, B1}))
    assert due(found) == ["a", "b"]
    assert gated(plan, silent=silent, left_behind=frozenset({B1})).waits.keys() == {"a", "b"}


def test_a_deletion_of_all_is_blocked_by_no_other_job() -> None:
    plan = planned([A, replace(B, spe_address=E2)], [])
    found = gated(plan, silent={E1: "is silent"}, delete_all=True)
    assert (due(found), list(found.waits)) == (["b"], ["a"])
    assert due(gated(plan, silent={E1: "is silent"})) == []
