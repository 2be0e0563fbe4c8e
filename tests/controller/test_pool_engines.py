"""A pool of two real Flink clusters: each gets the jobs that were chosen for it, and keeps them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import requests

from speck.binder import installed
from speck.coordinator import Services, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import POOLED, Composition, Job
from speck.core.settings import Settings
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.servers.flink import FlinkServer
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
        engines = tuple(
            Engine(
                spe_address=each.address,
                savepoint_dir=str(each.cluster.savepoints),
                cores=1.0,
                slots=SLOTS,
                pool="small",
            )
            for each in servers
        )
        site = Site(name="A", engines=engines, broker_address=mosquitto.address)
        settings = Settings(roots=(flink_jobs.parent,), period=1, adapt=0)
        services = build(store, installed(), Inventory({"A": site}), settings)
        jobs = [
            Job(
                job_name=f"pooled-{number}",
                spe_address=flink_server.address,
                placed=POOLED,
                site="A",
                source_broker=mosquitto.address,
                source_topic=f"in/{number}",
                sink_broker=mosquitto.address,
                sink_topic=f"out/{number}",
                entry_class="streets.Burning",
                job_path=str(flink_jobs),
                engine="flink",
                arguments={"micros": 10},
                code_hash=hashlib.sha256(flink_jobs.read_bytes()).hexdigest(),
            )
            for number in range(3)
        ]
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
