"""Sites for the jobs of a composition that is applied."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speck.coordinator.placing.request import PlacementRequest
from speck.core.change import Change, Pin, Place, Request
from speck.core.job import Composition
from speck.errors import InvalidInput, Overloaded
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition
from testbed.benches.placement import broker_at, engine_at, movable, road_traffic
from tests.coordinator.placement_bench import CLOUD, Bench, opened


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as bench:
        yield bench


def test_new_jobs_are_placed_and_run(bench: Bench) -> None:
    bench.apply(road_traffic())
    where = bench.world.where()
    assert where["clean-a"] == where["local-a"] == engine_at("A")
    assert where["clean-b"] == engine_at("B")
    jobs = bench.services.coordinator.deployments.composition("traffic").jobs
    assert jobs["clean-a"].sink_broker == jobs["local-a"].source_broker == broker_at("A")
    assert jobs["local-a"].sink_broker == jobs["local-b"].sink_broker == jobs["global"].source_broker


@pytest.mark.parametrize("place", ["new", "none"])
def test_unchanged_file_changes_nothing(bench: Bench, place: str) -> None:
    bench.all_in_cloud()
    before = bench.world.changes()
    bench.apply(road_traffic(), place=place)
    assert bench.world.changes() == before
    assert bench.revisions == [1]
    assert user.plan(bench.services.coordinator, road_traffic()).changes == ()


def test_only_a_new_job_is_placed(bench: Bench) -> None:
    bench.all_in_cloud()
    desired = road_traffic()
    more = replace(desired, jobs={**desired.jobs, "alarm": movable("alarm", "clean/a", "alarms", sink="A")})
    plan = user.plan(bench.services.coordinator, more)
    assert {each.job.job_name for each in plan.changes} == {"alarm"}
    bench.apply(more)
    assert bench.world.where()["clean-a"] == engine_at("D")


def test_job_whose_sites_forbid_its_place_is_moved(bench: Bench) -> None:
    bench.all_in_cloud()
    jobs = dict(road_traffic().jobs)
    jobs["clean-a"] = replace(jobs["clean-a"], sites=("A", "B"))
    bench.apply(Composition("traffic", jobs))
    where = bench.world.where()
    assert where.pop("clean-a") in (engine_at("A"), engine_at("B"))
    assert set(where.values()) == {engine_at("D")}


def test_job_without_a_place_is_refused_when_nothing_is_to_be_placed(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="job 'clean-a': has no site yet among any"):
        user.plan(bench.services.coordinator, road_traffic(), place="none")


@pytest.mark.parametrize(
    ("fields", "moved"), [({"with_job": "clean-b"}, 1), ({"apart": ("local-a",)}, 1)], ids=["with", "apart"]
)
def test_a_job_that_runs_moves_where_with_or_apart_is_added(
    bench: Bench, fields: dict[str, Any], moved: int
) -> None:
    bench.apply(road_traffic())
    before = bench.world.where()
    jobs = dict(road_traffic().jobs)
    desired = composition(*{**jobs, "clean-a": replace(jobs["clean-a"], **fields)}.values(), name="traffic")
    bench.apply(desired)
    where = bench.world.where()
    assert sum(where[name] != before[name] for name in before) == moved
    assert (where["clean-a"] == where["clean-b"]) is ("with_job" in fields)
    assert (where["clean-a"] != where["local-a"]) is ("apart" in fields)
    changes = bench.world.changes()
    bench.apply(desired)
    assert bench.world.changes() == changes
    further = movable("further", "report", "further", source="D", sink="D")
    bench.apply(composition(*desired.jobs.values(), further, name="traffic"))
    assert {name: at for name, at in bench.world.where().items() if name != "further"} == where


def test_compositions_at_once_do_not_count_on_the_same_cores(bench: Bench) -> None:
    """The first one is placed and not accepted yet when the second one is placed."""
    bench.profiler.cost = 3 / bench.profiler.rate  # three of the four cores of an edge
    one = composition(movable("clean-a", "sensors", "clean/a", source="A", sink="A"), name="one")
    two = composition(movable("clean-b", "others", "clean/b", source="A", sink="A"), name="two")
    alone = user.plan(bench.services.coordinator, two)
    assert [each.job.site for each in alone.actions] == ["A"]
    paused = bench.world.hold("foreign_sessions")
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(bench.apply, one)
        assert paused.reached.wait(30)
        paused.spared = 100
        planned = [each.job.site for each in user.plan(bench.services.coordinator, two).actions]
        paused.release()
        first.result(60)
    assert planned == [each.job.site for each in user.plan(bench.services.coordinator, two).actions] != ["A"]


@pytest.mark.parametrize(
    "change",
    [Place("one", frozenset({"clean-a"}), "A"), Pin("clean-a", site="A")],
    ids=["step", "pin"],
)
def test_a_site_chosen_before_counts_until_the_change_is_accepted(bench: Bench, change: Change) -> None:
    """The job is about to move to A, and its move is not accepted yet, when the second one is placed."""
    bench.profiler.cost = 3 / bench.profiler.rate  # three of the four cores of an edge
    one = composition(movable("clean-a", "sensors", "clean/a", source="A", sink="A"), name="one")
    two = composition(movable("clean-b", "others", "clean/b", source="A", sink="A"), name="two")
    placed = bench.propose(one, PlacementRequest(constraints={"clean-a": ["D"]}))
    bench.accept(placed)
    coordinator = bench.services.coordinator
    assert [each.job.site for each in user.plan(coordinator, two).actions] == ["A"]
    paused = bench.world.hold("build_job")
    with ThreadPoolExecutor(1) as threads:
        step = threads.submit(coordinator.changes.carry_out, change, Request())
        assert paused.reached.wait(30)
        planned = [each.job.site for each in user.plan(coordinator, two).actions]
        paused.release()
        operation, _ = step.result(60)
    assert operation.wait(30)
    assert bench.world.where()["clean-a"] == engine_at("A")
    assert planned != ["A"]


def test_plan_names_the_sites_of_new_jobs(bench: Bench) -> None:
    notes = user.plan(bench.services.coordinator, road_traffic()).consequences
    assert notes["clean-a"] == "at site A, chosen among any"
    assert notes["global"] == "at site D, chosen among any"


def test_jobs_that_belong_together_are_pinned_at_one_site(bench: Bench) -> None:
    jobs = dict(road_traffic().jobs)
    jobs["local-a"] = replace(jobs["local-a"], with_job="clean-a")
    bench.accept(bench.propose(Composition("traffic", jobs), CLOUD))
    pin = Pin("clean-a", True, "B")
    operation, _ = bench.services.changes.carry_out(pin, Request())
    assert operation.wait(30)
    where = bench.world.where()
    assert where["clean-a"] == where["local-a"] == engine_at("B")
    assert where["clean-b"] == engine_at("D")
    pinned = bench.services.coordinator.deployments.composition("traffic").jobs
    assert (pinned["clean-a"].pin, pinned["local-a"].pin) == (True, False)


def test_empty_composition_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="no jobs to place"):
        bench.propose(Composition("traffic", {}))


def test_new_jobs_wait_when_no_engine_answers(bench: Bench) -> None:
    for site in "ABCD":
        bench.world.down(engine_at(site))
    assert len(user.plan(bench.services.coordinator, road_traffic()).changes) == 7


def test_one_placement_is_computed_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.coordinator.placing.placer.SECONDS", 0.01)
    with bench.services.coordinator.placer.exclusive(), pytest.raises(Overloaded, match="another placement"):
        bench.propose(road_traffic())
