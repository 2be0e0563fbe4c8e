"""Health of a standalone cluster: version, workers, capacity, clock, and faults that prevent jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator

from binders.spark.query.version_check import other_version, rejections
from binders.spark.standalone.capacity import DRIVER_CORES, DRIVER_MEMORY, EXECUTOR_MEMORY, has_capacity
from binders.spark.standalone.master import Cluster, Master
from speck.core.runtime import Checkup, Complaint

_WHOLE_SECOND = 1.0  # the resolution of an HTTP date


def standalone_checkup(master: Master, scales: bool = False) -> Checkup:
    """A standalone cluster: its version, workers and capacity, and the master's clock.

    ``scales`` is true if its workers come and go with the jobs: too few are a remark then.
    """
    version = master.version()
    before = time.time()
    date = master.date()
    after = time.time()
    cluster = master.cluster()
    return Checkup(
        version=f"Spark {version}",
        limits={"workers": len(cluster.workers)},
        clock=(date - after, date - before + _WHOLE_SECOND) if date else None,
        complaints=tuple(_standalone_complaints(master, version, cluster, scales)),
    )


def _standalone_complaints(
    master: Master, version: str, cluster: Cluster, scales: bool
) -> Iterator[Complaint]:
    yield from other_version(version)
    if (fault := master.address_fault(cluster)) is not None:
        yield Complaint(fault, "correct spe_address in the inventory")
    if not cluster.workers:
        yield Complaint("no worker is alive: no job can be started", "start a worker", remark=scales)
    elif not has_capacity(cluster.workers):
        yield Complaint(
            f"no worker has room for one more job (a driver of {DRIVER_CORES} core and "
            f"{DRIVER_MEMORY >> 20} MiB, an executor of 1 core and {EXECUTOR_MEMORY >> 20} MiB)",
            "add a worker, or stop a job",
            remark=scales,
        )
    for worker in cluster.workers:
        yield from rejections(lambda worker=worker: master.check_worker(worker))  # type: ignore[misc]
