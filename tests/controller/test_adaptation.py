"""The adaptation loop over engines and brokers in memory: its steps, and all that it must never do."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from speck.binder import Backlog
from speck.core.adaptation import AdaptationState, StepOutcome, StepRecord
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job
from speck.core.live_inventory import LiveInventory
from speck.core.placement import PlacementOptions
from speck.errors import Busy, NoCapacity, NotFound, Rejected
from speck.store import Head, SessionRecord
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.adaptation import AUTO, EDGES, NAME, Bench, bench_at, plant, untroubled
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.benches.placement import broker_at, engine_at, road_traffic
from tests.support.properties import SHARE

GROUP = {"clean-a", "count-a"}
PROBES = {"probe_link", "probe_core"}


@dataclass(frozen=True)
class Adapted:
    """A composition after 90 rounds, in which its jobs moved to their data; its jobs ``before`` them."""

    bench: Bench
    before: Mapping[str, Job]


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    with bench_at(tmp_path) as bench, untroubled(bench):
        yield bench


@pytest.fixture(name="adapted", scope="module")
def adapted_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapted]:
    """One for all tests that only read."""
    with bench_at(tmp_path_factory.mktemp("adapted")) as bench:
        before = dict(bench.services.coordinator.deployments.composition(NAME).jobs)
        with untroubled(bench):
            bench.round(times=90)
        yield Adapted(bench, before)


def first_step(bench: Bench) -> None:
    """Have the first step made, which moves the jobs of A to A."""
    bench.decide(3)
    assert {job for job, site in bench.where.items() if site == "A"} == GROUP


# --- steps


@pytest.mark.slow("hours of simulated load")
def test_jobs_move_to_their_data_in_groups_and_then_stay(bench: Bench) -> None:
    bench.round(times=90)
    assert bench.where == {"clean-a": "A", "count-a": "A", "clean-b": "B", "count-b": "B"}
    assert bench.steps == ["kept", "kept"]
    assert bench.events == ["step", "step"]
    before = bench.world.changes()
    bench.decide(30)
    assert bench.world.changes() == before
    assert bench.reasons[-1] == "no placement is better"


def test_a_step_is_a_revision_with_its_figures(bench: Bench) -> None:
    first_step(bench)
    last = bench.services.queries.revisions(NAME)[-1]
    assert (last["number"], last["author"]) == (2, "placement")
    assert "clean-a, count-a from D to A: the objective falls by" in last["message"]
    operation = bench.store.operations()[-1]
    assert (operation["kind"], operation["author"]) == ("place", "placement")
    assert operation["id"] == bench.memory.steps[-1].operation == bench.memory.entries[-1].operation
    metrics = bench.services.metrics.registry
    assert metrics.get_sample_value("speck_placement_decisions_total", {"decision": "step"}) == 1
    assert metrics.get_sample_value("speck_operations_total", {"kind": "place", "outcome": "succeeded"}) == 1


@pytest.mark.slow("hours of simulated traffic")
def test_topics_stay_when_jobs_move(adapted: Adapted) -> None:
    before = adapted.before
    after = adapted.bench.services.coordinator.deployments.composition(NAME).jobs
    assert {name for name in before if before[name].site != after[name].site} == set(before)
    for name in before:
        assert replace(after[name], site=None, spe_address="") == replace(
            before[name], site=None, spe_address=""
        )


def test_the_prediction_is_stored_before_the_step_is_begun(bench: Bench) -> None:
    seen: list[AdaptationState] = []
    mover = bench.services.adaptation.mover
    move = mover.move

    class Watched:
        present, advise = mover.present, mover.advise

        def move(self, *arguments: Any) -> Any:
            seen.append(bench.memory)
            return move(*arguments)

    bench.services.adaptation.mover = Watched()
    first_step(bench)
    [memory] = seen
    assert memory.pending is not None
    assert memory.pending.operation == ""
    assert memory.pending.predicted < memory.pending.objective
    assert bench.memory.pending is not None
    assert bench.memory.pending.operation


@pytest.mark.parametrize(
    ("change", "trigger"),
    [
        ({"rate": 1500.0}, "rates"),
        ({"cost": 5.5e-3}, "cores"),
        ({"bandwidth": dict.fromkeys(EDGES, 1e5)}, "link"),
        ({"pressed": {"clean-a"}}, "lag"),
    ],
)
def test_triggers_ask_for_a_decision_before_the_period_is_over(
    bench: Bench, change: dict[str, Any], trigger: str
) -> None:
    bench.services.adaptation.period = 600.0
    bench.decide(1)
    for name, value in change.items():
        setattr(bench.conditions, name, value)
    bench.round(times=3)
    assert bench.memory.entries[-1].trigger == "period"
    bench.round(times=2)
    assert bench.memory.entries[-1].trigger == trigger


# --- what it must never do


@pytest.mark.parametrize("mode", ["advise", "off"])
def test_never_moves_without_the_mode_auto(bench: Bench, mode: str) -> None:
    bench.apply(plant(PlacementOptions(mode=mode)))
    before = bench.world.changes()
    bench.decide(10)
    assert bench.world.changes() == before
    assert bench.memory == AdaptationState()


def test_never_moves_pinned_jobs_nor_fixed_ones(bench: Bench) -> None:
    jobs = dict(plant().jobs)
    jobs["clean-a"] = replace(jobs["clean-a"], pin=True)
    jobs["count-a"] = replace(jobs["count-a"], sites=(), placed=())
    bench.apply(Composition(NAME, jobs, AUTO))
    bench.round(times=90)
    assert bench.where == {"clean-a": "D", "count-a": "D", "clean-b": "B", "count-b": "B"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fresh": {"clean-a", "clean-b"}}, "the rate of job 'count-a', 'count-b' is not of the last minute"),
        ({"fresh": set()}, "is not of the last minute"),
        ({"unknown": {"clean-a", "count-b"}}, "job 'clean-a', 'count-b' is not of the last minute"),
    ],
)
def test_never_acts_on_stale_figures(bench: Bench, change: dict[str, Any], reason: str) -> None:
    for name, value in change.items():
        setattr(bench.conditions, name, value)
    before = bench.world.changes()
    bench.decide(10)
    assert bench.world.changes() == before
    assert reason in bench.reasons[-1]


@pytest.mark.slow("hours of simulated load")
def test_never_moves_jobs_without_messages(bench: Bench) -> None:
    bench.round(times=90)
    before = bench.world.changes()
    bench.conditions.rate = 0.0
    bench.decide(30)
    assert bench.world.changes() == before
    names = "'clean-a', 'clean-b', 'count-a' and 1 more"
    assert bench.reasons[-1] == f"no placement is better; no message reaches job {names}"


def test_a_step_is_not_judged_while_no_message_reaches_its_jobs(bench: Bench) -> None:
    first_step(bench)
    bench.round(times=3)
    bench.conditions.rate = 0.0
    bench.round(times=12)
    assert bench.steps == ["pending"]
    assert "cannot be evaluated yet: no message reaches job" in bench.reasons[-1]
    bench.conditions.rate = 900.0
    bench.round(times=12)
    assert bench.steps[0] == "kept"


@pytest.mark.slow("hours of simulated traffic")
def test_a_group_moves_while_others_have_no_fresh_rate(bench: Bench) -> None:
    bench.conditions.fresh, bench.conditions.ages = {"clean-a", "count-a", "clean-b"}, {"count-b": 100.0}
    bench.round(times=60)
    assert bench.where == {"clean-a": "A", "count-a": "A", "clean-b": "D", "count-b": "D"}
    assert bench.steps == ["kept"]
    assert bench.reasons[-1] == "no placement is better; the rate of job 'count-b' is not of the last minute"
    bench.conditions.fresh = None
    bench.round(times=60)
    assert bench.where == {"clean-a": "A", "count-a": "A", "clean-b": "B", "count-b": "B"}
    assert bench.steps == ["kept", "kept"]


@pytest.mark.parametrize(("age", "moves"), [(890.0, True), (910.0, False)])
def test_a_last_rate_counts_for_a_quarter_of_an_hour(bench: Bench, age: float, moves: bool) -> None:
    """The job of the other edge runs at A, so that its load counts there."""
    jobs = dict(plant().jobs)
    jobs["count-b"] = replace(jobs["count-b"], site="A", spe_address=engine_at("A"))
    bench.apply(Composition(NAME, jobs, AUTO))
    bench.conditions.fresh, bench.conditions.ages = {"clean-a", "count-a", "clean-b"}, {"count-b": age}
    bench.decide(4)
    assert (bench.where["clean-a"], bench.where["count-a"]) == (("A", "A") if moves else ("D", "D"))
    if not moves:
        assert "the load of A is not known: job 'count-b' has had no rate for 15 minutes" in bench.reasons[-1]


def test_never_acts_on_assumed_links(tmp_path: Path) -> None:
    with bench_at(tmp_path, declared=False) as bench, untroubled(bench):
        before = bench.world.changes()
        bench.decide(10)
        assert bench.world.changes() == before
        assert "is assumed (expected: declared in the inventory" in bench.reasons[-1]
        bench.conditions.bandwidth = dict.fromkeys(EDGES, 2.5e6)
        bench.decide(3)
        assert bench.steps == ["pending"]


@pytest.mark.slow("hours of simulated traffic")
def test_never_rewires_a_topic(bench: Bench) -> None:
    bench.apply(Composition(NAME, {}))
    traffic = replace(road_traffic(), name="traffic", placement=AUTO)
    operation, _ = user.apply(bench.services.coordinator, _in_the_cloud(traffic))
    assert operation.wait(30)
    bench.conditions.traffic = True
    before = bench.world.changes()
    bench.decide(6)
    assert bench.world.changes() == before
    memory = bench.store.adaptation("traffic")
    assert memory.entries[-1].decision == "advise"
    assert "speck advise" in memory.entries[-1].reason


def _in_the_cloud(desired: Composition) -> Composition:
    jobs = {
        name: replace(
            job,
            site="D",
            spe_address=engine_at("D"),
            source_broker=job.source_broker or broker_at("D"),
            sink_broker=job.sink_broker or broker_at("D"),
        )
        for name, job in desired.jobs.items()
        if name[-1] in "ab"
    }
    return replace(desired, jobs=jobs)


@pytest.mark.parametrize("sites", [("any",), ("B",)], ids=["any", "lost"])
def test_a_job_at_a_site_that_left_the_inventory_blocks_no_step_of_others(
    bench: Bench, sites: tuple[str, ...]
) -> None:
    jobs = dict(plant().jobs)
    stray = replace(jobs["clean-b"], sites=sites, site="B", spe_address=engine_at("B"))
    bench.apply(Composition(NAME, {**jobs, "clean-b": stray}, AUTO))
    inventory = bench.services.coordinator.inventory
    assert isinstance(inventory, LiveInventory)
    inventory.replace(Inventory({name: site for name, site in inventory.sites.items() if name != "B"}))
    bench.decide(3)
    assert {job for job, site in bench.where.items() if site == "A"} == GROUP
    assert bench.where["clean-b"] == "B"
    left = bench.services.coordinator.deployments.composition(NAME).jobs["clean-b"]
    assert left == stray
    bench.round(times=20)
    assert bench.steps == ["kept"]


def test_never_probes(adapted: Adapted) -> None:
    assert not PROBES & adapted.bench.world.counts().keys()


@pytest.mark.parametrize("site", ["A", "D"])
def test_never_moves_to_or_from_a_silent_site(bench: Bench, site: str) -> None:
    bench.world.down(engine_at(site))
    for _ in range(12):
        bench.services.coordinator.reconciler.round()
        bench.round()
    moved = [call for call in bench.world.changes() if call[1] == engine_at("A")]
    assert moved == []
    if site == "D":  # where all jobs run
        assert bench.memory.entries[-1].decision == "advise"
        assert "--leave-behind D" in bench.reasons[-1]
        assert bench.services.coordinator.deployments.head(NAME).revision == 1


def test_never_leaves_a_site_behind_nor_gives_up_messages(adapted: Adapted) -> None:
    bench = adapted.bench
    assert bench.steps == ["kept", "kept"]
    head = bench.services.coordinator.deployments.head(NAME)
    assert (head.left_behind, head.give_up) == ((), False)
    assert bench.store.abandoned_attempts() == []
    assert bench.store.abandoned_sessions() == []
    assert all(not each["give_up"] for each in bench.store.operations())


def test_never_loses_a_state(bench: Bench) -> None:
    first_step(bench)
    [running] = bench.world.running("count-a")
    assert running.attempt.state is not None
    assert running.attempt.state.location in bench.world.states


def test_never_beside_an_operation(bench: Bench) -> None:
    bench.decide(2)
    hold = bench.world.hold("submit", "clean-b")
    jobs = dict(plant().jobs)
    jobs["clean-b"] = replace(jobs["clean-b"], arguments={"x": 1})
    operation, _ = user.apply(bench.services.coordinator, Composition(NAME, jobs, AUTO))
    assert hold.reached.wait(30)
    for _ in range(4):
        bench.conditions.now += 60
        bench.services.adaptation.round()
    assert bench.reasons[-1] == "an operation is in progress"
    hold.release()
    assert operation.wait(30)
    assert bench.steps == []


def test_never_while_a_job_is_not_as_desired_nor_soon_after_it_was_healed(bench: Bench) -> None:
    bench.decide(2)
    bench.world.crash("clean-b")
    hold = bench.world.hold("submit", "clean-b")
    bench.services.coordinator.reconciler.round()
    assert hold.reached.wait(30)
    bench.conditions.now += 60
    bench.services.adaptation.round()
    assert bench.reasons[-1] == "an operation is in progress"
    bench.conditions.now += 10
    hold.release()
    bench.finish()
    bench.services.coordinator.reconciler.round()
    bench.round(50)
    assert bench.reasons[-1] == "the server started, or a job was repaired, within the last minute"
    bench.decide(3)
    assert bench.steps == ["pending"]


def test_never_in_the_minute_after_a_server_has_taken_it_over(bench: Bench) -> None:
    """A heal of the minute before is unknown to it."""
    bench.restart()
    bench.round(50)
    assert bench.reasons[-1] == "the server started, or a job was repaired, within the last minute"
    bench.decide(3)
    assert bench.steps == ["pending"]


def test_never_two_steps_of_a_composition_at_a_time(bench: Bench) -> None:
    hold = bench.world.hold("submit", "clean-a")
    bench.decide(2)
    bench.conditions.now += 60
    bench.services.adaptation.round()
    assert hold.reached.wait(30)
    for _ in range(5):
        bench.conditions.now += 400
        bench.services.adaptation.round()
    assert bench.steps == ["pending"]
    assert bench.reasons[-1] == "a step is in progress (running)"
    hold.release()
    bench.finish()


# --- beside users


def test_a_users_apply_while_a_step_is_at_work_waits_for_it(bench: Bench) -> None:
    hold = bench.world.hold("submit", "clean-a")
    bench.decide(2)
    bench.conditions.now += 60
    bench.services.adaptation.round()
    assert hold.reached.wait(30)
    hold.release()
    bench.apply(plant())  # all in the cloud
    assert set(bench.where.values()) == {"D"}
    bench.round()
    assert bench.steps == ["superseded"]
    assert bench.memory.streak is None
    assert bench.memory.bans == ()


def test_compositions_that_are_deleted_are_forgotten(bench: Bench) -> None:
    adaptation, coordinator = bench.services.adaptation, bench.services.coordinator
    other = composition(make_job("aside", "a", "b", spe_address=engine_at("D"), engine="flink"), name="other")
    operation, _ = user.apply(coordinator, other)
    assert operation.wait(30)
    adaptation.obstacles._repaired["other"] = 0.0
    bench.round()
    assert "other" in adaptation.obstacles._repaired
    assert user.delete_composition(coordinator, "other").wait(30)
    bench.round()
    assert {"other"}.isdisjoint(adaptation.obstacles._repaired.keys() | adaptation._applied)


def test_a_step_gives_way_to_a_user_who_waits(bench: Bench) -> None:
    bench.decide(2)
    operations = bench.services.coordinator.operations
    with operations.exclusive(NAME):
        bench.decide(1)
    assert bench.steps == []
    assert "an operation is in progress" in bench.reasons[-1]


def test_a_step_that_is_planned_gives_way_to_a_user_who_came_meanwhile(bench: Bench) -> None:
    adaptation, coordinator = bench.services.adaptation, bench.services.coordinator
    mover = adaptation.mover

    class Slow:
        present, advise = mover.present, mover.advise

        def move(self, *arguments: Any) -> Any:
            with coordinator.operations.exclusive(NAME):
                raise_busy = pytest.raises(Busy, match="a user's change is in progress")
                with raise_busy:
                    mover.move(*arguments)
                raise Busy("a user's change is in progress")

    adaptation.mover = Slow()
    bench.decide(3)
    assert bench.steps == []
    assert "a user's change or a repair came first" in bench.reasons[-1]
    adaptation.mover = mover
    bench.decide(1)
    assert bench.steps == ["pending"]


def test_an_apply_of_the_user_between_decision_and_step_wins(bench: Bench) -> None:
    adaptation, mover = bench.services.adaptation, bench.services.adaptation.mover
    changed = plant(PlacementOptions(mode="auto", min_gain=0.2))

    class Late:
        present, advise = mover.present, mover.advise

        def move(self, *arguments: Any) -> Any:
            bench.apply(changed)
            return mover.move(*arguments)

    adaptation.mover = Late()
    bench.decide(3)
    assert bench.steps == []
    assert bench.services.coordinator.deployments.head(NAME).revision == 2
    assert set(bench.where.values()) == {"D"}
    assert "base_revision 1 is stale" in bench.reasons[-1]


def test_a_revision_of_a_user_with_the_author_of_the_loop_is_no_step(bench: Bench) -> None:
    """The server ends after it has stored the step; the next one finds a revision of its number."""
    adaptation, mover = bench.services.adaptation, bench.services.adaptation.mover

    class Ended:
        present, advise = mover.present, mover.advise

        def move(self, *arguments: Any) -> Any:
            changed = plant(PlacementOptions(mode="auto", min_gain=0.2))
            operation, _ = user.apply(bench.services.coordinator, changed, author="placement")
            assert operation.wait(30)
            raise KeyboardInterrupt

    adaptation.mover = Ended()
    with pytest.raises(KeyboardInterrupt):
        bench.decide(3)
    adaptation.mover = mover
    assert bench.steps == ["pending"]
    bench.decide(1)
    assert bench.steps == ["superseded"]
    assert set(bench.where.values()) == {"D"}


def test_an_apply_of_the_same_file_begins_the_row_anew(bench: Bench) -> None:
    bench.decide(2)
    bench.apply(plant())
    bench.decide(2)
    assert bench.steps == []
    bench.decide(1)
    assert bench.steps == ["pending"]


# --- back


@pytest.mark.slow("hours of simulated traffic")
def test_a_lied_about_speed_leads_back_once_and_is_banned(bench: Bench) -> None:
    first_step(bench)
    bench.conditions.factors = dict.fromkeys(GROUP, 30.0)  # as if A had a speed of 1/30 only
    bench.conditions.cost = 60e-6
    bench.round(times=12)
    assert set(bench.where.values()) == {"D"}
    assert bench.steps == ["back", "kept"]
    assert bench.events == ["step", "back", "banned"]
    [ban] = bench.memory.bans
    assert (set(ban.jobs), ban.target) == (GROUP, "A")
    speed = bench.store.site_profiles()["A"].speed
    assert speed is not None
    assert speed.value < 0.5
    bench.conditions.factors = {}
    bench.round(times=50)  # within the ban
    assert {job for job, site in bench.where.items() if site == "A"} == set()


@pytest.mark.slow("minutes of simulated load")
def test_a_step_to_a_site_with_fewer_cores_than_it_says_is_taken_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message costs more there, but ever more of them wait: known from half a minute after the step."""
    first_step(bench)
    bench.round(times=3)
    counts = count(20_000, 5_000)
    monkeypatch.setattr(bench.services.coordinator.sampler, "waiting", lambda: {"clean-a": next(counts)})
    bench.round(times=12)
    assert set(bench.where.values()) == {"D"}
    assert bench.steps == ["back", "kept"]
    [ban] = bench.memory.bans
    assert (set(ban.jobs), ban.target, ban.reason) == (GROUP, "A", "jobs have fallen behind since the step")


@pytest.mark.slow("minutes of simulated load")
def test_a_backlog_at_the_broker_counts_beside_that_of_the_reader(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffer of the reader is full all the time."""
    first_step(bench)
    bench.round(times=3)
    counts, sampler = count(20_000, 5_000), bench.services.coordinator.sampler
    [session] = next(each.sessions for each in bench.store.jobs(NAME) if each.name == "clean-a")

    def backlog(asked: SessionRecord) -> Backlog | None:
        return Backlog(next(counts)) if asked == session else None

    monkeypatch.setattr(sampler, "waiting", lambda: {"clean-a": 2_000})
    monkeypatch.setattr(sampler, "backlog", backlog)
    bench.round(times=12)
    assert bench.steps == ["back", "kept"]
    assert bench.memory.bans[0].reason == "jobs have fallen behind since the step"


@pytest.mark.slow("minutes of simulated load")
def test_a_way_back_never_makes_its_target_faster(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages cost less there, of which ever more wait."""
    first_step(bench)
    bench.round(times=3)
    bench.conditions.factors = dict.fromkeys(GROUP, 0.3)
    counts = count(20_000, 5_000)
    monkeypatch.setattr(bench.services.coordinator.sampler, "waiting", lambda: {"clean-a": next(counts)})
    bench.round(times=12)
    assert bench.steps[0] == "back"
    profile = bench.store.site_profiles().get("A")
    assert profile is None or profile.speed is None or profile.speed.value <= 1.0


@pytest.mark.slow("minutes of simulated load")
def test_a_step_that_starves_a_job_at_its_target_is_taken_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = dict(plant().jobs)
    jobs["count-b"] = replace(jobs["count-b"], site="A", spe_address=engine_at("A"), pin=True)
    jobs["clean-b"] = replace(jobs["clean-b"], pin=True)
    bench.apply(Composition(NAME, jobs, AUTO))
    bench.decide(3)
    assert bench.where == {"clean-a": "A", "count-a": "A", "clean-b": "D", "count-b": "A"}
    bench.round(times=3)
    counts = count(20_000, 5_000)
    monkeypatch.setattr(bench.services.coordinator.sampler, "waiting", lambda: {"count-b": next(counts)})
    bench.round(times=12)
    assert bench.steps[0] == "back"
    assert bench.memory.bans[0].reason == "jobs have fallen behind since the step"


def test_failed_move_is_undone_and_banned(bench: Bench) -> None:
    bench.world.fail(
        "submit",
        NoCapacity("no slot is free", address=engine_at("A")),
        name="clean-a",
        address=engine_at("A"),
        times=None,
    )
    bench.round(60, 3)
    bench.round(times=6)
    desired = bench.services.coordinator.deployments.composition(NAME).jobs
    assert {job.site for job in desired.values()} == {"D"}
    assert set(bench.where.values()) == {"D"}
    assert bench.memory.steps[0].outcome in (StepOutcome.FAILED, StepOutcome.BACK)
    assert [ban.target for ban in bench.memory.bans] == ["A"]


@pytest.mark.slow("minutes of simulated load")
def test_a_step_whose_jobs_die_at_the_target_is_taken_back(bench: Bench) -> None:
    first_step(bench)
    bench.round(times=3)
    for _ in range(40):
        if bench.where.get("clean-a") == "A":
            bench.world.crash("clean-a")
        bench.services.coordinator.reconciler.round()
        bench.finish()
        bench.round()
    assert bench.steps[:2] == ["back", "kept"]
    assert bench.where["clean-a"] == "D"
    assert bench.memory.bans[0].reason == "job clean-a failed there"


def test_a_job_that_fails_once_after_a_step_is_no_reason_to_take_it_back(bench: Bench) -> None:
    first_step(bench)
    bench.round(times=3)
    bench.world.crash("clean-a")
    for _ in range(20):
        bench.services.coordinator.reconciler.round()
        bench.finish()
        bench.round()
    assert bench.steps[0] == "kept"


def test_a_refused_step_is_banned_and_gives_way_to_others(bench: Bench) -> None:
    bench.world.fail(
        "build_job",
        Rejected("a library is missing", address=engine_at("A")),
        address=engine_at("A"),
        times=None,
    )
    bench.round(times=120)
    assert bench.events == ["banned", "step", "banned"]
    [ban] = bench.memory.bans
    assert (set(ban.jobs), ban.target, ban.times) == (GROUP, "A", 2)
    assert "the move was refused" in ban.reason and "a library is missing" in ban.reason
    assert bench.where == {"clean-a": "D", "count-a": "D", "clean-b": "B", "count-b": "B"}


def test_a_refused_way_back_is_announced_once_and_tried_again(bench: Bench) -> None:
    adaptation, mover = bench.services.adaptation, bench.services.adaptation.mover
    first_step(bench)
    bench.conditions.factors = dict.fromkeys(GROUP, 30.0)
    bench.conditions.cost = 60e-6
    tried = []

    class Refusing:
        present, advise = mover.present, mover.advise

        def move(self, *arguments: Any) -> Any:
            tried.append(bench.conditions.now)
            raise Rejected("a library is missing", address=engine_at("D"))

    adaptation.mover = Refusing()
    bench.round(times=30)
    assert bench.events == ["step", "banned"]
    assert bench.steps == ["pending"]
    assert len(tried) > 1
    assert all(later - earlier >= 60 for earlier, later in itertools.pairwise(tried))
    [ban] = bench.memory.bans
    assert (set(ban.jobs), ban.target, ban.times) == (GROUP, "A", 1)
    metrics = bench.services.metrics.registry
    assert not metrics.get_sample_value("speck_placement_steps_total", {"outcome": "back"})
    assert bench.store.site_profiles().get("A") is None or bench.store.site_profiles()["A"].speed is None
    adaptation.mover = mover
    bench.round(times=10)
    assert bench.events == ["step", "banned", "back"]
    assert bench.steps == ["back", "kept"]
    assert metrics.get_sample_value("speck_placement_steps_total", {"outcome": "back"}) == 1


# --- restarts


def test_another_server_judges_the_step(bench: Bench) -> None:
    first_step(bench)
    bench.restart()
    bench.round(times=12)
    assert bench.steps[0] == "kept"


def test_a_step_of_a_server_that_died_when_it_had_begun_is_announced_once(bench: Bench) -> None:
    adaptation, mover = bench.services.adaptation, bench.services.adaptation.mover

    class Dying:
        present, advise = mover.present, mover.advise

        def move(self, *arguments: Any) -> Any:
            mover.move(*arguments)
            raise KeyboardInterrupt

    adaptation.mover = Dying()
    with pytest.raises(KeyboardInterrupt):
        bench.decide(3)
    bench.finish()
    bench.restart()
    assert bench.events == ["step"]
    bench.round(times=12)
    assert (bench.steps[0], bench.events.count("step")) == ("kept", len(bench.steps))


def test_a_step_that_the_reconciler_completes_is_judged(bench: Bench) -> None:
    """The engine at the target goes down after the plan is made."""
    adaptation, mover = bench.services.adaptation, bench.services.adaptation.mover

    class Late:
        present, advise = mover.present, mover.advise

        def move(self, *arguments: Any) -> Any:
            bench.world.down(engine_at("A"))
            return mover.move(*arguments)

    adaptation.mover = Late()
    bench.decide(3)
    adaptation.mover = mover
    assert bench.store.operations()[-1]["state"] == "waiting"
    bench.world.up(engine_at("A"))
    for _ in range(30):
        bench.services.coordinator.reconciler.round()
        bench.finish()
        bench.round()
    assert bench.where["clean-a"] == "A"
    assert bench.steps[0] == "kept"


@pytest.mark.slow("servers that are killed and started again, and a hundred decisions of each")
@pytest.mark.parametrize("seed", range(round(8 * max(SHARE, 0.5))))
def test_server_killed_at_any_moment_of_a_step(bench: Bench, seed: int) -> None:
    """Another server goes on: the step is carried out once, or not begun; it is judged or made anew."""
    bench.decide(2)
    moment = random.Random(seed).randrange(60)
    bench.life.moments = moment
    bench.round(60)
    bench.restart()
    bench.finish()
    assert len(bench.world.running()) == 4
    bench.round(times=100)
    assert bench.where == {"clean-a": "A", "count-a": "A", "clean-b": "B", "count-b": "B"}
    assert [each for each in bench.steps if each != "failed"][-2:] == ["kept", "kept"]
    assert all(each.times == 1 for each in bench.memory.bans)


@pytest.mark.slow("minutes of simulated load")
def test_the_speed_behind_a_way_back_outlives_the_server(bench: Bench) -> None:
    """The server dies when the way back has begun, before the profile of the site has its speed."""
    first_step(bench)
    bench.conditions.factors = dict.fromkeys(GROUP, 30.0)
    bench.conditions.cost = 60e-6
    adaptation, mover = bench.services.adaptation, bench.services.adaptation.mover

    class Dying:
        present, advise = mover.present, mover.advise

        def move(self, *arguments: Any) -> Any:
            mover.move(*arguments)
            raise KeyboardInterrupt

    adaptation.mover = Dying()
    with pytest.raises(KeyboardInterrupt):
        bench.round(times=12)
    bench.finish()
    assert bench.memory.steps[-1].back
    before = bench.store.site_profiles().get("A")
    assert before is None or before.speed is None
    bench.restart()
    bench.round(times=6)
    speed = bench.store.site_profiles()["A"].speed
    assert speed is not None and speed.value < 0.5
    assert bench.memory.steps[-1].speed == 0.0


def test_a_step_of_an_earlier_version_has_no_speed() -> None:
    step = StepRecord(
        jobs=("a",), source="A", target="D", at=1.0, due=0.0, objective=1.0, predicted=0.5, age_p95=1.0
    )
    data = AdaptationState(steps=(step,)).to_dict()
    del data["steps"][0]["speed"]
    assert AdaptationState.from_dict(data).steps == (step,)


# --- the commands


def test_pause_and_resume(bench: Bench) -> None:
    adaptation = bench.services.adaptation
    bench.decide(2)
    shown = adaptation.pause(NAME, 3600)
    assert (shown["state"], shown["paused_until"]) == ("paused", bench.conditions.now + 3600)
    bench.decide(10)
    assert bench.steps == []
    assert bench.reasons[-1] == "paused"
    assert adaptation.resume(NAME)["state"] == "watching"
    bench.round(1)
    assert bench.memory.entries[-1].trigger == "resumed"
    bench.decide(2)
    assert bench.steps == ["pending"]


def test_shown_data(bench: Bench) -> None:
    adaptation = bench.services.adaptation
    first_step(bench)
    shown = adaptation.show(NAME)
    assert shown["state"] == "moving"
    assert shown["entries"][0] == shown["last"]
    assert shown["last"]["decision"] == "step"
    assert shown["next"] == bench.conditions.now + 60
    assert (shown["steps_last_hour"], shown["steps_per_hour"], shown["steps_last_day"]) == (1, 6, 1)
    bench.round(times=2)
    assert adaptation.show(NAME)["state"] == "judging"
    [short] = adaptation.all()["compositions"]
    assert short.keys() == shown.keys() - {"entries", "steps", "bans"}
    with pytest.raises(NotFound, match="did you mean 'plant'"):
        adaptation.show("plan")
    for call in (lambda: adaptation.pause("plan", 1), lambda: adaptation.resume("plan")):
        with pytest.raises(NotFound):
            call()


def test_a_composition_that_is_gone_leaves_those_of_others_shown(bench: Bench) -> None:
    adaptation = bench.services.adaptation
    with adaptation.store.transaction() as transaction:
        transaction.put_head(Head("torn", 3))  # as of one that is deleted between two readings
    assert [each["composition"] for each in adaptation.all()["compositions"]] == [NAME]


def test_the_memory_goes_with_its_composition(bench: Bench) -> None:
    bench.decide(1)
    assert user.delete_composition(bench.services.coordinator, NAME).wait(30)
    assert bench.memory == AdaptationState()
    bench.round()
    assert bench.memory == AdaptationState()


def test_the_end_of_the_thread_is_a_fault(bench: Bench) -> None:
    def end() -> None:
        raise SystemExit("a defect")

    adaptation = bench.services.adaptation
    assert bench.services.coordinator.faults() == []
    adaptation.round = end  # type: ignore[method-assign]
    adaptation.start()
    eventually(bench.services.coordinator.faults, bool)
    assert bench.services.coordinator.faults() == ["the adaptation thread died: SystemExit('a defect')"]
