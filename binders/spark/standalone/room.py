"""The room of a cluster: slots, cores and memory of its workers, without those that others reserve."""

from __future__ import annotations

from binders.common.reservations import Reservations, no_slot, slots_taken
from binders.spark.standalone.capacity import (
    DRIVER_CORES,
    DRIVER_MEMORY,
    fit,
    free_on,
    has_capacity,
    no_capacity,
    unplaced,
)
from binders.spark.standalone.driver_registry import DriverRegistry
from binders.spark.standalone.master import Master
from speck.errors import NoCapacity


class Room:
    """The room of one cluster with ``slots`` (``None``: without limit); reserves it for jobs."""

    def __init__(self, master: Master, drivers: DriverRegistry, slots: int | None) -> None:
        self._master, self._drivers, self._slots = master, drivers, slots
        self._address = master.address
        self._reservations: Reservations[int] = Reservations()

    def reserve(self, job_name: str) -> None:
        """Reserve a slot, and cores and memory of the workers, that are not reserved for others.

        Raises :class:`~speck.errors.NoCapacity`.
        """
        with self._reservations.deciding(job_name, 1) as reserved:
            cluster = self._master.cluster()
            jobs, slots = self._drivers.active_jobs(cluster), self._slots
            if job_name in jobs:
                return  # its own resources are released first
            known = [name for name in jobs if name]
            taken = slots_taken(known, len(jobs) - len(known), reserved)
            if slots is not None and taken >= slots:
                raise no_slot(self._address, job_name, slots, len(jobs), taken)
            drivers, executors = unplaced(cluster, self._drivers.job_names(), reserved.keys())
            if not has_capacity(cluster.workers, drivers, executors):
                raise no_capacity(self._address, job_name, cluster.workers, max(drivers, executors))

    def release(self, job_name: str) -> None:
        """Release the reservation of a job, if it has one."""
        self._reservations.release(job_name)

    def check_driver(self, what: str) -> None:
        """Raise :class:`~speck.errors.NoCapacity` without room for one driver beside the reserved room."""
        cluster = self._master.cluster()
        reserved = self._reservations.current()
        drivers, executors = unplaced(cluster, self._drivers.job_names(), reserved.keys())
        if not fit(cluster.workers, drivers + 1, executors):
            raise NoCapacity(
                f"{self._address} has no room for {what}: its driver needs {DRIVER_CORES} core and "
                f"{DRIVER_MEMORY >> 20} MiB; free on its workers: {free_on(cluster.workers)}; jobs that are "
                f"about to start, and take theirs of it: {len(reserved)}",
                address=self._address,
            )
