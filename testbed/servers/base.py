"""The base of the real servers that tests run: processes that work in a directory, on free loopback ports."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from speck.local.ports import Reservation
from testbed.termination import held_back

# Refuses connections on loopback: no server of a test takes it, unlike a port that was free a moment ago.
REFUSING_PORT = 1
_STOP_TIMEOUT = 30.0  # s from SIGTERM to SIGKILL


class NotInstalled(Exception):
    """A program or file that a server needs is missing; the message names it.  Tests are skipped by it."""


def free_port() -> int:
    """A port as of :func:`free_test_ports`."""
    (port,) = free_test_ports(1)
    return port


def free_test_ports(count: int) -> list[int]:
    """Loopback TCP ports without a listener, which no server of these tests had before.

    They stay reserved until this process ends, also while no server is bound to them.  An engine that has
    written to a broker looks for it for minutes after the broker has ended.  At the same port it would send
    what it holds to the broker of a later test.
    """
    return _reservation(os.getpid()).draw(count)


@cache
def _reservation(process: int) -> Reservation:
    """The reservation of a process; one that is forked has its own."""
    return Reservation()


def accepts(port: int) -> bool:
    """True if a loopback port takes connections."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


class RealServer:
    """The processes of one server; the block of a ``with`` statement starts and stops them.

    A subclass defines :meth:`commands` and :meth:`ready`.  Its ports stay the same over :meth:`stop`,
    :meth:`kill` and :meth:`start`.  No process outlives a start that fails.
    """

    log_name = "server.log"
    start_timeout = 180.0  # s
    poll = 0.05  # s between two calls of ready()
    own_session = False  # True: an interrupt of the tests does not reach the processes

    def __init__(self, directory: Path) -> None:
        """Prepare a server that keeps its files in ``directory``."""
        self.directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []

    def commands(self) -> Sequence[Sequence[str]]:
        """The command lines of the processes; writes the files that these need."""
        raise NotImplementedError

    def ready(self) -> bool:
        """True if the server answers."""
        raise NotImplementedError

    def variables(self) -> Mapping[str, str]:
        """The environment of the processes."""
        return os.environ

    @property
    def pid(self) -> int:
        """The id of the first process of a server that runs."""
        assert self._processes, f"{self} does not run"
        return self._processes[0].pid

    @property
    def pids(self) -> list[int]:
        """The ids of all processes; none for a server that does not run."""
        return [each.pid for each in self._processes]

    @property
    def log(self) -> str:
        """The output of all processes."""
        path = self.directory / self.log_name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self) -> Self:
        """Start all processes and wait until the server answers."""
        assert not self._processes, f"{self} runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            for command in self.commands():
                self._run(command)
            self._await_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """End the processes by SIGTERM; does nothing if none runs."""
        self._end(kill=False)

    def kill(self) -> None:
        """End the processes by SIGKILL; does nothing if none runs."""
        self._end(kill=True)

    def _run(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with held_back(), (self.directory / self.log_name).open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=self.variables(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=self.own_session,
            )
            self._processes.append(process)
        return process

    def _end(self, *, kill: bool) -> None:
        processes, self._processes = self._processes, []
        for process in processes:
            process.kill() if kill else process.terminate()
        for process in processes:
            try:
                process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + self.start_timeout
        while not self.ready():
            codes = [process.poll() for process in self._processes]
            if any(code is not None for code in codes):
                raise RuntimeError(f"{self} ended with {codes}:\n{self.log[-3000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self} is not ready after {self.start_timeout} s:\n{self.log[-3000:]}")
            time.sleep(self.poll)

    def __str__(self) -> str:
        return f"{type(self).__name__} in {self.directory}"

    def __enter__(self) -> Self:
        return self if self._processes else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
