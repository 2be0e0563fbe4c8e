"""What Prometheus is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from speck.coordinator import Coordinator


class _Jobs(Collector):
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def describe(self) -> list[GaugeMetricFamily]:
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        jobs = self._coordinator.jobs()
        by_state = GaugeMetricFamily("speck_jobs", "Jobs by state as last observed", labels=["state"])
        for state, count in sorted(Counter(each["state"] for each in jobs).items()):
            by_state.add_metric([state], count)
        yield by_state
        compositions = self._coordinator.compositions()
        yield GaugeMetricFamily("speck_compositions", "Compositions", value=len(compositions))
        at_work = sum(each["operation"] is not None for each in compositions)
        yield GaugeMetricFamily("speck_operations_running", "Operations at work", value=at_work)


def exposition(coordinator: Coordinator) -> bytes:
    """The metrics in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Jobs(coordinator))
    return generate_latest(registry)
