"""Decides if a cluster has cores and memory for one more job, with those that are about to start.

A driver takes its resources when it is submitted, and its executor some seconds later; see
:mod:`binders.common.reservations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from speck.errors import NoCapacity

if TYPE_CHECKING:
    from binders.spark.standalone.master import Cluster, Worker

# The resources of one job.  Spark rejects a heap that is not well above 450 MB.
DRIVER_CORES = 1
DRIVER_MEMORY = 512 << 20  # bytes
EXECUTOR_MEMORY = 512 << 20  # bytes


def has_capacity(workers: Iterable[Worker], drivers: int = 0, executors: int = 0) -> bool:
    """True if a job's driver fits on one worker, and an executor of one core on the same or another one.

    Besides them, that many ``drivers`` and ``executors`` of other jobs must fit.  All have the same size, so
    their assignment to workers does not matter.
    """
    return fit(workers, drivers + 1, executors + 1)


def fit(workers: Iterable[Worker], drivers: int, executors: int) -> bool:
    """True if this number of drivers, and of executors of one core, fit on the workers."""
    free = list(workers)
    driver, executor = (DRIVER_CORES, DRIVER_MEMORY), (1, EXECUTOR_MEMORY)
    for cores, memory in [*[driver] * drivers, *[executor] * executors]:
        index = next((at for at, each in enumerate(free) if _fits(each, cores, memory)), None)
        if index is None:
            return False
        free[index] = _less(free[index], cores, memory)
    return True


def unplaced(cluster: Cluster, owners: Mapping[str, str], reserved: Set[str]) -> tuple[int, int]:
    """The numbers of drivers and executors of jobs with a reservation that are not placed yet.

    ``owners`` are the names of jobs by the ids of their drivers.
    """
    with_driver = {owners.get(each.id) for each in cluster.drivers if each.active and each.worker}
    with_executor = {
        words[1] for name in cluster.applications - cluster.waiting if len(words := name.split()) == 3
    }
    return len(reserved - with_driver), len(reserved - with_executor)


def no_capacity(address: str, name: str, workers: Iterable[Worker], others: int) -> NoCapacity:
    """The error of a cluster without capacity for a job and ``others`` that have a reservation."""
    before = f"; as much is reserved for {others} other jobs that are about to start" if others else ""
    return NoCapacity(
        f"{address} has no room for job {name!r}: it needs a driver of {DRIVER_CORES} core and "
        f"{DRIVER_MEMORY >> 20} MiB and an executor of 1 core and {EXECUTOR_MEMORY >> 20} MiB; free on its "
        f"workers: {free_on(workers)}{before}",
        address=address,
    )


def free_on(workers: Iterable[Worker]) -> str:
    """The free cores and memory of each worker, in words."""
    free = (f"{worker.cores_free} cores and {worker.memory_free >> 20} MiB" for worker in workers)
    return ", ".join(free) or "no worker is alive"


def _fits(worker: Worker, cores: int, memory: int) -> bool:
    return worker.cores_free >= cores and worker.memory_free >= memory


def _less(worker: Worker, cores: int, memory: int) -> Worker:
    return replace(worker, cores_free=worker.cores_free - cores, memory_free=worker.memory_free - memory)
