"""What a job does now, out of what its engine told at several moments.  Pure: no clock, no calls.

An engine that counts in batches tells of its last batch only, and goes on telling of it while nothing comes
in.  So rates are taken between counts, by the engine's own clock where it has one, and a job whose count
stands still for a while is idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from speck.core.runtime import JobMetrics

WINDOW = 15.0  # s, over which rates are taken
IDLE = 10.0  # s; so long nothing was counted in a job that is idle


@dataclass(frozen=True, slots=True)
class Rates:
    """A job's work at ``observed`` (Unix time, s): messages/s, messages, seconds; ``None``: not told."""

    observed: float | None = None
    input_rate: float | None = None
    output_rate: float | None = None
    waiting: int | None = None
    work_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Track:
    """What was told of one copy of a job (its engine's id), the newest last, within the window.

    ``sends``: whether its engine has told of what it sends, ever.
    """

    engine_id: str
    told: tuple[JobMetrics, ...]
    sends: bool = False

    @classmethod
    def of(cls, engine_id: str, metrics: JobMetrics) -> Track:
        """The track of a copy of which nothing was told before."""
        return cls(engine_id, (metrics,), metrics.output_rate is not None)

    def with_next(self, metrics: JobMetrics) -> Track:
        """The track with what was told now; what it does not go on from is dropped, as is what is too old."""
        if _began_anew(self.told[-1], metrics):
            return Track.of(self.engine_id, metrics)
        oldest = metrics.observed_at - max(WINDOW, 3 * _work(metrics))
        kept = [each for each in self.told if each.observed_at >= oldest]
        return Track(self.engine_id, (*kept, metrics), self.sends or metrics.output_rate is not None)


def rates_of(track: Track) -> Rates:
    """What the job does now."""
    newest = track.told[-1]
    coming = _input_rate(track.told)
    work = newest.batch_duration_ms
    return Rates(
        newest.observed_at,
        coming,
        0.0 if track.sends and coming == 0 else _output_rate(track.told),
        newest.waiting,
        None if work is None else work / 1000,
    )


def _input_rate(told: Sequence[JobMetrics]) -> float | None:
    first, newest = told[0], told[-1]
    if first is newest or first.input_rows is None or newest.input_rows is None:
        return newest.input_rate
    if first.counted_at is None or newest.counted_at is None:
        return newest.input_rate  # taken by the engine's binder, which knows better
    rows = newest.input_rows - first.input_rows
    seconds, counted = newest.observed_at - first.observed_at, newest.counted_at - first.counted_at
    if rows == 0 or counted <= 0:
        return 0.0 if seconds >= max(IDLE, 2 * _work(newest)) else newest.input_rate
    # What was counted first may have lain there for long, when the job was idle then.
    return rows / (seconds if counted > 2 * seconds > 0 else counted)


def _output_rate(told: Sequence[JobMetrics]) -> float | None:
    """Of an engine that tells of single batches: of all that were seen, since many may send nothing."""
    batches = {each.batch_id: each.output_rate for each in told if each.output_rate is not None}
    return sum(batches.values()) / len(batches) if batches else None


def _began_anew(before: JobMetrics, after: JobMetrics) -> bool:
    return (after.input_rows or 0) < (before.input_rows or 0)


def _work(metrics: JobMetrics) -> float:
    return (metrics.batch_duration_ms or 0.0) / 1000
