"""What engines say of the jobs: asked in rounds, kept with the time of the observation.

One engine that does not answer costs a round one call: its other jobs are UNKNOWN without being asked.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from speck.binder import EngineBinder, TellsMany
from speck.errors import SpeckError
from speck.model import Handle, Job, JobState, JobStatus
from speck.pool import BinderPool

_log = logging.getLogger(__name__)

PERIOD = 10.0  # s between two rounds

Deployment = tuple[Job, Handle]


@dataclass
class Observer:
    """Keeps the last status of each job.  ``deployed`` answers what is thought to run; ``clock`` is s."""

    pool: BinderPool
    deployed: Callable[[], list[Deployment]]
    clock: Callable[[], float]
    _seen: dict[str, JobStatus] = field(default_factory=dict, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def seen(self) -> dict[str, JobStatus]:
        """The last status of each job, by job name."""
        return dict(self._seen)

    def start(self, period: float = PERIOD) -> None:
        """Observe in the background, every ``period`` seconds."""
        self._thread = threading.Thread(target=self._loop, args=(period,), name="observer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Observe no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _loop(self, period: float) -> None:
        while not self._stop.wait(period):
            try:
                self.observe(self.deployed())
            except Exception:
                _log.exception("a round of observation failed")

    def observe(self, deployed: Iterable[Deployment]) -> dict[str, JobStatus]:
        """Ask the engines now; answers the statuses of these jobs by name."""
        by_engine: dict[tuple[str, str], list[Deployment]] = defaultdict(list)
        for job, handle in deployed:
            by_engine[job.engine, handle.address].append((job, handle))
        if not by_engine:
            return {}
        with ThreadPoolExecutor(min(len(by_engine), 16), thread_name_prefix="observe") as threads:
            rounds = list(threads.map(self._ask, by_engine.items()))
        found = {name: status for each in rounds for name, status in each.items()}
        self._seen.update(found)
        return found

    def forget(self, names: Iterable[str]) -> None:
        """Drop what is known of jobs that are no more, or are about to change."""
        for name in names:
            self._seen.pop(name, None)

    def _ask(self, group: tuple[tuple[str, str], list[Deployment]]) -> dict[str, JobStatus]:
        (engine, address), jobs = group
        try:
            binder = self.pool.engine_at(engine, address)
        except SpeckError as error:
            lost = JobStatus(JobState.UNKNOWN, self.clock(), str(error))
            return {job.job_name: lost for job, _ in jobs}
        if isinstance(binder, TellsMany):
            statuses = binder.statuses([handle for _, handle in jobs])
            return {job.job_name: statuses[handle.engine_id] for job, handle in jobs}
        found: dict[str, JobStatus] = {}
        silent: JobStatus | None = None
        for job, handle in jobs:
            if silent is None:
                status = self._status(binder, handle)
                silent = status if status.state is JobState.UNKNOWN else None
            found[job.job_name] = silent or status
        return found

    def _status(self, binder: EngineBinder, handle: Handle) -> JobStatus:
        try:
            return binder.status(handle)
        except SpeckError as error:
            return JobStatus(JobState.UNKNOWN, self.clock(), str(error))
