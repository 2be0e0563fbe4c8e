"""The block ``placement``, and the faults and warnings of movable jobs and free topics in a composition."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from speck.core.draft import FREE, Draft
from speck.core.graph import Endpoint, Graph, sinks_of
from speck.core.inventory import Site
from speck.core.job import Job
from speck.core.placement import PlacementOptions
from speck.core.suggestions import did_you_mean
from speck.core.topic import is_filter
from speck.errors import Fault
from speck.placement.policies import listed_policies, policy_names
from speck.schema.fault_report import FaultReport, Faults, Suggestions, listed
from speck.schema.schemas import PlacementSchema
from speck.schema.split import part_jobs
from speck.schema.validation import report_unknown_fields, validate_fields

Sources = Mapping[str, Mapping[str, Any]]  # the data of the jobs, by name
Unit = tuple[str, ...]  # jobs that share a site

# Sites for jobs that are apart are colours of a graph: the search for them is bounded.
_SEARCH_STEPS = 10_000
_MOST_APART = 200


def placement_options(data: Mapping[str, Any], report: FaultReport) -> PlacementOptions | None:
    """The block ``placement`` of a composition; ``None`` if it has none.  Adds its faults to ``report``."""
    block = data.get("placement")
    if block is None:
        return None
    if not isinstance(block, Mapping):
        report.add("placement", "is not a mapping (expected 'placement: {mode: advise}', for example)")
        return None
    inner = FaultReport(report.faults, block, subject=f"{report.subject}placement: ")
    report_unknown_fields(block, PlacementSchema(), inner)
    known = {name: value for name, value in block.items() if name in PlacementSchema().load_fields}
    values = validate_fields(PlacementSchema(), known, inner)
    weights = values.pop("weights", {})
    options = PlacementOptions(**values, **weights)
    if not (options.latency or options.wan or options.cores):
        inner.add("weights", "are all 0 (expected one of latency, wan and cores above 0)")
    _check_policy(options.policy, inner)
    return options


def _check_policy(name: str, report: FaultReport) -> None:
    known = policy_names()
    if name not in known:
        right = did_you_mean(name, known, f"expected one of: {listed_policies()}")
        report.add("policy", f"is not a placement policy ({right})")


def report_unknown_jobs(
    entries: Sequence[Any],
    faults: Faults,
    parts: Mapping[str, Sequence[str]],
    unmade: Collection[str] = (),
    *,
    complete: bool = True,
) -> None:
    """Add a fault for each name in ``with`` and ``apart`` that is no other job's.

    ``parts`` are the names of the jobs of queries with a cut, by that of the query; those of the queries that
    are ``unmade``, since they have a fault, are not known.  If the entries are not ``complete``, or one has
    no name, an unknown name may be that of the job which is missing.
    """
    listed = [each for each in entries if isinstance(each, Mapping) and isinstance(each.get("job_name"), str)]
    complete = complete and len(listed) == len(entries)
    names = dict.fromkeys(name for each in listed for name in parts.get(each["job_name"]) or part_jobs(each))
    suggestions = Suggestions(names)
    for entry in listed:
        for path, name in _named_jobs(entry):
            report = FaultReport(faults, entry, job=entry["job_name"])
            if name == entry["job_name"]:
                report.add(path, "is the job itself (expected another job)")
            elif name not in names and not any(name.startswith(f"{each}.") for each in unmade):
                near = suggestions.near(name)
                right = f"did you mean {near[0]!r}?" if near else "expected another job of this composition"
                if near or complete:
                    report.add(path, f"is not a job of this composition ({right})")


def _named_jobs(entry: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(entry.get("with"), str):
        yield ("with",), entry["with"]
    apart = entry.get("apart")
    if isinstance(apart, str):
        yield ("apart",), apart
    if isinstance(apart, list):
        yield from ((("apart", index), each) for index, each in enumerate(apart) if isinstance(each, str))


# --- faults of a draft


def placement_faults(draft: Draft, sources: Sources) -> list[Fault]:
    """The faults of movable jobs and free topics that show only in the composition as a whole."""
    if not any(job.movable or job.with_job or job.apart for job in draft.jobs.values()):
        return []
    faults: list[Fault] = []
    reports = {name: FaultReport(faults, data, job=name) for name, data in sources.items()}
    _report_mixed_topics(draft, reports)
    mixed = {fault.job for fault in faults}
    _report_unborn_topics(draft, reports, mixed)
    _report_groups(draft, reports)
    if not faults:
        _report_apart(draft, reports)
    return faults


def _report_mixed_topics(draft: Draft, reports: Mapping[str, FaultReport]) -> None:
    """Report the free topics that would be one with a topic at an address, were they placed there."""
    jobs = draft.jobs
    # All topics as if at one broker: those of one name, and those that a filter takes in, meet.
    merged = Graph.of(replace(job, source_broker=FREE, sink_broker=FREE) for job in jobs.values())
    flows = merged.with_parked
    written, read = defaultdict[str, list[_End]](list), defaultdict[str, list[_End]](list)
    for name in merged.jobs:
        job = jobs[name]
        read[job.source_topic].append(_End(name, "source_topic", job.source_broker))
        for sink in sinks_of(job):
            written[sink.topic].append(_End(name, "sink_topic", sink.broker))
        if job.park_topic is not None:
            written[job.park_topic].append(_End(name, "park_topic", job.source_broker))
    writers = {topic: _Ends.of(ends) for topic, ends in written.items()}
    readers = {topic: _Ends.of(ends) for topic, ends in read.items()}
    nobody = _Ends(None, ())
    met = [(writers[each.topic], readers[end.topic]) for end in flows.matched for each in flows.matched[end]]
    met += [(writers[each.topic], nobody) for each in merged.sinks]
    reported = set[_End]()
    for here, there in met:
        free, brokers = here.free or there.free, here.brokers or there.brokers
        if free is not None and brokers and free not in reported:
            reported.add(free)
            _report_mixed(draft, free, brokers, reports)


class _End(NamedTuple):
    """A job at a topic, by the field that names it."""

    job: str
    field: str
    broker: str


class _Ends(NamedTuple):
    """The jobs that write to a topic, or read from it: the first without a broker, the brokers of others."""

    free: _End | None
    brokers: tuple[str, ...]

    @classmethod
    def of(cls, ends: Sequence[_End]) -> _Ends:
        free = next((each for each in ends if each.broker == FREE), None)
        return cls(free, tuple(sorted({each.broker for each in ends} - {FREE})))


def _report_mixed(
    draft: Draft, free: _End, brokers: Sequence[str], reports: Mapping[str, FaultReport]
) -> None:
    shown = [draft.home_of(Endpoint(each, "")) or each for each in brokers]
    if free.field == "source_topic":
        predicate = f"is written at broker {listed(shown)} (expected source_broker: {shown[0]})"
    else:
        right = f"expected two names: placed at {shown[0]} they would be one"
        if free.field == "park_topic":
            right = f"expected two names, or source_broker: {shown[0]} for this job"
        predicate = f"is a channel here and also at broker {listed(shown)} ({right})"
    reports[free.job].add(free.field, predicate)


def _report_unborn_topics(
    draft: Draft, reports: Mapping[str, FaultReport], mixed: Collection[str | None]
) -> None:
    written = draft.graph.with_parked.writers
    names = Suggestions(dict.fromkeys(each.topic for each in written if each.broker == FREE))
    for name, job in draft.jobs.items():
        if job.source_broker != FREE or name in draft.reads or name in mixed:
            continue
        near = [] if is_filter(job.source_topic) else names.near(job.source_topic)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        right = f"expected source_broker: the broker where its data is born{hint}"
        reports[name].add("source_topic", f"is written by no job here ({right})")


# --- jobs together and apart


def _report_groups(draft: Draft, reports: Mapping[str, FaultReport]) -> None:
    for group in draft.groups:
        if not _common_sites(draft, group):
            asking = next(name for name in group if draft.jobs[name].with_job)
            named = _with_sites(draft, group)
            reports[asking].add("with", f"leaves no site for all of them ({named}; expected one in common)")
    group_of = {name: group for group in draft.groups for name in group}
    for one, other in draft.pairs:
        group = group_of.get(one, ())
        if other in group:
            asking = one if other in draft.jobs[one].apart else other
            right = f"expected one of both: {listed(group)} share a site"
            reports[asking].add("apart", f"contradicts 'with' ({right})")


def _with_sites(draft: Draft, names: Sequence[str]) -> str:
    """The first jobs, each with the sites that may run it."""
    shown = [f"{name}: {listed(list(draft.candidates[name])) or 'none'}" for name in names[:4]]
    return "; ".join(shown) + (f"; and {len(names) - 4} more" if len(names) > 4 else "")


def _common_sites(draft: Draft, group: Sequence[str]) -> tuple[str, ...]:
    first, *others = (draft.candidates[name] for name in group)
    return tuple(site for site in first if all(site in each for each in others))


def _report_apart(draft: Draft, reports: Mapping[str, FaultReport]) -> None:
    """Report the first jobs that are apart and have too few sites for it."""
    unit_of = {name: group for group in draft.groups for name in group}
    against: dict[Unit, set[Unit]] = defaultdict(set)
    for pair in draft.pairs:
        one, other = (unit_of.get(name, (name,)) for name in pair)
        against[one].add(other)
        against[other].add(one)
    sites = {unit: _common_sites(draft, unit) for unit in against}
    # A job at an engine outside of the inventory is at no site, and so at none with another.
    order = sorted((unit for unit in sites if sites[unit]), key=lambda unit: (len(sites[unit]), unit))
    budget = iter(range(_SEARCH_STEPS))
    for index in range(min(len(order), _MOST_APART)):
        if not _placeable(order[: index + 1], {}, sites, against, budget):
            units = [order[index], *(each for each in order[:index] if each in against[order[index]])]
            members = sorted(name for unit in units for name in unit)
            asking = next(name for name in members if draft.jobs[name].apart)
            named = _with_sites(draft, members)
            reports[asking].add("apart", f"leaves no site for one of them ({named}; expected more sites)")
            return


def _placeable(
    units: Sequence[Unit],
    taken: Mapping[Unit, str],
    sites: Mapping[Unit, Sequence[str]],
    against: Mapping[Unit, Collection[Unit]],
    budget: Iterator[int],
) -> bool:
    """True if these units fit beside those that are ``taken``, or the budget of tries is used up."""
    if not units:
        return True
    unit, *others = units
    for site in sites[unit]:
        if next(budget, None) is None:
            return True
        free = all(taken.get(each) != site for each in against[unit])
        if free and _placeable(others, {**taken, unit: site}, sites, against, budget):
            return True
    return False


# --- warnings


def placement_warnings(draft: Draft, sources: Sources) -> list[Fault]:
    """The warnings about movable jobs."""
    faults: list[Fault] = []
    loads: dict[str, dict[str, float]] = defaultdict(dict)  # of the jobs that can run at one site alone
    for name, job in draft.jobs.items():
        if job.movable and draft.options.mode == "auto" and not _shares_state(draft, job):
            message = "has engines without a common savepoint_dir, so the job is not moved automatically"
            right = "expected a savepoint_dir that both sites can access, or upgrade: stateless"
            written = "sites" if "sites" in sources[name] else "site"
            FaultReport(faults, sources[name], job=name).add(written, f"{message} ({right})")
        if (load := _declared_load(job)) and len(draft.candidates[name]) == 1:
            loads[next(iter(draft.candidates[name]))][name] = load
    for site, found in loads.items():
        _warn_of_overload(draft, draft.inventory.sites[site], found, sources, faults)
    return faults


def _declared_load(job: Job) -> float:
    """The number of reference cores that a job needs as it declares; 0: it does not."""
    if job.expects is None or job.expects.rate is None or job.expects.cost is None:
        return 0.0
    return job.expects.rate * job.expects.cost


def _warn_of_overload(
    draft: Draft, site: Site, loads: Mapping[str, float], sources: Sources, faults: list[Fault]
) -> None:
    power = (site.all_cores or 0.0) * (site.mean_speed or 1.0)
    share = math.fsum(loads.values()) / power if power else 0.0
    if share > draft.options.utilisation:
        names = sorted(loads, key=lambda name: (-loads[name], name))
        message = f"adds up to a load of {share:.2f} at site {site.name!r}, the only one for {listed(names)}"
        right = f"expected at most {draft.options.utilisation:g} of its cores"
        FaultReport(faults, sources[names[0]], job=names[0]).add("expects", f"{message} ({right})")


def _shares_state(draft: Draft, job: Job) -> bool:
    """True if a job can take its state along: two of its engines have one directory, or carry it."""
    addresses = draft.candidates[job.job_name].values()
    directories = [draft.inventory.engine(each).savepoint_dir for each in addresses]
    known = [each for each in directories if each is not None]
    stays = job.engine != "flink" or job.upgrade == "stateless" or len(addresses) < 2
    return stays or len(set(known)) < len(known)
