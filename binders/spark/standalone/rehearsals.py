"""Builds a job in a driver of its own, which analyses the query's plan and ends without starting it.

The driver runs its Spark in its own process: it needs no executor, and the master lists no application.  It
takes its core and memory while an old copy of the job still runs.
"""

from __future__ import annotations

import uuid

from binders.spark.standalone.driver_registry import DriverRegistry
from binders.spark.standalone.driver_status import DriverStatus
from binders.spark.standalone.master import Master
from binders.spark.standalone.one_time_drivers import OneTimeDrivers
from binders.spark.standalone.room import Room
from binders.spark.standalone.submission import Submitter
from speck.core.job import Job

# s, for a driver to start and the job's code to come to a plan; an apply waits a little longer for all builds
DEADLINE = 40.0


class Rehearsals:
    """Runs one driver at a cluster for each job that is to be built."""

    def __init__(self, master: Master, submitter: Submitter, drivers: DriverRegistry, room: Room) -> None:
        self._submitter, self._room = submitter, room
        self._one_time = OneTimeDrivers(master, drivers)

    def build(self, job: Job) -> str:
        """Build a job; returns the reason why it cannot be started, empty if it can.

        Raises the errors of :meth:`~binders.spark.standalone.one_time_drivers.OneTimeDrivers.run`, and
        :class:`~speck.errors.NoCapacity` where no worker has room for the driver.
        """
        what = f"the build of job {job.job_name!r}"
        self._submitter.check()
        self._room.check_driver(what)
        name = f"rehearsal {uuid.uuid4().hex}"
        return self._one_time.run(
            name, lambda: self._submitter.submit_rehearsal(name, job), _fault, what, DEADLINE
        )


def _fault(status: DriverStatus) -> str | None:
    """The fault of a job's code by its driver's status, empty for none; ``None``: not built yet."""
    if status.kind == "finished":
        return ""
    return status.message if status.kind == "refused" else None
