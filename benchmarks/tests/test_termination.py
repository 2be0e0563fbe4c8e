"""Benchmarks stop what they started, however they are ended."""

from __future__ import annotations

import ast
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil
import pytest

from benchmarks.__main__ import BENCHMARKS
from testbed import ROOT
from testbed.waiting import await_that
from tests.support.trials import trial

Program = subprocess.Popen[bytes]

ANOTHER = trial("test_each_benchmark_is_run_so, and one with brokers, one with an engine")

# A benchmark with a server, which says when it stops it, and takes a moment for that.
_PROGRAM = """
import signal, subprocess, sys, time
from pathlib import Path
from testbed.termination import run

folder = Path(sys.argv[1])

def main():
    with subprocess.Popen(["sleep", "1000"]) as server:
        try:
            (folder / "started").touch()
            time.sleep(1000)
        finally:
            (folder / "stopping").touch()
            time.sleep(0.5)
            # Programs that are started now would inherit signals that are ignored.
            ignored = [each for each in (1, 2, 15) if signal.getsignal(each) is signal.SIG_IGN]
            server.terminate()
            server.wait()
            (folder / "stopped").write_text(str(ignored))

"""
_RUN = "run(main)"
# A program that runs the above, as the command for all benchmarks does.
_CALLER = """
import sys
from testbed.termination import call, run
run(lambda: call([sys.executable, *sys.argv[1:]]).returncode)
"""
# A program that has a Python process of its own run another program.
_ALONE = """
import subprocess
from testbed.termination import alone, run
run(lambda: alone(subprocess.run, ["sleep", "1000"]).returncode)
"""


@contextmanager
def _started(command: Sequence[str], folder: Path) -> Iterator[Program]:
    variables = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    program = subprocess.Popen(command, cwd=ROOT, env=variables)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def _benchmark(folder: Path, *, ignored: int | None = None) -> AbstractContextManager[Program]:
    """The program above, by a process that may ignore a signal."""
    command = [sys.executable, "-c", _PROGRAM + _RUN, str(folder)]
    if ignored is not None:
        ignoring = f"import os, signal, sys; signal.signal({ignored}, signal.SIG_IGN)"
        command = [sys.executable, "-c", f"{ignoring}; os.execv(sys.argv[1], sys.argv[1:])", *command]
    return _started(command, folder)


def _servers(program: Program, folder: Path) -> list[psutil.Process]:
    """The processes below it, once the program above has started its server."""
    await_that((folder / "started").exists, bool, 60)
    return psutil.Process(program.pid).children(recursive=True)


def _none_runs(processes: Sequence[psutil.Process]) -> bool:
    return not any(each.is_running() for each in processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_its_servers(number: signal.Signals, tmp_path: Path) -> None:
    with _benchmark(tmp_path) as program:
        servers = _servers(program, tmp_path)
        program.send_signal(number)
        assert program.wait(60) == 128 + number
        assert len(servers) == 1 and _none_runs(servers)
    assert (tmp_path / "stopped").read_text() == "[]"


def test_another_signal_does_not_cut_the_stopping_short(tmp_path: Path) -> None:
    with _benchmark(tmp_path) as program:
        servers = _servers(program, tmp_path)
        program.terminate()
        await_that((tmp_path / "stopping").exists, bool, 60)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            program.send_signal(number)
        assert program.wait(60) == 128 + signal.SIGTERM
        assert _none_runs(servers)
    assert (tmp_path / "stopped").read_text() == "[]"


def test_an_interrupt_ends_it_in_the_background_of_a_shell_too(tmp_path: Path) -> None:
    """A shell without job control has SIGINT ignored."""
    with _benchmark(tmp_path, ignored=signal.SIGINT) as program:
        servers = _servers(program, tmp_path)
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 128 + signal.SIGINT
        assert _none_runs(servers)


def test_a_hangup_that_is_ignored_does_not_end_it(tmp_path: Path) -> None:
    with _benchmark(tmp_path, ignored=signal.SIGHUP) as program:
        servers = _servers(program, tmp_path)
        program.send_signal(signal.SIGHUP)
        program.terminate()
        assert program.wait(60) == 128 + signal.SIGTERM
        assert _none_runs(servers)


def test_a_program_that_it_runs_is_ended_and_waited_for(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CALLER, "-c", _PROGRAM + _RUN, str(tmp_path)]
    with _started(command, tmp_path) as program:
        servers = _servers(program, tmp_path)
        program.terminate()
        assert program.wait(60) == 128 + signal.SIGTERM
        assert len(servers) == 2 and _none_runs(servers)
    assert (tmp_path / "stopped").read_text() == "[]"


def test_a_call_in_another_process_is_ended_and_waited_for(tmp_path: Path) -> None:
    with _started([sys.executable, "-c", _ALONE], tmp_path) as program:
        children = psutil.Process(program.pid).children
        found = await_that(lambda: children(recursive=True), _has_sleep, 60)
        program.terminate()
        assert program.wait(60) == 128 + signal.SIGTERM
        # The tracker of resources, a process of Python's own, notes the end of the program afterwards.
        await_that(lambda: _none_runs(found), bool, 10)


def _has_sleep(found: Sequence[psutil.Process]) -> bool:
    return any(each.name() == "sleep" for each in found)


def test_each_benchmark_is_run_so() -> None:
    modules = {each.module.split()[0].removeprefix("benchmarks.") for each in BENCHMARKS.values()}
    for name in [*modules, ""]:
        micro, package = ROOT / "benchmarks" / "micro" / f"{name}.py", ROOT / "benchmarks" / name
        path = micro if micro.exists() else package / "__main__.py"
        last = ast.parse(path.read_text(encoding="utf-8")).body[-1]
        assert ast.unparse(last) == f"if __name__ == '__main__':\n    {_RUN}", path


@pytest.mark.engine
@pytest.mark.parametrize(
    ("options", "servers"),
    [
        ("rivals --only 'paho relay' --messages 100000", 2),
        pytest.param("memory --engine flink", 3, marks=ANOTHER),
        ("start --engine flink-small --share 0", 1),
        pytest.param("wire --engine flink --form compact", 3, marks=ANOTHER),
    ],
)
def test_it_leaves_no_server(options: str, servers: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", *shlex.split(f"benchmarks.{options}")]
    with _started(command, tmp_path) as program:
        children = psutil.Process(program.pid).children
        found = await_that(lambda: children(recursive=True), lambda found: _are_up(found, servers), 120)
        program.terminate()
        assert program.wait(120) == 128 + signal.SIGTERM
        assert _none_runs(found)


def _are_up(found: Sequence[psutil.Process], count: int) -> bool:
    """True for that many processes that run for some time, so that the benchmark knows of them."""
    return len(found) >= count and all(time.time() - each.create_time() > 2 for each in found)
