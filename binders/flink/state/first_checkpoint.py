"""A checkpoint of a new job, requested as soon as it runs: the proof that all of its tasks work.

Flink reports the counters of a job every 10 s, and makes checkpoints every few seconds; one that is requested
takes some tens of milliseconds.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter

from binders.flink.rest.client import FlinkRest
from binders.flink.rest.requests import FlinkRefused


class FirstCheckpoints:
    """The requested checkpoints of the jobs of one cluster; safe for several threads."""

    def __init__(self, rest: FlinkRest) -> None:
        self._rest = rest
        self._guard = threading.Lock()  # two probes of one job would request two checkpoints
        self._tries: Counter[str] = Counter()  # by job id, those that failed
        self._requested: set[str] = set()  # trigger ids

    def completed(self, job: str) -> bool:
        """True if a job has completed a checkpoint that was requested here; one is requested if necessary.

        A job that is just starting, or restarting, cannot make one: another is requested at the next call.
        """
        with self._guard:
            trigger = _trigger(job, self._tries[job])
            is_new = trigger not in self._requested
            self._requested.add(trigger)
        try:
            if is_new:
                self._rest.trigger_checkpoint(job, trigger)
            found = self._rest.triggered_checkpoint(job, trigger)
        except FlinkRefused:
            found = False
        if found is False:
            with self._guard:
                self._requested.discard(trigger)
                self._tries[job] += 1
        return found is True

    def forget(self, job: str) -> None:
        """Drop what is known of a job."""
        with self._guard:
            tries = self._tries.pop(job, 0)
            self._requested.discard(_trigger(job, tries))


def _trigger(job: str, number: int) -> str:
    """The id of a request: the same when it is repeated after its answer was lost."""
    return hashlib.sha256(f"{job} first {number}".encode()).hexdigest()[:32]
