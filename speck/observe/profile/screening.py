"""The samples of one copy of a job, without odd metrics.

Engines report NaN, negative and impossible values at times: while a task starts, after a restart, when a
counter is of another task than before.  An odd value is dropped and counted; a sample that is odd as a whole
is left out; counts that fall, or a clock that is set back, restart the series.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar

from speck.core.profile import AckSample, BatchSample, JobSample, VertexSample

LENGTH = 36  # samples: 6 minutes of one every 10 s
FUTURE = 60.0  # s, by which the clock of an engine may be ahead
JUMP = 1000.0  # times the former rate
INEXACT = 1.0  # s, by which the times of a vertex may fall
IDLE = 15.0  # s, after which counts that the engine reports again are those of a job without messages
MOST_WORK = 100.0  # times the busy time
MOST_EVENT_LOOP = 1.0  # cores of an event loop with one message a second
_LARGEST = 2.0**63  # a counter of Java's long: beyond it, the report is no count
_LONGEST = 3600.0  # s, of an acknowledgement or of a batch's work
_COUNTS = ("messages_in", "messages_out", "bytes_in", "bytes_out")

_T = TypeVar("_T")


class Oddity(StrEnum):
    """The reason why a value was dropped."""

    INVALID = "invalid"  # NaN, infinite, negative, no number
    FUTURE = "future"
    JUMP = "jump"
    RESTART = "restart"  # counts fell, or the clock was set back; the former samples are dropped


Oddities = Counter[Oddity]


@dataclass(frozen=True, slots=True)
class Received:
    """A sample and the time of its arrival by the coordinator's clock (Unix time, s).

    ``reported`` is the time of the engine's report, where its counts were found unchanged later; 0: as
    observed.
    """

    at: float
    sample: JobSample
    reported: float = 0.0


@dataclass(frozen=True, slots=True)
class Series:
    """The last samples of one copy of a job, at most :data:`LENGTH`, by ascending ``observed``.

    ``suspect`` is the newest sample, if it was left out because its counts jumped.
    """

    samples: tuple[Received, ...] = ()
    suspect: Received | None = None

    def with_next(self, sample: JobSample, at: float) -> tuple[Series, Oddities]:
        """The series with a new sample, and the number of dropped values by reason."""
        if self.samples and at < self.samples[-1].at:
            # The clock was set back: by their times, the former samples would be the newest for as long.
            restarted, found = Series().with_next(sample, at)
            return restarted, found + Counter({Oddity.RESTART: 1})
        oddities: Oddities = Counter()
        if not _is_valid(sample.observed) or sample.observed > at + FUTURE:
            oddities[Oddity.FUTURE if _is_valid(sample.observed) else Oddity.INVALID] += 1
            return self, oddities
        received = Received(at, _cleaned(sample, oddities))
        extended = self._extended(received, oddities)
        return extended, +oddities

    def _extended(self, received: Received, oddities: Oddities) -> Series:
        if not self.samples:
            return Series((received,))
        sample = received.sample
        if sample.observed == self._reported():
            return self._idle(received)
        if _has_restarted([each.sample for each in self.samples], sample):
            oddities[Oddity.RESTART] += 1
            return Series((received,))
        if self.suspect is not None and sample.observed == self.suspect.sample.observed:
            # The same report is no second one that would confirm the jump; repeated for a while, it stands.
            jumped = Series((self.suspect,))
            later = jumped._idle(received)
            return self if later is jumped else later
        if not self._jumps(received):
            return Series((*self.samples[1 - LENGTH :], received))
        if self.suspect is not None and not _has_restarted([self.suspect.sample], sample):
            return Series((self.suspect, received))  # the new rate holds
        oddities[Oddity.JUMP] += 1
        return replace(self, suspect=received)

    def _reported(self) -> float:
        """The time of the engine's last report, which it repeats while a job takes no messages."""
        return self.samples[-1].reported or self.samples[-1].sample.observed

    def _idle(self, received: Received) -> Series:
        """The series with the same counts some time later; unchanged while they may just be old."""
        last = self.samples[-1]
        if received.at - last.at < IDLE:
            return self
        later = replace(last.sample, observed=last.sample.observed + received.at - last.at)
        again = Received(received.at, later, reported=self._reported())
        return Series((*self.samples[1 - LENGTH :], again))

    def _jumps(self, received: Received) -> bool:
        return any(self._jumps_in(name, received.sample) for name in _COUNTS)

    def _jumps_in(self, name: str, sample: JobSample) -> bool:
        """True if a count grew too much; samples in which it was dropped do not hide that."""
        known = [each.sample for each in self.samples if getattr(each.sample, name) is not None]
        if not known:
            return False
        before, now = _rate(known[0], known[-1], name), _rate(known[-1], sample, name)
        return before is not None and now is not None and now > JUMP * before > 0


def _rate(before: JobSample, after: JobSample, name: str) -> float | None:
    first, last, seconds = getattr(before, name), getattr(after, name), after.observed - before.observed
    return (last - first) / seconds if first is not None and last is not None and seconds > 0 else None


def _has_restarted(before: Sequence[JobSample], after: JobSample) -> bool:
    """True if a count is below its last known value."""
    if after.observed < before[-1].observed:
        return True
    for name in (*_COUNTS, "batches", "vertices"):
        new = getattr(after, name)
        old = next(
            (found for each in reversed(before) if (found := getattr(each, name)) not in (None, ())), None
        )
        if new not in (None, ()) and old is not None and _fell(name, old, new):
            return True
    return False


def _fell(name: str, before: Any, after: Any) -> bool:
    if name == "batches":
        return _last_batch(after) < _last_batch(before)
    if name == "vertices":
        return _vertices_restarted(before, after)
    return bool(after < before)


def _last_batch(batches: Sequence[BatchSample]) -> int:
    return max(each.number for each in batches)


def _vertices_restarted(before: Sequence[VertexSample], after: Sequence[VertexSample]) -> bool:
    """True if a count of a vertex fell, or if the vertices are others."""
    if [(each.name, each.subtasks) for each in before] != [(each.name, each.subtasks) for each in after]:
        return True
    return any(_vertex_restarted(one, other) for one, other in zip(before, after, strict=True))


def _vertex_restarted(before: VertexSample, after: VertexSample) -> bool:
    """True if counts fell, or the time for which the task has run.

    Flink derives the busy time from the others, which are not read at one moment, so that it may fall by
    some ms; all three together are the time that the task has run.
    """
    fell = after.records_in < before.records_in or after.records_out < before.records_out
    return fell or sum(_times(after)) < sum(_times(before)) - INEXACT


def _times(vertex: VertexSample) -> tuple[float, float, float]:
    return vertex.busy, vertex.idle, vertex.back_pressured


# --- single values


def _is_valid(value: object, largest: float = _LARGEST) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value <= largest  # false for NaN
        and math.isfinite(value)
    )


def _cleaned(sample: JobSample, oddities: Oddities) -> JobSample:
    """The sample without odd values; a job with an odd vertex is left without vertices."""
    if _is_sound(sample):
        return sample

    def number(value: _T | None, largest: float = _LARGEST) -> _T | None:
        if value is None or _is_valid(value, largest):
            return value
        oddities[Oddity.INVALID] += 1
        return None

    odd_vertices = [each for each in sample.vertices if not _is_valid_vertex(each)]
    batches = tuple(each for each in sample.batches if _is_valid_batch(each))
    acks = tuple(each for each in sample.acks if _are_valid_acks(each))
    oddities[Oddity.INVALID] += len(odd_vertices) + len(sample.batches) - len(batches)
    oddities[Oddity.INVALID] += len(sample.acks) - len(acks)
    if not _is_valid_size(sample.cores_used):
        oddities[Oddity.INVALID] += 1
    return replace(
        sample,
        messages_in=number(sample.messages_in),
        messages_out=number(sample.messages_out),
        bytes_in=number(sample.bytes_in),
        bytes_out=number(sample.bytes_out),
        state_bytes=number(sample.state_bytes),
        processor_share=number(sample.processor_share, MOST_WORK),
        event_loop=number(sample.event_loop, MOST_EVENT_LOOP),
        vertices=() if odd_vertices else sample.vertices,
        batches=batches,
        cores_used=sample.cores_used if _is_valid_size(sample.cores_used) else 1,
        acks=acks,
    )


def _is_sound(sample: JobSample) -> bool:
    """True if no value is odd, as in almost all samples."""
    counts = (getattr(sample, name) for name in (*_COUNTS, "state_bytes"))
    return (
        all(each is None or _is_valid(each) for each in counts)
        and _is_valid_size(sample.cores_used)
        and (sample.processor_share is None or _is_valid(sample.processor_share, MOST_WORK))
        and (sample.event_loop is None or _is_valid(sample.event_loop, MOST_EVENT_LOOP))
        and all(map(_is_valid_vertex, sample.vertices))
        and all(map(_is_valid_batch, sample.batches))
        and all(map(_are_valid_acks, sample.acks))
    )


def _is_valid_vertex(vertex: VertexSample) -> bool:
    return _is_valid_size(vertex.subtasks) and all(
        map(_is_valid, (vertex.records_in, vertex.records_out, *_times(vertex), vertex.busiest))
    )


def _is_valid_batch(batch: BatchSample) -> bool:
    return _is_valid(batch.number) and _is_valid(batch.rows) and _is_valid(batch.work, _LONGEST)


def _is_valid_size(value: object) -> bool:
    return _is_valid(value, 1e6) and value != 0


def _are_valid_acks(acks: AckSample) -> bool:
    times = [value for value in (acks.least, acks.median) if value is not None]
    return all(_is_valid(value, _LONGEST) for value in times) and _is_valid(acks.window_full, 1.0)
