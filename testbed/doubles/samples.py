"""Streams of job samples with known properties, and with all kinds of oddities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from speck.core.profile import AckSample, BatchSample, JobSample, VertexSample
from speck.observe.profile.screening import Series

PERIOD = 10.0  # s
BEGIN = 1_000_000.0  # Unix time, s
ODD: tuple[Any, ...] = (math.nan, math.inf, -1, -math.inf, 10**400, 1e300, None, "text", True, -0.5)


def series_of(samples: Iterable[JobSample]) -> Series:
    """The series of these samples, each received when it was observed."""
    series = Series()
    for each in samples:
        series, _ = series.with_next(each, each.observed)
    return series


def flink_stream(
    rates: Iterable[float],
    cost: float,
    fixed: float = 0.0,
    *,
    subtasks: int = 1,
    selectivity: float = 0.5,
    begin: float = BEGIN,
    engine_id: str = "f1",
) -> list[JobSample]:
    """The samples of a Flink job of two vertices, at one rate (messages/s) after the other.

    ``cost`` is core-s a message, a quarter of it in the source; ``fixed`` is in cores.
    """
    samples: list[JobSample] = []
    messages, busy, passed = 0.0, 0.0, 0.0
    for rate in (0.0, *rates):
        if samples or rate:
            messages, passed = messages + rate * PERIOD, passed + PERIOD
            busy += (fixed + cost * rate) * PERIOD
        samples.append(
            JobSample(
                engine_id=engine_id,
                observed=begin + passed,
                messages_in=round(messages),
                messages_out=round(messages * selectivity),
                bytes_in=round(messages * 100),
                bytes_out=round(messages * selectivity * 60),
                state_bytes=4096,
                vertices=_source_and_count(round(messages), busy, passed, subtasks),
            )
        )
    return samples


def _source_and_count(messages: int, busy: float, passed: float, subtasks: int) -> tuple[VertexSample, ...]:
    """The two vertices of a job that was ``busy`` core-s within ``passed`` s."""

    def vertex(name: str, share: float, **records: int) -> VertexSample:
        own, busiest = busy * share, min(1.0, share)
        idle = passed * subtasks - own
        return VertexSample(name=name, subtasks=subtasks, busy=own, idle=idle, busiest=busiest, **records)

    return (
        vertex("source", 0.25, records_out=messages),
        vertex("count", 0.75, records_in=messages),
    )


def spark_stream(
    rows: Iterable[int],
    overhead: float,
    per_row: float,
    *,
    cores: int = 1,
    disturbed: Callable[[int, float], float] = lambda number, work: work,
) -> list[JobSample]:
    """The samples of a Spark job whose batches (five a sample) have this number of rows."""
    samples = [JobSample(engine_id="s1", observed=BEGIN, messages_in=0, messages_out=0, cores_used=cores)]
    batches: list[BatchSample] = []
    messages = 0
    for number, count in enumerate(rows):
        messages += count
        work = disturbed(number, overhead + per_row * count)
        batches.append(BatchSample(number=number, rows=count, work=work))
        if number % 5 == 4:
            samples.append(
                JobSample(
                    engine_id="s1",
                    observed=BEGIN + (number + 1) / 5 * PERIOD,
                    messages_in=messages,
                    messages_out=messages,
                    batches=tuple(batches[-10:]),
                    cores_used=cores,
                )
            )
    return samples


def odd_stream(seed: int) -> Iterator[tuple[float, JobSample]]:
    """Samples with gaps, restarts, jumps and odd values, each with the time of its arrival."""
    chance = Random(seed)
    now, engine_time = BEGIN, BEGIN
    total, busy, number = 0.0, 0.0, 0
    for _ in range(chance.randint(1, 14)):
        pause = chance.choice((0.0, 1e-9, 5.0, 10.0, 10.0, 10.0, 10.0, 40.0, 500.0))
        now += pause
        engine_time += pause * chance.choice((1, 1, 1, 1, 0.5, -1, 1e6))
        total, busy = total + pause * chance.choice((0, 1, 500, 1e7)), busy + pause * chance.random()
        number += chance.randint(0, 3)
        if chance.random() < 0.1:
            total, busy, number = 0.0, 0.0, 0
        yield now, _odd_sample(chance, engine_time, total, busy, number)


def _odd_sample(chance: Random, observed: float, total: float, busy: float, number: int) -> JobSample:
    def perhaps(value: Any) -> Any:
        return chance.choice(ODD) if chance.random() < 0.05 else value

    vertices = tuple(
        VertexSample(
            name=name,
            subtasks=perhaps(2),
            records_in=perhaps(int(total)),
            records_out=perhaps(int(total / 2)),
            busy=perhaps(busy),
            idle=perhaps(busy / 2),
            back_pressured=perhaps(busy / 3),
            busiest=perhaps(0.5),
        )
        for name in ("a", "b")
    )
    batches = tuple(
        BatchSample(
            number=perhaps(number + each),
            rows=perhaps(chance.randint(0, 1000)),
            work=perhaps(chance.random()),
        )
        for each in range(chance.randint(0, 6))
    )
    return JobSample(
        engine_id="o1",
        observed=perhaps(observed),
        messages_in=perhaps(int(total)),
        messages_out=perhaps(int(total / 2)),
        bytes_in=perhaps(int(total * 90)),
        bytes_out=perhaps(int(total * 40)),
        vertices=vertices if chance.random() < 0.5 else (),
        batches=batches,
        cores_used=perhaps(2),
        state_bytes=perhaps(7),
        acks=(AckSample(broker="tcp://b:1883", least=perhaps(0.02), window_full=perhaps(0.2)),),
    )
