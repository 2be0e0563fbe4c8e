"""Identifies the drivers of a cluster: the attempt and the job of each.

The master assigns a driver's id, and its web interface lists all drivers, waiting ones included; that list is
authoritative.  The head of a driver's log, which the worker writes when it starts the driver and serves in
its web interface, contains the attempt.  So any coordinator finds an attempt, also one that another
coordinator submitted, without storage shared with the workers.  A driver that waits for a worker has no log
yet: while there is an unidentified one, :meth:`DriverRegistry.find` does not report that an attempt does not
exist.
"""

from __future__ import annotations

import re
import time

from binders.spark.standalone.driver_status import DriverStatus, choose_driver, read_status
from binders.spark.standalone.master import Cluster, Driver, Master, Worker
from binders.spark.standalone.submission import MAIN_CLASS
from speck.errors import OutcomeUnknown, Rejected, Unreachable

FIND_PATIENCE = 5.0  # s, for identifying a driver that was just assigned to a worker
HEAD = 64 * 1024  # bytes of a driver's log, and of its status file
HEAD_END = "\n" + "=" * 40 + "\n"

_POLL = 0.2  # s
_ATTEMPT = re.compile(r"-Dspark\.speck\.attempt=([0-9a-f]{32})\b")
_JOB = re.compile(r"-Dspark\.speck\.job=([A-Za-z0-9._-]+)")

Chosen = tuple[Driver, DriverStatus | None]


class DriverRegistry:
    """The drivers of one cluster, identified by the heads of their logs; each is read once."""

    def __init__(self, address: str, master: Master) -> None:
        self.address = address
        self._master = master
        # Attempt id and job name by driver id; empty for foreign drivers.
        self._owners: dict[str, tuple[str, str]] = {}

    def add(self, driver: str, attempt: str, job_name: str) -> None:
        """Add a driver that was just submitted."""
        self._owners[driver] = (attempt, job_name)

    def job_names(self) -> dict[str, str]:
        """The names of jobs by the ids of their drivers; empty for foreign drivers."""
        return {driver: job_name for driver, (_, job_name) in list(self._owners.items())}

    def active(self, cluster: Cluster) -> list[tuple[str, str]]:
        """Attempt id and job name of each active driver of SpecK that is identified."""
        self.identify(cluster)
        owners = (self._owners.get(driver.id, ("", "")) for driver in cluster.drivers if driver.active)
        return [(attempt, job_name) for attempt, job_name in owners if attempt]

    def find(self, attempt: str, *, strict: bool) -> Chosen | None:
        """The driver of an attempt that runs or ran its query.

        Raises :class:`~speck.errors.OutcomeUnknown` while the log of a driver that may be the attempt's
        cannot be read, and, if ``strict``, while one waits for a worker.  A submit need not be strict about
        active drivers: of two of an attempt one exits.  It must be about those that ended: one that was
        killed before it had the lease would not keep the other from starting the attempt once more.
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
        return [each for each in cluster.drivers if self._owners.get(each.id, ("", ""))[0] == attempt]

    def identify(self, cluster: Cluster) -> list[Driver]:
        """Determine the owners of the drivers; returns those that cannot be identified yet.

        These are active ones without a log, and those, ended ones included, whose worker does not serve it.
        """
        unknown = []
        for driver in cluster.drivers:
            if driver.id in self._owners or driver.main_class != MAIN_CLASS:
                continue
            worker = cluster.worker(driver.worker)
            if worker is None:  # it waits for one, or its log went with it
                unknown += [driver] if driver.active else []
            elif (owner := self._owner(driver, worker)) is not None:
                self._owners[driver.id] = owner
            else:
                unknown.append(driver)
        return unknown

    def _owner(self, driver: Driver, worker: Worker) -> tuple[str, str] | None:
        """Attempt and job of a driver, empty for a foreign one; ``None`` if its log has no head yet."""
        try:
            head = self._master.log(worker, driver.id, "stderr", start=0, length=HEAD).text
        except (Unreachable, OutcomeUnknown):
            return None
        except Rejected:
            return None if driver.active else ("", "")
        if HEAD_END not in head:
            # The head is written when the process starts: one that ended without it never ran.
            return None if driver.active else ("", "")
        head = head.partition(HEAD_END)[0]
        attempt, job = _ATTEMPT.search(head), _JOB.search(head)
        return (attempt[1], job[1]) if attempt and job else ("", "")

    def observed(self, identifier: str, cluster: Cluster) -> tuple[Driver | None, DriverStatus | None]:
        """The driver with this id and its status, as far as there are any."""
        driver = next((each for each in cluster.drivers if each.id == identifier), None)
        return driver, None if driver is None else self._read_status(driver, cluster)

    def active_jobs(self, cluster: Cluster) -> list[str]:
        """The names of the jobs that have an active driver; empty names for unidentified drivers."""
        self.identify(cluster)
        active = [driver.id for driver in cluster.drivers if driver.active]
        owners = [self._owners.get(driver, ("unknown", "")) for driver in active]
        return [job for attempt, job in owners if attempt]

    def _read_status(self, driver: Driver, cluster: Cluster) -> DriverStatus | None:
        worker = cluster.worker(driver.worker)
        if worker is None:
            return None
        log = self._master.log(worker, driver.id, "out", start=0, length=HEAD)
        return read_status(log.text, log.read_at)
