"""Pools of two real Flink clusters: each gets the jobs that were chosen for it, and keeps them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from speck.binder import installed
from speck.coordinator import Services, build
from speck.core.inventory import Engine, Hook, Inventory, Site
from speck.core.job import POOLED, Composition, Job
from speck.core.settings import Settings
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.servers.flink import FlinkServer
from testbed.servers.http import Handler, http_server
from testbed.servers.mosquitto import MosquittoServer
from tests.support.trials import trial

pytestmark = pytest.mark.engine

SLOTS = 2
PATIENCE = 120.0


def running(server: FlinkServer) -> int:
    """The number of jobs that a cluster itself reports as running."""
    answer = requests.get(f"{server.address}jobs/overview", timeout=30).json()
    return sum(each["state"] == "RUNNING" for each in answer["jobs"])


def apply(services: Services, jobs: list[Job]) -> None:
    operation, _ = user.apply(
        services.coordinator, Composition("pooled", {each.job_name: each for each in jobs})
    )
    assert operation.wait(PATIENCE)


def engine_of(server: FlinkServer, hook: Hook | None = None) -> Engine:
    """The entry of a cluster in the inventory."""
    return Engine(
        spe_address=server.address,
        savepoint_dir=str(server.cluster.savepoints),
        cores=1.0,
        slots=SLOTS,
        pool="small",
        hook=hook,
    )


def pooled(engine: str, broker: str, jar: Path) -> list[Job]:
    """Three jobs, for two engines."""
    return [
        Job(
            job_name=f"pooled-{number}",
            spe_address=engine,
            placed=POOLED,
            site="A",
            source_broker=broker,
            source_topic=f"in/{number}",
            sink_broker=broker,
            sink_topic=f"out/{number}",
            entry_class="streets.Burning",
            job_path=str(jar),
            engine="flink",
            arguments={"micros": 10},
            code_hash=hashlib.sha256(jar.read_bytes()).hexdigest(),
        )
        for number in range(3)
    ]


@trial("tests/placement/test_pools.py")
def test_jobs_fill_one_engine_after_the_other(
    flink_server: FlinkServer, mosquitto: MosquittoServer, flink_jobs: Path, tmp_path: Path
) -> None:
    with (
        FlinkServer(tmp_path / "second", heap="192m", slots=SLOTS) as second,
        Store(tmp_path / "store") as store,
    ):
        servers = (flink_server, second)
        others = [running(each) for each in servers]
        engines = tuple(engine_of(each) for each in servers)
        site = Site(name="A", engines=engines, broker_address=mosquitto.address)
        settings = Settings(roots=(flink_jobs.parent,), period=1, adapt=0)
        services = build(store, installed(), Inventory({"A": site}), settings)
        jobs = pooled(servers[0].address, mosquitto.address, flink_jobs)
        services.coordinator.start()
        try:
            apply(services, jobs)
            eventually(
                lambda: [running(each) - before for each, before in zip(servers, others, strict=True)],
                lambda found: found == [2, 1],
                PATIENCE,
            )
            attempts = {each["job_name"]: each["attempt"] for each in services.queries.jobs()}
            apply(services, [*jobs[1:], jobs[0]])  # in another order: nothing moves
            assert {each["job_name"]: each["attempt"] for each in services.queries.jobs()} == attempts
            (shown,) = eventually(
                lambda: services.sites.workers("A"),
                lambda found: found[0]["message"] == "3 instances fill 2 of 2 engines",
                PATIENCE,
            )
            assert shown["present"] == 2
            assert [each["free"] for each in shown["workers"]] == [False, False]

            # Without its job the second engine is free again.
            last = next(
                each for each in services.queries.jobs() if each["job"]["spe_address"] == second.address
            )
            apply(services, [each for each in jobs if each.job_name != last["job_name"]])
            eventually(lambda: running(second), lambda count: count == others[1], PATIENCE)
        finally:
            assert user.delete_composition(services.coordinator, "pooled").wait(PATIENCE)
            services.coordinator.close()


@trial("tests/coordinator/test_pool_hooks.py")
def test_the_second_engine_runs_while_jobs_need_it(
    flink_server: FlinkServer, mosquitto: MosquittoServer, flink_jobs: Path, tmp_path: Path
) -> None:
    second = FlinkServer(tmp_path / "second", heap="192m", slots=SLOTS)
    asked = list[int]()

    class Answers(Handler):
        def do_PUT(self) -> None:  # noqa: N802 - the name of the base class
            count = json.loads(self.body())["workers"]
            asked.append(count)
            if count:
                second.start()
            else:
                second.kill()
            self.answer(200, b"")

    with http_server(Answers) as port, Store(tmp_path / "store") as store, closing_engine(second):
        hook = Hook(url=f"http://127.0.0.1:{port}/engine", idle=3.0)
        engines = (engine_of(flink_server), engine_of(second, hook))
        site = Site(name="A", engines=engines, broker_address=mosquitto.address)
        settings = Settings(roots=(flink_jobs.parent,), period=1, adapt=0)
        services = build(store, installed(), Inventory({"A": site}), settings)
        jobs = pooled(flink_server.address, mosquitto.address, flink_jobs)
        services.coordinator.start()
        try:
            user.apply(services.coordinator, Composition("pooled", {each.job_name: each for each in jobs}))
            eventually(
                lambda: {each["state"] for each in services.queries.jobs()},
                lambda states: states == {"running"},
                PATIENCE,
            )
            assert running(second) == 1
            last = next(
                each for each in services.queries.jobs() if each["job"]["spe_address"] == second.address
            )
            assert last["job_name"] == "pooled-2"
            apply(services, [])  # with a job at the first, the second would be the spare one
            eventually(lambda: services.sites.workers("A")[0]["present"], lambda count: count == 1, PATIENCE)
            assert asked == [1, 0]
            assert [each["stopped"] for each in services.sites.workers("A")[0]["workers"]] == [False, True]
        finally:
            assert user.delete_composition(services.coordinator, "pooled").wait(PATIENCE)
            services.coordinator.close()


@contextmanager
def closing_engine(server: FlinkServer) -> Iterator[None]:
    """End an engine that may run when the block ends."""
    try:
        yield
    finally:
        server.kill()
