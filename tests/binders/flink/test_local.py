"""A Flink cluster as an engine of ``speck local``."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import yaml

from binders.common import class_archive
from binders.common.java import java
from binders.flink import FLINK
from binders.flink.local import cluster, small
from binders.flink.local.cluster import JOBMANAGER, LocalCluster, flink_home
from binders.flink.local.server import FLINK_CLUSTER, SmallFlink
from binders.flink.local.small import SmallCluster
from binders.flink.rest.client import FlinkRest
from binders.flink.workers import ONE_PROCESS, TASK_MANAGERS, idle_cores
from binders.mqtt import MQTT
from speck import local
from speck.binder import Registry
from speck.core.runtime import JobState
from speck.errors import LocalError
from speck.local import processes
from speck.local.state import Record
from speck.schema.inventory import load_inventory
from speck.testing import attempt_of, await_state
from testbed import ROOT
from testbed.benches.examples import job
from testbed.servers.mosquitto import PROGRAM
from tests.support.requirements import needs
from tests.support.trials import trial

REGISTRY = Registry.of([FLINK, MQTT])
AS_ONE_PROCESS = trial("[flink-small], test_process_group.py and tests/controller/test_workers_engines.py")
_JAVA_OPTIONS = ("-X", "--add-", "-Djava.net.", "-Dpekko.")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for sites; whatever a test leaves running there is stopped."""
    place = tmp_path / "local"
    yield place
    local.down(place)


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")
@pytest.mark.parametrize(
    ("kind", "processes_of", "slots"),
    [
        pytest.param("flink", 3, 32, marks=AS_ONE_PROCESS),
        pytest.param("flink-small", 1, small.SLOTS, marks=needs(small.JAR)),
    ],
)
def test_a_site_up_killed_and_down(
    kind: str, processes_of: int, slots: int, directory: Path, flink_jobs: Path
) -> None:
    with local.up(directory, 1, engines={"A": [kind]}, registry=REGISTRY, heap="200m") as sites:
        (listed,) = load_inventory(sites.inventory.read_text(encoding="utf-8")).sites["A"].engines
        assert listed.spe_address == sites.sites[0].engine.address
        engine = FLINK.connect(listed.spe_address, load_inventory(sites.inventory.read_text("utf-8")))
        capacity = engine.capacity()
        assert (capacity.slots, capacity.slots_free) == (slots, slots)
        rest = FlinkRest(listed.spe_address)
        idle = ONE_PROCESS if processes_of == 1 else TASK_MANAGERS  # whose time a profile has
        assert idle_cores(rest.task_managers()) == idle
        rest.close()
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
        found = psutil.Process(server)
        programs = [found, *found.children()]
        assert len(programs) == processes_of  # JobManager, TaskManager, and what runs both; or one
        local.restart(directory, "A", "engine", kill=True, registry=REGISTRY, heap="200m")
        assert not any(processes.alive(program) for program in programs)
        engine.check(desired, state)  # savepoints stay
        again = attempt_of(desired, 2, state)
        await_state(engine, engine.submit(desired, again), JobState.RUNNING)
        engine.close()
    assert not local.status(directory).running


@dataclasses.dataclass(frozen=True)
class Beaten(SmallFlink):
    """Another process binds one of its ports before it does."""

    number: int = 0
    others: ExitStack = dataclasses.field(default_factory=ExitStack)

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        self.others.enter_context(socket.create_server(("127.0.0.1", ports[self.number])))
        return super().command(ports, directory, heap)


@needs(small.JAR)
@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")
@pytest.mark.engine
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(0, id="REST"),
        pytest.param(1, id="RPC", marks=trial("[REST]")),
        pytest.param(2, id="blobs"),
    ],
)
def test_a_port_that_another_process_has_bound_is_named(number: int, directory: Path) -> None:
    engine = Beaten(number=number)
    registry = Registry.of([dataclasses.replace(FLINK, forms={"flink-small": engine}), MQTT])
    with engine.others, pytest.raises(LocalError) as caught:
        local.up(directory, 1, engines={"A": ["flink-small"]}, registry=registry, heap="200m")
    port = Record.load(directory).sites["A"][0].ports[number]
    assert re.search(rf"\(exit code \d+\); port {port} is in use by another process; ", str(caught.value))
    assert re.search("BindException|Address already in use|Unable to (create|open) BLOB", str(caught.value))


def test_a_cluster_that_is_not_there_is_not_ready() -> None:
    assert not FLINK_CLUSTER.ready([1, 1, 1, 1, 1])


@pytest.fixture
def flink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that replaces the installed Flink and its jars, and the files of ``speck local prepare``."""
    home, share = tmp_path / "pyflink", tmp_path / "share"
    (home / "lib").mkdir(parents=True)
    with zipfile.ZipFile(home / "lib" / "flink-dist-9.1.0.jar", "w") as distribution:
        distribution.writestr("flink-rpc-akka.jar", "the RPC system")
    (tmp_path / "flink-small.jar").touch()
    for module in (small, cluster):
        monkeypatch.setattr(module, "flink_home", lambda: home)
    monkeypatch.setattr(small, "JAR", tmp_path / "flink-small.jar")
    monkeypatch.setattr(class_archive, "archive_path", lambda name: share / f"{name}.jsa")
    monkeypatch.setattr(cluster, "java", lambda _: "/usr/bin/java")
    return home


def test_one_process_has_both_parts(flink: Path, tmp_path: Path) -> None:
    found = SmallCluster((81, 82, 83), tmp_path, "128m", slots=8)
    (program,) = found.programs()
    assert program[program.index("--configDir") - 1] == small.SMALL_CLUSTER
    assert [word for word in program if word.startswith("-Xmx")] == ["-Xmx128m"]
    assert JOBMANAGER not in program
    written = yaml.safe_load((tmp_path / "conf" / "config.yaml").read_text(encoding="utf-8"))
    assert (written["rest.port"], written["taskmanager.numberOfTaskSlots"]) == ("81", "8")
    assert [name for name in written if name.startswith("taskmanager.memory.")] == []


def test_the_rpc_system_is_unpacked_once_and_comes_before_flink(flink: Path, tmp_path: Path) -> None:
    def class_path() -> list[str]:
        (program,) = SmallCluster((81, 82, 83), tmp_path, "128m").bare_programs().values()
        return [Path(each).name for each in program[program.index("-cp") + 1].split(os.pathsep)]

    assert class_path()[:2] == ["flink-small.jar", "flink-dist-9.1.0.jar"]
    small.unpack_rpc()
    assert class_path()[:3] == ["flink-small.jar", "flink-rpc-akka-9.1.0.jar", "flink-dist-9.1.0.jar"]
    assert small.rpc_jar().read_text() == "the RPC system"
    (flink / "lib" / "flink-dist-9.1.0.jar").rename(flink / "lib" / "flink-dist-9.2.0.jar")
    assert class_path()[:2] == ["flink-small.jar", "flink-dist-9.2.0.jar"]  # not that of another version


@pytest.mark.parametrize(
    ("heap", "jar", "words"),
    [
        ("95m", True, r"heap '95m' is too small for Flink in one process \(expected 96m or more\)"),
        ("much", True, r"heap 'much' is not a size"),
        ("128m", False, r"flink-small\.jar is not built \(expected: make jars\)"),
    ],
)
@pytest.mark.usefixtures("flink")
def test_what_one_process_refuses(heap: str, jar: bool, words: str, tmp_path: Path) -> None:
    if not jar:
        small.JAR.unlink()
    with pytest.raises(LocalError, match=words):
        SmallCluster((81, 82, 83), tmp_path / "site", heap).programs()
    assert not (tmp_path / "site").exists()


@pytest.mark.usefixtures("flink")
def test_a_distribution_without_the_rpc_system_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(small.flink_home() / "lib" / "flink-dist-9.1.0.jar", "w"):
        pass
    with pytest.raises(LocalError, match=r"flink-rpc-akka-9\.1\.0\.jar cannot be unpacked: .*no item named"):
        small.unpack_rpc()


@pytest.mark.usefixtures("flink")
def test_the_unit_of_one_process_has_the_options_that_were_measured(tmp_path: Path) -> None:
    text = (ROOT / "scripts" / "systemd" / "speck-flink-small.options").read_text(encoding="utf-8")
    unit = {line for line in text.split("\n") if line.startswith(_JAVA_OPTIONS)}
    (program,) = SmallCluster((81, 82, 83), tmp_path, "128m").bare_programs().values()
    assert {word for word in program if word.startswith(_JAVA_OPTIONS)} == unit | {"-Xmx128m"}


@pytest.mark.engine
def test_flink_waits_for_its_network_as_long_as_it_is_told(tmp_path: Path) -> None:
    options = ["-Dpekko.remote.classic.startup-timeout=1ms"]  # of two, Java takes the last one
    made = LocalCluster((0, 0, 0, 0, 0), tmp_path, jvm_options=options)
    program, _ = made.programs()
    ended = subprocess.run(program, env=made.environment(), text=True, capture_output=True, timeout=300)
    assert ended.returncode != 0
    assert "Futures timed out after [1 millisecond]" in ended.stdout + ended.stderr


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
