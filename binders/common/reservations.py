"""Reservations of an engine's capacity for jobs that were checked and are not started yet.

A composition checks all of its jobs before it starts any, and a job that was submitted takes its slots some
time later.  So capacity that was reserved for one job is not offered to another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

from speck.errors import NoCapacity

RESERVED = 60.0  # s, for which capacity is reserved for a job that was checked and not started

_T = TypeVar("_T")


class Reservations(Generic[_T]):
    """The reservations that this process has made at one engine, by job name; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a decision reads the current reservations inside its own block
        self._entries: dict[str, tuple[float, _T]] = {}  # each with its deadline (monotonic, s)
        self.released = 0  # the number of calls of :meth:`release`

    @contextmanager
    def deciding(self, name: str, reservation: _T) -> Iterator[Mapping[str, _T]]:
        """Yield the reservations of other jobs; unless the block raises, this one is added.

        One decision at a time: two at once would reserve the same capacity twice.
        """
        with self._lock:
            yield {other: reserved for other, reserved in self.current().items() if other != name}
            self._entries[name] = time.monotonic() + RESERVED, reservation

    def current(self) -> dict[str, _T]:
        """All reservations whose deadline has not passed."""
        with self._lock:
            now = time.monotonic()
            self._entries = {name: entry for name, entry in self._entries.items() if entry[0] > now}
            return {name: reservation for name, (_, reservation) in self._entries.items()}

    def update(self, name: str, change: Callable[[_T], _T]) -> None:
        """Replace the reservation of a job, if there is one; its deadline stays."""
        with self._lock:
            if name in self._entries:
                deadline, reservation = self._entries[name]
                self._entries[name] = deadline, change(reservation)

    def release(self, name: str) -> None:
        """Drop a reservation: the engine itself reports the job now, or the job is not started."""
        with self._lock:
            self._entries.pop(name, None)
            self.released += 1

    def retain(self, condition: Callable[[_T], bool]) -> None:
        """Drop the reservations that do not meet the condition."""
        with self._lock:
            self._entries = {name: entry for name, entry in self._entries.items() if condition(entry[1])}


def slots_taken(known: Collection[str], unknown: int, reserved: Collection[str]) -> int:
    """The number of slots that are not available: of the jobs ``known`` by name, and reserved ones.

    The names of ``unknown`` many further jobs cannot be determined yet; jobs with a reservation may be among
    them.
    """
    return len(known) + max(unknown, len(set(reserved).difference(known)))


def no_slot(address: str, name: str, slots: int, used: int, taken: int) -> NoCapacity:
    """The error of an engine with ``slots``, of which ``taken`` are in use or reserved."""
    others = f", {taken - used} reserved for jobs that are about to start" if taken > used else ""
    reason = f"{slots} slots, {used} in use{others}"
    return NoCapacity(f"{address} has no room for job {name!r}: {reason}", address=address)
