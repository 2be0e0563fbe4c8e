"""Starts that are cut short, or after the clock was set; servers are shell scripts."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from speck import local
from speck.binder import WorkersEngine
from speck.cli.local import up as up_command
from speck.errors import LocalError
from speck.local import processes
from speck.local.starting import StartedServer, _failure
from speck.testing.waiting import eventually
from testbed import ROOT
from tests.local.test_starting import Script, registry

SLEEP = "exec sleep 600"
LIGHT = registry(Script(SLEEP))


def test_servers_are_found_after_the_clock_was_set(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells the start of a process by the present clock; the record has that of then."""
    before = local.up(directory, 1, registry=LIGHT)
    created = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: created(self) - 3600)
    assert local.status(directory) == before
    assert before.running
    assert local.up(directory, 1, registry=LIGHT) == before


def test_a_child_is_not_taken_for_its_server(tmp_path: Path) -> None:
    program = ["sh", "-c", "sleep 600 & wait"]
    process = processes.start(program, {"PATH": os.environ["PATH"]}, tmp_path, tmp_path / "log", "m")
    try:
        (child,) = eventually(process.children, bool)
        eventually(lambda: set(processes.marked({"m"})), lambda found: found == {process, child})
        assert processes.find(process.pid, "m") == process
        assert processes.find(child.pid, "m") is None
    finally:
        processes.stop([process])


@dataclasses.dataclass(frozen=True)
class Checked(Script):
    """A script that is ready when it is said to be."""

    is_ready: Callable[[], bool] = lambda: True

    def ready(self, ports: Sequence[int]) -> bool:
        return self.is_ready()


def test_up_waits_for_servers_that_a_killed_start_has_left(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"""
        import os, signal
        from pathlib import Path
        from speck import local
        from tests.local.test_left_behind import LIGHT

        kill = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        local.up(Path({str(directory)!r}), 1, registry=LIGHT, progress=kill)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    before, looks = local.status(directory), itertools.count()
    assert before.running
    slow = Checked(SLEEP, is_ready=lambda: next(looks) == 3)
    assert local.up(directory, 1, registry=registry(slow)) == before
    assert next(looks) == 4
    monkeypatch.setattr("speck.local.starter.TIMEOUT", 0.2)
    stuck = registry(Checked(SLEEP, is_ready=lambda: False))
    with pytest.raises(LocalError, match=r"did not answer within 0\.2 s"):
        local.up(directory, 1, registry=stuck)
    assert local.status(directory) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_up_that_is_terminated_ends_in_order(
    directory: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The servers that it has started are stopped then; a second signal does not cut that short."""
    ended: list[str] = []

    def interrupted(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(number)
            ended.append("not interrupted")
        finally:
            signal.raise_signal(number)
            ended.append("stopped")

    before = signal.signal(number, lambda *_: None)
    try:
        monkeypatch.setattr("speck.local.up", interrupted)
        assert CliRunner().invoke(up_command, ["--directory", str(directory)]).exit_code != 0
    finally:
        signal.signal(number, before)
    assert ended == ["stopped"]


@dataclasses.dataclass(frozen=True)
class Scaled(Script):
    """An engine whose workers are servers of their own."""

    worker_ports = 1

    def without_workers(self) -> Scaled:
        return self

    def scale(self, heap: str) -> Mapping[str, Any]:
        return {"cores": 1, "slots": 1}

    def worker(
        self, number: int, engine: WorkersEngine, ports: Sequence[int], directory: Path
    ) -> tuple[list[str], Mapping[str, str]]:
        return ["/bin/sh", "-c", SLEEP], dict(os.environ)

    def is_worker(self, identifier: str, number: int, ports: Sequence[int]) -> bool:
        return False


def test_workers_go_with_the_former_ports_of_their_engine(directory: Path) -> None:
    """A port of the engine was taken by another program while it was down."""

    def up() -> local.LocalSites:
        return local.up(directory, 1, registry=registry(Scaled(SLEEP)), workers={"A": (1, 2)})

    (before,) = up().workers
    local.stop_one(directory, "A", "engine", kill=True)
    again = up()
    assert again.workers == (before,)
    local.stop_one(directory, "A", "engine", kill=True)
    with socket.create_server(("127.0.0.1", again.sites[0].engine.ports[0])):
        moved = up()
    (worker,) = moved.workers
    assert (worker.address, worker.state) == (moved.sites[0].engine.address, "running")
    assert worker.pid != before.pid
    assert worker.address != before.address


def test_of_a_log_that_has_grown_for_months_the_end_is_read(tmp_path: Path) -> None:
    log, size = tmp_path / "log", 1 << 40
    with log.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(b"no space left\n")
    server = StartedServer("site A: engine", Script(""), 0, (), (), log, size)
    assert str(_failure(server, "ended")).endswith(f"{log}:\n    no space left")


def test_a_log_that_cannot_be_written_is_named(directory: Path) -> None:
    log = directory / "A" / "spark-connect.log"
    log.mkdir(parents=True)
    with pytest.raises(LocalError, match=rf"cannot be started: .*{log}"):
        local.up(directory, 1, registry=LIGHT)
