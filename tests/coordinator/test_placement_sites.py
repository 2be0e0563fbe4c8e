"""Placements while sites leave the inventory, or are left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.coordinator.placing.request import PlacementRequest
from speck.core.change import Pin, Request
from speck.core.inventory import Inventory
from speck.core.live_inventory import LiveInventory
from speck.errors import Conflict, InvalidInput
from speck.placement.profile import Inputs
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.benches.placement import Profiler, broker_at, engine_at, movable, road_traffic
from tests.coordinator.placement_bench import CLOUD, Bench, opened


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as bench:
        yield bench


def _without_b(bench: Bench) -> None:
    """Let site B leave the inventory."""
    inventory = bench.services.coordinator.inventory
    assert isinstance(inventory, LiveInventory)
    inventory.replace(Inventory({name: site for name, site in inventory.sites.items() if name != "B"}))


def test_jobs_at_a_site_that_left_the_inventory_are_load(bench: Bench) -> None:
    bench.all_in_cloud()
    burning = make_job("burn", "sensors", "ash", spe_address=engine_at("A"), engine="flink")
    burning = replace(burning, source_broker=broker_at("A"), sink_broker=broker_at("A"))
    stray = movable("stray", "heat", "cold", source="B", sink="B", sites=("B",))
    bench.apply(composition(burning, stray, name="other"))
    _without_b(bench)

    def cores_of_a() -> float:
        sites = bench.advise()["figures"]["after"]["sites"]
        return float(next(each["cores"] for each in sites if each["site"] == "A"))

    together = cores_of_a()
    assert user.delete_composition(bench.services.coordinator, "other").wait(30)
    assert together > cores_of_a()


@pytest.mark.parametrize("sites", [("any",), ("B",)], ids=["any", "lost"])
def test_a_pin_leaves_jobs_alone_whose_site_left_the_inventory(bench: Bench, sites: tuple[str, ...]) -> None:
    stray = movable("stray", "heat", "cold", source="B", sink="B", sites=sites)
    beside = movable("beside", "cold", "ice", source="B", sink="B", sites=("A", "D"))
    bench.apply(composition(replace(stray, site="B", spe_address=engine_at("B")), beside))
    _without_b(bench)
    there = {"A", "D"} - {bench.services.coordinator.deployments.composition("traffic").jobs["beside"].site}
    [site] = there
    planned = bench.services.changes.plan(Pin("beside", True, str(site)), Request())
    assert [each.job.job_name for each in planned.plan.changes] == ["beside"]
    assert planned.desired["stray"].sites == sites
    assert (planned.desired["beside"].pin, planned.desired["beside"].site) == (True, site)


def test_a_placement_whose_site_left_the_inventory_is_stale(bench: Bench) -> None:
    proposal = bench.propose(road_traffic())
    _without_b(bench)
    with pytest.raises(Conflict, match="site 'B' is no longer in the inventory"):
        bench.services.retained_plans.accept_placement(proposal["id"], Request())


def test_a_site_that_is_removed_while_a_placement_is_computed_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = Profiler.__call__

    def removes_b(self: Profiler) -> Inputs:
        _without_b(bench)
        return profiles(self)

    monkeypatch.setattr(Profiler, "__call__", removes_b)
    with pytest.raises(InvalidInput, match="site 'B', which had engine"):
        bench.propose(road_traffic(), PlacementRequest(constraints={"clean-b": ["B"]}))


def test_a_site_that_is_removed_while_a_placement_is_accepted_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    proposal = bench.propose(road_traffic(), PlacementRequest(constraints={"clean-b": ["B"]}))
    profiles = Profiler.__call__

    def removes_b(self: Profiler) -> Inputs:
        _without_b(bench)
        return profiles(self)

    monkeypatch.setattr(Profiler, "__call__", removes_b)
    with pytest.raises(InvalidInput, match="site 'B', which had engine"):
        bench.services.retained_plans.accept_placement(proposal["id"], Request())


@pytest.mark.parametrize("place", ["new", "all"])
@pytest.mark.parametrize("named", ["D", engine_at("D")])
def test_a_site_that_is_left_behind_is_not_chosen(bench: Bench, place: str, named: str) -> None:
    jobs = [
        movable("clean-a", "sensors", "clean/a", source="A"),
        movable("local-a", "clean/a", "stats/a", sink="A", sites=("A", "D")),
    ]
    bench.accept(bench.propose(composition(*jobs), CLOUD))
    bench.world.down(engine_at("D"))
    bench.world.down(broker_at("D"))
    new = movable("global", "stats/a", "report", source="A", sink="A")
    coordinator, desired = bench.services.coordinator, composition(*jobs, new)
    plan = user.plan(coordinator, desired, leave_behind=[named], place=place)
    used = {each.job.job_name: each.job for each in plan.actions}
    assert engine_at("D") not in {job.spe_address for job in used.values()}
    assert used["local-a"].site == "A"
    if named == "D":
        brokers = {address for job in used.values() for address in (job.source_broker, job.sink_broker)}
        assert broker_at("D") not in brokers


def test_a_job_that_may_run_only_at_a_site_that_is_left_behind_is_refused(bench: Bench) -> None:
    desired = composition(movable("clean-a", "sensors", "clean/a", source="A", sink="A", sites=("B",)))
    bench.apply(desired)
    with pytest.raises(InvalidInput, match=r"no site can run it: B is to be abandoned \(leave_behind\)"):
        user.plan(bench.services.coordinator, desired, leave_behind=["B"])
