"""A Flink cluster as an engine of ``speck local``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from binders.common.java import java
from binders.flink import FLINK
from binders.flink.local.cluster import LocalCluster, flink_home
from binders.flink.local.server import FLINK_CLUSTER
from binders.mqtt import MQTT
from speck import local
from speck.binder import Registry
from speck.core.runtime import JobState
from speck.errors import LocalError
from speck.local import processes
from speck.schema.inventory import load_inventory
from speck.testing import attempt_of, await_state
from testbed.benches.examples import job
from testbed.servers.mosquitto import PROGRAM

REGISTRY = Registry.of([FLINK, MQTT])


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for sites; whatever a test leaves running there is stopped."""
    place = tmp_path / "local"
    yield place
    local.down(place)


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")
def test_a_site_up_killed_and_down(directory: Path, flink_jobs: Path) -> None:
    with local.up(directory, 1, engines={"A": ["flink"]}, registry=REGISTRY, heap="200m") as sites:
        (listed,) = load_inventory(sites.inventory.read_text(encoding="utf-8")).sites["A"].engines
        assert listed.spe_address == sites.sites[0].engine.address
        engine = FLINK.connect(listed.spe_address, load_inventory(sites.inventory.read_text("utf-8")))
        capacity = engine.capacity()
        assert (capacity.slots, capacity.slots_free) == (32, 32)
        desired = dataclasses.replace(
            job("count", entry_class="streets.Counting", job_path=str(flink_jobs), code_hash=""),
            spe_address=listed.spe_address,
        )
        engine.check(desired, None)
        handle = engine.submit(desired, attempt_of(desired))
        await_state(engine, handle, JobState.RUNNING)
        state = engine.stop(handle, keep_state=True)
        assert state is not None
        assert f"file:{directory}/A/" in state.location

        server = sites.sites[0].engine.pid
        assert server is not None
        programs = psutil.Process(server).children()
        assert len(programs) == 2  # JobManager and TaskManager
        local.restart(directory, "A", "engine", kill=True, registry=REGISTRY, heap="200m")
        assert not any(processes.alive(program) for program in programs)
        engine.check(desired, state)  # savepoints stay
        engine.close()
    assert not local.status(directory).running


def test_a_cluster_that_is_not_there_is_not_ready() -> None:
    assert not FLINK_CLUSTER.ready([1, 1, 1, 1, 1])


def test_without_flink_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "pyflink", raising=False)  # of a test that ran a job's file
    with pytest.raises(LocalError, match=r"Flink is not installed.*speck\[flink\]"):
        flink_home()


def test_without_java_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalError, match=r"Java is not installed: Flink needs Java 17.*apt-get install"):
        java("Flink")


def test_settings_that_win_and_settings_that_are_left_out(tmp_path: Path) -> None:
    extra = {"rest.port": "1", "execution.checkpointing.dir": ""}
    settings = LocalCluster((1, 2, 3, 4, 5), tmp_path, "1g", slots=3, extra=extra).settings()
    assert settings["rest.port"] == "1"
    assert "execution.checkpointing.dir" not in settings
    assert settings["taskmanager.numberOfTaskSlots"] == 3
    heap = (settings[f"taskmanager.memory.{part}.heap.size"] for part in ("framework", "task"))
    assert sum(int(str(size).removesuffix("b")) for size in heap) == 1 << 30
