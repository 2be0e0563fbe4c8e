"""Rates of a job from the metrics that its engine reported at several times.  Pure: no clock, no calls.

An engine that counts in batches reports only its last batch, and reports it again while no message arrives.
Rates are therefore computed between counts, by the engine's own clock where it has one, and a job whose count
has not changed for a while is idle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from speck.core.runtime import JobMetrics

WINDOW = 15.0  # s, over which rates are computed
IDLE = 10.0  # s without a new count after which a job is idle


@dataclass(frozen=True, slots=True)
class Rates:
    """A job's rates at ``observed`` (Unix time, s), in messages/s; ``None``: not reported.

    ``waiting`` is a number of messages, ``work_seconds`` the duration (s) of the last batch.
    """

    observed: float | None = None
    input_rate: float | None = None
    output_rate: float | None = None
    waiting: int | None = None
    work_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Track:
    """The metrics of one copy of a job (by its engine's id) within the window, the newest last.

    ``sends`` is true once the engine has reported an output rate.
    """

    engine_id: str
    samples: tuple[JobMetrics, ...]
    sends: bool = False

    @classmethod
    def of(cls, engine_id: str, metrics: JobMetrics) -> Track:
        """The track of a copy with its first metrics."""
        return cls(engine_id, (metrics,), metrics.output_rate is not None)

    def with_next(self, metrics: JobMetrics) -> Track:
        """The track with new metrics.

        Samples beyond the window are dropped, and those from before a restart of the count or a change of
        the clock to an earlier time.
        """
        if _count_restarted(self.samples[-1], metrics):
            return Track.of(self.engine_id, metrics)
        oldest = metrics.observed_at - max(WINDOW, 3 * _work(metrics))
        was_set = _clock_was_set_back(self.samples[-1], metrics)
        recent = [each for each in self.samples if each.observed_at >= oldest and not was_set]
        return Track(self.engine_id, (*recent, metrics), self.sends or metrics.output_rate is not None)


def rates_of(track: Track) -> Rates:
    """The present rates of a job."""
    newest = track.samples[-1]
    input_rate = _input_rate(track.samples)
    work = newest.batch_duration_ms
    return Rates(
        newest.observed_at,
        input_rate,
        0.0 if track.sends and input_rate == 0 else _output_rate(track.samples),
        newest.waiting,
        None if work is None else work / 1000,
    )


def _input_rate(samples: Sequence[JobMetrics]) -> float | None:
    first, newest = samples[0], samples[-1]
    if first is newest or first.input_rows is None or newest.input_rows is None:
        return newest.input_rate
    if first.counted_at is None or newest.counted_at is None:
        return newest.input_rate  # computed by the binder, which knows the engine's counts better
    rows = newest.input_rows - first.input_rows
    seconds, counted = newest.observed_at - first.observed_at, newest.counted_at - first.counted_at
    if rows == 0 or counted <= 0:
        return 0.0 if seconds >= max(IDLE, 2 * _work(newest)) else newest.input_rate
    # The first count may be old, if the job was idle then.
    return rows / (seconds if counted > 2 * seconds > 0 else counted)


def _output_rate(samples: Sequence[JobMetrics]) -> float | None:
    """The mean over the reported batches, of which many may have no output."""
    batches = {each.batch_id: each.output_rate for each in samples if each.output_rate is not None}
    return sum(batches.values()) / len(batches) if batches else None


def _count_restarted(before: JobMetrics, after: JobMetrics) -> bool:
    return (after.input_rows or 0) < (before.input_rows or 0)


def _clock_was_set_back(before: JobMetrics, after: JobMetrics) -> bool:
    """True if the clock of the site, or of the engine, was set back: times are not comparable then."""
    counted = after.counted_at if after.counted_at is not None else math.inf
    return after.observed_at < before.observed_at or counted < (before.counted_at or 0.0)


def _work(metrics: JobMetrics) -> float:
    return (metrics.batch_duration_ms or 0.0) / 1000
