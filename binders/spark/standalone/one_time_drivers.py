"""Drivers that are no jobs: each does one thing for the coordinator, writes what came of it, and ends.

Such a driver has no attempt, so that it is nobody's job, and is started once.  It is not left behind:
one that is late is killed, and the end of each is awaited, so that its room is free again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from binders.spark.standalone.driver_marks import FOREIGN
from binders.spark.standalone.driver_registry import DriverRegistry
from binders.spark.standalone.driver_status import DriverStatus
from binders.spark.standalone.master import Cluster, Driver, Master
from speck.errors import BinderError, NoCapacity, OutcomeUnknown, Rejected

END_TIMEOUT = 30.0  # s, for a driver that was killed

_POLL = 0.2  # s

_T = TypeVar("_T")


class OneTimeDrivers:
    """Runs drivers at a cluster, one for each purpose."""

    def __init__(self, master: Master, drivers: DriverRegistry) -> None:
        self._master, self._drivers = master, drivers
        self.address = master.address

    def run(
        self,
        name: str,
        submit: Callable[[], str],
        result: Callable[[DriverStatus], _T | None],
        what: str,
        deadline: float,
    ) -> _T:
        """Submit a driver, and return the first ``result`` of its status that is not ``None``.

        ``name`` is unique, and part of its application's; ``what`` names its purpose in errors, and
        ``deadline`` is in s.  Raises :class:`~speck.errors.Rejected` for a driver that fails, with its
        reason, :class:`~speck.errors.NoCapacity` for one that no worker accepts, and
        :class:`~speck.errors.OutcomeUnknown` for one that is late.
        """
        driver = submit()
        self._drivers.add(driver, FOREIGN)
        done = False
        try:
            found = self._await_result(driver, result, what, deadline)
            done = True
            return found
        finally:
            self._end(driver, name, done)

    def _await_result(
        self, driver: str, result: Callable[[DriverStatus], _T | None], what: str, patience: float
    ) -> _T:
        deadline = time.monotonic() + patience
        while True:
            found, status = self._drivers.observed(driver, self._master.cluster())
            answer = result(status) if status is not None else None
            if answer is not None:
                return answer
            fault = self._fault(found, status)
            if fault:
                raise Rejected(f"{what} has failed: {fault}", address=self.address)
            if time.monotonic() > deadline:
                raise self._late(found, what, patience)
            time.sleep(_POLL)

    def _fault(self, driver: Driver | None, status: DriverStatus | None) -> str:
        """The reason why a driver will have no result; empty while it may."""
        if status is not None and status.kind in ("failed", "refused"):
            return status.message
        if driver is None:
            return "the master does not list its driver any more"
        return "" if driver.active else f"its driver has ended ({driver.state.lower()})"

    def _late(self, driver: Driver | None, what: str, patience: float) -> BinderError:
        if driver is not None and driver.state == "SUBMITTED":
            message = f"{self.address} has no room for {what}: no worker accepted its driver"
            return NoCapacity(f"{message} in {patience:g} s", address=self.address)
        message = f"{self.address}: {what} gave no result in {patience:g} s"
        return OutcomeUnknown(message, address=self.address)

    def _end(self, driver: str, name: str, done: bool) -> None:
        """Await the end of a driver that is ``done``, as the master reports it; kill any other one before."""
        deadline, killed = time.monotonic() + END_TIMEOUT, False
        while self._is_running(driver, name, self._master.cluster()):
            if not done and not killed:
                self._master.kill(driver)
                killed = True
            if time.monotonic() > deadline:
                message = f"{self.address} still runs driver {driver} {END_TIMEOUT:g} s after it was to end"
                raise OutcomeUnknown(message, address=self.address)
            time.sleep(_POLL)

    def _is_running(self, driver: str, name: str, cluster: Cluster) -> bool:
        active = any(each.active for each in cluster.drivers if each.id == driver)
        return active or any(name in each for each in cluster.applications)
