"""The servers of tests end with the run, also if it is terminated while they start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.servers.base import RealServer


class Silent(RealServer):
    """A process that does not answer."""

    def commands(self) -> Sequence[Sequence[str]]:
        return [["sleep", "1000"]]

    def ready(self) -> bool:
        return False


class Interrupted(BaseException):
    """Raised by the handler of a signal."""


def test_a_signal_amid_the_start_of_a_process_leaves_none_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Signalled(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        monkeypatch.setattr(subprocess, "Popen", Signalled)
        with pytest.raises(Interrupted):
            Silent(tmp_path).start()
        assert [each.poll() for each in started] == [-signal.SIGKILL]
    finally:
        signal.signal(signal.SIGTERM, former)
        for each in started:
            each.kill()
            each.wait()


TESTS = """
from tests.test_termination import Silent

def test_that_starts_a_server(tmp_path):
    Silent(tmp_path).start()
"""


@pytest.mark.slow("starts a new interpreter")
def test_a_run_that_is_terminated_ends_its_servers(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ("-p", "tests.fixtures.process", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "temp"))
    command = [sys.executable, "-m", "pytest", "-q", *options, "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    servers: list[psutil.Process] = []
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as run:
        try:
            servers += eventually(lambda: _programs(run.pid, "sleep"), bool, 60)
            run.terminate()
            assert run.wait(60) == 128 + signal.SIGTERM
            assert [each.is_running() for each in servers] == [False]
        finally:
            run.kill()
            for each in servers:
                with suppress(psutil.NoSuchProcess):
                    each.kill()


def _programs(parent: int, name: str) -> list[psutil.Process]:
    """The programs of this name that a process has started."""
    return [each for each in psutil.Process(parent).children() if each.name() == name]
