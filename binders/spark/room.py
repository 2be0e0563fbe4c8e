"""Whether a cluster has room for one more job.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binders.spark.master import Worker

# What one job takes.  Spark refuses a heap that is not well above 450 MB.
DRIVER_CORES = 1
DRIVER_MEMORY = 512 << 20  # bytes
EXECUTOR_MEMORY = 512 << 20  # bytes


def has_room(workers: Iterable[Worker]) -> bool:
    """Whether a job's driver fits on one worker, and an executor of one core beside it or on another."""
    there = list(workers)
    return any(
        _fits(worker, DRIVER_CORES, DRIVER_MEMORY)
        and any(
            _fits(other, 1, EXECUTOR_MEMORY) for other in [*there[:index], _less(worker), *there[index + 1 :]]
        )
        for index, worker in enumerate(there)
    )


def _fits(worker: Worker, cores: int, memory: int) -> bool:
    return worker.cores_free >= cores and worker.memory_free >= memory


def _less(worker: Worker) -> Worker:
    """The worker with a driver on it."""
    return replace(
        worker,
        cores_free=worker.cores_free - DRIVER_CORES,
        memory_free=worker.memory_free - DRIVER_MEMORY,
    )
