"""The metrics for Prometheus: those counted by the coordinator, and those collected at each scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

import speck
from speck.apply.operation import Operation
from speck.coordinator import Queries, Services
from speck.observe.losses import LossCount
from speck.observe.measures import Measures
from speck.observe.metrics import OPERATIONS
from speck.server.api.agents.metrics import agent_metrics
from speck.server.api.placement.metrics import placement_metrics
from speck.server.api.split.metrics import split_metrics
from speck.server.api.workers.metrics import worker_metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_JOBS = 2000  # of which each has series of its own
FRESH = 60.0  # s; older readings of a job are left out

_RATES = {
    "input_rate": ("speck_job_input_messages_per_second", "Messages that the job takes in, each second"),
    "output_rate": ("speck_job_output_messages_per_second", "Messages that the job sends, each second"),
    "waiting": (
        "speck_job_waiting_messages",
        "Messages that the job's reader holds and the job has not worked on yet",
    ),
    "work_seconds": ("speck_job_work_seconds", "How long the job's last batch or checkpoint took"),
}

_BEHIND = {
    "behind": (
        "speck_job_behind_messages",
        "Messages that the broker has for the job, even while it is down, where the broker counts them",
    ),
    "behind_seconds": (
        "speck_job_behind_seconds",
        "Age of the oldest message that the broker has for the job, where the broker counts them",
    ),
}


_PLACE = ("site", "address")  # the labels of engines and brokers


def exposition(services: Services) -> bytes:
    """The metrics in Prometheus's text format."""
    at_scrape = CollectorRegistry()
    at_scrape.register(_ScrapeCollector(services))
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
        at_scrape.register(collector)
    return generate_latest(services.metrics.registry) + generate_latest(at_scrape)


class _ScrapeCollector(Collector):
    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        coordinator, queries = self._services.coordinator, self._services.queries
        site_at = cache(self._services.sites.site_at)
        yield InfoMetricFamily("speck_build", "The version that runs", {"version": speck.__version__})
        snapshots = queries.deployments.snapshots()
        jobs = queries.jobs(snapshots)
        used = {each["job"][field] for each in jobs for field in ("spe_address", "source_broker")}
        sites, families = _jobs(jobs, site_at)
        yield from families
        rates = queries.rates(snapshots)["jobs"]
        yield from _rates(rates, sites, queries.clock() - FRESH)
        yield from _behind(rates, sites)
        yield _costs(self._services.profiles.measures.costs(), jobs, sites)
        yield from _measuring(self._services.profiles.measures)
        yield GaugeMetricFamily("speck_compositions", "Compositions", value=len(snapshots))
        yield _losses(queries.losses.counts())
        yield _running(queries.operations.running())
        seen = self._services.metrics.seen()
        yield _seen({address: seen[address] for address in used & seen.keys()}, site_at)
        yield _stored(queries.sampler.stored(), site_at)
        yield _dropped(queries.losses.dropped(), site_at)
        yield from _store(queries)
        yield from split_metrics(queries.splits)
        yield from placement_metrics(self._services.adaptation)
        yield from agent_metrics(self._services.agents)
        yield from worker_metrics(self._services.sites.workers())
        primary = self._services.primary
        yield from _standby(None if primary is None else primary.status())
        ready = not (coordinator.unready_reasons() or coordinator.faults())
        yield GaugeMetricFamily(
            "speck_ready", "Whether the server is ready, as by /readyz (1), or not (0)", value=ready
        )


def _standby(found: Mapping[str, Any] | None) -> Iterator[Metric]:
    """The state of a server's standby; without values for a server that has none."""
    text = "Whether the standby has everything and would take over (1) or not (0)"
    epoch = None if found is None else found["epoch"]
    yield GaugeMetricFamily("speck_epoch", "The epoch of a server with a standby", value=epoch)
    in_sync = None if found is None else found["in_sync"]
    yield GaugeMetricFamily("speck_standby_in_sync", text, value=in_sync)


def _jobs(
    jobs: Sequence[Mapping[str, Any]], site_at: Callable[[str], str]
) -> tuple[Mapping[str, str], list[Metric]]:
    """The site of each job by its name, and the metrics of all jobs together."""
    sites = {each["job_name"]: site_at(each["job"]["spe_address"]) for each in jobs}
    states = Counter(_values(sites[each["job_name"]], each["wanted"], each["state"]) for each in jobs)
    drifted = Counter(_values(each["drift"]) for each in jobs if each["drift"] is not None)
    text = "Jobs by their desired and their observed state"
    return sites, [
        _counts("speck_jobs", text, ("site", "wanted", "state"), states),
        _counts(
            "speck_jobs_drifted", "Jobs that differ from their desired state, by drift", ("drift",), drifted
        ),
    ]


def _rates(jobs: Iterable[Mapping[str, Any]], sites: Mapping[str, str], oldest: float) -> Iterator[Metric]:
    fresh = [each for each in jobs if each["observed"] is not None and each["observed"] >= oldest][:MOST_JOBS]
    for field, (name, text) in _RATES.items():
        yield _by_job(name, text, ((each, each[field]) for each in fresh if each[field] is not None), sites)


def _behind(jobs: Sequence[Mapping[str, Any]], sites: Mapping[str, str]) -> Iterator[Metric]:
    for field, (name, text) in _BEHIND.items():
        counted = [(each, each[field]) for each in jobs if each[field] is not None]
        yield _by_job(name, text, counted[:MOST_JOBS], sites)


def _costs(costs: Mapping[str, float], jobs: Iterable[Mapping[str, Any]], sites: Mapping[str, str]) -> Metric:
    measured = [(each, costs[each["job_name"]]) for each in jobs if each["job_name"] in costs]
    text = "Processor time of a reference core for each message, of jobs that are measured now"
    return _by_job("speck_job_cost_seconds", text, measured[:MOST_JOBS], sites)


def _measuring(measures: Measures) -> Iterator[Metric]:
    attended = measures.is_attended()
    yield GaugeMetricFamily(
        "speck_measuring_interval_seconds",
        "Time between two samples of the load of a job, while jobs are measured",
        value=measures.pace.interval,
    )
    yield GaugeMetricFamily(
        "speck_measuring_cores",
        "Processor time of measuring the load of jobs, as a share of a core (0: nothing is measured)",
        value=measures.pace.used if attended else 0.0,
    )


def _losses(counts: Iterable[LossCount]) -> Metric:
    family = CounterMetricFamily(
        "speck_job_losses",
        "Messages known to be lost, discarded, set aside, or dropped as duplicates, by kind and reason",
        labels=("composition", "job", "kind", "reason"),
    )
    for each in counts:
        family.add_metric(_values(each.composition, each.job, each.reason.kind, each.reason.name), each.total)
    return family


def _running(operations: Iterable[Operation]) -> Metric:
    running = Counter(dict.fromkeys(map(_values, OPERATIONS), 0))
    running.update(_values(each.kind) for each in operations)
    return _counts("speck_operations_running", "Operations in progress, by kind", ("kind",), running)


def _seen(seen: Mapping[str, float], site_at: Callable[[str], str]) -> Metric:
    text = "Time of the last successful call to an engine or a broker of a job, in Unix time"
    family = GaugeMetricFamily("speck_seen_timestamp_seconds", text, labels=_PLACE)
    return _with_places(family, seen, site_at)


def _stored(stored: Mapping[str, int], site_at: Callable[[str], str]) -> Metric:
    text = "Messages that the broker keeps: in sessions, and retained"
    family = GaugeMetricFamily("speck_broker_stored_messages", text, labels=_PLACE)
    return _with_places(family, stored, site_at)


def _dropped(dropped: Mapping[str, int], site_at: Callable[[str], str]) -> Metric:
    text = "Messages that the broker reports as dropped because a session was full"
    family = CounterMetricFamily("speck_broker_dropped_messages", text, labels=_PLACE)
    return _with_places(family, dropped, site_at)


def _store(queries: Queries) -> Iterator[Metric]:
    size = GaugeMetricFamily("speck_store_size_bytes", "Size of the store's files", labels=("part",))
    for part, value in queries.store_size().items():
        size.add_metric((part,), value)
    yield size
    writable = queries.deployments.store.failure is None
    yield GaugeMetricFamily(
        "speck_store_writable", "Whether the last change reached the disk (1) or not (0)", value=writable
    )


def _by_job(
    name: str, text: str, values: Iterable[tuple[Mapping[str, Any], float]], sites: Mapping[str, str]
) -> Metric:
    """A family with the values of jobs, whose ``sites`` are by job name."""
    family = GaugeMetricFamily(name, text, labels=("composition", "job", "site"))
    for job, value in values:
        family.add_metric((job["composition"], job["job_name"], sites.get(job["job_name"], "")), value)
    return family


def _with_places(
    family: GaugeMetricFamily | CounterMetricFamily,
    values: Mapping[str, float],
    site_at: Callable[[str], str],
) -> Metric:
    """A family with the values of engines and brokers, by address."""
    for address, value in sorted(values.items()):
        family.add_metric((site_at(address), address), value)
    return family


def _values(*values: str) -> tuple[str, ...]:
    """The values of a series' labels."""
    return values


def _counts(
    name: str, text: str, labels: tuple[str, ...], counts: Mapping[tuple[str, ...], int]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family
