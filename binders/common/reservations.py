"""Slots and memory reserved for jobs that were asked about and not started yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from speck.errors import NoCapacity

PROMISED = 60.0  # s, for which room is kept for a job that was asked about and not started


class Reservations:
    """The jobs to which this process has promised room at one engine, by name."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._until: dict[str, float] = {}
        self.ended = 0  # so many promises

    @contextmanager
    def deciding(self, name: str) -> Iterator[frozenset[str]]:
        """To what others there are promises, while the engine is looked at; unless the block fails, one more.

        One job at a time: what another is promised meanwhile would be promised twice.
        """
        with self._guard:
            now = time.monotonic()
            self._until = {other: until for other, until in self._until.items() if until > now}
            yield frozenset(self._until.keys() - {name})
            self._until[name] = time.monotonic() + PROMISED

    def end(self, name: str) -> None:
        """Note that the engine itself tells of the job now, or that it does not come."""
        with self._guard:
            self._until.pop(name, None)
            self.ended += 1


def slots_taken(known: Collection[str], unknown: int, promised: frozenset[str]) -> int:
    """How many slots others have: those whose jobs are ``known``, and those that are promised.

    Of ``unknown`` many jobs it cannot be told yet whose they are; those that are promised room may be among
    them.
    """
    return len(known) + max(unknown, len(promised.difference(known)))


def no_slot(address: str, name: str, slots: int, used: int, taken: int) -> NoCapacity:
    """The error of an engine with so many ``slots``, of which ``taken`` are in use or promised to others."""
    others = f", {taken - used} promised to others that are about to start" if taken > used else ""
    reason = f"{slots} slots, {used} in use{others}"
    return NoCapacity(f"{address} has no room for job {name!r}: {reason}", address=address)
