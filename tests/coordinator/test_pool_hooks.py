"""Engines of a pool that a hook starts and stops, over engines in memory and a real server for the hook."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from speck.binder import Capability
from speck.controller.workers import WorkerController
from speck.controller.workers.hooked import ARRIVAL
from speck.controller.workers.pool_engine import SILENCE
from speck.coordinator import Services, build
from speck.core.inventory import Engine, Hook, Inventory, Site
from speck.core.job import POOLED, Job
from speck.core.runtime import Capacity
from speck.core.settings import Settings
from speck.errors import StoreError, Unreachable
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.benches.reconciler import Clock
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.http import Handler, http_server
from tests.support.trials import trial

FIRST, SECOND, THIRD, FOURTH = ADDRESSES = [f"http://e{number}:8081/" for number in (1, 2, 3, 4)]
IDLE = 60.0


@dataclass
class Switch:
    """The hook: makes engines of the world reachable, or not.

    ``mode``: ``good``, ``fails`` or ``lies``.  It fails for the engines in ``broken``, and only answers for
    those in ``slow``.
    """

    world: World
    mode: str = "good"
    broken: Set[str] = frozenset()
    slow: Set[str] = frozenset()
    asked: list[tuple[str, int]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # engines with jobs that were to be stopped

    def take(self, body: Mapping[str, Any]) -> int:
        address, count = body["engine"], body["workers"]
        self.asked.append((address, count))
        if address in self.broken:
            return 503
        if address in self.slow:
            return 200
        if self.mode == "good" and count:
            self.world.up(address)
        elif self.mode == "good":
            if self.world.engine(address).live():
                self.wrong.append(address)
            self.world.down(address)
        return 503 if self.mode == "fails" else 200


@dataclass
class Bench:
    services: Services
    world: World
    clock: Clock
    switch: Switch

    @property
    def controller(self) -> WorkerController:
        return self.services.coordinator.workers

    def apply(self, *numbers: int, name: str = "traffic") -> Any:
        """Apply jobs with these numbers; returns the operation."""
        operation, _ = user.apply(self.services.coordinator, composition(*jobs(*numbers), name=name))
        # No job is started at an engine that is being stopped; a round finds that it is not any more.
        deadline = time.monotonic() + 30
        while not operation.wait(0.3):
            assert time.monotonic() < deadline
            self.rounds(2)
        return operation

    def rounds(self, seconds: float) -> None:
        """Let so much time pass, with a round of the controller and of the reconciler every 2 s."""
        for _ in range(int(seconds / 2)):
            self.clock.now += 2
            self.controller.round()
            self.controller.await_rounds()
            for each in list(self.controller._calls.values()):
                eventually(each.is_done, bool)
        self.services.coordinator.reconciler.round()

    def rounds_until(self, numbers: list[int]) -> None:
        """Let time pass until so many jobs run at each engine; the reconciler starts a few in each round."""

        def after_rounds() -> list[int]:
            self.rounds(10)
            return self.numbers()

        eventually(after_rounds, lambda found: found == numbers, 60)

    def up(self) -> list[str]:
        """The engines that run."""
        return [each for each in ADDRESSES if self.world.engine(each).reachable]

    def numbers(self) -> list[int]:
        """The number of jobs that run at each engine."""
        return [len(self.world.engine(each).live()) for each in ADDRESSES]

    def data(self) -> dict[str, Any]:
        (found,) = self.services.sites.workers("A")
        return found

    def events(self) -> list[str]:
        kinds = ("scaling", "scaled", "not scaled")
        found = self.services.queries.events(1000)
        return [f"{each['kind']}: {each['message']}" for each in found if each["kind"] in kinds]


def jobs(*numbers: int) -> list[Job]:
    return [
        make_job(
            f"job-{each:02}",
            f"in/{each}",
            f"out/{each}",
            spe_address=FIRST,
            site="A",
            engine="flink",
            placed=POOLED,
        )
        for each in numbers
    ]


@contextmanager
def benched(
    directory: Path, hooked: int = len(ADDRESSES), slots: int | None = 8, further: Sequence[Site] = ()
) -> Iterator[Bench]:
    """A pool whose last ``hooked`` engines have a hook; all of them run."""
    world, clock = World(), Clock()
    switch = Switch(world)

    class Answers(Handler):
        def do_PUT(self) -> None:  # noqa: N802 - the name of the base class
            self.answer(switch.take(json.loads(self.body())), b"")

    with http_server(Answers) as port, Store(directory / "store") as store:
        hook = Hook(url=f"http://127.0.0.1:{port}/engine", idle=IDLE)
        engines = tuple(
            Engine(
                spe_address=address,
                cores=2.0,
                slots=slots,
                pool="small",
                hook=hook if number >= len(ADDRESSES) - hooked else None,
            )
            for number, address in enumerate(ADDRESSES)
        )
        site = Site(name="A", engines=engines, broker_address="tcp://b1:1883")
        settings = Settings(roots=(write_code(directory),), period=0)
        inventory = Inventory({each.name: each for each in (site, *further)})
        services = build(store, double_kinds(world), inventory, settings, clock=clock)
        services.coordinator.start()
        try:
            yield Bench(services, world, clock, switch)
        finally:
            services.coordinator.close()
    assert world.violations == []
    assert switch.wrong == []


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    with benched(tmp_path) as bench:
        yield bench


def test_engines_without_jobs_are_stopped_but_for_one(bench: Bench) -> None:
    bench.rounds(IDLE - 2)
    assert bench.up() == ADDRESSES
    bench.rounds(20)
    assert bench.up() == [FIRST]
    assert sorted(bench.switch.asked) == [(each, 0) for each in ADDRESSES[1:]]
    found = bench.data()
    assert (found["state"], found["present"], found["desired"], found["most"]) == ("idle", 1, 1, 4)
    assert [each["stopped"] for each in found["workers"]] == [False, True, True, True]
    because = "is stopped: 0 of 4 engines in use, 1 spare"
    assert f"scaling: site A: {SECOND}: {because}" in bench.events()
    assert f"scaled: site A: {SECOND}: was stopped" in bench.events()


def test_the_next_engine_runs_before_it_is_needed(bench: Bench) -> None:
    bench.rounds(IDLE + 20)
    bench.apply(0)
    bench.rounds(10)
    assert bench.up() == [FIRST, SECOND]
    assert bench.apply(*range(9)).state == "succeeded"  # one more than the first engine has slots
    assert bench.numbers() == [8, 1, 0, 0]
    bench.rounds(10)
    assert bench.up() == [FIRST, SECOND, THIRD]
    bench.apply(0)
    bench.rounds(IDLE + 20)
    assert bench.up() == [FIRST, SECOND]


def test_jobs_that_come_together_wait_for_engines_that_are_started(bench: Bench) -> None:
    bench.rounds(IDLE + 20)
    operation = bench.apply(*range(20))
    assert (operation.state, bench.numbers()) == ("waiting", [8, 0, 0, 0])
    bench.rounds_until([8, 8, 4, 0])
    assert bench.up() == ADDRESSES  # the last is the spare one


def test_an_engine_that_runs_is_chosen_before_one_that_does_not(bench: Bench) -> None:
    bench.world.down(SECOND)
    bench.rounds(20)  # stopped by somebody else; nobody needs it
    bench.apply(*range(9))
    assert bench.numbers() == [8, 0, 1, 0]


def test_an_engine_that_dies_is_started_and_its_jobs_with_it(bench: Bench) -> None:
    bench.apply(0)
    bench.rounds(4)
    bench.world.restart(FIRST)
    bench.world.down(FIRST)
    bench.rounds(SILENCE - 2)
    assert bench.switch.asked == []  # it may only be slow
    bench.rounds(10)
    assert bench.switch.asked == [(FIRST, 1)]
    because = "does not answer, and is started: 1 of 4 engines in use, 1 spare"
    assert f"scaling: site A: {FIRST}: {because}" in bench.events()
    bench.rounds_until([1, 0, 0, 0])


@pytest.mark.parametrize("mode", ["fails", "lies"])
def test_an_engine_that_is_not_started_gets_no_new_job(bench: Bench, mode: str) -> None:
    bench.rounds(IDLE + 20)
    bench.switch.mode = mode
    bench.apply(*range(9))
    bench.rounds(ARRIVAL + 20)
    assert bench.data()["state"] == "failed"
    assert SECOND in bench.data()["message"]
    failed = [each for each in bench.events() if each.startswith("not scaled")]
    assert len(failed) == len(set(failed)) <= 3  # of each that was to be spare as well; once for all calls
    bench.world.up(THIRD)
    bench.apply(*range(10))  # the one that waited too, as it has never begun
    assert bench.numbers() == [8, 0, 2, 0]


def test_an_engine_without_a_hook_always_runs(tmp_path: Path) -> None:
    with benched(tmp_path, hooked=3) as bench:
        bench.rounds(2 * IDLE)
        assert bench.up() == [FIRST]
        assert bench.data()["least"] == 1
    assert {address for address, _ in bench.switch.asked} == set(ADDRESSES[1:])


def test_a_job_that_is_accepted_just_before_the_stop_keeps_its_engine(bench: Bench) -> None:
    bench.apply(*range(8))
    bench.rounds(IDLE - 2)  # the second one is spare; the others are free for almost as long as they may
    bench.clock.now += 4
    paused = bench.world.hold("workers", address=THIRD)
    bench.controller.round()  # which finds that nobody needs the third one
    assert paused.reached.wait(30)
    bench.apply(*range(20))
    paused.release()
    bench.controller.await_rounds()
    bench.rounds(4)
    assert bench.numbers() == [8, 8, 4, 0]
    assert (THIRD, 0) not in bench.switch.asked


def test_an_engine_that_dies_is_started_for_the_deletion_of_its_job(bench: Bench) -> None:
    bench.apply(*range(9))
    bench.rounds(4)
    bench.world.restart(SECOND)
    bench.world.down(SECOND)
    operation = user.delete_composition(bench.services.coordinator, "traffic")
    assert operation.wait(30)
    assert operation.state == "waiting"
    bench.rounds(20)
    assert (SECOND, 1) in bench.switch.asked
    eventually(lambda: (bench.rounds(10), bench.services.coordinator.store.heads())[1], lambda each: not each)


def test_an_engine_that_ends_late_gets_no_job_meanwhile(bench: Bench) -> None:
    """The call that stops it succeeds at once, as that of a cloud does, and it answers for a while."""
    bench.switch.slow = {SECOND, THIRD, FOURTH}
    bench.rounds(IDLE + 2)
    assert (SECOND, 0) in bench.switch.asked
    operation, _ = user.apply(bench.services.coordinator, composition(*jobs(*range(9)), name="traffic"))
    eventually(bench.numbers, lambda found: found == [8, 0, 0, 0])
    bench.rounds(20)
    assert bench.numbers() == [8, 0, 0, 0]
    for each in ADDRESSES[1:]:
        bench.world.down(each)
    bench.switch.slow = frozenset()
    bench.rounds_until([8, 1, 0, 0])
    assert operation.wait(30)


def test_an_engine_that_is_being_stopped_is_chosen_last(bench: Bench) -> None:
    bench.apply(*range(20))
    bench.apply(*range(16, 20))  # those of the third engine
    bench.switch.slow = {SECOND, FOURTH}
    bench.rounds(IDLE + 4)
    assert (SECOND, 0) in bench.switch.asked
    bench.apply(*range(12), *range(16, 20))
    assert bench.numbers() == [8, 0, 8, 0]
    bench.world.down(SECOND)
    bench.world.down(FOURTH)


def test_an_engine_is_not_stopped_in_a_round_in_which_it_does_not_answer(bench: Bench) -> None:
    bench.rounds(IDLE - 2)
    bench.world.fail("capacity", Unreachable("slow", address=THIRD), address=THIRD, times=None)
    bench.world.fail("workers", Unreachable("slow", address=THIRD), address=THIRD, times=None)
    bench.rounds(SILENCE - 2)
    assert (SECOND, 0) in bench.switch.asked
    assert (THIRD, 0) not in bench.switch.asked


def test_an_engine_is_not_stopped_without_the_lease(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def permit(address: str) -> None:
        raise Unreachable("another server has taken over", address=address)

    bench.rounds(IDLE - 2)
    monkeypatch.setattr(bench.services.coordinator.pool, "permit", permit)
    bench.rounds(20)
    assert bench.switch.asked == []


def test_an_engine_is_not_stopped_unless_that_is_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(events: object) -> None:
        raise StoreError("the disk is full")

    bench.rounds(IDLE - 2)
    monkeypatch.setattr(bench.controller, "report", report)
    bench.rounds(20)
    assert bench.switch.asked == []
    monkeypatch.undo()
    bench.rounds(20)
    assert bench.up() == [FIRST]


def test_no_engine_is_started_before_all_have_been_asked(bench: Bench) -> None:
    """The first one was stopped by an earlier server, and the second one is the spare engine."""
    bench.world.down(FIRST)
    bench.rounds(20)
    assert (FIRST, 1) not in bench.switch.asked


def test_another_engine_is_spare_where_the_first_cannot_come(tmp_path: Path) -> None:
    with benched(tmp_path, hooked=3) as bench:
        bench.rounds(IDLE + 20)
        bench.world.down(FIRST)  # which has no hook
        bench.rounds(20)
        assert bench.up() == [SECOND]


def test_another_engine_is_spare_where_one_does_not_start(bench: Bench) -> None:
    bench.rounds(IDLE + 20)
    bench.switch.broken = {SECOND}
    bench.apply(0)
    bench.rounds(20)
    assert bench.up() == [FIRST, THIRD]


def test_a_start_that_failed_is_no_stop_when_it_is_needed_no_more(bench: Bench) -> None:
    bench.rounds(IDLE + 20)
    bench.switch.broken = {SECOND}
    bench.apply(*range(9))
    bench.rounds(20)
    before = bench.events()
    bench.apply(0)
    bench.rounds(20)
    assert SECOND not in bench.controller.startable_engines()
    assert f"scaled: site A: {SECOND}: was stopped" not in bench.events()[: -len(before)]
    assert bench.data()["state"] == "idle"


def test_engines_whose_slots_are_not_known_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capabilities = InMemoryEngine.capabilities - {Capability.WORKERS}
    monkeypatch.setattr(InMemoryEngine, "capabilities", capabilities)
    monkeypatch.setattr(InMemoryEngine, "capacity", lambda engine: Capacity())
    with benched(tmp_path, slots=None) as bench:
        bench.apply(0)
        bench.rounds(IDLE + 20)
        assert bench.up() == [FIRST, SECOND]


def test_a_site_is_a_candidate_while_another_engine_of_its_pool_runs(tmp_path: Path) -> None:
    """The first engine, which stands for the site, does not answer, nor does the other site."""
    lone = Engine(spe_address="http://e5:8081/", cores=2.0, slots=8)
    other = Site(name="B", engines=(lone,), broker_address="tcp://b2:1883")
    with benched(tmp_path, further=[other]) as bench:
        bench.world.down(FIRST)
        bench.world.down(lone.spe_address)
        ends = {"source_broker": other.broker_address, "sink_broker": other.broker_address}
        movable = replace(jobs(0)[0], sites=("A", "B"), site=None, spe_address="", placed=POOLED, **ends)
        operation, _ = user.apply(bench.services.coordinator, composition(movable, name="traffic"))
        assert operation.wait(30)
        assert bench.numbers() == [0, 1, 0, 0]


def test_a_stopped_engine_is_no_finding_of_the_doctor(bench: Bench) -> None:
    bench.rounds(IDLE + 20)
    assert not {each["where"] for each in bench.services.doctor.diagnose()} & {*ADDRESSES}


def test_a_stopped_engine_is_no_fault_of_its_site(bench: Bench) -> None:
    bench.rounds(IDLE + 20)
    (site,) = bench.services.sites.sites()
    assert [(each["reached"], each["stopped"], each["error"]) for each in site["engines"]] == [
        (True, False, ""),
        *[(False, True, "")] * 3,
    ]
    found = {each["address"]: each for each in bench.services.sites.checkups()}
    assert [(each["message"], each["remark"]) for each in found[SECOND]["wrong"]] == [
        ("is stopped, as no job needs it", True)
    ]
    bench.world.down(FIRST)
    (site,) = bench.services.sites.sites()
    assert (site["engines"][0]["stopped"], bool(site["engines"][0]["error"])) == (False, True)


@pytest.mark.slow("30 steps at random, several seconds each run")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=trial("[0]"))])
def test_no_engine_with_a_job_is_stopped_and_every_job_runs(bench: Bench, seed: int) -> None:
    """Jobs come and go at random, engines die, the hook fails for a while: no job is lost, or stopped."""
    chance = random.Random(seed)
    for _ in range(30):
        step = chance.random()
        if step < 0.6:
            bench.apply(*sorted(chance.sample(range(32), chance.choice([1, 3, 9, 20, 30]))))
        elif step < 0.7:
            bench.switch.mode = chance.choice(["fails", "lies", "good"])
        elif step < 0.8:
            address = chance.choice(ADDRESSES)
            bench.world.restart(address)
            bench.world.down(address)
        bench.rounds(chance.choice([2, 10, 70]))
    bench.switch.mode = "good"
    jobs = bench.services.coordinator.deployments.composition("traffic").jobs.values()
    bench.rounds_until([sum(each.spe_address == address for each in jobs) for address in ADDRESSES])
    for _ in range(10):  # longer than the longest wait after a hook that failed, and as a job is deleted
        bench.rounds(60)
    used = sum(bool(each) for each in bench.numbers())
    assert len(bench.up()) == min(len(ADDRESSES), used + 1)
