"""Queries about places: engines and brokers of the inventory as they answer now, and the work left there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from typing import Any

from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.controller.orphans import FoundOrphan, Orphans
from speck.controller.workers import WorkerController
from speck.coordinator.agents import Agents
from speck.coordinator.shared_calls import SharedCalls
from speck.core.inventory import Inventory, Site
from speck.core.suggestions import similar_names
from speck.errors import NotFound
from speck.observe.between import edges_of
from speck.observe.from_engines import CHECKS
from speck.observe.healthcheck import Examined, examine, with_reach, without_stopped
from speck.schema.logins import broker_warnings, engine_warnings
from speck.store import Store
from speck.store.deployments import Deployments

PATIENCE = 30.0  # s, for the answers of all; a request waits for a minute


@dataclass(frozen=True)
class SiteQueries:
    """Answers as plain data.  Nothing is changed in here."""

    store: Store
    pool: BinderPool
    inventory: Inventory
    orphans: Orphans
    controller: WorkerController
    deployments: Deployments
    agents: Agents
    _calls: SharedCalls = field(default_factory=SharedCalls, repr=False)

    def workers(self, site: str | None = None) -> list[dict[str, Any]]:
        """The workers of each engine whose workers come and go, of one site or of all.

        Raises :class:`~speck.errors.NotFound`.
        """
        if site is not None and site not in self.inventory.sites:
            raise NotFound(f"there is no site {site!r}{similar_names(site, self.inventory.sites)}")
        return self.controller.data(site)

    def sites(self) -> list[dict[str, Any]]:
        """The inventory, each engine and broker with whether it can be reached now.

        Brokers that belong to no site come last, as sites without engines.  A query that is under way is
        shared.
        """
        return self._calls.of("sites", self._sites)

    def _sites(self) -> list[dict[str, Any]]:
        sites = self.inventory.places()
        engines = {("engine", each.spe_address) for site in sites for each in site.engines}
        brokers = {("broker", site.broker_address) for site in sites}
        asked = ask(engines | brokers, self._reached, PATIENCE, name="sites")
        failures = asked.failures()

        def data(role: str, address: str) -> dict[str, Any]:
            place = (role, address)
            if place in failures:
                return {"address": address, "reached": False, "error": str(failures[place])}
            return {"address": address, "reached": True, "error": "", **asked.answers[place]}

        stopped = self.controller.stopped_engines() & {address for _, address in failures}
        return [
            {**_site_data(site, data, stopped), "agent": self.agents.of_site(site.name)} for site in sites
        ]

    def _reached(self, place: tuple[str, str]) -> dict[str, Any]:
        """The report of an engine or a broker on itself.  Raises :class:`~speck.errors.BinderError`."""
        role, address = place
        if role == "engine":
            return {"capacity": asdict(self.pool.engine_for(address).capacity())}
        broker = self.pool.broker(address)
        broker.check()
        return {"warnings": broker.warnings()}

    def checkups(self) -> list[dict[str, Any]]:
        """Each engine and each broker of the inventory as it describes itself now, with its faults.

        An examination that is under way is shared.
        """
        found = self._calls.of("checkups", self._examined)
        return [each.to_dict() for each in found]

    def checkups_from_engines(self) -> list[dict[str, Any]]:
        """As :meth:`checkups`, and each engine tries to reach each broker: takes a slot for a moment."""
        return self._calls.of("checkups from engines", self._examined_from_engines)

    def _examined(self) -> list[Examined]:
        found = examine(self.inventory, self.pool, edges=edges_of(self.deployments.snapshots()))
        return without_stopped(found, self.controller.stopped_engines())

    def _examined_from_engines(self) -> list[dict[str, Any]]:
        snapshots = self.deployments.snapshots()
        examined = examine(self.inventory, self.pool, CHECKS, edges_of(snapshots))
        found = without_stopped(examined, self.controller.stopped_engines())
        forms = [form for snapshot in snapshots for form in snapshot.forms.values()]
        used = [
            (each.spe_address, broker) for each in forms for broker in (each.source_broker, each.sink_broker)
        ]
        return [each.to_dict() for each in with_reach(found, self.inventory, self.pool, used)]

    def brokers_of_jobs(self, site: str) -> list[str]:
        """The brokers that jobs at the engines of a site use, including abandoned ones."""
        known = self.inventory.sites.get(site)
        engines = {each.spe_address for each in known.engines} if known is not None else set()
        forms = (form for each in self.deployments.snapshots() for form in each.forms.values())
        here = [form for form in forms if form.spe_address in engines]
        for each in self.store.abandoned_attempts():
            if each.address in engines:
                form = self.deployments.history.last_form_at(
                    each.composition, each.attempt.job_name, each.address
                )
                here += [form] if form is not None else []
        return sorted({broker for form in here for broker in (form.source_broker, form.sink_broker)})

    def site_at(self, address: str) -> str:
        """The site, or the broker of no site, that is at this address; of none, the address."""
        for site in self.inventory.places():
            if address in site.addresses:
                return site.name
        return address

    def left_behind(self) -> list[dict[str, Any]]:
        """Every abandoned attempt and session, and the orphans of the last round, by job name."""
        sessions = self.store.abandoned_sessions()
        unfenced = {(each.broker, each.name) for each in sessions if not each.fenced}
        found = [
            self._place_data("copy", each.attempt.job_name, each.composition, each.address)
            | {"attempt": each.attempt.number, "session": each.attempt.session}
            | {"fenced": each.session not in unfenced, "verdict": "terminate", "message": ""}
            for each in self.store.abandoned_attempts()
        ]
        found += [
            self._place_data("session", each.job, each.composition, each.broker)
            | {"attempt": None, "session": each.name, "fenced": each.fenced}
            | {"verdict": "delete", "message": ""}
            for each in sessions
        ]
        found += map(self._orphan_data, self.orphans.found())
        return sorted(found, key=lambda each: (each["job_name"], each["kind"], each["address"]))

    def _orphan_data(self, found: FoundOrphan) -> dict[str, Any]:
        copy, verdict = found.orphan.copy, found.orphan.verdict
        return self._place_data("orphan", found.job, found.composition, copy.address) | {
            "attempt": copy.found.number or None,  # not every engine reports it
            "session": found.session,
            "fenced": False,
            "verdict": verdict.name.lower(),
            "message": found.message,
        }

    def _place_data(self, kind: str, job: str, composition: str, address: str) -> dict[str, Any]:
        return {
            "kind": kind,
            "job_name": job,
            "composition": composition,
            "address": address,
            "site": self.site_at(address),
        }


def _site_data(
    site: Site, data: Callable[[str, str], dict[str, Any]], stopped: Collection[str]
) -> dict[str, Any]:
    """A site as plain data; ``data`` gives that of an engine or a broker by its role and its address.

    ``stopped`` are the engines that were stopped, as no job needs them.
    """
    broker = data("broker", site.broker_address)
    return {
        "name": site.name,
        "engines": [
            {"capacity": None, **data("engine", each.spe_address), "warnings": engine_warnings(each)}
            | ({"stopped": True, "error": ""} if each.spe_address in stopped else {"stopped": False})
            for each in site.engines
        ],
        "broker": broker | {"warnings": [*broker_warnings(site), *broker.get("warnings", ())]},
        "uplink": asdict(site.uplink),
    }
