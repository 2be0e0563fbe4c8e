"""A real Spark standalone cluster (a master and a worker) of its own for tests, on free loopback ports.

::

    def test_something(standalone_server: StandaloneServer) -> None: ...    # one cluster a test session

    with StandaloneServer(directory) as cluster:    # a cluster of one's own, to be killed
        connect(cluster.address)                    # spark://127.0.0.1:PORT
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from binders.spark.local.standalone_cluster import STANDALONE_CLUSTER
from binders.spark.standalone.master import Master
from speck.core.inventory import Engine
from testbed.servers.base import RealServer, free_port


class StandaloneServer(RealServer):
    """One cluster, as ``speck local`` starts it; its drivers and executors end with it."""

    own_session = True

    def __init__(self, directory: Path) -> None:
        """Prepare a cluster that keeps its files in ``directory``."""
        super().__init__(directory)
        self.ports = [free_port() for _ in range(STANDALONE_CLUSTER.ports)]

    @property
    def address(self) -> str:
        """The master's address as in a composition."""
        return STANDALONE_CLUSTER.address(self.ports)

    @property
    def engine(self) -> dict[str, Any]:
        """The engine's fields in an inventory."""
        return dict(STANDALONE_CLUSTER.inventory(self.ports, self.directory, "600m"))

    def commands(self) -> Sequence[Sequence[str]]:
        return [STANDALONE_CLUSTER.command(self.ports, self.directory, "600m")[0]]

    def variables(self) -> dict[str, str]:
        return dict(STANDALONE_CLUSTER.environment(self.directory))

    def ready(self) -> bool:
        """True if the master has its worker."""
        return STANDALONE_CLUSTER.ready(self.ports)

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

    def _end(self, *, kill: bool) -> None:
        family = self._family()
        super()._end(kill=kill)
        _, alive = psutil.wait_procs(family, 20)
        for each in alive:
            with contextlib.suppress(psutil.Error):
                each.kill()

    def _family(self) -> list[psutil.Process]:
        running = [process for process in self._processes if process.poll() is None]
        return [each for one in running for each in psutil.Process(one.pid).children(recursive=True)]


class LooseCluster(StandaloneServer):
    """A cluster whose master and workers are apart: a worker may be added, and killed alone."""

    def commands(self) -> Sequence[Sequence[str]]:
        return [STANDALONE_CLUSTER.master(self.ports, self.directory), self._worker("first")]

    def add_worker(self, name: str) -> subprocess.Popen[bytes]:
        """Start one more worker, with a folder of its own."""
        return self._run(self._worker(name))

    def workers(self) -> int:
        """The number of workers that the master has."""
        return len(Master(self.address, Engine(spe_address=self.address, **self.engine)).cluster().workers)

    def _worker(self, name: str) -> list[str]:
        ports = [*self.ports[:3], free_port(), free_port()]
        return STANDALONE_CLUSTER.worker_at(ports[3:], self.directory / name, self.address)

    def kill_first_worker(self) -> None:
        """End the first worker by SIGKILL; its drivers and executors end with it."""
        worker = self._processes.pop(1)
        worker.kill()
        worker.wait()
