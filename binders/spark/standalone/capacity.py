"""Whether a cluster has room for one more job, when others are about to take some too.

A driver takes its room when it was submitted, and its executor some seconds later; and a composition asks
about all of its jobs before it starts any.  So what was promised to one is not promised to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from speck.errors import NoCapacity

if TYPE_CHECKING:
    from binders.spark.standalone.master import Cluster, Worker

# What one job takes.  Spark refuses a heap that is not well above 450 MB.
DRIVER_CORES = 1
DRIVER_MEMORY = 512 << 20  # bytes
EXECUTOR_MEMORY = 512 << 20  # bytes


def has_room(workers: Iterable[Worker], drivers: int = 0, executors: int = 0) -> bool:
    """Whether a job's driver fits on one worker, and an executor of one core beside it or on another.

    And beside them so many ``drivers`` and ``executors`` of other jobs, which take theirs first.  All are of
    one size, so it is no matter on which worker each of them is put.
    """
    there = list(workers)
    driver, executor = (DRIVER_CORES, DRIVER_MEMORY), (1, EXECUTOR_MEMORY)
    for cores, memory in [*[driver] * (drivers + 1), *[executor] * (executors + 1)]:
        index = next((at for at, each in enumerate(there) if _fits(each, cores, memory)), None)
        if index is None:
            return False
        there[index] = _less(there[index], cores, memory)
    return True


def still_to_come(cluster: Cluster, owners: Mapping[str, str], promised: frozenset[str]) -> tuple[int, int]:
    """How many drivers and executors of the jobs that are promised room have not taken theirs.

    ``owners`` are the names of jobs by the ids of their drivers.
    """
    placed = {owners.get(each.id) for each in cluster.drivers if each.active and each.worker}
    served = {words[1] for name in cluster.applications - cluster.waiting if len(words := name.split()) == 3}
    return len(promised - placed), len(promised - served)


def no_room(address: str, name: str, workers: Iterable[Worker], others: int) -> NoCapacity:
    """The error of a cluster with too little left for a job, and for so many others that come first."""
    free = ", ".join(f"{worker.cores_free} cores and {worker.memory_free >> 20} MiB" for worker in workers)
    before = f"; as much is promised to {others} others that are about to start" if others else ""
    return NoCapacity(
        f"{address} has no room for job {name!r}: it needs a driver of {DRIVER_CORES} core and "
        f"{DRIVER_MEMORY >> 20} MiB and an executor of 1 core and {EXECUTOR_MEMORY >> 20} MiB; free on its "
        f"workers: {free}{before}",
        address=address,
    )


def _fits(worker: Worker, cores: int, memory: int) -> bool:
    return worker.cores_free >= cores and worker.memory_free >= memory


def _less(worker: Worker, cores: int, memory: int) -> Worker:
    return replace(worker, cores_free=worker.cores_free - cores, memory_free=worker.memory_free - memory)
