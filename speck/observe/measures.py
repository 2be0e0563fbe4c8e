"""Measures jobs, links and sites: from the samples of binders to stored profiles.

While a measurement runs, or somebody reads the profiles, the sampler (:mod:`speck.observe.sampler`) has each
engine asked for the counts of its jobs at the interval of :class:`~speck.observe.pace.Pace`: every 10 s, or
as seldom as the budget of processor time requires.  The last 36 samples of a job are in memory; every
:data:`WRITE_PERIOD` seconds the profiles are written to the store in one batch.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from speck.binder import Capability
from speck.binder.pool import BinderPool
from speck.core.clocks import Clock, steady_beside
from speck.core.inventory import Inventory, Site
from speck.core.job import Job, profile_fingerprint
from speck.core.profile import JobSample
from speck.core.runtime import Capacity, Handle
from speck.errors import SpeckError, one_line
from speck.observe.links import (
    LONGEST,
    Crossings,
    SitePair,
    crossing_of,
    declared_link,
    link_profile,
    link_profiles,
    measured_profiles,
    reading_of,
    with_former,
)
from speck.observe.pace import Pace, fresh_for
from speck.observe.profile.estimates import PRESSED, Estimate, estimate, rate_history
from speck.observe.profile.screening import Oddities, Series
from speck.observe.sites import site_profile
from speck.placement.profile import (
    Inputs,
    JobProfile,
    Known,
    LinkProfile,
    SiteProfile,
    assumed_profile,
    combined,
)
from speck.store.deployments import Deployment, Deployments, EngineKey
from speck.store.profiles import MeasuredLink

_log = logging.getLogger(__name__)

CAPACITY_PERIOD = 60.0  # s between two questions for the capacity of an engine
WRITE_PERIOD = 60.0  # s between two writes to the store
ATTENTION = 60.0  # s, for which sampling goes on after the profiles were read

NO_PROFILE = SpeckError("its engine's binder reports no profile")
MISSING = SpeckError("the answer of its engine's binder does not include it")


@dataclass(frozen=True, slots=True)
class JobMeasure:
    """The estimate of a job, completed by its stored profile and by assumptions.

    ``fresh``: its rate is of the last minute, or of the last three intervals where that is longer.
    ``error`` is the reason why there are no newer samples.
    """

    estimate: Estimate
    fresh: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Copy:
    """A running copy of a job, by its engine's id, with its samples."""

    job: Job
    handle: Handle
    series: Series = field(default_factory=Series)
    error: str = ""


def _ignore(oddities: Oddities) -> None:
    """Ignore dropped values."""


@dataclass
class Measures:
    """The profiles of all jobs, links and sites.  Safe to use from several threads.

    ``clock`` gives Unix time, s; ``on_oddities`` is called with the number of dropped values by reason,
    ``on_request`` when the engines are to be asked again.
    """

    deployments: Deployments
    pool: BinderPool
    inventory: Inventory
    clock: Callable[[], float]
    on_oddities: Callable[[Oddities], None] = _ignore
    on_request: Callable[[], None] = lambda: None
    pace: Pace = field(default_factory=Pace)
    steady: Clock = field(init=False)
    _until: float = field(default=0.0, init=False)
    _written: float = field(default=float("-inf"), init=False)
    _copies: dict[str, _Copy] = field(default_factory=dict, init=False)
    _current: Mapping[str, str] = field(default_factory=dict, init=False)  # engine ids by job
    _crossings: Crossings = field(default_factory=Crossings, init=False)
    _capacities: dict[str, tuple[float, Capacity]] = field(default_factory=dict, init=False)
    _asked: set[str] = field(default_factory=set, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.steady = steady_beside(self.clock)

    # --- attention

    def request(self, seconds: float = ATTENTION) -> None:
        """Sample the engines for the next ``seconds``."""
        was_attended = self.is_attended()
        self._until = max(self._until, self.steady() + seconds)
        if not was_attended:
            self.on_request()

    @property
    def until(self) -> float:
        """The time (Unix, s) until which the engines are asked."""
        return self._until + self.clock() - self.steady()

    def is_attended(self) -> bool:
        """True while the engines are to be asked."""
        return self.steady() <= self._until

    # --- asking, by the threads of the sampler

    def engines(self) -> list[str]:
        """The addresses of all engines of the inventory."""
        return list(self.inventory.sites_by_engine())

    def ask(self, key: EngineKey, jobs: Sequence[Deployment]) -> None:
        """Ask an engine for the counts of its jobs; raises nothing."""
        answers: Mapping[str, JobSample | SpeckError] = {}
        fault = MISSING
        try:
            binder = self.pool.engine_at(*key)
            if Capability.PROFILES in binder.capabilities:
                answers = binder.profile([handle for _, handle in jobs])
            else:
                fault = NO_PROFILE
        except SpeckError as error:
            fault = error
        except Exception as error:
            _log.exception("the request to %s for the counts of its jobs failed", key[1])
            fault = SpeckError(f"internal error: {error!r}")
        for job, handle in jobs:
            self.record(job, handle, answers.get(handle.engine_id, fault))

    def unasked(self) -> list[str]:
        """The addresses of the engines of the inventory whose capacity was not asked for yet."""
        with self._lock:
            return [address for address in self.engines() if address not in self._asked]

    def ask_capacity(self, address: str) -> None:
        """Ask an engine for its cores and memory; raises nothing."""
        try:
            binder = self.pool.engine_for(address)
            capacity = binder.capacity()
            with self._lock:
                self._capacities[address] = self.clock(), capacity
        except SpeckError as error:
            _log.debug("%s does not report its capacity: %s", address, error)
        except Exception:
            _log.exception("the request to %s for its capacity failed", address)
        with self._lock:
            self._asked.add(address)

    def record(self, job: Job, handle: Handle, answer: JobSample | SpeckError) -> None:
        """Record the counts of a job, or the error instead of them."""
        with self._lock:
            if self._current.get(job.job_name, handle.engine_id) != handle.engine_id:
                return  # the job was replaced while its former engine took its time to answer
            copy = self._copies.get(job.job_name)
            if copy is None or copy.handle.engine_id != handle.engine_id:
                copy = _Copy(job, handle)
            if isinstance(answer, SpeckError):
                self._copies[job.job_name] = replace(copy, error=one_line(answer))
                return
            series, oddities = copy.series.with_next(answer, self.clock())
            copy = self._copies[job.job_name] = replace(copy, job=job, series=series, error="")
            self._note_crossings(copy)
        if oddities:
            _log.debug("odd counts of job %r: %s", job.job_name, dict(oddities))
            self.on_oddities(oddities)

    def _note_crossings(self, copy: _Copy) -> None:
        link, reading = self._link_from(copy), reading_of(copy.series)
        if link is not None and reading is not None:
            self._crossings.add(link, copy.job.job_name, reading)
        for acks in copy.series.samples[-1].sample.acks if copy.series.samples else ():
            link, crossing = self._link(copy, acks.broker), crossing_of(copy.series, acks.broker)
            if link is not None and crossing is not None:
                self._crossings.add(link, copy.job.job_name, crossing)

    def _link(self, copy: _Copy, broker: str) -> SitePair | None:
        """The link from the site of a copy to a broker; ``None`` if that is its own, or not known."""
        broker = self.inventory.own_broker_address(broker)  # a job reports the address that it uses
        site, target = self._site_of(copy), self._place_of(broker)
        if site is None or target is None or site.broker_address == broker:
            return None
        return site.name, target

    def _link_from(self, copy: _Copy) -> SitePair | None:
        """The link from the broker that a copy reads to its site; as of :meth:`_link`."""
        broker, site = copy.job.source_broker, self._site_of(copy)
        source = self._place_of(broker)
        if site is None or source is None or site.broker_address == broker:
            return None
        return source, site.name

    def _site_of(self, copy: _Copy) -> Site | None:
        return self.inventory.site_of_engine(copy.handle.address, *copy.job.site_hints)

    def _place_of(self, broker: str) -> str | None:
        """The name of the site of a broker, or else its own, by its address."""
        site = self.inventory.site_of_broker(broker)
        if site is not None:
            return site.name
        brokers = self.inventory.brokers.items()
        return next((name for name, each in brokers if each.broker_address == broker), None)

    def forget_others(self, copies: Mapping[str, str]) -> None:
        """Forget all but these ``copies``: the engine's id of each job by its name."""
        with self._lock:
            self._current = copies
            gone = [name for name, each in self._copies.items() if copies.get(name) != each.handle.engine_id]
        if gone:
            self.write(at_once=True)  # a job that moves keeps its profile
        with self._lock:
            for name in gone:
                del self._copies[name]
            self._crossings.forget_others(copies)

    # --- reading

    def jobs(self, jobs: Iterable[Job]) -> dict[str, JobMeasure]:
        """The best known profiles of these jobs, by name.

        Figures of the former form of a job that was edited are assumed until its own are measured.
        """
        stored, speeds = self._stored_jobs(), self._speeds()
        keys = [(job, _key(job)) for job in jobs]
        former = _newest(stored, {name for _, (name, form) in keys if (name, form) not in stored})
        with self._lock:
            copies = dict(self._copies)
        found = {}
        for job, key in keys:
            name, assumed = job.job_name, assumed_profile(job.engine)
            if name in former:
                assumed = combined(former[name].as_assumed(), assumed)
            found[name] = self._measure(job, copies.get(name), stored.get(key), assumed, speeds)
        return found

    def costs(self) -> dict[str, float]:
        """The processor time of a message (s) of each job that is measured now, by name."""
        speeds = self._speeds()
        with self._lock:
            copies = dict(self._copies)
        found = {name: self._estimate(copy, None, speeds).profile.cost for name, copy in copies.items()}
        return {name: cost.value for name, cost in found.items() if cost is not None}

    def links(self) -> dict[SitePair, LinkProfile]:
        """All links between the places of the inventory, by the names of both ends."""
        return link_profiles(self.inventory, self._measured_links(), self.clock(), self._fresh)

    def measured_links(self) -> dict[SitePair, LinkProfile]:
        """The links that were measured; of all links (:meth:`links`) there is one for each two sites."""
        return measured_profiles(self.inventory, self._measured_links(), self.clock(), self._fresh)

    def sites(self) -> dict[str, SiteProfile]:
        """All sites of the inventory, by name."""
        stored = self.deployments.store.site_profiles()
        return {name: self._site(site, stored.get(name)) for name, site in self.inventory.sites.items()}

    def inputs(self) -> Inputs:
        """The best known profiles of all jobs, links and sites, for the placer; sampling goes on a minute."""
        self.request()
        forms = [form for each in self.deployments.snapshots() for form in each.forms.values()]
        found = self.jobs(forms)
        with self._lock:
            copies = dict(self._copies)
        fresh = frozenset(name for name, each in found.items() if each.fresh and not each.error)
        return Inputs(
            jobs={name: each.estimate.profile for name, each in found.items()},
            links=self.links(),
            sites=self.sites(),
            history={name: rate_history(copy.series) for name, copy in copies.items()},
            fresh=fresh,
            ages=_ages({name: each for name, each in found.items() if name not in fresh}, self.clock()),
            pressed=frozenset(name for name, each in found.items() if each.fresh and _is_pressed(each)),
            interval=self.pace.interval,
            forms={form.job_name: form for form in forms},
        )

    def _measure(
        self,
        job: Job,
        copy: _Copy | None,
        stored: JobProfile | None,
        assumed: JobProfile,
        speeds: Mapping[str, float],
    ) -> JobMeasure:
        former = stored or JobProfile()
        if copy is None or profile_fingerprint(copy.job) != profile_fingerprint(job):
            return JobMeasure(Estimate(combined(former, assumed)), fresh=False)
        found = self._estimate(copy, stored, speeds)
        profile = combined(combined(found.profile, former), assumed)
        return JobMeasure(replace(found, profile=profile), found.profile.rate_in is not None, copy.error)

    def _estimate(self, copy: _Copy, stored: JobProfile | None, speeds: Mapping[str, float]) -> Estimate:
        speed = speeds.get(copy.handle.address, 1.0)
        return estimate(copy.series, self.clock(), speed, stored, self._fresh)

    @property
    def _fresh(self) -> float:
        """The time for which a sample is fresh, s."""
        return fresh_for(self.pace.interval)

    def _speeds(self) -> dict[str, float]:
        """The speed of the cores of each engine's site, by the engine's address."""
        speeds = {name: each.speed.value for name, each in self.sites().items() if each.speed is not None}
        served = self.inventory.sites_by_engine()
        return {address: speeds.get(sites[0].name, 1.0) for address, sites in served.items()}

    def _site(self, site: Site, stored: SiteProfile | None) -> SiteProfile:
        with self._lock:
            capacities = dict(self._capacities)
        return site_profile(site, capacities, stored, self.clock())

    def _stored_jobs(self) -> dict[tuple[str, str], JobProfile]:
        """The stored profiles by name and form, without values that are too old."""
        oldest = self.clock() - LONGEST
        return {key: each.since(oldest) for key, each in self.deployments.store.job_profiles().items()}

    def _measured_links(self) -> dict[SitePair, MeasuredLink]:
        """The measurements of links: the present passive ones in place of the stored ones."""
        found, now = self.deployments.store.links(), self.clock()
        with self._lock:
            believed = {link: self._believed(link, found, now) for link in self._crossings.links()}
            passive = self._crossings.measured(now, believed, self._fresh)
        for link, profile in passive.items():
            stored = found.get(link, MeasuredLink())
            found[link] = replace(stored, passive=with_former(profile, stored.passive, now))
        return found

    def _believed(self, link: SitePair, stored: Mapping[SitePair, MeasuredLink], now: float) -> float:
        """The bandwidth of a link as it was known at the last write, bytes/s."""
        declared = declared_link(self.inventory, link)
        known = link_profile(link, stored.get(link, MeasuredLink()), declared, now, self._fresh).bandwidth
        return math.inf if known is None else known.value

    def measured_link(self, link: SitePair) -> MeasuredLink:
        """The measurements of one link."""
        return self._measured_links().get(link, MeasuredLink())

    # --- writing

    def put_active(self, link: SitePair, profile: LinkProfile) -> None:
        """Write the result of a probe of a link; its other measurements stay."""
        with self.deployments.store.transaction() as transaction:
            transaction.put_link(*link, replace(self.measured_link(link), active=profile))

    def put_site(self, profile: SiteProfile) -> None:
        """Write measured values of a site; its other stored values stay."""
        with self.deployments.store.transaction() as transaction:
            stored = self.deployments.store.site_profiles().get(profile.name)
            transaction.put_site_profile(replace(stored, speed=profile.speed) if stored else profile)

    def write(self, at_once: bool = False) -> bool:
        """Write the profiles measured since the last write, if that was a minute ago or ``at_once``.

        Returns true if it was due.
        """
        if not self._copies or not (at_once or self.steady() - self._written >= WRITE_PERIOD):
            return False
        self._written = self.steady()
        try:
            self._write()
        except SpeckError as error:
            _log.warning("the profiles could not be written: %s", error)
        except Exception:  # each round of the sampler writes them before it asks: it would ask nothing again
            _log.exception("the profiles could not be written")
        return True

    def _write(self) -> None:
        """Write the fresh profiles, and delete those of former forms and of jobs that are gone."""
        store, stored, speeds = self.deployments.store, self._stored_jobs(), self._speeds()
        with self._lock:
            copies = list(self._copies.values())
        fresh = {
            _key(copy.job): found.profile
            for copy in copies
            if (found := self._estimate(copy, stored.get(_key(copy.job)), speeds)).profile.rate_in is not None
        }
        with store.transaction() as transaction:
            links = {link: each for link, each in self._measured_links().items() if each.passive is not None}
            if not fresh and not links:
                return
            known, forms = {each.name for each in store.jobs()}, dict(fresh.keys())
            for name, form in stored:
                if name not in known or forms.get(name, form) != form:
                    transaction.delete_job_profile(name, form)
            for (name, form), profile in fresh.items():
                if name in known:
                    former = stored.get((name, form), JobProfile())
                    transaction.put_job_profile(name, form, combined(profile, former))
            for (source, target), link in links.items():
                transaction.put_link(source, target, link)
            for site in self.sites().values():
                transaction.put_site_profile(site)


def _newest(stored: Mapping[tuple[str, str], JobProfile], names: Set[str]) -> dict[str, JobProfile]:
    """The profile of each of these jobs, in whichever form, that was measured last."""
    found = dict[str, tuple[float, JobProfile]]()
    for (name, _), profile in stored.items():
        if name in names:
            until = max((each.until for each in profile.values().values()), default=0.0)
            if name not in found or until > found[name][0]:
                found[name] = until, profile
    return {name: profile for name, (_, profile) in found.items()}


def _ages(measures: Mapping[str, JobMeasure], now: float) -> dict[str, float]:
    """The age of the last measured rate of each job, s; ``now`` is Unix time.

    A rate of the future, from before the clock was set back, is as old at least as it is ahead.
    """
    rates = {name: each.estimate.profile.rate_in for name, each in measures.items()}
    return {
        name: abs(now - rate.until)
        for name, rate in rates.items()
        if rate is not None and rate.known is Known.MEASURED
    }


def _is_pressed(measure: JobMeasure) -> bool:
    return any(each.back_pressured > PRESSED for each in measure.estimate.vertices)


def _key(job: Job) -> tuple[str, str]:
    return job.job_name, profile_fingerprint(job)
