"""Processes that are forked from one that has imported SpecK are those that a new interpreter would be."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.servers.forked import Forked, ForkError, fork_server, shell_command
from testbed.servers.served_process import served
from tests.fixtures.process import pytest_collection_finish

NOWHERE = ["--server", "http://127.0.0.1:9"]


@pytest.mark.slow("starts new interpreters")
@pytest.mark.parametrize(
    "arguments",
    [["--version"], [*NOWHERE, "jobs"], ["no-such-command"], ["validate", "it.yaml"]],
    ids=" ".join,
)
def test_output_and_exit_code_are_those_of_a_new_interpreter(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "it.yaml").write_text("jobs: [")
    root = str(Path(__file__).parents[1])
    new = subprocess.run(
        [sys.executable, "-m", "speck.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": root},
    )
    with Forked("speck.cli", arguments, cwd=tmp_path, env=os.environ, stdout=PIPE, stderr=PIPE) as forked:
        out, err = forked.communicate(60)
    assert (forked.returncode, out, err) == (new.returncode, new.stdout, new.stderr)


def test_variables_are_its_own(tmp_path: Path) -> None:
    """None is inherited from the tests, and those that consoles regard when they are made are in effect."""
    (tmp_path / "it.yaml").write_text("name: ${PATH}\n")
    for variables, coloured in (({}, False), ({"FORCE_COLOR": "1", "TERM": "xterm"}, True)):
        with Forked(
            "speck.cli", ["validate", "it.yaml"], env=variables, cwd=tmp_path, stdout=PIPE, stderr=PIPE
        ) as forked:
            out, err = forked.communicate(60)
        said = f"{out}{err}"
        assert ("\x1b[" in said) == coloured
        assert "variable 'PATH' has no value" in said


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1], ids=lambda number: number.name)
def test_the_signal_that_ended_it_is_its_exit_code(tmp_path: Path, number: signal.Signals) -> None:
    with served(tmp_path) as server:
        assert server.process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.01)
        server.process.send_signal(number)
        assert server.process.wait(60) == -number


def test_a_shell_has_its_commands_in_forked_processes(tmp_path: Path) -> None:
    """Their streams, variables and directory are those of the shell, and so is the exit code."""
    (tmp_path / "it.yaml").write_text("name: ${CITY}\njobs: []\n")
    command, server = shell_command("speck.cli")
    speck = shlex.join(command)
    validate = f"{speck} validate it.yaml"
    script = f"{speck} --version | cat; CITY=Aarhus {validate}; {validate}; echo $?"
    done = subprocess.run(
        ["bash", "-c", script], pass_fds=[server], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0] == f"speck, version {version('speck')}"
    assert done.stdout.splitlines()[-1] == "1"
    assert done.stderr.count("variable 'CITY' has no value") == 1


def test_who_ends_before_the_answer_does_not_end_the_server() -> None:
    report, reported = os.pipe()
    os.close(report)
    request = {"module": "speck.cli", "imports": [], "arguments": ["--version"], "directory": "/"}
    with Path(os.devnull).open("r+b") as nowhere:
        given = [*[nowhere.fileno()] * 3, reported]
        content = json.dumps(request | {"environment": dict(os.environ)}).encode()
        socket.send_fds(fork_server(), [content], given)
    os.close(reported)
    use_the_server()


def test_a_program_that_cannot_be_started_is_an_error_and_costs_no_other_one_its_report() -> None:
    with pytest.raises(
        ForkError, match=r"speck.cli was not started: ModuleNotFoundError: .*'no_such_module'"
    ):
        Forked("speck.cli", ["--version"], env=os.environ, imports=["no_such_module"])
    use_the_server()


def test_a_process_without_a_report_is_named_with_the_end_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ended = subprocess.Popen(["/bin/sh", "-c", "kill -9 $$"])
    ended.wait(60)
    monkeypatch.setattr("testbed.servers.forked.fork_server", lambda: ours)
    monkeypatch.setattr("testbed.servers.forked._servers", [(ended, os.getpid())])

    def serve(answer: bytes) -> None:
        _, descriptors, _, _ = socket.recv_fds(theirs, 1 << 20, 4)
        os.write(descriptors[3], answer)
        for each in descriptors:
            os.close(each)

    with ours, theirs:
        for answer in (f"{ended.pid}\n".encode(), b""):
            serving = threading.Thread(target=serve, args=[answer])
            serving.start()
            with pytest.raises(ForkError) as caught:
                Forked("speck.cli", ["jobs"], env={}).wait(60)
            serving.join()
            assert f"the fork server (process {ended.pid}) was ended by SIGKILL" in str(caught.value)
            where = f"process {ended.pid} (speck.cli), which has ended, has no report"
            assert (where in str(caught.value)) == bool(answer)


def test_a_process_keeps_no_pipe_of_another_open(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with served(tmp_path / "one") as one, served(tmp_path / "two") as two:
        one.process.kill()
        out, err = one.process.communicate(60)  # to the ends of its pipes
        assert str(tmp_path / "one") in str(out)
        assert err == ""
        assert two.process.poll() is None


def test_a_process_keeps_no_report_of_another_open(tmp_path: Path) -> None:
    """Not even if its descriptor is higher than all that the process was given."""
    os.mkfifo(tmp_path / "it.yaml")  # for which a command waits until it is killed
    with contextlib.ExitStack() as stack:
        run = partial(Forked, "speck.cli", ["validate", "it.yaml"], env=os.environ, cwd=tmp_path)
        first, *_, last = [stack.enter_context(killed(run())) for _ in range(20)]
        first.kill()
        first.wait()  # its descriptors are free now
        other = stack.enter_context(killed(run()))
        last.kill()
        assert within(60, last.wait) == -signal.SIGKILL
        assert other.poll() is None


@contextlib.contextmanager
def killed(process: Forked) -> Iterator[Forked]:
    """The process, which is killed when the block ends."""
    with process:
        yield process
        process.kill()


def within(seconds: float, call: Callable[[], int]) -> int | None:
    """The result of a call, or ``None`` if it takes longer."""
    results: list[int] = []
    waiting = threading.Thread(target=lambda: results.append(call()), daemon=True)
    waiting.start()
    waiting.join(seconds)
    return next(iter(results), None)


@pytest.mark.parametrize(("mode", "starts"), [("fork", 1), (None, 0)])
def test_the_server_is_started_before_workers_are_forked(
    monkeypatch: pytest.MonkeyPatch, mode: str | None, starts: int
) -> None:
    started: list[None] = []
    monkeypatch.setattr("testbed.servers.forked.fork_server", lambda: started.append(None))
    session: Any = SimpleNamespace(config=SimpleNamespace(option=SimpleNamespace(parallel_mode=mode)))
    pytest_collection_finish(session)
    assert len(started) == starts


def test_workers_share_the_server() -> None:
    fork_server()
    workers = [multiprocessing.get_context("fork").Process(target=use_the_server) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    use_the_server()  # which has not ended with them


def use_the_server() -> None:
    """Run a command in a process that the server of the parent forks."""
    assert fork_server.cache_info().currsize == 1
    with Forked("speck.cli", ["--version"], env=os.environ, stdout=PIPE) as forked:
        out, _ = forked.communicate(60)
    assert (forked.returncode, out) == (0, f"speck, version {version('speck')}\n")
