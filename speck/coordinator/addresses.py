"""The engines and brokers that a coordinator has to do with, by their addresses."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from speck.core.inventory import Inventory
from speck.store.deployments import Deployments


@dataclass(frozen=True)
class UsedAddresses:
    """The addresses that jobs, sites and unfinished work name."""

    deployments: Deployments
    inventory: Inventory

    def __call__(self) -> Set[str]:
        """The addresses of all sites, of all jobs that are desired or run, and of all that is abandoned.

        Operations at work are on such jobs.
        """
        store = self.deployments.store
        found = {
            address
            for site in self.inventory.places()
            for address in (site.broker_address, *(each.spe_address for each in site.engines))
        }
        for snapshot in self.deployments.snapshots():
            found |= snapshot.addresses()
            for job in snapshot.desired.values():
                found |= {job.spe_address, job.source_broker, job.sink_broker}
        found |= {each.handle.address for each in store.attempts() if each.handle is not None}
        found |= {each.address for each in store.abandoned_attempts()}
        return found | {each.broker for each in store.abandoned_sessions()}
