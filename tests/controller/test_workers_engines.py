"""The controller of workers over a real Flink cluster, whose TaskManagers come, go and are killed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from speck import local
from speck.binder import installed
from speck.controller.backoff import Backoff
from speck.coordinator import Services, build
from speck.core.job import Composition, Job
from speck.core.settings import Settings
from speck.schema.inventory import read_inventory
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.servers.mosquitto import PROGRAM

pytestmark = [pytest.mark.engine, pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")]

PATIENCE = 120.0


@contextmanager
def coordinated(sites: local.LocalSites, directory: Path, root: Path) -> Iterator[Services]:
    """A coordinator of local sites, whose free workers go after 3 s."""
    with Store(directory / "store") as store:
        services = build(
            store,
            installed(),
            read_inventory(sites.inventory),
            Settings(roots=(root,), period=1),
            backoff=Backoff(lambda tries: 1.0),
        )
        for group in services.coordinator.workers.groups.values():
            group.hook = replace(group.hook, idle=3.0)
        services.coordinator.start()
        try:
            yield services
        finally:
            services.coordinator.close()


def counting(number: int, sites: local.LocalSites, jar: Path) -> Job:
    broker = sites.sites[0].broker.address
    return Job(
        job_name=f"counting-{number}",
        spe_address=sites.sites[0].engine.address,
        source_broker=broker,
        source_topic=f"in/{number}",
        sink_broker=broker,
        sink_topic=f"out/{number}",
        entry_class="streets.Counting",
        job_path=str(jar),
        engine="flink",
        parallelism=4,
        arguments={"rate": 20},
        code_hash=hashlib.sha256(jar.read_bytes()).hexdigest(),
    )


def states(services: Services) -> dict[str, Any]:
    return {each["job_name"]: each["state"] for each in services.queries.jobs()}


def group(services: Services) -> dict[str, Any]:
    (found,) = services.sites.workers("A")
    return found


def test_workers_follow_the_jobs_and_come_back_when_killed(tmp_path: Path, flink_jobs: Path) -> None:
    directory = tmp_path / "local"
    with (
        local.up(directory, 1, engines={"A": ["flink"]}, heap="192m", workers={"A": (1, 2)}) as sites,
        coordinated(sites, tmp_path, flink_jobs.parent) as services,
    ):
        # Three jobs of four slots: the third has no room on the one worker.
        jobs = {each.job_name: each for each in (counting(number, sites, flink_jobs) for number in range(3))}
        user.apply(services.coordinator, Composition("streets", jobs))
        eventually(
            lambda: states(services),
            lambda found: len(found) == 3 and set(found.values()) == {"running"},
            PATIENCE,
        )
        # The count is of a round of the loop, which may have been before the second worker came.
        eventually(
            lambda: (group(services)["present"], group(services)["desired"]),
            lambda found: found == (2, 2),
            PATIENCE,
        )
        attempts = {name: services.queries.job(name)["attempt"] for name in jobs}

        victim = local.status(directory).workers[0]
        assert victim.pid is not None
        psutil.Process(victim.pid).kill()
        eventually(lambda: group(services)["state"], lambda state: state != "idle", PATIENCE)
        eventually(
            lambda: (group(services)["present"], set(states(services).values())),
            lambda found: found == (2, {"running"}),
            PATIENCE,
        )
        pids = {each.pid for each in local.status(directory).workers}
        assert len(pids) == 2
        assert victim.pid not in pids
        # Flink itself has started the tasks again; SpecK has started no job a second time.
        assert {name: services.queries.job(name)["attempt"] for name in jobs} == attempts

        assert user.delete_composition(services.coordinator, "streets").wait(PATIENCE)
        eventually(lambda: len(local.status(directory).workers), lambda count: count == 1, PATIENCE)
        eventually(lambda: group(services)["state"], lambda state: state == "idle", PATIENCE)
        kinds = [each["kind"] for each in services.queries.events(1000) if "workers" in each["message"]]
        # The first worker may have registered after the first look.
        assert kinds in (["scaling", "scaled"] * 3, ["scaling", "scaled"] * 4)
