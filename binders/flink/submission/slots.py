"""Whether a cluster has slots for one more job, when others are about to take some too.

A job takes its slots some tenths of a second after it was submitted, and a composition asks about all of its
jobs before it starts any.  So what was promised to one is not promised to another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from binders.flink.rest.client import FlinkRest, JobLine, Overview

PATIENCE = 2.0  # s, for slots that come free just now
PROMISED = 60.0  # s, for which slots are kept for a job that was asked about and not started

_POLL = 0.1


@dataclass(frozen=True)
class _Promise:
    slots: int
    until: float
    own: int = 0  # of the slots, those that a copy of the job still has
    job: str | None = None  # Flink's id, once it was submitted


@dataclass(frozen=True)
class Shortage:
    """Not enough: ``slots`` in all, ``free`` of them, ``promised`` of those to others."""

    slots: int
    free: int
    promised: int

    def __str__(self) -> str:
        others = f", {self.promised} of them for others that are about to start" if self.promised else ""
        return f"{self.slots} slots, {self.free} free{others}"


class SlotReservations:
    """What this process has promised of the slots of one cluster, for all of its binders there."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._promises: dict[str, _Promise] = {}

    def promise(
        self, rest: FlinkRest, seen: Overview, name: str, slots: int, own: Callable[[], int]
    ) -> Shortage | None:
        """Promise slots to a job, or say what is missing.

        ``seen`` is the cluster as it was just now.  ``own`` counts the slots that a copy of the job has
        there: they come free before it starts.
        """
        deadline = time.monotonic() + PATIENCE
        while (shortage := self._try(rest, seen, name, slots, own)) is not None:
            if time.monotonic() > deadline:
                return shortage
            time.sleep(_POLL)
            seen = rest.overview()
        return None

    @contextmanager
    def taking(self, name: str, job: str) -> Iterator[None]:
        """While the block runs, the job is submitted under Flink's id; if it fails, it takes no slots."""
        try:
            yield
        except BaseException:
            with self._guard:
                self._promises.pop(name, None)
            raise
        with self._guard:
            if name in self._promises:
                self._promises[name] = replace(self._promises[name], job=job)

    def freed(self, name: str) -> None:
        """Note that the copy of a job is no more: what was promised to the job must now all be free."""
        with self._guard:
            if name in self._promises:
                self._promises[name] = replace(self._promises[name], own=0)

    def _try(
        self, rest: FlinkRest, seen: Overview, name: str, slots: int, own: Callable[[], int]
    ) -> Shortage | None:
        with self._guard:
            self._forget_old()
            if self._kept(name, slots, 0, seen.slots_free):
                return None
            submitted = any(each.job is not None for each in self._promises.values())
        if submitted:
            # In this order: what is placed by now has been taken off the free slots that are asked for next.
            jobs, seen = rest.jobs(), rest.overview()
            self._forget_placed(jobs)
        taken = min(slots, own())
        with self._guard:
            if self._kept(name, slots, taken, seen.slots_free):
                return None
            return Shortage(seen.slots, seen.slots_free, self._promised_to_others(name))

    def _kept(self, name: str, slots: int, own: int, free: int) -> bool:
        if slots - own > free - self._promised_to_others(name):
            return False
        self._promises[name] = _Promise(slots, time.monotonic() + PROMISED, own)
        return True

    def _promised_to_others(self, name: str) -> int:
        return sum(promise.slots - promise.own for other, promise in self._promises.items() if other != name)

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._promises = {name: each for name, each in self._promises.items() if each.until > now}

    def _forget_placed(self, jobs: Mapping[str, JobLine]) -> None:
        """Forget what was promised to jobs that have their slots by now, or are no more."""

        def waits(promise: _Promise) -> bool:
            line = jobs.get(promise.job) if promise.job is not None else None
            return promise.job is None or (line is not None and not line.ended and not line.placed)

        with self._guard:
            self._promises = {name: each for name, each in self._promises.items() if waits(each)}
