"""Binders, lanes and what is noted by address stay bounded, however many addresses plans name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from speck.binder.pool import MARGIN, QUIET, BinderPool
from speck.coordinator import Services, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.settings import Settings
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.benches.reconciler import Clock
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

ENGINE, BROKER = "sc://used:15002", "tcp://used:1883"


@dataclass
class Bench:
    pool: BinderPool
    world: World
    clock: Clock
    closed: list[str] = field(default_factory=list)

    def name(self, *numbers: int) -> None:
        """Ask an engine and a broker at each of these addresses, one a second, as plans do."""
        for number in numbers:
            self.clock.now += 1
            self.pool.engine_at("spark", f"sc://e{number}:15002").capacity()
            self.pool.broker(f"tcp://b{number}:1883").check()
            job = make_job("job", engine="spark", spe_address=f"sc://e{number}:15002")
            self.pool.engine_lane(job, "plan").submit(int).result(30)


@pytest.fixture(name="bench")
def bench_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    world, clock = World(), Clock()
    pool = BinderPool(double_kinds(world), Inventory(), clock=clock)
    bench = Bench(pool, world, clock)
    for kind in (InMemoryEngine, InMemoryBroker):
        monkeypatch.setattr(kind, "close", lambda binder: bench.closed.append(binder.address))
    yield bench
    pool.close()


@pytest.mark.slow("thousands of addresses take a second")
def test_thousands_of_addresses_leave_a_bounded_number(bench: Bench) -> None:
    """Five times as many as the bound, and more."""
    forgotten: set[str] = set()
    bench.pool.on_forgotten.append(forgotten.update)
    bench.name(*range(2_000))
    bound = 2 * QUIET + MARGIN + 2
    assert len(bench.pool._engines) + len(bench.pool._brokers) <= bound
    assert len(bench.pool._lanes) <= bound
    assert len(bench.pool._used) <= bound
    assert len(bench.closed) == len(set(bench.closed)) >= 4_000 - bound
    assert forgotten == set(bench.closed)


def test_what_is_in_use_stays(bench: Bench) -> None:
    bench.pool.in_use = lambda: {ENGINE, BROKER}
    engine, broker = bench.pool.engine_at("spark", ENGINE), bench.pool.broker(BROKER)
    bench.name(*range(300))
    assert bench.closed
    assert not {ENGINE, BROKER} & set(bench.closed)
    assert bench.pool.engine_at("spark", ENGINE) is engine
    assert bench.pool.broker(BROKER) is broker


def test_an_address_that_is_reached_otherwise_gets_another_binder(bench: Bench) -> None:
    forgotten: set[str] = set()
    bench.pool.on_forgotten.append(forgotten.update)
    engine, broker = bench.pool.engine_at("spark", ENGINE), bench.pool.broker(BROKER)
    bench.name(1)
    bench.pool.forget({ENGINE, BROKER, "tcp://nowhere:1"})
    assert bench.closed == [ENGINE, BROKER]
    assert forgotten == {ENGINE, BROKER, "tcp://nowhere:1"}
    assert bench.pool.engine_at("spark", ENGINE) is not engine
    assert bench.pool.broker(BROKER) is not broker


def test_a_binder_with_a_call_under_way_stays(bench: Bench) -> None:
    paused = bench.world.hold("capacity", address=ENGINE)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(bench.pool.engine_at("spark", ENGINE).capacity)
        assert paused.reached.wait(30)
        bench.name(*range(300))
        assert ENGINE not in bench.closed
        paused.release()
        call.result(30)
    bench.name(*range(300, 600))
    assert ENGINE in bench.closed


def test_an_engine_whose_lane_has_tasks_stays(bench: Bench) -> None:
    release = threading.Event()
    bench.pool.engine_at("spark", ENGINE)
    lane = bench.pool.engine_lane(make_job("job", engine="spark", spe_address=ENGINE), "a")
    task = lane.submit(release.wait, 60)
    bench.name(*range(300))
    assert ENGINE not in bench.closed
    release.set()
    assert task.result(30)
    bench.name(*range(300, 600))
    assert ENGINE in bench.closed
    assert lane.submit(int).result(30) == 0  # who has a share of a lane may still use it


def test_addresses_of_plans_go_and_those_of_sites_and_jobs_stay(tmp_path: Path) -> None:
    world, clock = World(), Clock()
    site = Site(
        name="A", engines=(Engine(spe_address="http://site:8081/"),), broker_address="tcp://site:1883"
    )
    settings = Settings(roots=(write_code(tmp_path),), period=0)
    with Store(tmp_path / "store") as store:
        services = build(store, double_kinds(world), Inventory({"A": site}), settings, clock=clock)
        coordinator, pool = services.coordinator, services.coordinator.pool
        pool.clock = clock
        coordinator.start()
        try:
            deployed = make_job(
                "job", spe_address=ENGINE, source_broker=BROKER, sink_broker="tcp://sink:1883"
            )
            assert user.apply(coordinator, composition(deployed))[0].wait(30)
            pool.engine_at("flink", "http://site:8081/").capacity()
            for number in range(120):
                _plan(services, number)
                clock.now += QUIET + 1
            pool.forget_unused()
            used = {ENGINE, "http://site:8081/"}
            assert {address for _, address in pool._engines} == used
            assert pool._brokers.keys() == {BROKER, "tcp://sink:1883"}
            assert services.metrics.seen().keys() == used | pool._brokers.keys()
            operation = user.delete_composition(coordinator, "traffic")
            assert operation.wait(30)
            assert operation.state == "succeeded"
        finally:
            coordinator.close()
    assert eventually(lambda: world.violations, lambda found: not found) == []


def _plan(services: Services, number: int) -> None:
    planned = make_job(
        "planned",
        spe_address=f"sc://e{number}:15002",
        source_broker=f"tcp://b{number}:1883",
        sink_broker=f"tcp://c{number}:1883",
    )
    user.plan(services.coordinator, composition(planned, name="planned"))
