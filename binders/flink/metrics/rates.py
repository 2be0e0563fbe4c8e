"""Rates out of counters, by the job's own clock.

Flink fetches metrics from its TaskManagers only now and then (every 10 s by default), so when a value was
counted is not known.  But each task counts its milliseconds too, busy, idle and back-pressured, along with
its records: their sum is the clock by which the rates here are taken.  Flink's own rates are moving averages
that take a minute to settle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

BUSY, IDLE, PRESSED = "accumulateBusyTimeMs", "accumulateIdleTimeMs", "accumulateBackPressuredTimeMs"
RECORDS_IN, RECORDS_OUT = "numRecordsIn", "numRecordsOut"
SENT, PENDING = "numRecordsSend", "pendingRecords"  # of sinks and of sources (FLIP-33)
COUNTERS = (RECORDS_IN, RECORDS_OUT, BUSY, IDLE, PRESSED)


@dataclass(frozen=True)
class VertexSample:
    """The counters of one vertex, summed over its subtasks; times in ms.  Nothing flows into a ``source``.

    ``sent`` are the records that its sinks gave away, ``None`` where it has none.
    """

    source: bool
    subtasks: int
    emitted: float  # records: what its source let in, or what it took in
    busy: float
    idle: float
    pressed: float
    sent: float | None = None

    @property
    def clock(self) -> float:
        """How long a subtask has run, s."""
        return (self.busy + self.idle + self.pressed) / 1000 / max(1, self.subtasks)


@dataclass(frozen=True)
class Rates:
    """``input`` is rows/s that the sources let in; the shares (0 to 1) are those of the worst vertex.

    ``output`` is rows/s that the sinks gave away, ``None`` when there are none that count.
    """

    input: float
    busy: float
    pressed: float
    output: float | None = None

    @property
    def processing(self) -> float | None:
        """The rows/s that the job could take with its busiest task at work all the time."""
        return self.input / self.busy if self.busy > 0 else None


Sample = Mapping[str, VertexSample]


def sample_of(
    sums: Mapping[str, float], emitted: str, sent: Sequence[str] = (), *, source: bool, subtasks: int
) -> VertexSample | None:
    """A vertex's counters, ``emitted`` the metric that counts its rows, ``sent`` those of its sinks.

    ``None`` while some are not known.
    """
    if any(name not in sums for name in (emitted, BUSY, IDLE, PRESSED, *sent)):
        return None
    given = sum(sums[name] for name in sent) if sent else None
    return VertexSample(source, subtasks, sums[emitted], sums[BUSY], sums[IDLE], sums[PRESSED], given)


def emitted_metric(names: Iterable[str], *, source: bool) -> str:
    """Which of a vertex's metrics counts its rows: of a source chained to others, the source's own."""
    if not source:
        return RECORDS_IN
    own = sorted(name for name in names if name.startswith("Source__") and name.endswith(f".{RECORDS_OUT}"))
    return own[0] if own else RECORDS_OUT


def named(names: Iterable[str], metric: str) -> tuple[str, ...]:
    """The metrics of this name among a vertex's, whichever of its operators they are of."""
    return tuple(sorted(name for name in names if name.endswith(f".{metric}")))


def is_newer(before: Sample, after: Sample) -> bool:
    """Whether every vertex was counted anew."""
    return before.keys() == after.keys() and all(after[name].clock > before[name].clock for name in after)


def is_restart(before: Sample, after: Sample) -> bool:
    """Whether counting began anew: another number of tasks, or a clock or a count that went back."""
    return before.keys() != after.keys() or any(_fell(before[name], after[name]) for name in after)


def _fell(before: VertexSample, after: VertexSample) -> bool:
    sent = before.sent is not None and after.sent is not None and after.sent < before.sent
    return after.clock < before.clock or after.emitted < before.emitted or sent


def rates(before: Sample, after: Sample) -> Rates:
    """The rates between two samples, of which the second is newer."""
    pairs = [(before[name], after[name]) for name in after]
    return Rates(
        input=sum((new.emitted - old.emitted) / (new.clock - old.clock) for old, new in pairs if new.source),
        busy=max((_share(old, new, new.busy - old.busy) for old, new in pairs), default=0.0),
        pressed=max((_share(old, new, new.pressed - old.pressed) for old, new in pairs), default=0.0),
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
    """The rows that the sources have let in since the job started, or last restarted."""
    return round(sum(each.emitted for each in sample.values() if each.source))


def _share(old: VertexSample, new: VertexSample, milliseconds: float) -> float:
    # A task's own count of its milliseconds may step back a little.
    return max(0.0, milliseconds / 1000 / max(1, new.subtasks) / (new.clock - old.clock))
