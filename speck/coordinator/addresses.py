"""The engines and brokers that a coordinator has to do with, by their addresses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
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

        Running operations are on such jobs.
        """
        store = self.deployments.store
        found = {address for site in self.inventory.places() for address in site.addresses}
        for snapshot in self.deployments.snapshots():
            found |= snapshot.addresses()
            for job in snapshot.desired.values():
                found |= {job.spe_address, job.source_broker, job.sink_broker}
        found |= {each.handle.address for each in store.attempts() if each.handle is not None}
        found |= {each.address for each in store.abandoned_attempts()}
        return found | {each.broker for each in store.abandoned_sessions()}

    def jobs_at(self, addresses: Collection[str]) -> list[str]:
        """The names of the jobs, and of those with abandoned work, that use one of these addresses."""
        used = ((name, {*places}) for name, places in self._uses())
        return sorted({name for name, places in used if not places.isdisjoint(addresses)})

    def _uses(self) -> Iterator[tuple[str, Collection[str]]]:
        """Names of jobs, each with addresses that it uses."""
        store = self.deployments.store
        for snapshot in self.deployments.snapshots():
            for forms in (snapshot.desired, snapshot.forms):
                for name, job in forms.items():
                    yield name, (job.spe_address, job.source_broker, job.sink_broker)
            for name, record in snapshot.records.items():
                yield name, [each.broker for each in record.sessions]
        for each in store.abandoned_attempts():
            yield each.attempt.job_name, (each.address, each.source_broker)
        for session in store.abandoned_sessions():
            yield session.job, (session.broker,)
