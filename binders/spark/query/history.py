"""The last batches of queries, out of their progress reports."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from binders.spark.query.profile import batch_of, job_sample
from speck.core.profile import BatchSample, JobSample

BATCHES = 36  # retained of each query
RECENT = 5.0  # s, within which a report for metrics serves for a profile too


@dataclass
class _Track:
    batches: dict[int, BatchSample] = field(default_factory=dict)
    report: str | None = None  # made for metrics, and not profiled yet
    reported: float = float("-inf")  # monotonic time, s
    counted: int | None = None  # the number of the last batch whose work is counted
    worked: float = 0.0  # s, of all batches since the first that was seen

    def add(self, report: str) -> None:
        batch = batch_of(report)
        if batch is not None:
            self.batches.pop(batch.number, None)
            self.batches[batch.number] = batch
            while len(self.batches) > BATCHES:
                del self.batches[next(iter(self.batches))]

    def count(self) -> None:
        """Count the work of the batches since the last one counted; those without a report as the others."""
        if not self.batches:
            return
        last = max(self.batches)
        if self.counted is not None and last > self.counted:
            mean = sum(each.work for each in self.batches.values()) / len(self.batches)
            self.worked += (last - self.counted) * mean
        self.counted = last


class BatchHistory:
    """Retains the last batches of each query that was profiled, by its run; safe for several threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # metrics and profiles of a query are read by different threads
        self._tracks: dict[str, _Track] = {}

    def note(self, run: str, report: str | None) -> None:
        """Take a report that was requested for metrics."""
        with self._guard:
            track = self._tracks.get(run)
            if track is not None and report is not None:
                track.add(report)
                track.report, track.reported = report, time.monotonic()

    def sample(
        self,
        run: str,
        engine_id: str,
        last: Callable[[], str | None],
        recent: Callable[[], Sequence[str | None]],
        cores: int | None,
    ) -> JobSample:
        """The counts of a query.  Its reports are requested unless one came within :data:`RECENT` seconds.

        The first time, all are requested that the engine retains, for their batches; then the ``last`` one.
        """
        report = self._taken(run)
        if report is not None:
            reports: Sequence[str | None] = [report]
        else:
            reports = [last()] if run in self._tracks else recent()
        found = [each for each in reports if each is not None]
        with self._guard:
            track = self._tracks.setdefault(run, _Track())
            for each in found:
                track.add(each)
            track.count()
            batches = tuple(sorted(track.batches.values(), key=lambda batch: batch.number))
        return job_sample(engine_id, found[-1] if found else None, batches, cores, time.time())

    def worked(self, run: str) -> float:
        """The work (s) of the batches of a query since its first sample, as far as it was profiled."""
        with self._guard:
            track = self._tracks.get(run)
            return track.worked if track is not None else 0.0

    def forget(self, run: str) -> None:
        """Drop the batches of a query."""
        with self._guard:
            self._tracks.pop(run, None)

    def _taken(self, run: str) -> str | None:
        with self._guard:
            track = self._tracks.get(run)
            if track is None or time.monotonic() - track.reported > RECENT:
                return None
            report, track.report = track.report, None
            return report
