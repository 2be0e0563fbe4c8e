"""Identifies the drivers of a cluster by their marks: the attempt, the job, and the store of each.

The master assigns a driver's id, and its web interface lists all drivers, waiting ones included; that list is
authoritative.  The head of a driver's log, which the worker writes when it starts the driver and serves in
its web interface, contains its marks.  So any coordinator finds an attempt, also one that another
coordinator submitted, without storage shared with the workers.  A driver that waits for a worker has no log
yet: while there is an unidentified one, :meth:`DriverRegistry.find` does not report that an attempt does not
exist.
"""

from __future__ import annotations

import time

from binders.spark.query.marks import Marks
from binders.spark.standalone.driver_marks import FOREIGN, marks_in
from binders.spark.standalone.driver_status import DriverStatus, choose_driver, read_status
from binders.spark.standalone.master import Cluster, Driver, Master, Worker
from binders.spark.standalone.submission import MAIN_CLASS
from speck.errors import OutcomeUnknown, Rejected, Unreachable

FIND_PATIENCE = 5.0  # s, for identifying a driver that was just assigned to a worker
HEAD = 64 * 1024  # bytes of a driver's log, and of its status file
HEAD_END = "\n" + "=" * 40 + "\n"

_POLL = 0.2  # s

Chosen = tuple[Driver, DriverStatus | None]


class DriverRegistry:
    """The drivers of one cluster, identified by the heads of their logs; each is read once."""

    def __init__(self, address: str, master: Master) -> None:
        self.address = address
        self._master = master
        self._marks: dict[str, Marks] = {}  # by driver id; FOREIGN for those that are not of SpecK

    def add(self, driver: str, marks: Marks) -> None:
        """Add a driver that was just submitted."""
        self._marks[driver] = marks

    def job_names(self) -> dict[str, str]:
        """The names of jobs by the ids of their drivers; empty for foreign drivers."""
        return {driver: marks.job for driver, marks in list(self._marks.items())}

    def active(self, cluster: Cluster) -> list[Marks]:
        """The marks of each active driver of SpecK that is identified."""
        self.identify(cluster)
        marks = (self._marks.get(driver.id, FOREIGN) for driver in cluster.drivers if driver.active)
        return [each for each in marks if each.attempt]

    def checkpoint(self, attempt: str) -> str:
        """The checkpoint of an attempt by the marks of its driver; empty if they have none."""
        return next((each.checkpoint for each in list(self._marks.values()) if each.attempt == attempt), "")

    def find(self, attempt: str, *, strict: bool) -> Chosen | None:
        """The driver of an attempt that runs or ran its query.

        Raises :class:`~speck.errors.OutcomeUnknown` while the log of a driver that may be the attempt's
        cannot be read, or one waits for a worker.  Only a submit need not be ``strict`` about active
        drivers: of two of an attempt one exits.  It must be about those that ended: one that was killed
        before it had the lease would not keep the other from starting the attempt once more.
        """
        deadline = time.monotonic() + FIND_PATIENCE
        while True:
            cluster = self._master.cluster()
            unknown = self.identify(cluster)
            chosen = self.choose(attempt, cluster)
            replaced = chosen is not None and chosen[0].state == "RELAUNCHING"
            if not (strict or replaced):
                unknown = [driver for driver in unknown if driver.state != "SUBMITTED"]
            if not unknown or (chosen is not None and not replaced):
                return chosen
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL)
        if strict or replaced or not all(driver.active for driver in unknown):
            raise OutcomeUnknown(
                f"{self.address} has drivers that wait for a worker, or whose logs cannot be read, one of "
                f"which may be the attempt's ({', '.join(driver.id for driver in unknown)})",
                address=self.address,
            )
        return chosen

    def choose(self, attempt: str, cluster: Cluster) -> Chosen | None:
        """The driver of an attempt that runs or ran its query, as far as drivers are identified."""
        drivers = self.of_attempt(attempt, cluster)
        return choose_driver([(driver, self._read_status(driver, cluster)) for driver in drivers])

    def of_attempt(self, attempt: str, cluster: Cluster) -> list[Driver]:
        """The identified drivers of an attempt."""
        return [each for each in cluster.drivers if self._marks.get(each.id, FOREIGN).attempt == attempt]

    def identify(self, cluster: Cluster) -> list[Driver]:
        """Determine the marks of the drivers; returns those that cannot be identified yet.

        These are active ones without a log, and those, ended ones included, whose worker does not serve it.
        """
        unknown = []
        for driver in cluster.drivers:
            if driver.id in self._marks or driver.main_class != MAIN_CLASS:
                continue
            worker = cluster.worker(driver.worker)
            if worker is None:  # it waits for one, or its log went with it
                unknown += [driver] if driver.active else []
            elif (marks := self._read_marks(driver, worker)) is not None:
                self._marks[driver.id] = marks
            else:
                unknown.append(driver)
        return unknown

    def _read_marks(self, driver: Driver, worker: Worker) -> Marks | None:
        """The marks in the head of a driver's log; ``None`` if it has no head yet."""
        try:
            head = self._master.log(worker, driver.id, "stderr", start=0, length=HEAD).text
        except (Unreachable, OutcomeUnknown):
            return None
        except Rejected:
            return None if driver.active else FOREIGN
        if HEAD_END not in head:
            # The head is written when the process starts: one that ended without it never ran.
            return None if driver.active else FOREIGN
        return marks_in(head.partition(HEAD_END)[0])

    def observed(self, identifier: str, cluster: Cluster) -> tuple[Driver | None, DriverStatus | None]:
        """The driver with this id and its status, as far as there are any."""
        driver = next((each for each in cluster.drivers if each.id == identifier), None)
        return driver, None if driver is None else self._read_status(driver, cluster)

    def active_jobs(self, cluster: Cluster) -> list[str]:
        """The names of the jobs that have an active driver; empty names for unidentified drivers."""
        self.identify(cluster)
        active = [driver.id for driver in cluster.drivers if driver.active]
        marks = [self._marks.get(driver) for driver in active]
        return ["" if each is None else each.job for each in marks if each != FOREIGN]

    def _read_status(self, driver: Driver, cluster: Cluster) -> DriverStatus | None:
        worker = cluster.worker(driver.worker)
        if worker is None:
            return None
        log = self._master.log(worker, driver.id, "out", start=0, length=HEAD)
        return read_status(log.text, log.read_at)
