"""Flink clusters on this machine, of two processes or of one, for :mod:`speck.local.sites`."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from binders.common import class_archive
from binders.flink.local import small
from binders.flink.local.cluster import CONNECTOR, PORTS, LocalCluster
from binders.flink.local.small import SmallCluster
from speck.binder import WorkersEngine
from speck.binder.devserver import heap_bytes
from speck.core.inventory import Inventory
from speck.errors import BinderError, LocalError

# Several servers start at once on a few cores: the optimizing compiler would cost more than it saves.
_QUICK_START = ("-XX:TieredStopAtLevel=1",)


_SLOTS_OF_WORKER = 8  # so that several jobs fit on a machine without settings

# A worker that was killed is missed after two heartbeats, not after 20 s, and its jobs start elsewhere.
_QUICK_HEARTBEATS = {"heartbeat.interval": "2 s", "heartbeat.timeout": "30 s"}

PYTHON_VARIABLE = "SPECK_FLINK_PYTHON"


def python_program() -> str:
    """The Python for Python programs, from the environment; empty if none is named.

    Raises :class:`~speck.errors.LocalError` for a path at which there is no program.
    """
    named = os.environ.get(PYTHON_VARIABLE, "")
    if named and shutil.which(named) is None:
        raise LocalError(
            f"{PYTHON_VARIABLE} is {named!r}, which is not a program "
            "(expected the path of a Python with apache-flink)"
        )
    return named


@dataclass(frozen=True, slots=True)
class _Flink:
    """The part that both forms have in common; ``host`` and ``states`` are as of :class:`LocalCluster`."""

    host: str = "127.0.0.1"
    states: Path | None = None
    ports = PORTS

    def at(self, host: str, states: Path) -> Self:
        """See :meth:`speck.binder.devserver.Networked.at`."""
        return replace(self, host=host, states=states)

    def address(self, ports: Sequence[int]) -> str:
        """``http://HOST:PORT/`` of the JobManager's REST interface."""
        return f"http://{self.host}:{ports[0]}/"

    def ready(self, ports: Sequence[int]) -> bool:
        """True if the cluster has slots: REST answers seconds before the TaskManager is registered."""
        return self.slots(ports) > 0

    def slots(self, ports: Sequence[int]) -> int:
        """The number of slots of the cluster; -1 if it does not answer."""
        from speck.binder.bounded_http import FAILURE, HttpClient  # 1 MB, of no use to an agent with Spark

        try:
            with closing(HttpClient()) as client:
                answer = client.request("GET", f"{self.address(ports)}overview", seconds=2)
            slots = int(json.loads(answer.body)["slots-total"])
        except (FAILURE, ValueError, KeyError, TypeError):
            return -1
        return slots if answer.status == HTTPStatus.OK else -1

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        """The directories of checkpoints and savepoints; the cluster itself reports its slots and memory."""
        cluster = LocalCluster(tuple(ports), directory, states=self.states)
        return {
            "checkpoint_dir": cluster.checkpoints.as_uri(),
            "savepoint_dir": cluster.savepoints.as_uri(),
        }

    def archive_classes(self, cluster: LocalCluster) -> None:
        """Run a cluster with a job, and archive the classes that it has loaded."""

        def exercise() -> None:
            class_archive.await_ready("Flink", partial(self.ready, cluster.ports))
            if CONNECTOR.exists():
                _run_job(self.address(cluster.ports))

        class_archive.make(cluster.bare_programs(), cluster.environment(), cluster.directory, exercise)


@dataclass(frozen=True, slots=True)
class FlinkCluster(_Flink):
    """The :class:`~speck.binder.LocalServer` of Flink: a JobManager and a TaskManager, run as one server.

    ``alone`` is true without a TaskManager.
    """

    alone: bool = False
    worker_ports = 0  # the system chooses them: a worker that replaces a killed one must have others

    def without_workers(self) -> FlinkCluster:
        """See :meth:`speck.binder.Scalable.without_workers`: the JobManager alone."""
        return replace(self, alone=True)

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :meth:`speck.binder.LocalServer.command`; the heap is the TaskManager's."""
        from binders.common import process_group  # not in an agent, which starts no servers

        cluster = LocalCluster(
            tuple(ports),
            directory,
            heap,
            python=python_program(),
            host=self.host,
            states=self.states,
            extra=_QUICK_HEARTBEATS if self.alone else None,
            jvm_options=_QUICK_START,
        )
        programs = cluster.programs()
        return process_group.command(programs[:1] if self.alone else programs), cluster.environment()

    def scale(self, heap: str) -> Mapping[str, Any]:
        """See :meth:`speck.binder.Scalable.scale`."""
        return {"cores": 1, "slots": _SLOTS_OF_WORKER, "memory": heap_bytes(heap)}

    def worker(
        self, number: int, engine: WorkersEngine, ports: Sequence[int], directory: Path
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :meth:`speck.binder.Scalable.worker`: a TaskManager."""
        own = {"taskmanager.resource-id": f"worker-{number}"}
        cluster = LocalCluster(
            engine.ports,
            directory,
            engine.heap,
            slots=_SLOTS_OF_WORKER,
            python=python_program(),
            host=self.host,
            states=self.states or engine.directory,
            extra={**own, **_QUICK_HEARTBEATS, "taskmanager.rpc.port": "0", "taskmanager.data.port": "0"},
            jvm_options=_QUICK_START,
        )
        return cluster.programs()[1], cluster.environment()

    def is_worker(self, identifier: str, number: int, ports: Sequence[int]) -> bool:
        """See :meth:`speck.binder.Scalable.is_worker`."""
        return identifier == f"worker-{number}"

    def ready(self, ports: Sequence[int]) -> bool:
        """True if the cluster has slots, or answers where it has no TaskManager of its own."""
        return self.slots(ports) > (-1 if self.alone else 0)

    def prepare(self, ports: Sequence[int], directory: Path) -> None:
        """See :class:`speck.binder.Preparable`: archives of the classes of both programs."""
        self.archive_classes(LocalCluster(tuple(ports), directory))


@dataclass(frozen=True, slots=True)
class SmallFlink(_Flink):
    """The :class:`~speck.binder.LocalServer` of Flink in one process, which has one TaskManager, always."""

    ports = small.PORTS

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :meth:`speck.binder.LocalServer.command`; the heap is that of the process."""
        cluster = SmallCluster(
            tuple(ports),
            directory,
            heap,
            slots=small.SLOTS,
            python=python_program(),
            host=self.host,
            states=self.states,
            jvm_options=_QUICK_START,
        )
        (program,) = cluster.programs()
        return program, cluster.environment()

    def prepare(self, ports: Sequence[int], directory: Path) -> None:
        """See :class:`speck.binder.Preparable`: the jar of Flink's RPC system, and an archive of classes."""
        small.unpack_rpc()
        self.archive_classes(SmallCluster(tuple(ports), directory))


def _run_job(address: str) -> None:
    """Run a job that needs no broker, for the classes that jobs load."""
    from binders.flink.engine import connect_engine

    engine = connect_engine(address, Inventory({}))
    try:
        engine.probe_core()
    except BinderError as error:
        raise LocalError(f"no class archive is written: {error}") from error
    finally:
        engine.close()


FLINK_CLUSTER = FlinkCluster()
FLINK_SMALL = SmallFlink()
