"""A Flink cluster on this machine, for :mod:`speck.local.sites`."""

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
from typing import Any

from binders.common import class_archive, process_group
from binders.flink.local.cluster import PORTS, LocalCluster
from speck.binder import WorkersEngine
from speck.binder.bounded_http import FAILURE, HttpClient
from speck.binder.devserver import heap_bytes
from speck.errors import LocalError

# Several servers start at once on a few cores: the optimizing compiler would cost more than it saves.
_QUICK_START = ("-XX:TieredStopAtLevel=1",)


_SLOTS_OF_WORKER = 8  # so that several jobs fit on a machine without settings

# A worker that was killed is missed after two heartbeats in place of some 20 s, and its jobs start elsewhere.
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
class FlinkCluster:
    """The :class:`~speck.binder.LocalServer` of Flink: a JobManager and a TaskManager, run as one server.

    ``host`` and ``states`` are as of :class:`LocalCluster`; ``alone`` is true without a TaskManager.
    """

    host: str = "127.0.0.1"
    states: Path | None = None
    alone: bool = False
    ports = PORTS
    worker_ports = 0  # the system chooses them: a worker that replaces a killed one must have others

    def at(self, host: str, states: Path) -> FlinkCluster:
        """See :meth:`speck.binder.devserver.Networked.at`."""
        return replace(self, host=host, states=states)

    def without_workers(self) -> FlinkCluster:
        """See :meth:`speck.binder.Scalable.without_workers`: the JobManager alone."""
        return replace(self, alone=True)

    def address(self, ports: Sequence[int]) -> str:
        """``http://HOST:PORT/`` of the JobManager's REST interface."""
        return f"http://{self.host}:{ports[0]}/"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :meth:`speck.binder.LocalServer.command`; the heap is the TaskManager's."""
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
        """True if the cluster has slots: REST answers seconds before the TaskManager is registered."""
        try:
            with closing(HttpClient()) as client:
                answer = client.request("GET", f"{self.address(ports)}overview", seconds=2)
            slots = int(json.loads(answer.body)["slots-total"])
            return answer.status == HTTPStatus.OK and (self.alone or slots > 0)
        except (FAILURE, ValueError, KeyError, TypeError):
            return False

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        """The directories of checkpoints and savepoints; the cluster itself reports its slots and memory."""
        cluster = LocalCluster(tuple(ports), directory, states=self.states)
        return {
            "checkpoint_dir": cluster.checkpoints.as_uri(),
            "savepoint_dir": cluster.savepoints.as_uri(),
        }

    def prepare(self, ports: Sequence[int], directory: Path) -> None:
        """See :class:`speck.binder.Preparable`: archives of the classes of both programs."""
        cluster = LocalCluster(tuple(ports), directory)
        programs, environment = cluster.bare_programs(), cluster.environment()
        ready = partial(self.ready, ports)
        exercise = partial(class_archive.await_ready, "Flink", ready)
        class_archive.make(programs, environment, directory, exercise)


FLINK_CLUSTER = FlinkCluster()
