"""Placing, advising and accepting, over engines and brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from speck.coordinator import Services, build
from speck.coordinator.placing.placer import PlacementRequest
from speck.coordinator.retained_plans import LIFETIME
from speck.core.change import Apply, Change, Pin, Place, Request, Rollback
from speck.core.inventory import Inventory
from speck.core.job import Composition
from speck.core.live_inventory import LiveInventory
from speck.core.placement import PlacementOptions
from speck.core.runtime import State
from speck.core.settings import Settings
from speck.errors import Conflict, Expired, InvalidInput, NotFound, Overloaded, StaleRevision
from speck.placement.policies import solver_available
from speck.placement.profile import Inputs
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.benches.placement import (
    NOW,
    Profiler,
    broker_at,
    engine_at,
    inventory,
    kinds,
    movable,
    road_traffic,
)
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.world import World

CLOUD = PlacementRequest(policy="cloud")
BY_DEFAULT = PlacementRequest()


@dataclass
class Bench:
    """A coordinator with its world; ``now`` is its clock."""

    services: Services
    world: World
    profiler: Profiler
    now: float = NOW

    def propose(self, desired: Composition, wishes: PlacementRequest = BY_DEFAULT) -> dict[str, Any]:
        return self.services.retained_plans.propose(Apply(desired), wishes)

    def advise(self, wishes: PlacementRequest = BY_DEFAULT) -> dict[str, Any]:
        return self.services.retained_plans.advise("traffic", wishes)

    def accept(self, proposal: dict[str, Any], **why: str) -> None:
        operation = self.services.retained_plans.accept_placement(proposal["id"], Request(**why))
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()

    def apply(self, desired: Composition, **how: Any) -> None:
        operation, _ = user.apply(self.services.coordinator, desired, **how)
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()

    def all_in_cloud(self) -> None:
        self.accept(self.propose(road_traffic(), CLOUD))

    @property
    def revisions(self) -> list[int]:
        return [each["number"] for each in self.services.queries.revisions("traffic")]


def _bench(directory: Path, *, profiles: bool = True) -> Iterator[Bench]:
    world, profiler = World(), Profiler()
    with Store(directory / "store") as store:
        bench = Bench(None, world, profiler)  # type: ignore[arg-type]
        bench.services = build(
            store,
            kinds(world, profiles=profiles),
            inventory(),
            Settings(roots=(write_code(directory),), period=0),
            clock=lambda: bench.now,
            inputs=profiler,
        )
        bench.services.coordinator.start()
        try:
            yield bench
        finally:
            bench.services.coordinator.close()
    assert world.violations == []


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    yield from _bench(tmp_path)


@pytest.fixture(name="third_party")
def third_party_fixture(tmp_path: Path) -> Iterator[Bench]:
    yield from _bench(tmp_path, profiles=False)


def kinds_of(proposal: dict[str, Any]) -> dict[str, str]:
    return {each["job"]: each["kind"] for each in proposal["plan"]["actions"]}


def why(proposal: dict[str, Any], job: str) -> str:
    return str(next(each["why"] for each in proposal["verdicts"] if each["job"] == job))


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
    wishes = PlacementRequest(pins=("clean-a", "local-a"), constraints={"clean-b": ("C", "D")})
    advice = bench.advise(wishes)
    found = {each["job"]: each["to"] for each in advice["verdicts"]}
    assert found["clean-a"] == found["local-a"] == "D"
    assert why(advice, "clean-a") == "it is pinned"
    assert found["clean-b"] in ("C", "D")


@pytest.mark.parametrize(
    ("wishes", "fault"),
    [
        (PlacementRequest(pins=("clean-aa",)), "there is no job 'clean-aa' (did you mean 'clean-a'"),
        (PlacementRequest(explain=("globel",)), "there is no job 'globel' (did you mean 'global'?)"),
        (PlacementRequest(constraints={"clean-a": ("E",)}), "site 'E' is not one of its sites"),
        (PlacementRequest(policy="spek"), "there is no placement policy 'spek' (did you mean 'speck'?"),
    ],
)
def test_wrong_names_are_refused_with_near_ones(bench: Bench, wishes: PlacementRequest, fault: str) -> None:
    bench.all_in_cloud()
    with pytest.raises(InvalidInput) as caught:
        bench.advise(wishes)
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


def test_plan_names_the_sites_of_new_jobs(bench: Bench) -> None:
    notes = user.plan(bench.services.coordinator, road_traffic()).consequences
    assert notes["clean-a"] == "at site A, chosen among any"
    assert notes["global"] == "at site D, chosen among any"


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


def test_empty_composition_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="no jobs to place"):
        bench.propose(Composition("traffic", {}))


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


def test_new_jobs_wait_when_no_engine_answers(bench: Bench) -> None:
    for site in "ABCD":
        bench.world.down(engine_at(site))
    assert len(user.plan(bench.services.coordinator, road_traffic()).changes) == 7


def test_one_placement_is_computed_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.coordinator.placing.placer.SECONDS", 0.01)
    with bench.services.coordinator.placer.alone(), pytest.raises(Overloaded, match="another placement"):
        bench.propose(road_traffic())


@pytest.mark.slow("a hundred placements are computed")
def test_hundred_proposals_are_kept(bench: Bench) -> None:
    first = bench.propose(road_traffic(), CLOUD)["id"]
    for _ in range(100):
        bench.propose(road_traffic(), CLOUD)
    assert len(bench.services.retained_plans.placements(lines=False)) == 100
    with pytest.raises(NotFound):
        bench.services.retained_plans.placement(first, lines=False)
