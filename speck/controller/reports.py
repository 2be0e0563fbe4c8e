"""Reports of agents: which of the copies that the agent of a site lists count.

A site may be in wrong hands, or confused, as after its disk was copied, and its agent may list a copy of any
job.  A copy keeps its job from being started elsewhere, so one counts only if the coordinator has placed the
job at that site, now or formerly.  All others are ignored, with an event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from speck.apply.copies import EngineCopy
from speck.core.inventory import Inventory, Site
from speck.core.lifecycle import EventKind
from speck.store import Event, Store
from speck.store.deployments import Snapshot
from speck.store.history import History
from speck.store.maintenance.integrity import LEAP


@dataclass
class AgentReports:
    """Used in one thread.  ``clock`` returns Unix time, s."""

    store: Store
    history: History
    inventory: Inventory
    clock: Callable[[], float]
    _ignored: set[tuple[str, str]] = field(default_factory=set, init=False)  # sites and jobs with an event

    def counted(
        self, snapshot: Snapshot, copies: Mapping[str, Sequence[EngineCopy]]
    ) -> dict[str, list[EngineCopy]]:
        """The copies of a composition's jobs that count, by the job's name."""
        names = snapshot.records.keys() | snapshot.desired.keys()
        return {
            name: [each for each in copies[name] if self._counts(snapshot, name, each)]
            for name in names
            if name in copies
        }

    def retain(self, jobs: Set[str]) -> None:
        """Forget the reports of all other jobs, which are gone."""
        self._ignored = {each for each in self._ignored if each[1] in jobs}

    def _counts(self, snapshot: Snapshot, name: str, copy: EngineCopy) -> bool:
        desired = snapshot.desired.get(name)
        if desired is not None and desired.spe_address == copy.address:
            return True
        site = self.inventory.site_of_engine(copy.address)
        if site is None or not site.agent or _may_be_behind(snapshot, name):
            return True
        engines = {each.spe_address for each in site.engines}
        if not engines.isdisjoint(self._places(snapshot, name)):
            return True
        self._report(snapshot, name, copy, site)
        return False

    def _places(self, snapshot: Snapshot, name: str) -> set[str]:
        """The addresses of the engines at which a job is, or was, as far as the store knows."""
        forms = [each[name] for each in (snapshot.desired, snapshot.forms) if name in each]
        record = snapshot.records.get(name)
        states = (record.state, record.rollback_state, *record.retained_states) if record else ()
        former = self.history.engines(snapshot.head.name, snapshot.head.revision)
        return {
            *(each.spe_address for each in forms),
            *(address for _, address in snapshot.engines(name)),
            *(each.address for each in states if each is not None),
            *former.get(name, ()),
        }

    def _report(self, snapshot: Snapshot, name: str, copy: EngineCopy, site: Site) -> None:
        """Write an event, once for a site and a job: an agent may list other copies each time."""
        if (site.name, name) in self._ignored:
            return
        text = (
            f"job {name!r}: the agent of site {site.name!r} reports a copy of it at {copy.address}, where it "
            f"was never placed: ignored (if it runs there, stop it; after a theft: speck sites revoke "
            f"{site.name})"
        )
        event = Event(self.clock(), EventKind.IGNORED, text, snapshot.head.name, name, automatic=True)
        self.store.add_events([event])
        self._ignored.add((site.name, name))


def _may_be_behind(snapshot: Snapshot, name: str) -> bool:
    """True if the store was restored or repaired, and the job not started since.

    The job may have been moved after the backup to a site of which the store does not know.
    """
    record = snapshot.records.get(name)
    last = max((each.attempt.number for each in snapshot.attempts.get(name, ())), default=0)
    return record is not None and record.renumbers and record.attempts - last >= LEAP
