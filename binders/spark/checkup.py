"""What Spark tells of itself: versions, limits, the clock, and what would keep jobs from working there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyspark

from binders.spark.master import Cluster, Master
from binders.spark.probe import ServerProbe
from binders.spark.room import DRIVER_CORES, DRIVER_MEMORY, EXECUTOR_MEMORY, has_room
from binders.spark.wire import ConnectClient
from speck.core.runtime import Checkup, Complaint
from speck.errors import Refused

_SESSION_TIMEOUT = "spark.connect.session.manager.defaultSessionTimeout"
_FOR_EVER = "-1"
_WHOLE_SECOND = 1.0  # what an HTTP date leaves out


def connect_checkup(client: ConnectClient, probe: ServerProbe) -> Checkup:
    """A Connect server: its version, its connector, how long it keeps sessions, its Python, its clock."""
    version = probe.ask(client.spark_version)
    kept = probe.setting(_SESSION_TIMEOUT) or "60m"
    probe.now()  # the first plan of a session takes seconds, which would count as inexactness
    before = time.time()
    theirs = probe.now()
    return Checkup(
        version=f"Spark {version}",
        limits={"session_timeout": "none" if kept == _FOR_EVER else kept},
        clock=(theirs - time.time(), theirs - before),
        complaints=tuple(_connect_complaints(probe, version, kept)),
    )


def standalone_checkup(master: Master) -> Checkup:
    """A standalone cluster: its version, workers and room, and the master's clock."""
    version = master.version()
    before = time.time()
    date = master.date()
    after = time.time()
    cluster = master.cluster()
    return Checkup(
        version=f"Spark {version}",
        limits={"workers": len(cluster.workers)},
        clock=(date - after, date - before + _WHOLE_SECOND) if date else None,
        complaints=tuple(_standalone_complaints(master, version, cluster)),
    )


def _connect_complaints(probe: ServerProbe, version: str, kept: str) -> Iterator[Complaint]:
    yield from _other_version(version)
    if kept != _FOR_EVER:
        yield Complaint(
            f"it closes a session that nobody asks for {kept}, and stops the job in it",
            f"start it with --conf {_SESSION_TIMEOUT}={_FOR_EVER}",
        )
    yield from _refusals(lambda: probe.check_source("tcp://127.0.0.1:1883", "speck-check"))
    if (fault := probe.python_fault()) is not None:
        yield Complaint(
            f"jobs with Python functions are refused: {fault}",
            "start it with PYSPARK_PYTHON set to a Python of the version that SpecK runs on",
        )


def _standalone_complaints(master: Master, version: str, cluster: Cluster) -> Iterator[Complaint]:
    yield from _other_version(version)
    if (fault := master.address_fault(cluster)) is not None:
        yield Complaint(fault, "correct spe_address in the inventory")
    if not cluster.workers:
        yield Complaint("no worker is alive: no job can be started", "start a worker")
    elif not has_room(cluster.workers):
        yield Complaint(
            f"no worker has room for one more job (a driver of {DRIVER_CORES} core and "
            f"{DRIVER_MEMORY >> 20} MiB, an executor of 1 core and {EXECUTOR_MEMORY >> 20} MiB)",
            "add a worker, or stop a job",
        )
    for worker in cluster.workers:
        yield from _refusals(lambda worker=worker: master.check_worker(worker))  # type: ignore[misc]


def _other_version(theirs: str) -> Iterator[Complaint]:
    ours = pyspark.__version__
    if theirs.split(".")[:2] != ours.split(".")[:2]:
        yield Complaint(
            f"it is Spark {theirs}, and SpecK speaks {ours}: its jobs are refused",
            f"install Spark {ours} there, or pyspark {theirs} here",
        )


def _refusals(ask: Callable[[], object]) -> Iterator[Complaint]:
    try:
        ask()
    except Refused as error:
        yield Complaint(str(error))
