"""Workers of local sites as servers of their own, with real Flink TaskManagers and Spark workers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from binders.flink import FLINK
from binders.mqtt import MQTT
from binders.spark import CONNECT, STANDALONE
from speck import local
from speck.binder import EngineBinder, Registry
from speck.cli import cli
from speck.core.inventory import Inventory
from speck.core.job import client_id
from speck.core.runtime import JobState, Worker
from speck.errors import LocalError, NotFound
from speck.local import processes
from speck.schema.inventory import read_inventory
from speck.testing import attempt_of, await_state, eventually
from testbed.benches.examples import job
from testbed.servers.mosquitto import PROGRAM
from tests.support.trials import trial

REGISTRY = Registry.of([CONNECT, FLINK, STANDALONE, MQTT])

pytestmark = [pytest.mark.engine, pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")]


def listed(engine: EngineBinder) -> list[Worker]:
    return list(engine.workers())


def inventory_of(sites: local.LocalSites) -> Inventory:
    return read_inventory(sites.inventory)


def await_workers(engine: EngineBinder, count: int) -> list[Worker]:
    found: list[Worker] = eventually(lambda: listed(engine), lambda workers: len(workers) == count)
    return found


@trial("tests/controller/test_workers_engines.py")
def test_task_managers_come_go_and_are_replaced(directory: Path, flink_jobs: Path) -> None:
    with local.up(
        directory, 1, engines={"A": ["flink"]}, heap="192m", registry=REGISTRY, workers={"A": (1, 3)}
    ) as sites:
        inventory = inventory_of(sites)
        (known,) = inventory.sites["A"].engines
        scale = known.scale
        assert scale is not None
        assert (scale.least, scale.most, scale.slots, scale.local) == (1, 3, 8, str(directory))
        engine = FLINK.connect(known.spe_address, inventory)
        assert [each.id for each in await_workers(engine, 1)] == ["worker-1"]

        started = local.scale(directory, "A", 2, registry=REGISTRY)
        assert started == ["flink-worker-2"]
        both = await_workers(engine, 2)
        assert {each.id for each in both} == {"worker-1", "worker-2"}
        eventually(lambda: listed(engine), lambda found: all(each.slots == 8 and each.free for each in found))
        assert engine.capacity().slots == 16
        assert local.scale(directory, "A", 2, registry=REGISTRY) == []  # idempotent

        counting = job(
            "counting",
            spe_address=known.spe_address,
            source_broker="tcp://127.0.0.1:1",
            entry_class="streets.Counting",
            job_path=str(flink_jobs),
            parallelism=1,
        )
        assert client_id("counting")
        handle = engine.submit(counting, attempt_of(counting))
        await_state(engine, handle, JobState.RUNNING)
        (busy,) = [each for each in listed(engine) if not each.free]

        # kill -9 of the worker with the job: it runs again, on another or on the replacement.
        victim = next(
            each for each in local.status(directory).workers if each.log.name == f"flink-{busy.id}.log"
        )
        assert victim.pid is not None
        dead = psutil.Process(victim.pid)
        dead.kill()
        dead.wait(30)
        assert local.scale(directory, "A", 2, registry=REGISTRY) != []
        eventually(
            lambda: [each for each in listed(engine) if not each.free],
            lambda found: bool(found) and len(listed(engine)) == 2,
        )
        await_state(engine, handle, JobState.RUNNING)
        engine.stop(handle, keep_state=False)

        eventually(lambda: listed(engine), lambda found: len(found) == 2 and all(each.free for each in found))
        assert local.scale(directory, "A", 1, stop=["worker-1"], registry=REGISTRY) == ["flink-worker-1"]
        eventually(lambda: [each.id for each in listed(engine)], lambda found: found == ["worker-2"])
        with pytest.raises(LocalError, match=r"site A: 4 workers \(expected 1 to 3"):
            local.scale(directory, "A", 4, registry=REGISTRY)
        running = [each.pid for each in local.status(directory).workers]
        assert len(running) == 1
        engine.close()
    assert not any(pid is not None and alive(pid) for pid in running)
    assert local.status(directory).workers == ()


def alive(pid: int) -> bool:
    try:
        return processes.alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def test_sites_without_workers_of_their_own(directory: Path) -> None:
    light = Registry.of([dataclasses.replace(CONNECT, local=MQTT.local), MQTT])
    with local.up(directory, 1, registry=light):
        with pytest.raises(LocalError, match="has no engine with workers"):
            local.scale(directory, "A", 2, registry=light)
        with pytest.raises(NotFound, match=r"no site 'B' .*it has A"):
            local.scale(directory, "B", 2, registry=light)
        ended = CliRunner().invoke(cli, ["local", "workers", "A", "2", "--directory", str(directory)])
        assert isinstance(ended.exception, LocalError)
    with pytest.raises(LocalError, match="no engine has workers: spark-connect"):
        local.up(directory, 1, registry=light, workers={"A": (1, 2)})
    with pytest.raises(LocalError, match="workers are given for site 'Z'"):
        local.up(directory, 1, registry=light, workers={"Z": (1, 2)})
    with pytest.raises(LocalError, match="2 to 1 workers"):
        local.up(directory, 1, registry=light, workers={"A": (2, 1)})


@pytest.mark.parametrize("value", ["A", "A=1", "A=x-2", "=1-2", "A=1-"])
def test_bounds_that_cannot_be_read(value: str) -> None:
    ended = CliRunner().invoke(cli, ["local", "up", "--workers", value])
    assert ended.exit_code == 2
    assert "expected SITE=MIN-MAX, such as A=1-4" in ended.output


def test_spark_workers_come_and_go(directory: Path) -> None:
    with local.up(
        directory, 1, engines={"A": ["spark-standalone"]}, registry=REGISTRY, workers={"A": (0, 2)}
    ) as sites:
        inventory = inventory_of(sites)
        (known,) = inventory.sites["A"].engines
        engine = STANDALONE.connect(known.spe_address, inventory)
        assert listed(engine) == []
        local.scale(directory, "A", 2, registry=REGISTRY)
        first, _ = await_workers(engine, 2)
        assert engine.capacity().slots == 8
        local.scale(directory, "A", 1, stop=[first.id], registry=REGISTRY)
        (remaining,) = await_workers(engine, 1)
        assert remaining.id != first.id
        engine.close()
