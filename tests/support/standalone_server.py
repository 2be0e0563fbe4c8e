"""A real Spark standalone cluster (a master and a worker) of its own for tests, on free loopback ports.

::

    def test_something(standalone_server: StandaloneServer) -> None: ...    # one cluster a test session

    with StandaloneServer(directory) as cluster:    # a cluster of one's own, to be killed
        connect(cluster.address)                    # spark://127.0.0.1:PORT
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import pytest

from binders.spark.local.commands import CONNECTOR
from binders.spark.local.standalone_cluster import STANDALONE_CLUSTER
from binders.spark.standalone.master import Master
from speck.core.inventory import Engine
from tests.support.mosquitto_server import free_port

_START_TIMEOUT = 180.0


class StandaloneServer:
    """One cluster, as ``speck local`` has it."""

    def __init__(self, directory: Path) -> None:
        """Prepare a cluster that keeps its files in ``directory``."""
        self.directory = directory
        self.ports = [free_port() for _ in range(STANDALONE_CLUSTER.ports)]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """The master's address as a composition has it."""
        return STANDALONE_CLUSTER.address(self.ports)

    @property
    def engine(self) -> dict[str, Any]:
        """What an inventory says of it."""
        return dict(STANDALONE_CLUSTER.inventory(self.ports, self.directory, "600m"))

    @property
    def log(self) -> str:
        """What master and worker wrote to their log."""
        return (self.directory / "server.log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> StandaloneServer:
        """Start it and wait until the master has its worker."""
        try:
            self._start_all()
            self._await_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def processes(self, word: str) -> list[psutil.Process]:
        """The cluster's processes, drivers and executors included, with this word on their command line."""
        found = []
        for process in self._family():
            with contextlib.suppress(psutil.Error):
                if any(word in part for part in process.cmdline()):
                    found.append(process)
        return found

    def driver(self, attempt: str) -> psutil.Process:
        """The Java process of an attempt's driver (and not a copy of it that is about to become another)."""
        return min(self.processes(attempt), key=lambda process: process.create_time())

    def stop(self) -> None:
        """End it, its drivers and executors with it; of one that does not run: nothing."""
        family = self._family()
        processes, self._processes = self._processes, []
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _, left = psutil.wait_procs(family, 20)
        for each in left:
            with contextlib.suppress(psutil.Error):
                each.kill()

    def _start_all(self) -> None:
        command, _ = STANDALONE_CLUSTER.command(self.ports, self.directory, "600m")
        self._start(command)

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "server.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=dict(STANDALONE_CLUSTER.environment(self.directory)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _family(self) -> list[psutil.Process]:
        running = [process for process in self._processes if process.poll() is None]
        return [each for one in running for each in psutil.Process(one.pid).children(recursive=True)]

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while not STANDALONE_CLUSTER.ready(self.ports):
            if any(process.poll() is not None for process in self._processes) or time.monotonic() > deadline:
                raise RuntimeError(f"the cluster does not come up:\n{self.log[-3000:]}")
            time.sleep(0.05)

    def __enter__(self) -> StandaloneServer:
        return self if self._processes else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class LooseCluster(StandaloneServer):
    """A cluster whose master and workers are apart: a worker may be added, and killed alone."""

    def _start_all(self) -> None:
        self._start(STANDALONE_CLUSTER.master(self.ports, self.directory))
        self.add_worker("first")

    def add_worker(self, name: str) -> subprocess.Popen[bytes]:
        """Start one more worker, with a folder of its own."""
        ports = [*self.ports[:3], free_port(), free_port()]
        return self._start(STANDALONE_CLUSTER.worker(ports, self.directory / name))

    def workers(self) -> int:
        """How many workers the master has."""
        return len(Master(self.address, Engine(spe_address=self.address, **self.engine)).cluster().workers)

    def kill_first_worker(self) -> None:
        """End it by SIGKILL; its drivers and executors notice."""
        worker = self._processes.pop(1)
        worker.kill()
        worker.wait()


@pytest.fixture(name="standalone_server", scope="session")
def standalone_server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneServer]:
    """One cluster for the whole test session (use job names and topics of your own)."""
    if not CONNECTOR.exists():
        pytest.skip(f"{CONNECTOR.name} is not built (make, or mvn package in jars_and_apps/connectors)")
    with StandaloneServer(tmp_path_factory.mktemp("standalone")) as server:
        yield server
