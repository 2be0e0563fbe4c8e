"""The metrics of workers, read at each scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric


def worker_metrics(groups: Sequence[Mapping[str, Any]]) -> Iterator[Metric]:
    """The numbers of workers of each engine whose workers come and go."""
    workers = GaugeMetricFamily(
        "speck_workers",
        "Workers that are registered at an engine, by state: busy or free",
        labels=("site", "engine", "state"),
    )
    desired = GaugeMetricFamily(
        "speck_workers_desired", "Desired number of workers of an engine", labels=("site", "engine")
    )
    failed = GaugeMetricFamily(
        "speck_workers_failed",
        "Whether the last call of the hook of an engine's workers failed (1) or not (0)",
        labels=("site", "engine"),
    )
    for each in groups:
        place = (each["site"], each["engine"])
        free = sum(worker["free"] for worker in each["workers"])
        for state, number in (("busy", len(each["workers"]) - free), ("free", free)):
            workers.add_metric((*place, state), number)
        if each["desired"] is not None:
            desired.add_metric(place, each["desired"])
        failed.add_metric(place, float(each["state"] == "failed"))
    yield from (workers, desired, failed)
