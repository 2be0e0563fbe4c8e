"""Advice on placement, and its acceptance: figures, reasons, and when it is stale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.coordinator.placing.request import PlacementRequest
from speck.coordinator.retained_plans import LIFETIME
from speck.core.change import Request
from speck.core.job import Composition
from speck.core.placement import PlacementOptions
from speck.errors import Conflict, Expired, InvalidInput, NotFound, StaleRevision
from speck.placement.policies import solver_available
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.benches.placement import broker_at, engine_at, movable, road_traffic
from tests.coordinator.placement_bench import CLOUD, Bench, kinds_of, opened, why


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as bench:
        yield bench


def test_advice_moves_jobs_to_the_data_and_says_why(bench: Bench) -> None:
    bench.all_in_cloud()
    calls = bench.world.changes()
    advice = bench.advise()
    moved = {job for job, kind in kinds_of(advice).items() if kind == "move"}
    assert moved == {f"{job}-{edge}" for job in ("clean", "local") for edge in "abc"}
    now, after = advice["figures"]["now"], advice["figures"]["after"]
    assert after["wan"] < now["wan"] / 10
    assert after["multiplier"] > now["multiplier"]
    assert now["busiest"]["link"]["site"] == "A"
    assert [step["from"] for step in advice["steps"]] == ["D", "D", "D"]
    assert {tuple(step["jobs"]) for step in advice["steps"]} == {
        (f"clean-{edge}", f"local-{edge}") for edge in "abc"
    }
    assert why(advice, "global") == "its inputs come from 3 sites"
    assert "A would be" in why(advice, "clean-a") or "WAN" in why(advice, "clean-a")
    assert advice["known_by"]["jobs"] == {"measured": 7, "declared": 0, "assumed": 0}
    assert {"from": "A", "to": "D", "known": "declared"} in advice["known_by"]["links"]
    assert advice["gap"] == (pytest.approx(0, abs=0.01) if solver_available() else None)
    assert bench.world.changes() == calls


def test_accepted_advice_is_one_revision_and_then_nothing_is_better(bench: Bench) -> None:
    bench.all_in_cloud()
    bench.accept(bench.advise(), author="ada", message="closer to the data")
    assert bench.world.where()["clean-b"] == engine_at("B")
    last = bench.services.queries.revisions("traffic")[-1]
    assert (last["number"], last["author"], last["message"]) == (2, "ada", "closer to the data")
    again = bench.advise()
    assert set(kinds_of(again).values()) == {"keep"}
    assert again["steps"] == []
    user.rollback(bench.services.coordinator, "traffic")[0].wait(30)
    assert bench.world.where()["clean-b"] == engine_at("D")


def test_proposal_is_stale_after_another_apply(bench: Bench) -> None:
    bench.all_in_cloud()
    advice = bench.advise()
    more = road_traffic()
    bench.apply(replace(more, jobs={**more.jobs, "alone": make_job("alone", "x", "y")}))
    before = bench.world.changes()
    with pytest.raises(StaleRevision, match="base_revision 1 is stale, the last revision is 2"):
        bench.services.retained_plans.accept_placement(advice["id"], Request())
    assert bench.world.changes() == before
    assert bench.revisions == [1, 2]


def test_proposal_is_stale_when_an_input_has_changed_by_a_fifth(bench: Bench) -> None:
    bench.all_in_cloud()
    advice = bench.advise()
    bench.profiler.rate *= 1.1
    changed = bench.advise()
    bench.profiler.rate *= 1.15
    before = bench.world.changes()
    with pytest.raises(Conflict, match=r"the rate of topic 'sensors' was 900/s and is 1.14e\+03/s"):
        bench.services.retained_plans.accept_placement(advice["id"], Request())
    assert bench.world.changes() == before
    bench.accept(changed)


def test_proposal_is_stale_when_a_job_takes_other_cores(bench: Bench) -> None:
    """Not when the same work turns out to be more of each message, and less without messages."""
    bench.all_in_cloud()
    advice = bench.advise()
    cost = bench.profiler.cost
    bench.profiler.cost = 10 * cost
    with pytest.raises(Conflict, match=r"job 'clean-a' took 0.036 cores and takes 0.279"):
        bench.services.retained_plans.accept_placement(advice["id"], Request())
    bench.profiler.cost, bench.profiler.fixed = cost / 2, 0.009 + bench.profiler.rate * cost / 2
    bench.accept(advice)


def test_proposal_is_stale_when_another_composition_has_taken_the_cores(bench: Bench) -> None:
    bench.profiler.cost = 3 / bench.profiler.rate  # three of the four cores of an edge
    two = composition(movable("clean-b", "others", "clean/b", source="A", sink="A"), name="two")
    proposal = bench.propose(two)
    one = composition(movable("clean-a", "sensors", "clean/a", source="A", sink="A"), name="one")
    bench.apply(one)
    with pytest.raises(Conflict, match=r"other compositions took 0 cores of site 'A' and take 3\.18 "):
        bench.services.retained_plans.accept_placement(proposal["id"], Request())
    assert list(bench.world.where()) == ["clean-a"]
    bench.accept(bench.propose(two))


def test_proposal_expires_and_is_accepted_once(bench: Bench) -> None:
    bench.all_in_cloud()
    advice = bench.advise()
    bench.now += LIFETIME + 1
    with pytest.raises(Expired, match=f"placement '{advice['id']}' has expired"):
        bench.services.retained_plans.accept_placement(advice["id"], Request())
    assert bench.services.retained_plans.placement(advice["id"], lines=False)["state"] == "expired"
    fresh = bench.advise()
    bench.accept(fresh)
    with pytest.raises(Conflict, match="was already accepted"):
        bench.services.retained_plans.accept_placement(fresh["id"], Request())
    with pytest.raises(NotFound, match="there is no placement 'other'"):
        bench.services.retained_plans.accept_placement("other", Request())


@pytest.fixture(name="third_party")
def third_party_fixture(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path, profiles=False) as bench:
        yield bench


def test_jobs_of_binders_without_profiles_stay_and_that_is_said(third_party: Bench) -> None:
    third_party.all_in_cloud()
    advice = third_party.advise()
    assert set(kinds_of(advice).values()) == {"keep"}
    assert why(advice, "clean-a") == "its engine's binder (flink) reports no profile"
    assert all(each["fixed"] for each in advice["verdicts"])


def test_job_without_a_rate_stays_and_that_is_said(bench: Bench) -> None:
    bench.all_in_cloud()
    bench.profiler.unknown = {"clean-a"}
    advice = bench.advise()
    assert kinds_of(advice)["clean-a"] == "keep"
    assert why(advice, "clean-a").startswith("its rate is neither measured (speck profile) nor")
    assert kinds_of(advice)["clean-b"] == "move"


def test_pins_and_constraints_are_kept(bench: Bench) -> None:
    bench.all_in_cloud()
    request = PlacementRequest(pins=("clean-a", "local-a"), constraints={"clean-b": ("C", "D")})
    advice = bench.advise(request)
    found = {each["job"]: each["to"] for each in advice["verdicts"]}
    assert found["clean-a"] == found["local-a"] == "D"
    assert why(advice, "clean-a") == "it is pinned"
    assert found["clean-b"] in ("C", "D")


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (PlacementRequest(pins=("clean-aa",)), "there is no job 'clean-aa' (did you mean 'clean-a'"),
        (PlacementRequest(explain=("globel",)), "there is no job 'globel' (did you mean 'global'?)"),
        (PlacementRequest(constraints={"clean-a": ("E",)}), "site 'E' is not one of its sites"),
        (PlacementRequest(policy="spek"), "there is no placement policy 'spek' (did you mean 'speck'?"),
    ],
)
def test_wrong_names_are_refused_with_near_ones(bench: Bench, wrong: PlacementRequest, fault: str) -> None:
    bench.all_in_cloud()
    with pytest.raises(InvalidInput) as caught:
        bench.advise(wrong)
    assert fault in str(caught.value)


@pytest.mark.slow("computes a placement by each policy")
def test_all_policies_are_compared(bench: Bench) -> None:
    bench.all_in_cloud()
    rows = {each["policy"]: each for each in bench.advise(PlacementRequest(compare=True))["policies"]}
    best = rows["speck" if solver_available() else "search"]["figures"]["objective"]
    assert {"cloud", "source", "amnis", "forecast-greedy", "exhaustive"} <= rows.keys()
    assert all(
        each["figures"] is None or each["figures"]["objective"] >= best - 1e-9 for each in rows.values()
    )
    assert rows["cloud"]["moves"] == 0
    assert solver_available() or "needs HiGHS" in rows["speck"]["error"]


def test_other_compositions_are_load(bench: Bench) -> None:
    bench.all_in_cloud()
    alone = bench.advise()["figures"]["after"]["sites"]
    burning = make_job("burn", "sensors", "ash", spe_address=engine_at("A"), engine="flink")
    burning = replace(burning, source_broker=broker_at("A"), sink_broker=broker_at("A"))
    bench.apply(Composition("other", {"burn": burning}))
    together = bench.advise()["figures"]["after"]["sites"]
    assert together[0]["site"] == "A"
    assert together[0]["cores"] > alone[0]["cores"]
    assert together[1]["cores"] == pytest.approx(alone[1]["cores"])


def test_policy_with_another_aim_may_make_it_worse_and_says_so(bench: Bench) -> None:
    bench.apply(road_traffic())
    proposed = bench.advise(CLOUD)
    assert {each["to"] for each in proposed["verdicts"]} == {"D"}
    figures = proposed["figures"]
    assert figures["after"]["objective"] > figures["now"]["objective"]
    assert proposed["cost"]["pays_after"] is None
    bench.accept(proposed)
    assert set(bench.world.where().values()) == {engine_at("D")}


def test_reader_whose_writer_is_gone_goes_on_reading_there(bench: Bench) -> None:
    bench.all_in_cloud()
    deleted = user.delete_job(bench.services.coordinator, "clean-a", give_up=True)
    assert deleted.wait(30)
    advice = bench.advise()
    assert kinds_of(advice)["clean-b"] == "move"
    bench.accept(advice)
    reader = bench.services.coordinator.deployments.composition("traffic").jobs["local-a"]
    assert reader.source_broker == broker_at("D")
    assert "source_broker" in reader.placed
    bench.apply(road_traffic())
    assert len(bench.world.where()) == 7


def test_jobs_without_messages_stay(bench: Bench) -> None:
    bench.all_in_cloud()
    bench.profiler.rate = 0.0
    advice = bench.advise()
    assert set(kinds_of(advice).values()) == {"keep"}


def test_composition_whose_placement_is_off_stays(bench: Bench) -> None:
    off = replace(road_traffic(), placement=PlacementOptions(mode="off"))
    bench.accept(bench.propose(off, CLOUD))
    advice = bench.advise()
    assert set(kinds_of(advice).values()) == {"keep"}
    assert why(advice, "clean-a") == "placement is off in its file (placement: {mode: off})"


def test_site_out_of_reach_gets_no_job_and_that_is_said(bench: Bench) -> None:
    bench.all_in_cloud()
    bench.world.down(engine_at("A"))
    advice = bench.advise()
    found = {each["job"]: each["to"] for each in advice["verdicts"]}
    assert found["clean-a"] == "D"
    assert found["clean-b"] == "B"
    refused = [each for each in advice["refused"] if each["job"] == "clean-a"]
    assert [each["site"] for each in refused] == ["A"]
    assert refused[0]["why"].startswith("cannot be reached: ")


@pytest.mark.slow("a hundred placements are computed")
def test_hundred_proposals_are_kept(bench: Bench) -> None:
    first = bench.propose(road_traffic(), CLOUD)["id"]
    for _ in range(100):
        bench.propose(road_traffic(), CLOUD)
    assert len(bench.services.retained_plans.placements(lines=False)) == 100
    with pytest.raises(NotFound):
        bench.services.retained_plans.placement(first, lines=False)
