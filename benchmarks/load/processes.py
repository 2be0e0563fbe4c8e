"""Processes of a benchmark: started, measured (CPU time, memory), and stopped by their id."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from speck.binder import LocalServer
from testbed.servers.base import free_test_ports

_START_TIMEOUT = 120.0  # s
_STOP_TIMEOUT = 30.0  # s


class Running:
    """A process of the benchmark's own, and its children."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        """Take over a process that was just started; ``name`` is for people."""
        self.name = name
        self.process = process
        self.pid = process.pid

    def cpu_seconds(self) -> float:
        """Processor time used so far (user and system), that of children that have ended included."""
        total = 0.0
        for each in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def proportional_memory(self) -> int:
        """Bytes in memory, shared pages divided among those who share them (proc(5), smaps_rollup: Pss)."""
        return sum(_pss(each.pid) for each in self._family())

    def java_pids(self) -> list[int]:
        """The Java virtual machines among it and its children."""
        return [each.pid for each in self._family() if each.name() == "java"]

    def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL when that does not do."""
        children = self._family()[1:]
        self.process.terminate()
        try:
            self.process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def _family(self) -> list[psutil.Process]:
        try:
            first = psutil.Process(self.pid)
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


@contextlib.contextmanager
def running(
    name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """A process whose output goes to ``NAME.log`` in the directory, except for its messages to the caller.

    Its standard input and output are pipes, as text.
    """
    with (directory / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        started = Running(name, process)
        try:
            yield started
        finally:
            started.stop()


@contextlib.contextmanager
def server(name: str, kind: LocalServer, directory: Path, heap: str) -> Iterator[tuple[Running, list[int]]]:
    """A server of an engine or a broker, ready, and its loopback ports."""
    ports = free_test_ports(kind.ports)
    directory.mkdir(parents=True, exist_ok=True)
    command, environment = kind.command(ports, directory, heap)
    # Its output goes to its log, too: no reader is here.
    quiet = ["/bin/sh", "-c", 'exec "$@" >&2', "sh", *command]
    with running(name, quiet, directory, environment) as started:
        deadline = time.monotonic() + _START_TIMEOUT
        while not kind.ready(ports):
            if started.process.poll() is not None or time.monotonic() > deadline:
                log = (directory / f"{name}.log").read_text(errors="replace")
                raise RuntimeError(f"{name} does not come up:\n{log[-2000:]}")
            time.sleep(0.1)
        yield started, ports


def _pss(pid: int) -> int:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
