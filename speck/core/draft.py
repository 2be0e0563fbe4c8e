"""Drafts: compositions with jobs and topics that SpecK places, and their settling into concrete jobs.

A topic without a broker in the file is **free**.  Free topics of one name are one within the composition;
those that one filter takes in share a **channel**, and thereby a home, the site whose broker holds them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Protocol

from speck.core.graph import Endpoint, Graph, source_of
from speck.core.inventory import Inventory, Site, choose_site
from speck.core.job import Composition, Job
from speck.core.needs import Misfit, Needs, of_each_scheme
from speck.core.placement import ANY, PlacementOptions
from speck.errors import Fault, InvalidInput

FREE = ""  # the broker of a free topic


class BrokerKind(Protocol):
    """A kind of brokers: :class:`speck.binder.BrokerKind`."""

    @property
    def name(self) -> str: ...


class Engines(Protocol):
    """The kinds of engines and brokers by their addresses: :class:`speck.binder.Registry`."""

    def runs(self, engine: str, address: str) -> bool:
        """True if the engine at an address is of the kind ``engine``."""

    def misfit(self, needs: Needs, address: str) -> Misfit | None:
        """The first reason why an engine of the kind that a job needs cannot run it."""

    def broker_kind(self, address: str) -> BrokerKind | None:
        """The kind of the broker at an address."""


@dataclass(frozen=True, slots=True)
class ExcludedSite:
    """A site that is no candidate of a job, and the reason."""

    job: str
    site: str
    reason: str


@dataclass(frozen=True, slots=True)
class Channel:
    """Free topics with a common home, and the jobs at them; all names are in alphabetical order.

    ``name`` is that of the first topic.
    """

    name: str
    topics: tuple[str, ...]
    writers: tuple[str, ...]
    readers: tuple[str, ...]


@dataclass(frozen=True)
class Draft:
    """A composition whose placed fields are empty, with its candidate places.

    ``candidates`` are the engine addresses of each job by site name: those of a movable job that SpecK
    chooses among, the site of a fixed one (none outside of the inventory).  ``channels`` are by name.
    ``sites`` and ``homes`` are where movable jobs and channels are now, as far as they are placed and may
    stay: site names by job and by channel.  ``brokers`` are the sites whose broker may hold each channel;
    without an entry, each site's may.
    """

    composition: Composition
    inventory: Inventory
    candidates: Mapping[str, Mapping[str, str]]
    refused: tuple[ExcludedSite, ...]
    sites: Mapping[str, str] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    brokers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        composition: Composition,
        inventory: Inventory,
        engines: Engines,
        running: Mapping[str, Job] | None = None,
        avoid: Collection[str] = (),
    ) -> Draft:
        """The draft of a composition, its placed fields empty (fresh from a file) or filled (stored).

        ``engines`` are the installed kinds.  ``running`` are the jobs that run, by name; by default those of
        the composition itself.  No movable job and no channel stays at an address to ``avoid``, or comes
        there.
        """
        present = composition.jobs if running is None else running
        emptied = {name: _emptied(job) for name, job in composition.jobs.items()}
        places = _Places(inventory, engines, frozenset(avoid))
        candidates, refused, sites = {}, list[ExcludedSite](), {}
        for name, job in emptied.items():
            at = places.site_of(present[name]) if name in present else None
            candidates[name], reasons = places.candidates(job, at, present.get(name))
            refused += [ExcludedSite(name, *each) for each in reasons]
            stays = at in candidates[name] and present[name].spe_address not in avoid
            if job.movable and at is not None and stays:
                sites[name] = at
        draft = cls(replace(composition, jobs=emptied), inventory, candidates, tuple(refused), sites)
        for name in draft._misplaced():
            del sites[name]
        homes, brokers = dict(draft._present_homes(present)), dict[str, tuple[str, ...]]()
        homes = {name: home for name, home in homes.items() if home in places.holding}
        if places.differ_in_brokers or avoid:
            for name, channel in draft.channels.items():
                ends = [(draft.jobs[each], candidates[each]) for each in (*channel.writers, *channel.readers)]
                brokers[name] = places.holders(ends, homes.get(name))
            homes = {name: home for name, home in homes.items() if home in brokers[name]}
        # One without them has its graph already.
        return replace(draft, homes=homes, brokers=brokers) if homes or brokers else draft

    @property
    def name(self) -> str:
        """The name of the composition."""
        return self.composition.name

    @property
    def jobs(self) -> Mapping[str, Job]:
        """The jobs by name, with empty placed fields."""
        return self.composition.jobs

    @property
    def options(self) -> PlacementOptions:
        """The composition's options of placement."""
        return self.composition.placement or PlacementOptions()

    @cached_property
    def graph(self) -> Graph:
        """The graph of the jobs; free topics are endpoints at the broker :data:`FREE`."""
        return Graph.of(self.jobs.values())

    # --- channels

    @cached_property
    def channels(self) -> Mapping[str, Channel]:
        """The channels by name."""
        topics, writers, readers = map(_members, (self.topics, self.writes, self.reads))
        return {
            name: Channel(name, tuple(topics[name]), tuple(writers[name]), tuple(readers.get(name, ())))
            for name in topics
        }

    @cached_property
    def topics(self) -> Mapping[str, str]:
        """The name of the channel of each written free topic, and of each parking topic that is read.

        A parking topic is where its job's source is, so it is of the same channel.
        """
        written = sorted(each.topic for each in self.graph.writers if each.broker == FREE)
        matched = self.graph.with_parked.matched
        together = [[each.topic for each in found] for read, found in matched.items() if read.broker == FREE]
        read = {topic for topics in together for topic in topics}
        together += [
            [job.park_topic, matched[source_of(job)][0].topic]
            for job in self.jobs.values()
            if job.park_topic in read and job.source_broker == FREE and source_of(job) in matched
        ]
        first = _joined(sorted({*written, *read}), together)
        # Without a written topic, the source of a job that parks has no writer here, and no home.
        names = {first[topic]: topic for topic in reversed(written)}
        return {topic: names[group] for topic, group in first.items() if group in names}

    @cached_property
    def reads(self) -> Mapping[str, str]:
        """The channel that each job reads from; no entry for one with an address, or that no job writes."""
        return {
            name: self.topics[matched[0].topic]
            for name, job in sorted(self.jobs.items())
            if job.source_broker == FREE and (matched := self.graph.with_parked.matched.get(source_of(job)))
            if matched[0].topic in self.topics
        }

    @cached_property
    def writes(self) -> Mapping[str, str]:
        """The channel that each job writes to; no entry for a topic with an address."""
        return {
            name: self.topics[job.sink_topic]
            for name, job in sorted(self.jobs.items())
            if job.sink_broker == FREE
        }

    def brokers_of(self, channel: str) -> Collection[str]:
        """The sites whose broker may hold a channel."""
        return self.brokers.get(channel, self.inventory.sites)

    def home_of(self, endpoint: Endpoint) -> str | None:
        """The site of the broker of a topic with an address; ``None`` for a broker of no site."""
        site = self.inventory.site_of_broker(endpoint.broker)
        return None if site is None else site.name

    def _present_homes(self, present: Mapping[str, Job]) -> Iterator[tuple[str, str]]:
        for channel in self.channels.values():
            homes = (
                site.name
                for each in self._brokers(channel, present)
                if (site := self.inventory.site_of_broker(each))
            )
            if (home := next(homes, None)) is not None:
                yield channel.name, home

    def _brokers(self, channel: Channel, present: Mapping[str, Job]) -> Iterator[str]:
        """The brokers that have a channel now, by its writers and then by its readers."""
        for name in channel.writers:
            if name in present and present[name].sink_topic == self.jobs[name].sink_topic:
                yield present[name].sink_broker
        for name in channel.readers:
            if name in present and present[name].source_topic == self.jobs[name].source_topic:
                yield present[name].source_broker

    # --- jobs that belong together or apart

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The jobs that share a site, transitively: groups of two or more."""
        named = ((name, job.with_job) for name, job in self.jobs.items() if job.with_job)
        pairs = [[name, other] for name, other in named if other in self.jobs]
        members = _members(_joined(sorted(self.jobs), pairs))
        return tuple(tuple(group) for group in members.values() if len(group) > 1)

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of jobs that share no site."""
        found = {
            (min(name, other), max(name, other))
            for name, job in self.jobs.items()
            for other in job.apart
            if other in self.jobs
        }
        return tuple(sorted(found))

    def _misplaced(self) -> set[str]:
        """The movable jobs that cannot stay where they are, since ``with`` or ``apart`` says otherwise now.

        Of jobs that share a site, those stay that are where most of them are.  Of two that are apart, the one
        that names the other leaves, if it may run elsewhere.
        """
        if not any(job.with_job or job.apart for job in self.jobs.values()):
            return set()
        group_of = {name: group for group in self.groups for name in group}
        leaving, place = set[str](), dict[str, str | None]()
        for name in self.jobs:
            if (group := group_of.get(name, (name,)))[0] == name:
                site = self._common_site(group)
                place |= dict.fromkeys(group, site)
                leaving |= {each for each in group if self.sites.get(each, site) != site}
        for one, other in self.pairs:
            if place[one] is None or place[one] != place[other]:
                continue
            ends = (one, other) if other in self.jobs[one].apart else (other, one)
            groups = [group_of.get(each, (each,)) for each in ends]
            group = next((each for each in groups if len(self._allowed(each)) > 1), ())
            place |= dict.fromkeys(group)
            leaving |= self.sites.keys() & set(group)
        return leaving

    def _allowed(self, group: Sequence[str]) -> list[str]:
        """The sites that are candidates of all jobs of a group."""
        first, *others = (self.candidates[name] for name in group)
        return [site for site in first if all(site in each for each in others)]

    def _common_site(self, group: Sequence[str]) -> str | None:
        """The site where a group of jobs may stay, the one with the most of them; ``None``: nowhere."""
        fixed = [next(iter(self.candidates[each]), None) for each in group if not self.jobs[each].movable]
        here = Counter(each for each in (*fixed, *map(self.sites.get, group)) if each is not None)
        allowed = [site for site in self._allowed(group) if site in here]
        return max(allowed, key=lambda site: here[site], default=None)

    # --- settling

    def settled(self, sites: Mapping[str, str], homes: Mapping[str, str]) -> Composition:
        """The composition with each movable job at its site, and each channel at its home.

        ``sites`` are site names by job, ``homes`` by channel.  Raises :class:`~speck.errors.InvalidInput` for
        a job or a channel that has no place there, or one that is no candidate.
        """
        faults = [*self._unfit_sites(sites), *self._unfit_homes(homes)]
        if faults:
            raise InvalidInput(faults, f"placement of {self.name!r}")
        jobs = {name: self._settled(job, sites, homes) for name, job in self.jobs.items()}
        return replace(self.composition, jobs=jobs)

    def _settled(self, job: Job, sites: Mapping[str, str], homes: Mapping[str, str]) -> Job:
        name, values = job.job_name, dict[str, str]()
        if not job.movable:
            return job
        values["site"], values["spe_address"] = sites[name], self.candidates[name][sites[name]]
        if job.source_broker == FREE and name in self.reads:
            values["source_broker"] = self.inventory.sites[homes[self.reads[name]]].broker_address
        if job.sink_broker == FREE:
            values["sink_broker"] = self.inventory.sites[homes[self.writes[name]]].broker_address
        return replace(job, **values)  # type: ignore[arg-type]  # all of these fields are text

    def _unfit_sites(self, sites: Mapping[str, str]) -> Iterable[Fault]:
        for name in (name for name, job in self.jobs.items() if job.movable):
            if sites.get(name) not in self.candidates[name]:
                named = f"site {sites[name]!r}" if name in sites else "no site"
                known = ", ".join(self.candidates[name]) or "none"
                yield Fault(f"is placed at {named} (expected one of {known})", job=name, field="sites")

    def _unfit_homes(self, homes: Mapping[str, str]) -> Iterable[Fault]:
        for name in self.channels:
            possible = self.brokers_of(name)
            if homes.get(name) not in possible:
                named = f"site {homes[name]!r}" if name in homes else "no site"
                known = ", ".join(possible) or "none"
                yield Fault(f"topic {name!r} has its home at {named} (expected one of {known})")


def _emptied(job: Job) -> Job:
    if not job.movable:
        return job
    return replace(job, site=None, **dict.fromkeys(job.placed, FREE))  # type: ignore[arg-type]  # all are text


Reasons = tuple[tuple[str, str], ...]  # refused sites, each with the reason


class _Places:
    """The sites and engines of an inventory, each looked at once for all jobs of a kind."""

    def __init__(self, inventory: Inventory, engines: Engines, avoid: frozenset[str]) -> None:
        self._sites, self._avoid = inventory.sites, avoid
        self._runs, self._misfit = cache(engines.runs), cache(engines.misfit)
        self._allowed = cache(self._find_allowed)
        self._homes = cache(self._find_homes)
        self._reached = cache(self._find_reached)
        self._sites_of = inventory.sites_by_engine()
        self._kinds = {name: self._kind_of(engines, each) for name, each in inventory.sites.items()}
        self._broker_of_kind = {self._kinds[name]: each for name, each in inventory.sites.items()}
        self.holding = frozenset(
            name for name, each in inventory.sites.items() if each.broker_address not in avoid
        )

    @staticmethod
    def _kind_of(engines: Engines, site: Site) -> str:
        kind = engines.broker_kind(site.broker_address)
        return site.broker_address.partition(":")[0] if kind is None else kind.name

    @property
    def differ_in_brokers(self) -> bool:
        """True if the sites have brokers of several kinds."""
        return len(self._broker_of_kind) > 1

    def site_of(self, job: Job) -> str | None:
        """The name of the site of a job's engine."""
        if not (sites := self._sites_of.get(job.spe_address)):
            return None
        site = choose_site(sites, job.site_hints)
        return site.name if site is not None else None

    def candidates(self, job: Job, at: str | None, present: Job | None) -> tuple[Mapping[str, str], Reasons]:
        """The engine addresses of a job by site, and the refused sites; ``present`` it is ``at`` a site."""
        if not job.movable:
            own = self.site_of(job)
            return ({own: job.spe_address} if own else {}), ()
        needs = self._needs(job)
        found, refused = self._allowed(job.sites, needs)
        if at is None or present is None or at not in found:
            return found, refused
        here = present.spe_address
        if here not in self._avoid and self._runs(job.engine, here) and self._misfit(needs, here) is None:
            found = {**found, at: here}  # among several engines of the site, the one that runs the job now
        if job.pin:
            others = tuple((name, f"the job is pinned to {at}") for name in found if name != at)
            return {at: found[at]}, (*refused, *others)
        return found, refused

    def holders(self, ends: Iterable[tuple[Job, Mapping[str, str]]], home: str | None) -> tuple[str, ...]:
        """The sites whose broker may hold a channel; ``ends`` are its jobs, each with its candidates.

        All these engines reach it.  It is of a kind that the ``sites`` of each job have, for which the file
        was checked, if there is one; the present ``home`` stays one in any case.
        """
        reached, checked = set(self._broker_of_kind), set(self._broker_of_kind)
        for job, candidates in ends:
            reached &= self._reached(job.engine, frozenset(candidates.values()))
            checked &= {self._kinds[each] for each in job.sites if each in self._kinds} or checked
        chosen = reached & checked or reached
        return tuple(
            name
            for name, kind in self._kinds.items()
            if name in self.holding and (kind in chosen or (name == home and kind in reached))
        )

    def _find_reached(self, engine: str, addresses: frozenset[str]) -> frozenset[str]:
        """The kinds of brokers that all of these engines reach."""
        return frozenset(
            kind
            for kind, site in self._broker_of_kind.items()
            if not any(
                self._misfit(Needs(engine, (("source_broker", site.broker_address),)), each)
                for each in addresses
            )
        )

    def _needs(self, job: Job) -> Needs:
        ends = {"source_broker": job.source_broker, "sink_broker": job.sink_broker}
        brokers = (
            (name, each)
            for name, given in ends.items()
            for each in ((given,) if given != FREE else self._homes(job.sites))
        )
        return Needs(job.engine, tuple(brokers), job.trigger, job.output_mode, job.on_error, job.retain)

    def _find_homes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        sites = [self._sites[each] for each in names if each in self._sites]
        return of_each_scheme(each.broker_address for each in sites or self._sites.values())

    def _find_allowed(self, names: tuple[str, ...], needs: Needs) -> tuple[Mapping[str, str], Reasons]:
        found, refused = dict[str, str](), list[tuple[str, str]]()
        for name in self._sites if names == (ANY,) else names:
            if name not in self._sites:
                refused.append((name, "is not a site of this inventory"))
                continue
            addresses = [each.spe_address for each in self._sites[name].engines]
            of_kind = [each for each in addresses if self._runs(needs.engine, each)]
            usable = [each for each in of_kind if each not in self._avoid]
            address = next((each for each in usable if self._misfit(needs, each) is None), None)
            if address is not None:
                found[name] = address
            elif of_kind and not usable:
                refused.append((name, "is to be abandoned (leave_behind)"))
            elif of_kind:
                refused.append((name, f"cannot run it: {self._misfit(needs, usable[0])}"))
            else:
                refused.append((name, f"has no engine of kind {needs.engine!r}"))
        return found, tuple(refused)


def _members(group_of: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, group in group_of.items():
        found[group].append(name)
    return dict(found)


def _joined(names: Iterable[str], together: Iterable[Iterable[str]]) -> dict[str, str]:
    """The first name of the group of each name; names that stand together are in one group (union-find)."""
    above = {name: name for name in names}

    def first(name: str) -> str:
        while above[name] != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    for one, *others in together:
        for other in others:
            low, high = sorted((first(one), first(other)))
            above[high] = low
    return {name: first(name) for name in above}
