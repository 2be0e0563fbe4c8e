"""The counts of a job, from which its cost is derived, out of one reading of its metrics.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from binders.flink.metrics.rates import (
    BACKPRESSURED,
    BUSY,
    IDLE,
    RECORDS_OUT,
    VertexSample,
    named,
)
from binders.flink.rest.validation import Aggregate
from speck.core import profile

RECEIVED_BYTES = "receivedBytes"  # of the connector's sources
SENT_BYTES = "numBytesSend"  # of sinks (FLIP-33)
ACK_LEAST, ACK_MEDIAN, WINDOW_FULL = "ackMillisMin", "ackMillis", "windowFull"  # of the connector's sinks
EVENT_LOOP = "eventLoop"  # of the connector's sources and sinks: cores per root of the messages/s, or -1
BROKER = "broker"  # of the connector's sinks, a text
JITTER = 1.0  # s, by which a vertex's own count of its time may fall
PROFILED = (RECEIVED_BYTES, SENT_BYTES, ACK_LEAST, ACK_MEDIAN, WINDOW_FULL, EVENT_LOOP)

Values = Mapping[str, Aggregate]


@dataclass(frozen=True)
class VertexReading:
    """The metrics of one vertex: of its tasks, and of its operators, as ``Sink__Writer.numRecordsSend``."""

    name: str
    sample: VertexSample
    values: Values

    @property
    def clock(self) -> float:
        """The time that a subtask has run, s."""
        total = sum(self.values[name].sum for name in (BUSY, IDLE, BACKPRESSURED))
        return total / 1000 / max(1, self.sample.subtasks)


def profiled(names: Iterable[str]) -> tuple[str, ...]:
    """The metrics of a vertex, of any of its operators, that a profile has beside those of its rates."""
    return tuple(sorted(name for name in names if name.rpartition(".")[2] in PROFILED and "." in name))


def clock(vertices: Iterable[VertexReading]) -> float:
    """The time that the job's sources have run, s."""
    return min((each.clock for each in vertices if each.sample.source), default=0.0)


def never_falling(reading: VertexReading, before: VertexReading | None) -> VertexReading:
    """The reading with times that are not below those of a former one: a task's own count may fall a little.

    A vertex that runs anew counts from 0: its time falls by more, or its rows do.
    """
    if before is None or _runs_anew(reading.sample, before.sample):
        return reading
    times = {name: reading.values[name] for name in (BUSY, IDLE, BACKPRESSURED)}
    grown = {
        name: replace(value, sum=max(value.sum, before.values[name].sum)) for name, value in times.items()
    }
    return replace(reading, values={**reading.values, **grown})


def _runs_anew(sample: VertexSample, before: VertexSample) -> bool:
    return sample.clock < before.clock - JITTER or sample.emitted < before.emitted


def job_sample(
    job: str,
    observed: float,
    vertices: Sequence[VertexReading],
    before: Mapping[str, VertexReading],
    brokers: Mapping[str, str],
    state_bytes: int | None,
) -> profile.JobSample:
    """The counts at ``observed``; ``before`` are those of a former reading, by the names of vertices.

    ``brokers`` are the addresses to which the operators of the sinks write, by the names of operators.
    """
    sent = [each.sample.sent for each in vertices if each.sample.sent is not None]
    return profile.JobSample(
        engine_id=job,
        observed=observed,
        messages_in=round(sum(each.sample.emitted for each in vertices if each.sample.source)),
        messages_out=round(sum(sent)) if sent else None,
        bytes_in=_sum(vertices, RECEIVED_BYTES),
        bytes_out=_sum(vertices, SENT_BYTES),
        vertices=tuple(_vertex(each, before.get(each.name)) for each in vertices),
        state_bytes=state_bytes,
        acks=tuple(ack for each in vertices for ack in _acks(each.values, brokers)),
        event_loop=_event_loop(vertices),
    )


def _vertex(reading: VertexReading, before: VertexReading | None) -> profile.VertexSample:
    sample, values = reading.sample, reading.values
    passed_on = values[RECORDS_OUT].sum if RECORDS_OUT in values else 0.0
    return profile.VertexSample(
        name=reading.name,
        subtasks=sample.subtasks,
        records_in=round(sample.emitted),
        records_out=round(passed_on if sample.sent is None else sample.sent),
        busy=values[BUSY].sum / 1000,
        idle=values[IDLE].sum / 1000,
        back_pressured=values[BACKPRESSURED].sum / 1000,
        busiest=_busiest(reading, before),
    )


def _busiest(reading: VertexReading, before: VertexReading | None) -> float:
    """The share of time in which the busiest subtask was busy, since a former reading."""
    now, time = reading.values[BUSY].max / 1000, reading.clock
    if before is not None and 0 < before.clock < time:
        now, time = now - before.values[BUSY].max / 1000, time - before.clock
    return min(1.0, max(0.0, now / time)) if time > 0 else 0.0


def _sum(vertices: Iterable[VertexReading], metric: str) -> int | None:
    found = [each.values[name].sum for each in vertices for name in named(each.values, metric)]
    return round(sum(found)) if found else None


def _event_loop(vertices: Iterable[VertexReading]) -> float | None:
    """The largest of the processes that the job runs in."""
    found = [each.values[name].max for each in vertices for name in named(each.values, EVENT_LOOP)]
    largest = max(found, default=0.0)
    return largest if largest > 0 else None


def _acks(values: Values, brokers: Mapping[str, str]) -> list[profile.AckSample]:
    """The acknowledgements by sink.  Subtasks without any report -1: they wrote nothing within a minute."""
    found = []
    for name in named(values, ACK_MEDIAN):
        sink = name.rpartition(".")[0]
        least, median = values.get(f"{sink}.{ACK_LEAST}"), values[name]
        full = values.get(f"{sink}.{WINDOW_FULL}")
        if sink not in brokers or least is None or full is None:
            continue
        sample = profile.AckSample(
            broker=brokers[sink],
            least=_seconds(least.min if least.min >= 0 else least.max),
            median=_seconds(median.max),
            window_full=min(1.0, max(0.0, full.max)),
        )
        found.append(sample)
    return found


def _seconds(milliseconds: float) -> float | None:
    return milliseconds / 1000 if milliseconds >= 0 else None
