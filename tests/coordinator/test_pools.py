"""Jobs of a site with a pool, over engines in memory: the engine that each gets, and keeps."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from speck.binder import Capability
from speck.controller.workers.loads import JobLoad
from speck.coordinator import Services, build
from speck.core.change import Apply, Request
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import Job
from speck.core.settings import Quotas, Settings
from speck.errors import Conflict, StalePlan
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.benches.reconciler import Clock
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

FIRST, SECOND, THIRD = ADDRESSES = [f"http://e{number}:8081/" for number in (1, 2, 3)]


@dataclass
class Bench:
    services: Services
    world: World
    clock: Clock

    def apply(self, *jobs: Job, name: str = "traffic", **options: Any) -> list[str]:
        """Apply these jobs; returns what the plan says of each: its action, as words."""
        operation, plan = user.apply(self.services.coordinator, composition(*jobs, name=name), **options)
        assert operation.wait(30)
        return [type(each).__name__ for each in plan.actions]

    def engines(self) -> dict[str, str]:
        """The engine of each job that runs, by its name, as the engines have it."""
        return {
            job.job_name: job.spe_address
            for snapshot in self.services.coordinator.deployments.snapshots()
            for job, _ in snapshot.deployed()
        }

    def numbers(self) -> list[int]:
        counted = Counter(self.engines().values())
        return [counted[each] for each in ADDRESSES]

    def round(self) -> dict[str, Any]:
        workers = self.services.coordinator.workers
        workers.round()
        workers.await_rounds()
        (found,) = self.services.sites.workers("A")
        return found


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    world, clock = World(), Clock()
    engines = tuple(Engine(spe_address=each, cores=2.0, slots=8, pool="small") for each in ADDRESSES)
    site = Site(name="A", engines=engines, broker_address="tcp://b1:1883")
    with Store(tmp_path / "store") as store:
        services = build(
            store,
            double_kinds(world),
            Inventory({"A": site}),
            Settings(roots=(write_code(tmp_path),), period=0),
            clock=clock,
        )
        services.coordinator.start()
        yield Bench(services, world, clock)
        services.coordinator.close()
    assert world.violations == []


def pooled(*numbers: int, **fields: Any) -> list[Job]:
    """Jobs as a file's are read: at the first engine, until one is chosen."""
    place = {"spe_address": FIRST, "site": "A", "engine": "flink", "placed": ("spe_address",)}
    return [
        make_job(f"job-{number:02}", f"in/{number}", f"out/{number}", **{**place, **fields})
        for number in numbers
    ]


def test_engines_fill_one_after_the_other(bench: Bench) -> None:
    bench.apply(*pooled(*range(10)))
    assert bench.numbers() == [8, 2, 0]
    bench.apply(*pooled(*range(20, 28)), name="other")  # the jobs of another composition count
    assert bench.numbers() == [8, 8, 2]


def test_jobs_stay_and_a_hole_is_filled(bench: Bench) -> None:
    bench.apply(*pooled(*range(10)))
    before = bench.engines()
    assert set(bench.apply(*pooled(*range(10)))) == {"Keep"}
    bench.apply(*pooled(0, *range(2, 10)))
    bench.apply(*pooled(0, *range(2, 11)))
    assert bench.engines() == {name: at for name, at in before.items() if name != "job-01"} | {
        "job-10": FIRST
    }


def test_updated_jobs_stay_and_those_with_an_address_go_where_they_say(bench: Bench) -> None:
    bench.apply(*pooled(*range(9)))
    assert bench.engines()["job-08"] == SECOND
    bench.apply(*pooled(*range(9), arguments={"rate": 2}))
    assert bench.numbers() == [8, 1, 0]
    (moved,) = pooled(8, spe_address=THIRD, placed=())
    bench.apply(*pooled(*range(8)), moved)
    assert bench.numbers() == [8, 0, 1]


def test_rolled_back_jobs_stay_where_they_are(bench: Bench) -> None:
    bench.apply(*pooled(*range(9)))
    bench.apply(*pooled(8))
    assert bench.engines() == {"job-08": SECOND}
    stored = bench.services.coordinator.deployments.store.revision("traffic", 1)
    bench.apply(*stored.jobs.values())
    assert bench.numbers() == [8, 1, 0]


def test_an_engine_that_left_the_pool_gives_its_jobs_to_others(bench: Bench) -> None:
    bench.apply(*pooled(*range(9)))
    pools = bench.services.coordinator.placer.pools
    site = pools.inventory.sites["A"]
    smaller = Inventory({"A": replace(site, engines=site.engines[:1] + site.engines[2:])})
    assigned = replace(pools, inventory=smaller).assign(composition(*pooled(*range(9))))
    assert assigned.jobs["job-08"].spe_address == THIRD
    assert {assigned.jobs[f"job-{number:02}"].spe_address for number in range(8)} == {FIRST}


def test_an_engine_that_does_not_answer_gets_no_new_job(bench: Bench) -> None:
    bench.apply(*pooled(0))
    bench.world.down(FIRST)
    bench.apply(*pooled(0, 1))
    assert bench.engines() == {"job-00": FIRST, "job-01": SECOND}  # what runs there stays
    bench.world.up(FIRST)
    bench.apply(*pooled(0, 1, 2))
    assert bench.engines() == {"job-00": FIRST, "job-01": SECOND, "job-02": FIRST}


def test_a_job_that_waits_at_a_silent_engine_gets_another_at_the_next_apply(bench: Bench) -> None:
    for each in ADDRESSES:
        bench.world.down(each)
    bench.apply(*pooled(0))  # none answers, so that it waits for the first
    assert bench.engines() == {}
    desired = bench.services.coordinator.deployments.composition("traffic").jobs
    assert desired["job-00"].spe_address == FIRST
    for each in (SECOND, THIRD):
        bench.world.up(each)
    bench.apply(*pooled(0))
    assert bench.engines() == {"job-00": SECOND}
    bench.world.up(FIRST)
    assert bench.apply(*pooled(0)) == ["Keep"]


def test_an_engine_that_is_left_behind_gives_its_jobs_to_others(bench: Bench) -> None:
    bench.apply(*pooled(0, 1))
    bench.world.down(FIRST)
    desired = composition(*pooled(0, 1, 2))
    plan = user.plan(bench.services.coordinator, desired, leave_behind=[FIRST], give_up=True)
    assert {each.job.spe_address for each in plan.actions} == {SECOND}


def test_measured_cores_decide_for_the_next_of_that_code(bench: Bench) -> None:
    bench.apply(*pooled(0, 1))
    (pool,) = bench.services.coordinator.workers.pools
    bench.round()
    pool.learn([JobLoad(each, cores=1.0, measured=1.0) for each in pooled(0, 1)])
    bench.apply(*pooled(0, 1, 2, 3, 4))
    assert bench.numbers() == [2, 2, 1]  # a core each, of two


def test_the_engines_are_shown_as_workers(bench: Bench) -> None:
    bench.apply(*pooled(*range(10)))
    found = bench.round()
    assert (found["engine"], found["state"], found["present"]) == ("pool small", "idle", 3)
    assert (found["bins"], found["spare"], found["instances"]) == (2, 1, 10)
    assert found["message"] == "10 instances fill 2 of 3 engines"
    assert found["filled"] == [1.0, 0.25]
    assert [(each["id"], each["free"]) for each in found["workers"]] == list(
        zip(ADDRESSES, (False, False, True), strict=True)
    )
    bench.world.engine(SECOND).reachable = False
    found = bench.round()
    assert (found["state"], found["present"]) == ("short", 2)
    assert SECOND in found["message"]


def test_an_engine_without_workers_is_its_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    less = InMemoryEngine.capabilities - {Capability.WORKERS}
    monkeypatch.setattr(InMemoryEngine, "capabilities", less)
    bench.apply(*pooled(0, 1))
    found = bench.round()
    assert (found["state"], found["workers"][0]["slots"], found["workers"][0]["slots_free"]) == ("idle", 8, 6)


def test_two_compositions_at_once_do_not_get_the_same_room(bench: Bench) -> None:
    """The first has chosen its engines and is not accepted yet when the second one chooses."""
    paused = bench.world.hold("foreign_sessions", address="tcp://b1:1883")
    first = threading.Thread(target=bench.apply, args=pooled(*range(8)))
    first.start()
    assert paused.reached.wait(30)
    bench.apply(*pooled(*range(20, 28), source_broker="tcp://b2:1883"), name="other")
    paused.release()
    first.join()
    assert bench.numbers() == [8, 8, 0]


def test_a_plan_whose_engine_was_filled_meanwhile_is_stale(bench: Bench) -> None:
    """Two compositions were planned for the same free room; the engine of the second is full by then."""
    plans = bench.services.retained_plans
    shown = {
        name: plans.show(Apply(composition(*pooled(*numbers), name=name)), Request())
        for name, numbers in (("one", range(6)), ("two", range(20, 23)), ("three", range(30, 32)))
    }
    for name in ("one", "three"):  # eight, which are the slots of the first engine
        assert plans.accept(shown[name].id, Request()).wait(30)
    with pytest.raises(StalePlan, match=f"{FIRST} has no room left for job 'job-20'; .*plan again"):
        plans.accept(shown["two"].id, Request())
    assert bench.numbers() == [8, 0, 0]
    again = plans.show(Apply(composition(*pooled(*range(20, 23)), name="two")), Request())
    assert plans.accept(again.id, Request()).wait(30)
    assert bench.numbers() == [8, 3, 0]


def test_a_plan_for_engines_that_are_all_full_is_accepted(bench: Bench) -> None:
    bench.apply(*pooled(*range(24)))
    plans = bench.services.retained_plans
    shown = plans.show(Apply(composition(*pooled(30), name="other")), Request())
    operation = plans.accept(shown.id, Request())
    assert operation.wait(30)
    assert (operation.state, bench.numbers()) == ("waiting", [8, 8, 8])  # for a slot


def test_a_plan_is_accepted_where_only_an_engine_that_is_away_has_room(bench: Bench) -> None:
    bench.apply(*pooled(*range(16)))
    bench.world.down(THIRD)
    plans = bench.services.retained_plans
    shown = plans.show(Apply(composition(*pooled(30), name="other")), Request())
    operation = plans.accept(shown.id, Request())
    assert operation.wait(30)
    assert (operation.state, bench.numbers()) == ("waiting", [8, 8, 0])


def test_room_that_a_refused_composition_had_chosen_is_free_again(bench: Bench) -> None:
    too_many = Quotas(jobs=4)
    coordinator = bench.services.coordinator
    planner = coordinator.changes.planner
    small = replace(planner, settings=Settings(quotas=too_many))
    coordinator.changes = replace(coordinator.changes, planner=small)
    with pytest.raises(Conflict, match="4"):
        bench.apply(*pooled(*range(8)))
    coordinator.changes = replace(coordinator.changes, planner=planner)
    bench.apply(*pooled(*range(20, 28)), name="other")
    assert bench.numbers() == [8, 0, 0]


def test_many_compositions_at_once_fill_the_engines_as_one_after_the_other(bench: Bench) -> None:
    threads = [
        threading.Thread(target=bench.apply, args=pooled(number), kwargs={"name": f"c-{number}"})
        for number in range(12)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert bench.numbers() == [8, 4, 0]
