"""The metrics of splits by keys for Prometheus, from the reports of their parts."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from speck.core.split import Role
from speck.observe.split_watch import SplitWatch

_GAUGES = {
    "imbalance": (
        "speck_split_imbalance",
        "Most rows of a combiner, by weight, over the mean, minus 1, in the slides of the last window",
    ),
    "shared_keys": ("speck_split_shared_keys", "Keys of the newest slide whose windows the reducer merges"),
}
_COUNTERS = {
    "late": ("speck_split_late_rows", "Rows that came after their windows, and were dropped"),
    "lost_frames": ("speck_split_lost_frames", "Frames that were lost between the parts of the split"),
}


def split_metrics(watch: SplitWatch) -> Iterator[Metric]:
    """The last windows, and what was reported since the coordinator began to watch."""
    rows = CounterMetricFamily(
        "speck_split_rows", "Rows that a combiner has added", labels=("split", "worker")
    )
    busy = CounterMetricFamily(
        "speck_split_busy_seconds",
        "Processor time of the steps of a combiner",
        labels=("split", "worker"),
    )
    counters = {
        fault: CounterMetricFamily(name, text, labels=("split",)) for fault, (name, text) in _COUNTERS.items()
    }
    for split, (work, faults) in sorted(watch.totals().items()):
        # Combiners by number, or the one job; not those that give rows to them or merge theirs.
        for worker in sorted(
            work.keys() - {Role.PARTITIONER, Role.REDUCER}, key=lambda name: (len(name), name)
        ):
            rows.add_metric((split, worker), work[worker].rows)
            busy.add_metric((split, worker), work[worker].busy)
        for fault, family in counters.items():
            family.add_metric((split,), faults.get(fault, 0))
    yield from (rows, busy, *counters.values())
    meters = sorted(watch.meters().items())
    for field, (name, text) in _GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=("split",))
        for split, metrics in meters:
            if metrics[field] is not None:
                gauge.add_metric((split,), metrics[field])
        yield gauge
