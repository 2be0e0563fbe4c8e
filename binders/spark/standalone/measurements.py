"""Measurements of a link and of a core by a driver of their own, which ends with them.

The driver runs one task of the connector's data source ``mqtt-probe`` in an executor, where jobs of this
cluster run too, and writes the figures to its status file.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import TypeVar

from binders.common.probe_topic import probe_topic
from binders.spark.query.options import probe_options, reach_options
from binders.spark.standalone.capacity import has_capacity, no_capacity
from binders.spark.standalone.driver_registry import DriverRegistry
from binders.spark.standalone.master import Master
from binders.spark.standalone.one_time_drivers import OneTimeDrivers
from binders.spark.standalone.submission import Submitter
from speck.core.inventory import Inventory
from speck.core.profile import CoreProbe, LinkProbe
from speck.errors import NoCapacity, Rejected

DEADLINE = 180.0  # s, for a driver to start and to measure, on a slow link too

_NAME = "probe"  # of the driver's application, beside an id

_T = TypeVar("_T")


class Measurements:
    """Runs one driver at a cluster for each measurement."""

    def __init__(
        self, master: Master, submitter: Submitter, drivers: DriverRegistry, inventory: Inventory
    ) -> None:
        self._master, self._submitter, self._drivers = master, submitter, drivers
        self._inventory, self.address = inventory, master.address
        self._one_time = OneTimeDrivers(master, drivers)

    def link(self, broker: str) -> LinkProbe:
        """Measure the link to a broker by messages to a topic without a reader, at most 4 MiB."""
        options = probe_options(broker, probe_topic(broker), self._inventory)
        return self._measured(
            options,
            f"the probe of the link to {broker}",
            lambda found: LinkProbe(
                rtt=found["rttMillis"] / 1000,
                bandwidth=found["bytesPerSecond"],
                bytes_sent=round(found["probeBytes"]),
            ),
        )

    def reach(self, broker: str) -> float:
        """The round trip to a broker by one small message, s."""
        options = reach_options(broker, probe_topic(broker), self._inventory)
        return self._measured(options, f"the connection to {broker}", lambda found: found["rttMillis"] / 1000)

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
        submit = partial(self._submitter.submit_probe, name, options)
        figures = self._one_time.run(name, submit, attrgetter("figures"), what, DEADLINE)
        try:
            return read(figures)
        except KeyError as error:
            message = f"{self.address}: {what} reports no {error} (expected the connector of this version)"
            raise Rejected(message, address=self.address) from error

    def _check_room(self) -> None:
        cluster = self._master.cluster()
        slots, running = self._inventory.engine(self.address).slots, self._drivers.active_jobs(cluster)
        if slots is not None and len(running) >= slots:
            message = f"{self.address} has no room for a probe: {len(running)} slots in use"
            raise NoCapacity(message, address=self.address)
        if not has_capacity(cluster.workers):
            raise no_capacity(self.address, _NAME, cluster.workers, 0)
