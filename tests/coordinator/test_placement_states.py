"""Placements of jobs whose state cannot come to each site."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speck.core.change import Pin, Request, Rollback
from speck.core.job import Composition
from speck.core.runtime import State
from speck.errors import InvalidInput
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.benches.placement import broker_at, engine_at, movable, road_traffic
from testbed.doubles.engine import InMemoryEngine
from tests.coordinator.placement_bench import Bench, kinds_of, opened, why


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as bench:
        yield bench


def test_job_whose_state_cannot_come_along_stays(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def state_fault(engine: InMemoryEngine, state: State) -> str | None:
        return "its state is at storage of D alone" if "clean-a" in state.location else None

    monkeypatch.setattr(InMemoryEngine, "state_of", InMemoryEngine.left_state, raising=False)
    monkeypatch.setattr(InMemoryEngine, "state_fault", state_fault, raising=False)
    bench.all_in_cloud()
    advice = bench.advise()
    assert kinds_of(advice)["clean-b"] == "move"
    assert next(each for each in advice["verdicts"] if each["job"] == "clean-a")["to"] == "D"
    refused = {each["site"]: each["why"] for each in advice["refused"] if each["job"] == "clean-a"}
    assert refused == dict.fromkeys("ABC", "its state is at storage of D alone")
    assert why(advice, "clean-a") == "no other site is allowed"


@pytest.fixture(name="stateful")
def stateful_fixture(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """All jobs run at D; the state of ``clean-a`` cannot come to A."""

    def state_fault(engine: InMemoryEngine, state: State) -> str | None:
        unreachable = "clean-a" in state.location and engine.address == engine_at("A")
        return "its state is at storage of D alone" if unreachable else None

    monkeypatch.setattr(InMemoryEngine, "state_of", InMemoryEngine.left_state, raising=False)
    monkeypatch.setattr(InMemoryEngine, "state_fault", state_fault, raising=False)
    bench.all_in_cloud()
    return bench


def _with_sites(*sites: str, **fields: Any) -> Composition:
    """Road traffic whose first job may be at these sites alone."""
    jobs = dict(road_traffic().jobs)
    jobs["clean-a"] = replace(jobs["clean-a"], sites=sites, **fields)
    return Composition("traffic", jobs)


@pytest.mark.parametrize("place", ["new", "all"])
def test_a_job_that_may_not_stay_is_placed_where_its_state_can_come(stateful: Bench, place: str) -> None:
    stateful.apply(_with_sites("A", "B"), place=place)
    assert stateful.world.where()["clean-a"] == engine_at("B")


@pytest.mark.parametrize(
    "desired",
    [_with_sites("A"), _with_sites("A", "D", apart=("local-a",))],
    ids=["sites", "apart"],
)
def test_a_job_that_may_not_stay_and_whose_state_can_come_to_no_site_is_refused(
    stateful: Bench, desired: Composition
) -> None:
    with pytest.raises(InvalidInput, match="A: its state is at storage of D alone"):
        user.plan(stateful.services.coordinator, desired)


def test_a_state_that_is_given_up_hinders_no_move(stateful: Bench) -> None:
    coordinator = stateful.services.coordinator
    plan = user.plan(coordinator, _with_sites("A", upgrade="stateless"))
    assert {each.job.job_name for each in plan.changes} == {"clean-a"}
    lone = movable("clean-a2", "sensors", "lone", source="A", sink="A", sites=("D",))
    stateful.apply(composition(lone, name="lone"))
    moved = composition(replace(lone, sites=("A",)), name="lone")
    with pytest.raises(InvalidInput, match="cannot be moved with its state"):
        user.plan(coordinator, moved)
    plan = user.plan(coordinator, moved, leave_behind=[engine_at("D")], give_up=True)
    assert [each.job.spe_address for each in plan.changes] == [engine_at("A")]


def test_a_rollback_to_a_site_that_its_state_cannot_come_to_is_refused(stateful: Bench) -> None:
    lone = movable("clean-a2", "sensors", "lone", source="A", sink="A", sites=("A",))
    stateful.apply(composition(lone, name="lone"))
    stateful.apply(composition(replace(lone, sites=("D",)), name="lone"))
    with pytest.raises(InvalidInput) as refusal:
        stateful.services.changes.plan(Rollback("lone", 1), Request())
    assert str(refusal.value) == (
        "job 'clean-a2': cannot go back to its form of revision 1 with its state: its state is at storage of "
        "D alone (expected another revision, or an apply of its file with 'upgrade: stateless')"
    )
    assert stateful.services.changes.plan(Rollback("lone", 2), Request()).plan.changes == ()


def test_a_plan_names_the_jobs_whose_state_cannot_come_along(stateful: Bench) -> None:
    lone = make_job("clean-a3", "sensors", "lone", spe_address=engine_at("D"), engine="flink")
    lone = replace(lone, source_broker=broker_at("A"), sink_broker=broker_at("A"))
    stateful.apply(composition(lone, name="lone"))

    def note(site: str, **fields: str) -> str:
        moved = composition(replace(lone, spe_address=engine_at(site), **fields), name="lone")
        return user.plan(stateful.services.coordinator, moved).consequences.get("clean-a3", "")

    refused = "will be refused, and the job keeps running as it is: its state is at storage of D alone; "
    assert note("A").startswith(refused)
    assert "refused" not in note("B") + note("A", upgrade="stateless")


def test_a_pin_to_a_site_that_its_state_cannot_come_to_is_refused(stateful: Bench) -> None:
    with pytest.raises(InvalidInput, match="A: its state is at storage of D alone"):
        stateful.services.changes.plan(Pin("clean-a", True, "A"), Request())
    assert stateful.services.changes.plan(Pin("clean-a", True, "B"), Request()).plan.changes
