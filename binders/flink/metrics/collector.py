"""A job's metrics, computed from successive samples of its counters and from its checkpoints."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from binders.flink.metrics.rates import (
    CONNECTORS,
    COUNTERS,
    PENDING,
    SENT,
    STAMPS,
    Rates,
    Sample,
    emitted_metric,
    is_newer,
    is_restart,
    named,
    rates,
    rows,
    sample_of,
)
from binders.flink.rest.client import FlinkRefused, FlinkRest
from speck.core.job import Scalar
from speck.core.runtime import JobMetrics

MIN_INTERVAL = 0.5  # s of the job's own time between two samples


@dataclass(frozen=True)
class _Vertex:
    id: str
    source: bool
    subtasks: int
    emitted: str
    sent: tuple[str, ...]  # by its sinks
    pending: tuple[str, ...]  # in its sources
    connectors: Mapping[str, tuple[str, ...]]  # the metrics of its sources and sinks, by their own name
    stamps: tuple[str, ...]  # of its sinks


@dataclass
class _Series:
    vertices: tuple[_Vertex, ...] = ()
    stamps: str = ""  # of its sinks, once a sink has reported it
    base: Sample = field(default_factory=dict)
    restored: int = 0  # how often the job had been restored from a checkpoint by then
    last: Rates | None = None


class MetricsCollector:
    """Retains the last sample of each job.  The first sample of a job gives no rates, the next ones do."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._series: dict[str, _Series] = {}

    def metrics(self, rest: FlinkRest, job: str) -> JobMetrics | None:
        """Sample a job's counters and checkpoints; ``None`` if the cluster does not know the job.

        ``batch_id`` is the number of the last completed checkpoint (with which messages are acknowledged) and
        ``batch_duration_ms`` its duration.  ``processing_rate`` is the rate at which the job's busiest task
        would be busy all the time, ``output_rate`` counts the records emitted by the job's sinks, and
        ``waiting`` is the number of records pending in its sources.  In ``details``, ``busy`` and
        ``backpressured`` are shares (0 to 1) of the time of the busiest and of the most back-pressured task;
        ``state_bytes`` and ``checkpoint_bytes`` are of the last checkpoint (the whole state, and the part
        that was written); ``failed_checkpoints`` is a count; ``stamps`` is ``derived`` or ``counted``.  The
        connectors' own counts (:data:`~binders.flink.metrics.rates.CONNECTORS`) are there by their names.
        """
        statistics = rest.checkpoints(job)
        if statistics is None:
            self.forget(job)
            return None
        with self._guard:
            series = self._series.setdefault(job, _Series())
        sample, waiting, counted = self._sample(rest, job, series)
        restored = (statistics.get("counts") or {}).get("restored") or 0
        current = self._rates(series, sample, restored)
        latest = (statistics.get("latest") or {}).get("completed") or {}
        return JobMetrics(
            time.time(),
            input_rate=current.input if current else None,
            output_rate=current.output if current else None,
            processing_rate=current.processing if current else None,
            batch_duration_ms=latest.get("end_to_end_duration"),
            input_rows=rows(sample) if sample else None,
            waiting=waiting,
            batch_id=latest.get("id"),
            details={
                **_details(statistics, latest, current),
                **counted,
                **self._stamps(rest, job, series),
            },
        )

    def forget(self, job: str) -> None:
        """Drop the samples of a job."""
        with self._guard:
            self._series.pop(job, None)

    def _sample(
        self, rest: FlinkRest, job: str, series: _Series
    ) -> tuple[Sample, int | None, Mapping[str, int]]:
        """The counters of all vertices, the sources' pending records, and the connectors' own counts.

        All are empty while some vertices' counters are not known.
        """
        if not series.vertices:
            series.vertices = _vertices(rest, job)
        found, waiting, counted = {}, [], Counter[str]()
        for each in series.vertices:
            own = [name for names in each.connectors.values() for name in names]
            names = ",".join({*COUNTERS, each.emitted, *each.sent, *each.pending, *own})
            try:
                sums = rest.vertex_sums(job, each.id, names)
            except FlinkRefused:
                sums = {}  # the job ended in between
            sample = sample_of(sums, each.emitted, each.sent, source=each.source, subtasks=each.subtasks)
            if sample is None:
                return {}, None, {}
            found[each.id] = sample
            waiting += [sums[name] for name in each.pending if name in sums]
            for metric, ids in each.connectors.items():
                if known := [sums[name] for name in ids if name in sums]:
                    counted[metric] += round(sum(known))
        return found, round(sum(waiting)) if waiting else None, counted

    def _stamps(self, rest: FlinkRest, job: str, series: _Series) -> dict[str, Scalar]:
        """The kind of the sinks' stamps, which stays the same while the job runs."""
        for each in series.vertices if not series.stamps else ():
            if each.stamps:
                series.stamps = rest.first_value(job, each.id, each.stamps[0])
        return {"stamps": series.stamps} if series.stamps else {}

    def _rates(self, series: _Series, sample: Sample, restored: int) -> Rates | None:
        with self._guard:
            if not sample:
                return series.last
            # Between two distant samples, a restarted job may have exceeded its former counters.
            if not series.base or restored != series.restored or is_restart(series.base, sample):
                series.base, series.restored, series.last = sample, restored, None
            elif is_newer(series.base, sample) and _interval(series.base, sample) >= MIN_INTERVAL:
                series.base, series.last = sample, rates(series.base, sample)
            return series.last


def _interval(before: Sample, after: Sample) -> float:
    return min(after[name].clock - before[name].clock for name in after)


def _vertices(rest: FlinkRest, job: str) -> tuple[_Vertex, ...]:
    details = rest.job_details(job) or {}
    sources = {node["id"] for node in (details.get("plan") or {}).get("nodes", []) if not node.get("inputs")}
    found = []
    for vertex in details.get("vertices", []):
        source = vertex["id"] in sources
        names = rest.vertex_metrics(job, vertex["id"])
        if not names:
            return ()  # too early
        found.append(
            _Vertex(
                vertex["id"],
                source,
                int(vertex["parallelism"]),
                emitted_metric(names, source=source),
                named(names, SENT),
                named(names, PENDING),
                {metric: ids for metric in CONNECTORS if (ids := named(names, metric))},
                named(names, STAMPS),
            )
        )
    return tuple(found)


def _details(
    statistics: Mapping[str, Any], latest: Mapping[str, Any], rates: Rates | None
) -> dict[str, Scalar]:
    found: dict[str, Scalar | None] = {
        "busy": rates.busy if rates else None,
        "backpressured": rates.backpressured if rates else None,
        "state_bytes": latest.get("state_size"),
        "checkpoint_bytes": latest.get("checkpointed_size"),
        "failed_checkpoints": (statistics.get("counts") or {}).get("failed"),
    }
    return {name: value for name, value in found.items() if value is not None}
