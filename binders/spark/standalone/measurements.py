"""Measurements of a link and of a core by a driver of their own, which ends with them.

The driver runs one task of the connector's data source ``mqtt-probe`` in an executor, where jobs of this
cluster run too, and writes the figures to its status file.  It has no attempt, so that it is nobody's job.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import TypeVar

from binders.spark.query.options import probe_options
from binders.spark.standalone.capacity import has_capacity, no_capacity
from binders.spark.standalone.driver_marks import FOREIGN
from binders.spark.standalone.driver_registry import DriverRegistry
from binders.spark.standalone.driver_status import DriverStatus
from binders.spark.standalone.master import Cluster, Driver, Master
from binders.spark.standalone.submission import Submitter
from speck.core.inventory import Inventory
from speck.core.profile import CoreProbe, LinkProbe
from speck.errors import BinderError, NoCapacity, OutcomeUnknown, Rejected

DEADLINE = 180.0  # s, for a driver to start and to measure, on a slow link too
END_TIMEOUT = 30.0  # s, for a driver that was killed

_POLL = 0.2  # s
_NAME = "probe"  # of the driver's application, beside an id

_T = TypeVar("_T")


class Measurements:
    """Runs one driver at a cluster for each measurement."""

    def __init__(
        self, master: Master, submitter: Submitter, drivers: DriverRegistry, inventory: Inventory
    ) -> None:
        self._master, self._submitter, self._drivers = master, submitter, drivers
        self._inventory, self.address = inventory, master.address

    def link(self, broker: str) -> LinkProbe:
        """Measure the link to a broker by messages to a topic without a reader, at most 4 MiB."""
        options = probe_options(broker, f"speck/probe/{uuid.uuid4().hex}", self._inventory)
        return self._measured(
            options,
            f"the probe of the link to {broker}",
            lambda found: LinkProbe(
                rtt=found["rttMillis"] / 1000,
                bandwidth=found["bytesPerSecond"],
                bytes_sent=round(found["probeBytes"]),
            ),
        )

    def core(self) -> CoreProbe:
        """Measure a core by a task that takes some seconds of it."""
        return self._measured(
            {},
            "the probe of a core",
            lambda found: CoreProbe(stateless=found["statelessPerSecond"], keyed=found["keyedPerSecond"]),
        )

    def _measured(
        self, options: Mapping[str, str], what: str, read: Callable[[Mapping[str, float]], _T]
    ) -> _T:
        self._check_room()
        name = f"{_NAME} {uuid.uuid4().hex}"
        driver = self._submitter.submit_probe(name, options)
        self._drivers.add(driver, FOREIGN)
        try:
            return read(self._await_figures(driver, what))
        except KeyError as error:
            message = f"{self.address}: {what} reports no {error} (expected the connector of this version)"
            raise Rejected(message, address=self.address) from error
        finally:
            self._end(driver, name)

    def _check_room(self) -> None:
        cluster = self._master.cluster()
        slots, running = self._inventory.engine(self.address).slots, self._drivers.active_jobs(cluster)
        if slots is not None and len(running) >= slots:
            message = f"{self.address} has no room for a probe: {len(running)} slots in use"
            raise NoCapacity(message, address=self.address)
        if not has_capacity(cluster.workers):
            raise no_capacity(self.address, _NAME, cluster.workers, 0)

    def _await_figures(self, driver: str, what: str) -> Mapping[str, float]:
        deadline = time.monotonic() + DEADLINE
        while True:
            found, status = self._drivers.observed(driver, self._master.cluster())
            if status is not None and status.figures is not None:
                return status.figures
            fault = self._fault(found, status)
            if fault:
                raise Rejected(f"{what} has failed: {fault}", address=self.address)
            if time.monotonic() > deadline:
                raise self._late(found, what)
            time.sleep(_POLL)

    def _fault(self, driver: Driver | None, status: DriverStatus | None) -> str:
        """The reason why a driver will have no figures; empty while it may."""
        if status is not None and status.kind in ("failed", "refused"):
            return status.message
        if driver is None:
            return "the master does not list its driver any more"
        return "" if driver.active else f"its driver has ended ({driver.state.lower()})"

    def _late(self, driver: Driver | None, what: str) -> BinderError:
        if driver is not None and driver.state == "SUBMITTED":
            message = f"{self.address} has no room for a probe: no worker accepted its driver"
            return NoCapacity(f"{message} in {DEADLINE:g} s", address=self.address)
        message = f"{self.address}: {what} gave no figures in {DEADLINE:g} s"
        return OutcomeUnknown(message, address=self.address)

    def _end(self, driver: str, name: str) -> None:
        """Kill the driver if it runs still, and wait until the master reports its end."""
        deadline, killed = time.monotonic() + END_TIMEOUT, False
        while self._is_running(driver, name, cluster := self._master.cluster()):
            found, status = self._drivers.observed(driver, cluster)
            # One that has measured ends by itself.
            if not killed and found is not None and (status is None or status.figures is None):
                self._master.kill(driver)
                killed = True
            if time.monotonic() > deadline:
                message = f"{self.address} still runs driver {driver} {END_TIMEOUT:g} s after its probe"
                raise OutcomeUnknown(message, address=self.address)
            time.sleep(_POLL)

    def _is_running(self, driver: str, name: str, cluster: Cluster) -> bool:
        active = any(each.active for each in cluster.drivers if each.id == driver)
        return active or any(name in each for each in cluster.applications)
