"""A job's metrics, out of its counters (looked at again and again) and of its checkpoints."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from binders.flink.metrics.rates import (
    COUNTERS,
    PENDING,
    SENT,
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

APART = 0.5  # s of the job's own time between two samples, at least


@dataclass(frozen=True)
class _Vertex:
    id: str
    source: bool
    subtasks: int
    emitted: str
    sent: tuple[str, ...]  # by its sinks
    pending: tuple[str, ...]  # in its sources


@dataclass
class _Watch:
    vertices: tuple[_Vertex, ...] = ()
    base: Sample = field(default_factory=dict)
    restored: int = 0  # how often the job had come back from a checkpoint by then
    last: Rates | None = None


class Meter:
    """Keeps the last look at each job.  The first look at a job tells no rates, the next ones do."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._watches: dict[str, _Watch] = {}

    def metrics(self, rest: FlinkRest, job: str) -> JobMetrics | None:
        """Look at a job's counters and checkpoints; ``None`` when the cluster does not know the job.

        ``batch_id`` is the number of the last completed checkpoint (with which messages are acknowledged) and
        ``batch_duration_ms`` how long it took.  ``processing_rate`` is the rate at which the job's busiest
        task would be at work all the time, ``output_rate`` counts what the job's sinks gave away, and
        ``waiting`` is what its sources hold.  In ``details``, ``busy`` and ``backpressured`` are shares (0 to
        1) of the time of the busiest and of the most back-pressured task; ``state_bytes`` and
        ``checkpoint_bytes`` are of the last checkpoint (the whole state, and what was written of it);
        ``failed_checkpoints`` counts.
        """
        statistics = rest.checkpoints(job)
        if statistics is None:
            self.forget(job)
            return None
        with self._guard:
            watch = self._watches.setdefault(job, _Watch())
        seen, waiting = self._look(rest, job, watch)
        restored = (statistics.get("counts") or {}).get("restored") or 0
        told = self._rates(watch, seen, restored)
        latest = (statistics.get("latest") or {}).get("completed") or {}
        return JobMetrics(
            time.time(),
            input_rate=told.input if told else None,
            output_rate=told.output if told else None,
            processing_rate=told.processing if told else None,
            batch_duration_ms=latest.get("end_to_end_duration"),
            input_rows=rows(seen) if seen else None,
            waiting=waiting,
            batch_id=latest.get("id"),
            details=_details(statistics, latest, told),
        )

    def forget(self, job: str) -> None:
        """Drop what is kept of a job."""
        with self._guard:
            self._watches.pop(job, None)

    def _look(self, rest: FlinkRest, job: str, watch: _Watch) -> tuple[Sample, int | None]:
        """The counters of all vertices (empty while some are not known), and what waits in the sources."""
        if not watch.vertices:
            watch.vertices = _vertices(rest, job)
        found, waiting = {}, []
        for each in watch.vertices:
            names = ",".join({*COUNTERS, each.emitted, *each.sent, *each.pending})
            try:
                sums = rest.vertex_sums(job, each.id, names)
            except FlinkRefused:
                sums = {}  # the job ended in between
            sample = sample_of(sums, each.emitted, each.sent, source=each.source, subtasks=each.subtasks)
            if sample is None:
                return {}, None
            found[each.id] = sample
            waiting += [sums[name] for name in each.pending if name in sums]
        return found, round(sum(waiting)) if waiting else None

    def _rates(self, watch: _Watch, seen: Sample, restored: int) -> Rates | None:
        with self._guard:
            if not seen:
                return watch.last
            # Looked at seldom, a job that was restarted may have counted further by now than it had before.
            if not watch.base or restored != watch.restored or is_restart(watch.base, seen):
                watch.base, watch.restored, watch.last = seen, restored, None
            elif is_newer(watch.base, seen) and _apart(watch.base, seen) >= APART:
                watch.base, watch.last = seen, rates(watch.base, seen)
            return watch.last


def _apart(before: Sample, after: Sample) -> float:
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
            )
        )
    return tuple(found)


def _details(
    statistics: Mapping[str, Any], latest: Mapping[str, Any], told: Rates | None
) -> Mapping[str, Scalar]:
    found: dict[str, Scalar | None] = {
        "busy": told.busy if told else None,
        "backpressured": told.pressed if told else None,
        "state_bytes": latest.get("state_size"),
        "checkpoint_bytes": latest.get("checkpointed_size"),
        "failed_checkpoints": (statistics.get("counts") or {}).get("failed"),
    }
    return {name: value for name, value in found.items() if value is not None}
