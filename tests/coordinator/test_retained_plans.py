"""A plan that was shown: carried out exactly as it was shown, or refused as stale with nothing touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speck.apply.operation import Operation
from speck.coordinator import Coordinator, build
from speck.coordinator.retained_plans import LIFETIME, PLANS, RetainedPlan
from speck.core.change import Apply, Request
from speck.core.inventory import Inventory
from speck.core.job import Composition
from speck.core.live_inventory import live
from speck.core.settings import Settings
from speck.errors import (
    Conflict,
    Expired,
    InvalidInput,
    JobsOfAnother,
    NotFound,
    SpeckError,
    StalePlan,
    StaleRevision,
)
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import chain, composition, write_code
from testbed.benches.placement import Profiler, engine_at, inventory, kinds, road_traffic
from testbed.benches.sessions import named
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

A, B, C = chain("a", "b", "c")
FASTER = replace(B, trigger="1 second")
ENGINE, BROKER = "sc://e1:1", "tcp://b1:1883"


class Bench:
    """A coordinator over engines and brokers in memory; ``now`` is its clock."""

    def __init__(self, directory: Path, world: World) -> None:
        self.directory, self.world, self.now = directory, world, 1_000_000.0
        self.store = Store(directory / "store")
        settings = Settings(roots=(write_code(directory),), period=0, drain=5)
        self.services = build(self.store, double_kinds(world), settings=settings, clock=lambda: self.now)
        self.coordinator.start()

    @property
    def coordinator(self) -> Coordinator:
        return self.services.coordinator

    def close(self) -> None:
        self.coordinator.close()
        self.store.close()

    def apply(self, *jobs: Any) -> None:
        assert user.apply(self.coordinator, composition(*jobs))[0].wait(30)

    def show(self, desired: Composition, **request: Any) -> RetainedPlan:
        return self.services.retained_plans.show(Apply(desired), Request(**request))

    def accept(self, retained: RetainedPlan, request: Request | None = None, **options: Any) -> Operation:
        operation = self.services.retained_plans.accept(retained.id, request or Request(), **options)
        assert operation.wait(30)
        return operation


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path, world: World) -> Iterator[Bench]:
    bench = Bench(tmp_path, world)
    yield bench
    world.heal()
    bench.close()
    assert world.violations == []


def shown(retained: RetainedPlan) -> dict[str, str]:
    return {each.job.job_name: type(each).__name__.lower() for each in retained.planned.plan.actions}


def done(operation: Operation) -> dict[str, str]:
    return {name: each.kind for name, each in operation.actions.items()}


def test_a_plan_is_carried_out_as_it_was_shown(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    retained = bench.show(composition(A, FASTER, C))
    operation = bench.accept(retained, Request(author="ann", message="faster", atomic=True))
    assert done(operation) == shown(retained) == {"a": "keep", "b": "update", "c": "start"}
    assert (operation.state, operation.revision, operation.base_revision) == ("succeeded", 2, 1)
    assert (operation.request.author, operation.request.atomic) == ("ann", True)
    assert bench.store.revision("traffic", 2).message == "faster"


def test_places_are_not_chosen_again_when_the_plan_is_accepted(tmp_path: Path) -> None:
    world, profiler = World(), Profiler()
    with Store(tmp_path / "store") as store:
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        services = build(store, kinds(world), inventory(), settings, inputs=profiler)
        services.coordinator.start()
        retained = services.retained_plans.show(Apply(road_traffic()), Request())
        profiler.cost *= 100
        again = services.changes.plan(Apply(road_traffic()), Request())
        operation = services.retained_plans.accept(retained.id, Request())
        assert operation.wait(30)
        services.coordinator.close()
    places = {name: job.spe_address for name, job in retained.planned.desired.items()}
    assert places != {name: job.spe_address for name, job in again.desired.items()}
    assert (world.where(), places["clean-a"]) == (places, engine_at("A"))


def another_apply(bench: Bench) -> None:
    bench.apply(A, B, C)


def deletion(bench: Bench) -> None:
    assert user.delete_composition(bench.coordinator, "traffic").wait(30)


def crash(bench: Bench) -> None:
    bench.world.crash("a")


def restart_of_the_engine(bench: Bench) -> None:
    bench.world.restart(ENGINE)


@pytest.mark.parametrize(
    ("event", "error", "message"),
    [
        (another_apply, StaleRevision, "base_revision 1 is stale, the last revision is 2"),
        (deletion, StaleRevision, "base_revision 1 is stale"),
        (crash, StalePlan, "the plan is stale: job 'a' was running and is failed"),
        (
            restart_of_the_engine,
            StalePlan,
            "'a' was running and is lost; job 'b' was running and is lost",
        ),
    ],
)
def test_a_plan_that_would_be_another_by_now_is_refused(
    bench: Bench, world: World, event: Callable[[Bench], None], error: type[SpeckError], message: str
) -> None:
    bench.apply(A, B)
    retained = bench.show(composition(A, FASTER))
    event(bench)
    touched, revisions = world.changes(), bench.store.revision_numbers("traffic")
    with pytest.raises(error, match=message):
        bench.accept(retained)
    assert (world.changes(), bench.store.revision_numbers("traffic")) == (touched, revisions)
    assert bench.coordinator.operations.running() == []


def test_a_plan_stays_good_when_what_happened_makes_no_other_plan(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    retained = bench.show(composition(A, FASTER))
    world.crash("a")
    for _ in range(3):
        bench.coordinator.reconciler.round()
        eventually(lambda: bench.coordinator.operations.is_idle("traffic"), bool)
    assert world.where().keys() == {"a", "b"}
    assert done(bench.accept(retained)) == {"a": "keep", "b": "update"}


def test_the_number_of_a_revision_is_not_given_twice(bench: Bench) -> None:
    retained = bench.show(composition(A))
    bench.apply(A, B)
    deletion(bench)
    with pytest.raises(StalePlan, match="its next revision was 1 and is 2"):
        bench.accept(retained)
    assert bench.store.revision_once("traffic", 1).jobs == {"a": A, "b": B}


def test_a_plan_whose_code_file_has_changed_is_refused(bench: Bench, world: World) -> None:
    retained = bench.show(composition(A))
    (bench.directory / "jobs.py").write_text("def work(messages): return 3\n")
    with pytest.raises(InvalidInput, match=r"jobs.py"):
        bench.accept(retained)
    assert (world.where(), bench.store.heads()) == ({}, [])


@pytest.mark.usefixtures("known_owner")
def test_messages_that_wait_by_now_are_not_lost(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    elsewhere = replace(B, source_topic="other", spe_address="sc://e2:1")
    retained = bench.show(composition(A, elsewhere), leave_behind=(ENGINE,))
    world.broker(BROKER).backlog[named("b")] = 7
    touched = world.changes()
    with pytest.raises(InvalidInput, match=r"job 'b': 7 messages wait at 't1' .*--give-up"):
        bench.accept(retained)
    assert world.changes() == touched


def test_a_job_that_another_store_has_started_by_now_is_not_started(bench: Bench, tmp_path: Path) -> None:
    retained = bench.show(composition(A))
    (tmp_path / "other").mkdir()
    other = Bench(tmp_path / "other", bench.world)
    other.apply(A)
    other.close()
    with pytest.raises(JobsOfAnother, match="job 'a' runs at sc://e1:1"):
        bench.accept(retained)


def test_a_plan_is_accepted_once(bench: Bench) -> None:
    retained = bench.show(composition(A, B))
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(bench.accept, retained) for _ in range(4)]
    errors = [each.exception() for each in asked]
    (operation,) = [each.result() for each in asked if each.exception() is None]
    assert [type(each) for each in errors if each is not None] == [Conflict] * 3
    with pytest.raises(
        Conflict, match=f"plan '{retained.id}' was already accepted, by operation {operation.id}"
    ):
        bench.accept(retained)
    assert [each["id"] for each in bench.store.operations()] == [operation.id]


def test_a_plan_is_forgotten_after_a_while_and_for_later_ones(bench: Bench) -> None:
    late, first = bench.show(composition(A)), bench.show(composition(A))
    for _ in range(PLANS - 1):
        bench.show(composition(A))
    with pytest.raises(NotFound, match="there is no plan"):
        bench.accept(late)
    bench.now += LIFETIME + 1
    with pytest.raises(Expired, match=r"has expired \(expected the composition's text\)"):
        bench.accept(first)


def test_a_request_that_is_not_the_planned_one_is_refused(bench: Bench) -> None:
    bench.apply(A, B)
    retained = bench.show(composition(A, FASTER))
    request = Request(base_revision=7, leave_behind=(ENGINE,), give_up=True)
    with pytest.raises(InvalidInput) as raised:
        bench.accept(retained, request, place="all", all_code=True)
    fields = ["base_revision", "leave_behind", "give_up", "place", "all_code"]
    assert [each.field for each in raised.value.faults] == fields
    assert bench.accept(retained, Request(base_revision=1), place="new", all_code=False).state == "succeeded"


def test_no_job_comes_to_a_site_that_was_removed_meanwhile(tmp_path: Path) -> None:
    """Neither by a plan that was shown, nor by an earlier revision: its addresses may be those of others."""
    world = World()
    sites = {name: one_site(name, f"sc://{name}:15002", BROKER) for name in ("edge", "cloud")}
    at_edge = replace(A, site="edge", spe_address="sc://edge:15002")
    at_cloud = replace(A, site="cloud", spe_address="sc://cloud:15002")
    with Store(tmp_path / "store") as store:
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        known = live(Inventory(sites))
        services = build(store, double_kinds(world), known, settings)
        coordinator = services.coordinator
        coordinator.start()
        for place in (at_edge, at_cloud):
            assert user.apply(coordinator, composition(place))[0].wait(30)
        retained = services.retained_plans.show(Apply(composition(at_edge, B)), Request())
        known.replace(Inventory({"cloud": sites["cloud"]}))
        gone = "job 'a': site 'edge', which had engine sc://edge:15002, is not in the inventory any more"
        with pytest.raises(InvalidInput, match=gone):
            services.retained_plans.accept(retained.id, Request())
        with pytest.raises(InvalidInput, match=gone):
            user.rollback(coordinator, "traffic", 1)
        assert (world.where(), coordinator.deployments.head("traffic").revision) == (
            {"a": "sc://cloud:15002"},
            2,
        )
        assert user.apply(coordinator, composition(at_cloud, B))[0].wait(30)
        coordinator.close()


def test_a_job_stays_at_a_site_that_was_removed_meanwhile(tmp_path: Path) -> None:
    """Of the server's own inventory a site may go while jobs are there: what is there can be changed."""
    world, place = World(), "sc://edge:15002"
    at_edge = replace(A, site="edge", spe_address=place)
    with Store(tmp_path / "store") as store:
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        known = live(Inventory({"edge": one_site("edge", place, BROKER)}))
        coordinator = build(store, double_kinds(world), known, settings).coordinator
        coordinator.start()
        assert user.apply(coordinator, composition(at_edge))[0].wait(30)
        known.replace(Inventory())
        world.restart(place)
        operation, _ = user.apply(coordinator, composition(replace(at_edge, trigger="1 second"), C))
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()
        coordinator.close()
