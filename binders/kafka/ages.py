"""The age of the oldest message that a session has not read, by the timestamp of its record."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from binders.kafka.client import Connected
from binders.kafka.offsets import Stretch

PATIENCE = 2.0  # s, for the times of all stretches: the numbers of messages must not wait for them
_POLL_MS = 100

Times = Mapping[Stretch, int | None]


def oldest(stretches: Collection[Stretch], times: Times, now: float) -> float | None:
    """The age of the oldest record of stretches, s; 0 without a record, ``None`` if a time is not known.

    ``times`` are those of the first records, ms since 1970, ``None`` for a stretch without one, such as one
    of the marks of transactions alone.  ``now`` is in s since 1970.
    """
    if any(each not in times for each in stretches):
        return None
    known = (at for each in stretches if (at := times[each]) is not None)
    return max((max(0.0, now - at / 1000) for at in known), default=0.0)


def first_times(connected: Connected, stretches: Collection[Stretch]) -> dict[Stretch, int | None]:
    """The times of the first records of stretches, as :func:`oldest` takes them.

    What takes too long, has no time or cannot be read yet is missing; the longest stretches are read first.
    """
    deadline, found = time.monotonic() + PATIENCE, {}
    readable = _readable_ends(connected.single, stretches)
    for each in sorted(stretches, key=lambda each: each.first - each.end):
        with suppress(_Late):
            at = _first_time(connected.single, each, readable[each], deadline)
            if at is None or at >= 0:  # a record without a time has -1
                found[each] = at
    return found


class _Late(Exception):
    """The record did not come in time, or is behind the beginning of an open transaction."""


def _readable_ends(consumer: Any, stretches: Collection[Stretch]) -> dict[Stretch, int]:
    """The ends of stretches as far as they can be read: an open transaction holds the rest back."""
    parts = {each: _partition(each) for each in stretches}
    ends = consumer.end_offsets(list(set(parts.values()))) if parts else {}
    return {each: min(each.end, ends[part]) for each, part in parts.items()}


def _partition(stretch: Stretch) -> Any:
    from kafka import TopicPartition

    return TopicPartition(stretch.topic, stretch.partition)


def _first_time(consumer: Any, stretch: Stretch, readable: int, deadline: float) -> int | None:
    """The time of the first record; ``None`` if there is none.  Raises :class:`_Late`."""
    if readable <= stretch.first:
        raise _Late
    part = _partition(stretch)
    consumer.assign([part])
    consumer.seek(part, stretch.first)
    while time.monotonic() < deadline:
        for record in consumer.poll(_POLL_MS).get(part, ()):
            return None if record.offset >= stretch.end else int(record.timestamp)
        position = consumer.position(part, timeout_ms=_POLL_MS) or 0
        if position >= stretch.end:
            return None
        if position >= readable:
            break
    raise _Late
