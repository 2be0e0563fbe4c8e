"""Profiles of jobs, links and sites as plain data, and the beginning of measurements."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.observe.links import SitePair, links_of
from speck.observe.measures import JobMeasure, Measures
from speck.observe.probing import Prober
from speck.observe.sampler import Sampler
from speck.placement.profile import Inputs, JobProfile, Value
from speck.store.deployments import Deployments, Snapshot

_PATIENCE = 3.0  # s, for the capacities of engines that were not asked before
_PAUSE = 0.02  # s

_JOB_VALUES = (
    "rate_in",
    "rate_out",
    "bytes_in",
    "bytes_out",
    "cost",
    "fixed",
    "selectivity",
    "batch_overhead",
    "state",
    "true_rate_in",
    "true_rate_out",
    "event_loop",
)


@dataclass(frozen=True)
class ProfileQueries:
    """The profiles of jobs, links and sites as plain data.  ``clock`` gives Unix time, s."""

    deployments: Deployments
    sampler: Sampler
    measures: Measures
    prober: Prober
    inventory: Inventory
    clock: Callable[[], float]

    def profile(self, composition: str = "") -> dict[str, Any]:
        """The profiles of all jobs (of one composition) and of all sites; sampling continues for a minute."""
        snapshots = self._snapshots(composition)
        self.sampler.measure()
        return {
            "observed": self.clock(),
            "until": self.measures.until,
            "interval": self.measures.pace.interval,
            "cores": self.measures.pace.used,
            "jobs": self.jobs(snapshots),
            "sites": [asdict(each) for each in self.measures.sites().values()],
            "probes": [asdict(each) for each in self.prober.probes()],
        }

    def measure(
        self, composition: str, seconds: float, links: bool = False, sites: bool = False
    ) -> dict[str, Any]:
        """Sample the jobs for ``seconds``, the last sample included.

        ``links`` and ``sites`` are probed too, those of the composition's engines and brokers.  Raises
        :class:`~speck.errors.Conflict` while probes run.
        """
        snapshots = self._snapshots(composition)
        jobs = [name for each in snapshots for name in each.records]
        if links or sites:
            places = self._places(snapshots) if composition else self._all_places()
            self.prober.begin(self._links(places) if links else (), self._sites(places) if sites else ())
        # Three samples at least: fewer make no rate.
        self.sampler.measure(max(seconds + self.measures.pace.interval, 3 * self.measures.pace.interval))
        return {"composition": composition, "until": self.clock() + seconds, "jobs": sorted(jobs)}

    def _places(self, snapshots: list[Snapshot]) -> set[str]:
        """The names of the places that have an engine or a broker of these compositions."""
        used = {address for each in snapshots for address in each.addresses()}
        return {
            each.name
            for each in self.inventory.places()
            if used & {each.broker_address, *(engine.spe_address for engine in each.engines)}
        }

    def _all_places(self) -> set[str]:
        return {each.name for each in self.inventory.places()}

    def _links(self, places: set[str]) -> list[SitePair]:
        return [link for link in links_of(self.inventory) if places.issuperset(link)]

    def _sites(self, places: set[str]) -> list[str]:
        return [name for name in self.inventory.sites if name in places]

    def inputs(self) -> Inputs:
        """The inputs of the placer; sampling continues for a minute.

        The first time, waits for the engines' capacities, a few seconds at most.
        """
        self.sampler.measure()
        deadline = time.monotonic() + _PATIENCE
        while self.measures.unasked() and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        return self.measures.inputs()

    def links(self) -> list[dict[str, Any]]:
        """All links between sites; sampling continues for a minute."""
        self.sampler.measure()
        return [asdict(each) for each in self.measures.links().values()]

    def jobs(self, snapshots: list[Snapshot]) -> list[dict[str, Any]]:
        """The profile of each job as it runs or ran last, by name."""
        forms = {name: form for each in snapshots for name, form in each.forms.items()}
        compositions = {name: each.head.name for each in snapshots for name in each.forms}
        found = self.measures.jobs(forms.values())
        return [self._job_data(compositions[name], form, found[name]) for name, form in sorted(forms.items())]

    def _snapshots(self, composition: str) -> list[Snapshot]:
        """All compositions, or one.  Raises :class:`~speck.errors.NotFound`."""
        if not composition:
            return self.deployments.snapshots()
        return [self.deployments.snapshot(self.deployments.known_head(composition))]

    def _job_data(self, composition: str, form: Job, found: JobMeasure) -> dict[str, Any]:
        profile = found.estimate.profile
        site = self.inventory.site_of_engine(form.spe_address, *form.site_hints)
        return {
            "job_name": form.job_name,
            "composition": composition,
            "site": site.name if site is not None else form.site,
            "fresh": found.fresh,
            "error": found.error or None,
            **{name: _value_data(value) for name, value in _values(profile).items()},
            "busiest": profile.busiest or None,
            "vertices": [asdict(each) for each in found.estimate.vertices],
        }


def _values(profile: JobProfile) -> dict[str, Value | None]:
    return {name: getattr(profile, name) for name in _JOB_VALUES}


def _value_data(value: Value | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {"value": value.value, "known": value.known, "until": value.until, "count": value.count}
