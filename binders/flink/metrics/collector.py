"""A job's metrics and the counts of its work, from successive readings of its counters and checkpoints."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from binders.flink.metrics.profile import (
    BROKER,
    VertexReading,
    clock,
    job_sample,
    never_falling,
    profiled,
)
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
from binders.flink.rest.client import FlinkRest
from binders.flink.rest.requests import FlinkRefused
from speck.core.job import Scalar
from speck.core.profile import JobSample
from speck.core.runtime import JobMetrics

MIN_INTERVAL = 0.5  # s of the job's own time between two samples
RECENT = 5.0  # s, within which a reading for metrics serves for a profile too
CHECKPOINTS = 60.0  # s, for which the size of a job's state holds
FETCHED = 10.0  # s, Flink's default interval of fetching the counters of all tasks
# s, after which a source or sink that has not registered its metrics is one that has none: a writer registers
# them when it is created, which may be after the cluster reported the first metrics of its task.
REGISTERED = 60.0


@dataclass(frozen=True)
class _Vertex:
    id: str
    name: str
    source: bool
    last: bool  # nothing follows it: it has sinks
    subtasks: int
    emitted: str
    sent: tuple[str, ...]  # by its sinks
    pending: tuple[str, ...]  # in its sources
    connectors: Mapping[str, tuple[str, ...]]  # the metrics of its sources and sinks, by their own name
    stamps: tuple[str, ...]  # of its sinks
    profiled: tuple[str, ...]  # further metrics of a profile, of its sources and sinks
    brokers: tuple[str, ...]  # of its sinks, texts

    @property
    def complete(self) -> bool:
        """True once the metrics that are expected of SpecK's connectors are registered."""
        return bool(self.pending or not self.source) and bool(self.sent or not self.last)

    @cached_property
    def of_profile(self) -> str:
        """The names of all that a profile needs, with commas."""
        return ",".join(sorted({*COUNTERS, self.emitted, *self.sent, *self.profiled}))

    @cached_property
    def all(self) -> str:
        """The names of all that is read for metrics, those of a profile among them."""
        connectors = [name for names in self.connectors.values() for name in names]
        return ",".join(sorted({*self.of_profile.split(","), *self.pending, *connectors}))


@dataclass(frozen=True)
class _Reading:
    """The answers of the cluster at a time (Unix time, s); no vertices while some counters are not known."""

    at: float
    checkpoints: Mapping[str, Any]
    vertices: Mapping[str, VertexReading]  # by id
    waiting: int | None = None  # pending in the sources
    connectors: Mapping[str, int] = field(default_factory=dict)  # their own counts

    @property
    def sample(self) -> Sample:
        """The counters by which rates are computed."""
        return {key: each.sample for key, each in self.vertices.items()}

    @property
    def latest(self) -> Mapping[str, Any]:
        """The last completed checkpoint."""
        return (self.checkpoints.get("latest") or {}).get("completed") or {}

    @property
    def restored(self) -> int:
        """The number of times that the job was restored from a checkpoint."""
        return (self.checkpoints.get("counts") or {}).get("restored") or 0


@dataclass
class _Series:
    vertices: tuple[_Vertex, ...] = ()
    vertices_at: float | None = None  # monotonic time at which they were first known, s
    stamps: str = ""  # of its sinks, once a sink has reported it
    base: Sample = field(default_factory=dict)
    restored: int = 0  # how often the job had been restored from a checkpoint by then
    last: Rates | None = None
    checkpoints: Mapping[str, Any] | None = None
    checkpoints_at: float = 0.0  # monotonic time at which they were read, s
    reading: _Reading | None = None  # not profiled yet
    profiled: Mapping[str, VertexReading] = field(default_factory=dict)  # by id, as last reported
    began: float | None = None  # Unix time at which the clock of its sources was 0, s
    brokers: Mapping[str, str] = field(default_factory=dict)  # addresses by the names of the sinks' operators


class MetricsCollector:
    """Retains the last sample of each job.  The first sample of a job gives no rates, the next ones do."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # metrics and profiles of a job are read by different threads
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
        found = self._read(rest, job)
        if found is None:
            return None
        series, reading = found
        current = self._rates(series, reading.sample, reading.restored)
        with self._guard:
            series.reading = reading
        return JobMetrics(
            time.time(),
            input_rate=current.input if current else None,
            output_rate=current.output if current else None,
            processing_rate=current.processing if current else None,
            batch_duration_ms=reading.latest.get("end_to_end_duration"),
            input_rows=rows(reading.sample) if reading.vertices else None,
            waiting=reading.waiting,
            batch_id=reading.latest.get("id"),
            details={
                **_details(reading, current),
                **reading.connectors,
                **self._stamps(rest, job, series),
            },
        )

    def profile(self, rest: FlinkRest, job: str) -> JobSample | None:
        """The counts of a job's work; ``None`` if the cluster does not know the job.

        A reading that :meth:`metrics` made within :data:`RECENT` seconds is used once, so that the cluster is
        not asked twice.  ``observed`` is by the clock of the job's sources: Flink fetches the counters of all
        tasks every 10 s, and the difference of two samples is that of the times when they were counted.
        """
        found = self._recent(job) or self._read(rest, job, for_profile=True)
        if found is None:
            return None
        series, reading = found
        if not reading.vertices:
            return JobSample(engine_id=job, observed=reading.at)
        brokers = self._brokers(rest, job, series)
        with self._guard:
            series.reading = None
            before = series.profiled
            grown = [never_falling(each, before.get(key)) for key, each in reading.vertices.items()]
            series.profiled = dict(zip(reading.vertices, grown, strict=True))
            observed = _observed(series, reading.at, clock(grown), clock(before.values()))
        named_before = {each.name: each for each in before.values()}
        return job_sample(job, observed, grown, named_before, brokers, reading.latest.get("state_size"))

    def forget(self, job: str) -> None:
        """Drop the samples of a job."""
        with self._guard:
            self._series.pop(job, None)

    def _recent(self, job: str) -> tuple[_Series, _Reading] | None:
        with self._guard:
            series = self._series.get(job)
        if series is None or series.reading is None or abs(time.time() - series.reading.at) > RECENT:
            return None
        return series, series.reading

    def _read(self, rest: FlinkRest, job: str, for_profile: bool = False) -> tuple[_Series, _Reading] | None:
        """Read the metrics of a job; of a profile alone, its checkpoints may be :data:`CHECKPOINTS` old."""
        with self._guard:
            series = self._series.setdefault(job, _Series())
        checkpoints, holding = series.checkpoints, CHECKPOINTS if for_profile else 0.0
        if checkpoints is None or time.monotonic() - series.checkpoints_at >= holding:
            checkpoints, series.checkpoints_at = rest.checkpoints(job), time.monotonic()
            series.checkpoints = checkpoints
        if checkpoints is None:
            self.forget(job)
            return None
        self._learn_vertices(rest, job, series)
        found: dict[str, VertexReading] = {}
        waiting, counted, at = [], Counter[str](), time.time()
        for each in series.vertices:
            try:
                values = rest.vertex_values(job, each.id, each.of_profile if for_profile else each.all)
            except FlinkRefused:
                values = {}  # the job ended in between
            sums = {name: value.sum for name, value in values.items()}
            sample = sample_of(sums, each.emitted, each.sent, source=each.source, subtasks=each.subtasks)
            if sample is None:
                return series, _Reading(at, checkpoints, {})
            found[each.id] = VertexReading(each.name, sample, values)
            waiting += [sums[name] for name in each.pending if name in sums]
            for metric, ids in each.connectors.items():
                if known := [sums[name] for name in ids if name in sums]:
                    counted[metric] += round(sum(known))
        return series, _Reading(at, checkpoints, found, round(sum(waiting)) if waiting else None, counted)

    def _learn_vertices(self, rest: FlinkRest, job: str, series: _Series) -> None:
        """Read the names of a job's metrics, again for a while if some may not be registered yet."""
        now = time.monotonic()
        young = series.vertices_at is None or now - series.vertices_at < REGISTERED
        if series.vertices and (not young or all(vertex.complete for vertex in series.vertices)):
            return
        found = _vertices(rest, job)
        if found and found != series.vertices:
            series.vertices, series.base = found, {}  # other counters than those of the base
            series.vertices_at = now if series.vertices_at is None else series.vertices_at

    def _stamps(self, rest: FlinkRest, job: str, series: _Series) -> dict[str, Scalar]:
        """The kind of the sinks' stamps, which stays the same while the job runs."""
        for each in series.vertices if not series.stamps else ():
            if each.stamps:
                series.stamps = rest.first_value(job, each.id, each.stamps[0])
        return {"stamps": series.stamps} if series.stamps else {}

    def _brokers(self, rest: FlinkRest, job: str, series: _Series) -> Mapping[str, str]:
        """The addresses to which the sinks write, by the names of their operators; they do not change."""
        if not series.brokers:
            texts = {
                name.rpartition(".")[0]: rest.first_value(job, each.id, name)
                for each in series.vertices
                for name in each.brokers
            }
            series.brokers = {sink: address for sink, address in texts.items() if address}
        return series.brokers

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
    nodes = (details.get("plan") or {}).get("nodes", [])
    sources = {node["id"] for node in nodes if not node.get("inputs")}
    followed = {given["id"] for node in nodes for given in node.get("inputs") or ()}
    found = []
    for vertex in details.get("vertices", []):
        source = vertex["id"] in sources
        names = rest.vertex_metrics(job, vertex["id"])
        if not names:
            return ()  # too early
        found.append(
            _Vertex(
                vertex["id"],
                str(vertex.get("name", vertex["id"])),
                source,
                vertex["id"] not in followed,
                int(vertex["parallelism"]),
                emitted_metric(names, source=source),
                named(names, SENT),
                named(names, PENDING),
                {metric: ids for metric in CONNECTORS if (ids := named(names, metric))},
                named(names, STAMPS),
                profiled(names),
                named(names, BROKER),
            )
        )
    return tuple(found)


def _observed(series: _Series, at: float, ran: float, ran_before: float) -> float:
    """The time at which the counters were fetched that were read ``at`` a time (Unix time, s).

    The sources had run ``ran`` seconds then, and ``ran_before`` at the last time.
    """
    if series.began is None or ran < ran_before or ran + series.began < at - 3 * FETCHED:
        series.began = at - FETCHED - ran  # the age of the first counters is unknown
    elif ran + series.began > at:
        series.began = at - ran
    return ran + series.began


def _details(reading: _Reading, rates: Rates | None) -> dict[str, Scalar]:
    # To a hundredth: a job at rest is busy for moments, and an agent sends what has changed.
    found: dict[str, Scalar | None] = {
        "busy": round(rates.busy, 2) if rates else None,
        "backpressured": round(rates.backpressured, 2) if rates else None,
        "state_bytes": reading.latest.get("state_size"),
        "checkpoint_bytes": reading.latest.get("checkpointed_size"),
        "failed_checkpoints": (reading.checkpoints.get("counts") or {}).get("failed"),
    }
    return {name: value for name, value in found.items() if value is not None}
