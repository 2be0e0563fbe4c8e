"""A Flink cluster on this machine, for :mod:`speck.local.sites`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import requests

from binders.common import class_archive, process_group
from binders.flink.local.cluster import PORTS, LocalCluster
from speck.errors import LocalError

# Several servers start at once on a few cores: the optimizing compiler would cost more than it saves.
_QUICK_START = ("-XX:TieredStopAtLevel=1",)


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

    ``host`` and ``states`` are as of :class:`LocalCluster`.
    """

    host: str = "127.0.0.1"
    states: Path | None = None
    ports = PORTS

    def at(self, host: str, states: Path) -> FlinkCluster:
        """See :meth:`speck.binder.devserver.Networked.at`."""
        return FlinkCluster(host, states)

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
            jvm_options=_QUICK_START,
        )
        return process_group.command(cluster.programs()), cluster.environment()

    def ready(self, ports: Sequence[int]) -> bool:
        """True if the cluster has slots: REST answers seconds before the TaskManager is registered."""
        try:
            answer = requests.get(f"{self.address(ports)}overview", timeout=2)
            return answer.ok and int(answer.json()["slots-total"]) > 0
        except (requests.RequestException, ValueError, KeyError, TypeError):
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
