"""A Spark standalone cluster on this machine, a master and one worker, for :mod:`speck.local.sites`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from binders.common import class_archive
from binders.spark.local.commands import ARCHIVE, connect_server_environment, java_command, scala_version
from binders.spark.standalone.capacity import DRIVER_MEMORY, EXECUTOR_MEMORY
from speck.binder import WorkersEngine

JOBS = 4  # that a worker accepts: it counts configured cores and memory, not the machine's
_CORES = 4  # a job: one for the driver, up to three tasks

_HEAP = "128m"  # of the master and of the worker each, which only do bookkeeping
_LOOPBACK = "127.0.0.1"
_TIMEOUT = 2.0  # s

# Drivers and executors are many on a developer's few cores; see binders.spark.local.connect_server.
_QUICK_START = "-XX:TieredStopAtLevel=1"


class StandaloneCluster:
    """The :class:`~speck.binder.LocalServer` of Spark standalone.

    Its ports: the master, its REST server, its web interface; the worker, its web interface.
    """

    def __init__(self, *, alone: bool = False) -> None:
        """``alone``: the master without a worker."""
        self.alone = alone

    ports = 5
    worker_ports = 2

    def without_workers(self) -> StandaloneCluster:
        """See :meth:`speck.binder.Scalable.without_workers`: the master alone."""
        return StandaloneCluster(alone=True)

    def scale(self, heap: str) -> Mapping[str, Any]:
        """See :meth:`speck.binder.Scalable.scale`; drivers and executors have heaps of their own."""
        return {"cores": 1, "slots": JOBS, "memory": _worker_memory()}

    def worker(
        self, number: int, engine: WorkersEngine, ports: Sequence[int], directory: Path
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :meth:`speck.binder.Scalable.worker`."""
        return self.worker_at(ports, directory, self.address(engine.ports)), self.environment(directory)

    def is_worker(self, identifier: str, number: int, ports: Sequence[int]) -> bool:
        """See :meth:`speck.binder.Scalable.is_worker`: Spark's id ends with the worker's port."""
        return bool(ports) and identifier.rpartition("-")[2] == str(ports[0])

    def address(self, ports: Sequence[int]) -> str:
        """``spark://127.0.0.1:PORT``."""
        return f"spark://{_LOOPBACK}:{ports[0]}"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :meth:`speck.binder.LocalServer.command`; drivers and executors have heaps of their own."""
        from binders.common import process_group  # not in an agent, which starts no servers

        programs = [self.master(ports, directory)]
        if not self.alone:
            programs.append(self.worker_at(ports[3:], directory, self.address(ports)))
        return process_group.command(programs), self.environment(directory)

    def environment(self, directory: Path) -> Mapping[str, str]:
        """The environment of both."""
        return {
            **connect_server_environment(),
            # The worker needs it; drivers and executors inherit the rest.
            "SPARK_SCALA_VERSION": scala_version(),
            "JDK_JAVA_OPTIONS": " ".join((_QUICK_START, *class_archive.options(ARCHIVE))),
            # The scratch files of drivers, also of killed ones, are deleted with the directory.
            "SPARK_LOCAL_DIRS": str(directory / "scratch"),
        }

    def ready(self, ports: Sequence[int]) -> bool:
        """True if the REST server answers, and the master has a worker."""
        from speck.binder.bounded_http import FAILURE, HttpClient  # 1 MB, of no use to an agent

        def ask(port: int, path: str) -> Any:
            with closing(HttpClient()) as client:
                answer = client.request("GET", f"http://{_LOOPBACK}:{port}/{path}", seconds=_TIMEOUT)
            return json.loads(answer.body)

        try:
            rest, master = ask(ports[1], "v1/submissions/readyz"), ask(ports[2], "json/")
            return bool(rest["success"] and (self.alone or master["aliveworkers"] > 0))
        except (FAILURE, ValueError, KeyError, TypeError):
            return False

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        """Its ports, its slots and memory, and its checkpoint directory."""
        checkpoints = directory / "checkpoints"
        checkpoints.mkdir(parents=True, exist_ok=True)
        own = {} if self.alone else {"slots": JOBS, "memory": _worker_memory()}
        return {"rest_port": ports[1], "ui_port": ports[2], **own, "checkpoint_dir": str(checkpoints)}

    def master(self, ports: Sequence[int], directory: Path) -> list[str]:
        """The command line of the master."""
        return [
            *java_command(_HEAP, (), directory, (_QUICK_START,)),
            "-Dspark.master.rest.enabled=true",
            f"-Dspark.master.rest.port={ports[1]}",
            # Otherwise a killed worker is noticed after a minute.
            "-Dspark.worker.timeout=10",
            "org.apache.spark.deploy.master.Master",
            *("--host", _LOOPBACK, "--port", str(ports[0]), "--webui-port", str(ports[2])),
        ]

    def worker_at(self, ports: Sequence[int], directory: Path, master: str) -> list[str]:
        """The command line of a worker on these two ports."""
        return [
            *java_command(_HEAP, (), directory, (_QUICK_START,)),
            "-Dspark.worker.timeout=10",
            "org.apache.spark.deploy.worker.Worker",
            *("--host", _LOOPBACK, "--port", str(ports[0]), "--webui-port", str(ports[1])),
            *("--cores", str(JOBS * _CORES), "--memory", f"{_worker_memory() >> 20}m"),
            *("--work-dir", str(directory / "work")),
            master,
        ]


def _worker_memory() -> int:
    return JOBS * (DRIVER_MEMORY + EXECUTOR_MEMORY)


STANDALONE_CLUSTER = StandaloneCluster()
