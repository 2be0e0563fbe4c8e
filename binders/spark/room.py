"""Whether a cluster has room for one more job, when others are about to take some too.

A driver takes its room when it was submitted, and its executor some seconds later; and a composition asks
about all of its jobs before it starts any.  So what was promised to one is not promised to another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from speck.errors import NoCapacity

if TYPE_CHECKING:
    from binders.spark.master import Cluster, Worker

# What one job takes.  Spark refuses a heap that is not well above 450 MB.
DRIVER_CORES = 1
DRIVER_MEMORY = 512 << 20  # bytes
EXECUTOR_MEMORY = 512 << 20  # bytes

PROMISED = 60.0  # s, for which room is kept for a job that was asked about and not started


class Promises:
    """The jobs to which this process has promised room at one engine, by name."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._until: dict[str, float] = {}
        self.ended = 0  # so many promises

    @contextmanager
    def deciding(self, name: str) -> Iterator[frozenset[str]]:
        """To what others there are promises, while the engine is looked at; unless the block fails, one more.

        One job at a time: what another is promised meanwhile would be promised twice.
        """
        with self._guard:
            now = time.monotonic()
            self._until = {other: until for other, until in self._until.items() if until > now}
            yield frozenset(self._until.keys() - {name})
            self._until[name] = time.monotonic() + PROMISED

    def end(self, name: str) -> None:
        """Note that the engine itself tells of the job now, or that it does not come."""
        with self._guard:
            self._until.pop(name, None)
            self.ended += 1


def slots_taken(known: Collection[str], unknown: int, promised: frozenset[str]) -> int:
    """How many slots others have: those whose jobs are ``known``, and those that are promised.

    Of ``unknown`` many jobs it cannot be told yet whose they are; those that are promised room may be among
    them.
    """
    return len(known) + max(unknown, len(promised.difference(known)))


def no_slot(address: str, name: str, slots: int, used: int, taken: int) -> NoCapacity:
    """The error of an engine with so many ``slots``, of which ``taken`` are in use or promised to others."""
    others = f", {taken - used} promised to others that are about to start" if taken > used else ""
    reason = f"{slots} slots, {used} in use{others}"
    return NoCapacity(f"{address} has no room for job {name!r}: {reason}", address=address)


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
