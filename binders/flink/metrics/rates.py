"""Rates computed from counters, by the job's own clock.

Flink fetches metrics from its TaskManagers periodically (every 10 s by default), so the time at which a value
was counted is not known.  But each task also counts its busy, idle and back-pressured milliseconds along with
its records: their sum is the clock for the rates here.  Flink's own rates are moving averages that take a
minute to converge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

BUSY, IDLE, BACKPRESSURED = "accumulateBusyTimeMs", "accumulateIdleTimeMs", "accumulateBackPressuredTimeMs"
RECORDS_IN, RECORDS_OUT = "numRecordsIn", "numRecordsOut"
SENT, PENDING = "numRecordsSend", "pendingRecords"  # of sinks and of sources (FLIP-33)
# The counts of the connectors' sources and sinks that a job's metrics show as they are.
CONNECTORS = (
    *("duplicatesDropped", "collisions", "changedRepetitions", "badStamps"),
    *("lostMessages", "lostSession", "redeliveryGivenUp", "batchGivenUp", "retentionGivenUp", "lostSessions"),
    *("skipped", "parked", "skippedResults", "parkedResults"),
    *("bufferFull", "connected", "receivedQos0", "refused"),
    *("resent", "retained", "retainedDropped", "throttledMillis"),
)
STAMPS = "stamps"  # of the connector's sinks
COUNTERS = (RECORDS_IN, RECORDS_OUT, BUSY, IDLE, BACKPRESSURED)


@dataclass(frozen=True)
class VertexSample:
    """The counters of one vertex, summed over its subtasks; times in ms.  A ``source`` has no inputs.

    ``sent`` are the records emitted by its sinks, ``None`` if it has none.
    """

    source: bool
    subtasks: int
    emitted: float  # records: emitted by a source, or received by another vertex
    busy: float
    idle: float
    backpressured: float
    sent: float | None = None

    @property
    def clock(self) -> float:
        """The time that a subtask has run, s."""
        return (self.busy + self.idle + self.backpressured) / 1000 / max(1, self.subtasks)


@dataclass(frozen=True)
class Rates:
    """The rates of one job between two samples.

    ``input`` is rows/s emitted by the sources, ``output`` rows/s emitted by the sinks, ``None`` if no sink
    counts them; the shares (0 to 1) are those of the worst vertex.
    """

    input: float
    busy: float
    backpressured: float
    output: float | None = None

    @property
    def processing(self) -> float | None:
        """The rows/s that the job could process with its busiest task busy all the time; ``None`` at rest.

        A job at rest is busy for moments.  A rate of 0 for some of them would be wrong, and an agent would
        send the metrics of all its jobs whole whenever one comes or goes, instead of what has changed.
        """
        return self.input / self.busy if self.input > 0 and self.busy > 0 else None


Sample = Mapping[str, VertexSample]


def sample_of(
    sums: Mapping[str, float], emitted: str, sent: Sequence[str] = (), *, source: bool, subtasks: int
) -> VertexSample | None:
    """A vertex's counters, ``emitted`` the metric that counts its rows, ``sent`` those of its sinks.

    ``None`` while some of them are not known.
    """
    if any(name not in sums for name in (emitted, BUSY, IDLE, BACKPRESSURED, *sent)):
        return None
    emitted_by_sinks = sum(sums[name] for name in sent) if sent else None
    times = sums[BUSY], sums[IDLE], sums[BACKPRESSURED]
    return VertexSample(source, subtasks, sums[emitted], *times, emitted_by_sinks)


def emitted_metric(names: Iterable[str], *, source: bool) -> str:
    """The metric that counts a vertex's rows: of a source chained to others, the source's own."""
    if not source:
        return RECORDS_IN
    own = sorted(name for name in names if name.startswith("Source__") and name.endswith(f".{RECORDS_OUT}"))
    return own[0] if own else RECORDS_OUT


def named(names: Iterable[str], metric: str) -> tuple[str, ...]:
    """The metrics of this name among a vertex's, of any of its operators."""
    return tuple(sorted(name for name in names if name.endswith(f".{metric}")))


def is_newer(before: Sample, after: Sample) -> bool:
    """True if every vertex has newer counters."""
    return before.keys() == after.keys() and all(after[name].clock > before[name].clock for name in after)


def is_restart(before: Sample, after: Sample) -> bool:
    """True if the counters were reset: other vertices, or a clock or a count that decreased."""
    return before.keys() != after.keys() or any(_decreased(before[name], after[name]) for name in after)


def _decreased(before: VertexSample, after: VertexSample) -> bool:
    sent = before.sent is not None and after.sent is not None and after.sent < before.sent
    return after.clock < before.clock or after.emitted < before.emitted or sent


def rates(before: Sample, after: Sample) -> Rates:
    """The rates between two samples, the second of which is newer."""
    pairs = [(before[name], after[name]) for name in after]
    return Rates(
        input=sum((new.emitted - old.emitted) / (new.clock - old.clock) for old, new in pairs if new.source),
        busy=max((_share(old, new, new.busy - old.busy) for old, new in pairs), default=0.0),
        backpressured=max(
            (_share(old, new, new.backpressured - old.backpressured) for old, new in pairs), default=0.0
        ),
        output=_output(pairs),
    )


def _output(pairs: Iterable[tuple[VertexSample, VertexSample]]) -> float | None:
    sent = [
        (new.sent - old.sent) / (new.clock - old.clock)
        for old, new in pairs
        if new.sent is not None and old.sent is not None
    ]
    return sum(sent) if sent else None


def rows(sample: Sample) -> int:
    """The rows that the sources have emitted since the job started, or last restarted."""
    return round(sum(each.emitted for each in sample.values() if each.source))


def _share(old: VertexSample, new: VertexSample, milliseconds: float) -> float:
    # A task's own count of its milliseconds may decrease a little.
    return max(0.0, milliseconds / 1000 / max(1, new.subtasks) / (new.clock - old.clock))
