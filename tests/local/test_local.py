"""Local sites with real Spark Connect servers and Mosquittos, started and stopped by process id."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import psutil
import pytest
from click.testing import CliRunner

from binders.kafka import KAFKA
from binders.kafka.local import server_jars
from binders.mqtt import MQTT
from binders.mqtt.local import MOSQUITTO
from binders.spark import CONNECT
from binders.spark.local.connect_server import CONNECT_SERVER
from speck import local
from speck.binder import LocalServer, Registry, installed
from speck.cli.local import down as down_command
from speck.cli.local import prepare as prepare_command
from speck.cli.local import up as up_command
from speck.errors import LocalError, NotFound
from speck.local import processes
from speck.local.state import Record
from speck.schema.inventory import load_inventory
from testbed import ROOT
from testbed.servers.mosquitto import PROGRAM
from tests.support.trials import trial

REAL = Registry.of([CONNECT, MQTT])

# Brokers in both places: what is tested of processes and records needs no engine that takes seconds to start.
LIGHT = Registry.of([dataclasses.replace(CONNECT, local=MOSQUITTO), MQTT])

pytestmark = [pytest.mark.engine, pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")]


def pids(sites: local.LocalSites) -> list[int]:
    return [server.pid for server in sites.servers if server.pid is not None]


def gone(pid: int) -> bool:
    try:
        return not processes.alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


# --- with real engines ----------------------------------------------------------------------------


@trial("tests/binders/flink/test_local.py, the tutorial, and the light engines below")
def test_a_site_up_restarted_and_down(directory: Path) -> None:
    """Several sites with light engines are below; with real ones, of the tutorial and the demo."""
    reported: list[str] = []
    with local.up(directory, 1, registry=REAL, progress=reported.append) as sites:
        assert sites.running
        inventory = load_inventory(sites.inventory.read_text(encoding="utf-8"))
        assert list(inventory.sites) == ["A"]
        for site in sites.sites:
            listed = inventory.sites[site.name]
            (engine,) = listed.engines
            assert (engine.spe_address, listed.broker_address) == (site.engine.address, site.broker.address)
            assert CONNECT_SERVER.ready(site.engine.ports)
            assert MOSQUITTO.ready(site.broker.ports)
            MQTT.connect(site.broker.address, inventory).check()
            assert engine.checkpoint_dir is not None and Path(engine.checkpoint_dir).is_dir()
        assert any(sites.sites[0].engine.address in line for line in reported)

        before = sites.sites[0].engine
        after = local.restart(directory, "A", "engine", kill=True, registry=REAL)
        assert (after.ports, after.address) == (before.ports, before.address)
        assert after.pid != before.pid
        assert CONNECT_SERVER.ready(after.ports)
        started = pids(local.status(directory))
        assert len(started) == 2
    assert all(gone(pid) for pid in started)
    assert not local.status(directory).running


def test_an_engine_that_does_not_come_up_shows_its_log_and_leaves_nothing(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'this Java is broken' >&2\nexit 3\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(
        LocalError, match=r"(?s)site A: spark-connect engine sc://.*ended.*this Java is broken"
    ):
        local.up(directory, 1, registry=REAL)
    assert local.down(directory) == []
    assert not local.status(directory).running


# --- processes and records ------------------------------------------------------------------------


def test_up_again_changes_nothing(directory: Path) -> None:
    first = local.up(directory, ["edge", "cloud"], registry=LIGHT)
    reported: list[str] = []
    assert local.up(directory, ["edge", "cloud"], registry=LIGHT, progress=reported.append) == first
    assert reported == ["all servers of edge, cloud are already up"]


def test_up_repairs_what_is_missing_on_its_old_port(directory: Path) -> None:
    before = local.up(directory, 2, registry=LIGHT)
    local.stop_one(directory, "B", "broker", kill=True)
    assert not local.status(directory).running
    after = local.up(directory, 2, registry=LIGHT)
    assert [server.address for server in after.servers] == [server.address for server in before.servers]
    changed = [old for old, new in zip(before.servers, after.servers, strict=True) if old.pid != new.pid]
    assert changed == [before.sites[1].broker]


def test_addresses_stay_over_down_and_up(directory: Path) -> None:
    first = local.up(directory, 1, registry=LIGHT)
    local.down(directory)
    again = local.up(directory, 1, registry=LIGHT)
    assert [server.address for server in again.servers] == [server.address for server in first.servers]


def test_down_is_idempotent_and_needs_no_directory(directory: Path) -> None:
    assert local.down(directory) == []
    assert not directory.exists()
    sites = local.up(directory, 1, registry=LIGHT)
    stopped, reported = pids(sites), list[str]()
    assert sorted(local.down(directory, progress=reported.append)) == sorted(stopped)
    assert reported == [f"stopping {server}" for server in sites.servers]
    assert local.down(directory) == []
    assert all(gone(pid) for pid in stopped)


def test_down_counts_servers_and_not_their_children(directory: Path) -> None:
    local.up(directory, 1, registry=LIGHT)
    mark = next(Record.load(directory).servers()).mark

    def down() -> list[str]:
        child = processes.start(["sleep", "600"], dict(os.environ), directory, directory / "child.log", mark)
        said = CliRunner().invoke(down_command, ["--directory", str(directory)])
        assert said.exit_code == 0 and gone(child.pid)
        return said.stderr.splitlines()

    assert down()[-1] == "2 servers stopped"
    assert down() == ["1 remaining process stopped"]


def test_other_sites_in_a_directory_that_is_up_are_refused(directory: Path) -> None:
    local.up(directory, ["A"], registry=LIGHT)
    with pytest.raises(LocalError, match="sites A up, not X"):
        local.up(directory, ["X"], registry=LIGHT)
    local.down(directory)
    assert [site.name for site in local.up(directory, ["X"], registry=LIGHT).sites] == ["X"]


def run_and_kill_once(directory: Path, moment: str) -> None:
    """Bring a site up in another process, which kills itself at the first server's progress, or earlier."""
    script = f"""
        import dataclasses, os, signal
        from pathlib import Path
        from binders.mqtt import MQTT
        from binders.mqtt.local import MOSQUITTO
        from binders.spark import CONNECT
        from speck import local
        from speck.local import state
        from speck.binder import Registry

        def die(*arguments):
            os.kill(os.getpid(), signal.SIGKILL)

        {moment}
        registry = Registry.of([dataclasses.replace(CONNECT, local=MOSQUITTO), MQTT])
        local.up(Path({str(directory)!r}), 1, registry=registry, progress=die)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "moment",
    ["pass", "state.Record.started = die"],
    ids=["after the start was recorded", "before the start was recorded"],
)
def test_down_after_the_starter_was_killed(directory: Path, moment: str) -> None:
    run_and_kill_once(directory, moment)
    stopped = local.down(directory)
    assert stopped
    assert all(gone(pid) for pid in stopped)


def test_up_after_the_starter_was_killed_doubles_nothing(directory: Path) -> None:
    run_and_kill_once(directory, "state.Record.started = die")
    sites = local.up(directory, 1, registry=LIGHT)
    marks = {server.mark for server in Record.load(directory).servers()}
    assert sorted(each.pid for each in processes.marked(marks)) == sorted(pids(sites))


def test_a_process_id_that_was_used_again_is_not_killed(directory: Path) -> None:
    local.up(directory, 1, registry=LIGHT)
    local.down(directory)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        path = directory / "local.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        created = psutil.Process(stranger.pid).create_time()
        record["sites"]["A"][0] |= {"pid": stranger.pid, "created": created}
        record["sites"]["A"][1] |= {"pid": stranger.pid, "created": created - 1000}
        path.write_text(json.dumps(record), encoding="utf-8")
        assert pids(local.status(directory)) == []
        assert local.down(directory) == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_process_that_replaces_its_program_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The system shows an empty environment and command line while the shell becomes the server."""
    process = processes.start(["sleep", "600"], {"PATH": os.environ["PATH"]}, tmp_path, tmp_path / "log", "m")
    try:
        environ, cmdline, reads = psutil.Process.environ, psutil.Process.cmdline, itertools.count()
        monkeypatch.setattr(psutil.Process, "environ", lambda self: {} if next(reads) < 40 else environ(self))
        monkeypatch.setattr(psutil.Process, "cmdline", lambda self: [] if next(reads) < 40 else cmdline(self))
        assert processes.find(process.pid, "m") == process
        assert processes.find(process.pid, "another") is None
        reads = itertools.count()
        monkeypatch.setattr(psutil, "pids", lambda: [process.pid])
        assert list(processes.marked({"m"})) == [process]
    finally:
        process.kill()
        process.wait()


def test_a_process_with_the_id_of_an_earlier_one_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Process ids come again after 32,768 processes and threads, and psutil keeps what it has seen."""
    process = processes.start(["sleep", "600"], {"PATH": os.environ["PATH"]}, tmp_path, tmp_path / "log", "m")
    try:
        earlier = psutil.Process(process.pid)
        monkeypatch.setattr(earlier, "_ident", (process.pid, 0.0))  # it began at another time
        monkeypatch.setattr(psutil, "_pmap", {process.pid: earlier})
        assert list(processes.marked({"m"})) == [process]
    finally:
        process.kill()
        process.wait()


@dataclasses.dataclass(frozen=True)
class Script:
    """A server that is a shell script, for what real servers do not do on demand."""

    text: str
    is_ready: Callable[[], bool] = lambda: True

    ports = 1

    def address(self, ports: Sequence[int]) -> str:
        return f"sc://127.0.0.1:{ports[0]}"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        return ["/bin/sh", "-c", self.text], dict(os.environ)

    def ready(self, ports: Sequence[int]) -> bool:
        return self.is_ready()

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        return {}


def registry_of(engine: LocalServer | None) -> Registry:
    return Registry.of([dataclasses.replace(CONNECT, local=engine), MQTT])


def test_children_go_with_their_server(directory: Path) -> None:
    engine = Script("sleep 600 & setsid sleep 600 & wait", is_ready=lambda: len(mine(directory)) == 4)
    local.up(directory, 1, registry=registry_of(engine))
    found = mine(directory)
    local.down(directory)
    assert all(gone(pid) for pid in found)


def mine(directory: Path) -> list[int]:
    marks = {server.mark for server in Record.load(directory).servers()}
    return [process.pid for process in processes.marked(marks)]


def test_a_server_that_does_not_answer_in_time(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.local.starter.TIMEOUT", 1.0)
    engine = Script("echo I am slow; exec sleep 600", is_ready=lambda: False)
    with pytest.raises(LocalError, match=r"(?s)did not answer within 1 s.*I am slow"):
        local.up(directory, 1, registry=registry_of(engine))
    assert mine(directory) == []


def test_a_server_that_ignores_sigterm_is_killed(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_GRACE", 0.2)
    engine = Script("trap '' TERM; echo > trapped; while :; do sleep 0.1; done")
    engine = dataclasses.replace(engine, is_ready=(directory / "A" / "spark-connect" / "trapped").exists)
    stopped = pids(local.up(directory, 1, registry=registry_of(engine)))
    local.down(directory)
    assert all(gone(pid) for pid in stopped)


def test_output_of_the_servers_is_in_the_directory(directory: Path) -> None:
    engine = Script("echo a word; pwd; exec sleep 600", is_ready=lambda: "spark-connect\n" in read(directory))
    sites = local.up(directory, 1, registry=registry_of(engine))
    assert read(directory).splitlines() == ["a word", str(directory / "A" / "spark-connect")]
    assert sites.sites[0].engine.log == directory / "A" / "spark-connect.log"


def read(directory: Path) -> str:
    return (directory / "A" / "spark-connect.log").read_text(encoding="utf-8")


def test_a_further_form_of_an_engine_is_started_by_its_name(directory: Path) -> None:
    kind = dataclasses.replace(CONNECT, forms={"spark-tiny": Script("exec sleep 600")})
    registry = Registry.of([kind, MQTT])
    sites = local.up(directory, 1, engines={"A": ["spark-tiny"]}, registry=registry)
    assert (sites.sites[0].engine.kind, sites.running) == ("spark-tiny", True)
    local.stop_one(directory, "A", "spark-tiny", kill=True)
    assert (
        local.restart(directory, "A", "spark-tiny", registry=registry).address
        == sites.sites[0].engine.address
    )


def test_all_forms_are_prepared(tmp_path: Path) -> None:
    class Prepared(Script):
        def prepare(self, ports: Sequence[int], directory: Path) -> None:
            (tmp_path / self.text).write_text(str(directory))

    kind = dataclasses.replace(CONNECT, local=Prepared("usual"), forms={"tiny": Prepared("tiny")})
    assert local.prepare(Registry.of([kind, MQTT])) == ["spark-connect", "tiny"]
    assert {path.name for path in tmp_path.iterdir()} == {"usual", "tiny"}


def test_a_preparation_that_is_terminated_ends_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine that it has started is stopped then, as at Ctrl-C."""
    ended: list[str] = []

    def interrupted(progress: Callable[[str], None]) -> list[str]:
        try:
            signal.raise_signal(signal.SIGTERM)
            ended.append("not interrupted")
        finally:
            ended.append("stopped")
        return []

    def spared(number: int, frame: object) -> None:
        """Keep this process: the command's own handler comes before this one."""

    before = signal.signal(signal.SIGTERM, spared)
    try:
        monkeypatch.setattr("speck.local.prepare", interrupted)
        assert CliRunner().invoke(prepare_command, []).exit_code != 0
        assert ended == ["stopped"]
        assert signal.getsignal(signal.SIGTERM) is spared
    finally:
        signal.signal(signal.SIGTERM, before)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sites": 0}, "from 1 to 26"),
        ({"sites": []}, "one or more names"),
        ({"sites": ["A", "A"]}, "each once"),
        ({"sites": ["a/b"]}, "'a/b' is not the name of a site"),
        ({"heap": "much"}, "such as 600m"),
        ({"engines": {"A": ["storm"]}}, "'storm'.*expected one of: spark-connect"),
        (
            {"engines": {"A": ["flink-tiny"]}, "registry": installed()},
            "expected one of: flink, flink-small, ",
        ),
        ({"engines": {"X": ["spark-connect"]}}, "site 'X' .expected one of A"),
        ({"engines": {"A": []}}, "site A: engines .. are not valid"),
    ],
)
def test_what_up_refuses(directory: Path, arguments: dict[str, object], words: str) -> None:
    with pytest.raises(LocalError, match=words):
        local.up(directory, **({"sites": 1, "registry": LIGHT} | arguments))  # type: ignore[arg-type]


def test_restart_of_a_site_that_is_none(directory: Path) -> None:
    local.up(directory, 1, registry=LIGHT)
    with pytest.raises(NotFound, match="site 'Z'"):
        local.restart(directory, "Z", "broker", registry=LIGHT)


def test_a_record_that_cannot_be_read_is_named(directory: Path) -> None:
    directory.mkdir()
    (directory / "local.json").write_text("{", encoding="utf-8")
    with pytest.raises(LocalError, match=r"local\.json cannot be read"):
        local.status(directory)
    (directory / "local.json").unlink()


def test_missing_programs_say_what_to_install(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalError, match=r"Java is not installed.*apt-get install"):
        local.up(directory, 1, registry=REAL)
    monkeypatch.setattr("binders.mqtt.local._SERVER_FOLDERS", ())
    with pytest.raises(LocalError, match=r"(?i)mosquitto.*apt-get install mosquitto"):
        local.up(directory, 1, registry=LIGHT)


def test_a_java_home_without_java_is_named(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LocalError, match="JAVA_HOME"):
        local.up(directory, 1, registry=REAL)


def test_the_engines_of_sites_on_the_command_line() -> None:
    given = ["--engine", "A=spark-connect", "--engine", "C=flink", "--engine", "D=spark-standalone,flink"]
    expected = {"A": ["spark-connect"], "C": ["flink"], "D": ["spark-standalone", "flink"]}
    assert up_command.make_context("up", given).params["engines"] == expected


def test_sites_without_their_number(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the directory has; in a new one two, or up to the last one that is named."""
    asked: list[tuple[object, object, object]] = []

    def up(place: Path, sites: object, **options: Any) -> local.LocalSites:
        asked.append((sites, options["engines"], options["brokers"]))
        return local.status(place)

    def command(*arguments: str) -> None:
        said = CliRunner().invoke(up_command, ["--directory", str(directory), *arguments])
        assert said.exception is None, said.output

    up_really = local.up
    monkeypatch.setattr(local, "up", up)
    command()
    command("--engine", "D=flink", "--broker", "A=kafka")
    up_really(directory, ["X"], registry=LIGHT)
    command()
    command("--sites", "3")
    assert asked == [
        (2, {}, {}),
        (4, {"D": ["flink"]}, {"A": "kafka"}),
        (["X"], {"X": ["spark-connect"]}, {"X": "mqtt"}),
        (3, {}, {}),
    ]


@pytest.mark.parametrize("given", [["A"], ["A="], ["=flink"], ["A=flink", "A=spark-connect"]])
def test_engines_of_no_site_on_the_command_line(given: list[str]) -> None:
    with pytest.raises(click.BadParameter, match=r"expected SITE=KIND or SITE=KIND,KIND, each site once"):
        up_command.make_context("up", [part for each in given for part in ("--engine", each)])


def test_a_site_has_the_kind_of_broker_that_is_named(directory: Path) -> None:
    registry = Registry.of([*LIGHT.engines, *LIGHT.brokers, KAFKA])
    try:
        server_jars()
    except LocalError as error:
        pytest.skip(str(error))
    sites = local.up(directory, ["A", "B"], brokers={"B": "kafka"}, registry=registry)
    assert [site.broker.kind for site in sites.sites] == ["mqtt", "kafka"]
    inventory = load_inventory(sites.inventory.read_text("utf-8"))
    assert inventory.sites["B"].broker_address == sites.sites[1].broker.address
    with pytest.raises(LocalError, match="stop them first"):
        local.up(directory, ["A", "B"], registry=registry)
    assert local.status(directory).sites[1].broker.address == sites.sites[1].broker.address


def test_a_broker_for_no_site_and_of_no_kind_is_refused(directory: Path) -> None:
    with pytest.raises(LocalError, match=r"a broker is given for site 'X' \(expected one of A\)"):
        local.up(directory, ["A"], brokers={"X": "mqtt"}, registry=LIGHT)
    with pytest.raises(LocalError, match=r"starts broker 'amqp' on this machine \(expected one of: mqtt\)"):
        local.up(directory, ["A"], brokers={"A": "amqp"}, registry=LIGHT)


def test_without_its_jars_the_way_to_get_kafka_is_named(
    directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(LocalError, match=r"KAFKA_HOME is .* has no libs/kafka_2.13-\*.jar"):
        server_jars()
    monkeypatch.delenv("KAFKA_HOME")
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(LocalError, match=r"set KAFKA_HOME .* or run make kafka"):
        server_jars()
