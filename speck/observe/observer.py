"""What engines say of the jobs, with the time of the observation.

An engine is asked once for all of its jobs where its binder can, and once what else it runs.  One that is
slow or silent keeps nobody waiting: a round goes on without it, and it is not asked again before it has
answered or given up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from speck.binder import BatchStatus, EngineBinder, ListsRunning
from speck.binder.pool import BinderPool
from speck.core.runtime import Found, Handle, JobState, JobStatus
from speck.errors import SpeckError
from speck.store.deployments import Deployment, EngineKey, by_engine

PATIENCE = 3.0  # s, that a round waits for the slowest engine
_MOMENT = 0.25  # s
THREADS = 16  # engines that are asked at a time


@dataclass(frozen=True)
class Observation:
    """What one round saw: statuses by job name, jobs found at each engine by address, and who is silent.

    ``silent`` has the reason of each engine that does not answer, by address.
    """

    statuses: Mapping[str, JobStatus]
    found: Mapping[str, Sequence[Found]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)


_Asked = tuple[Sequence[Deployment], Future[Observation]]


@dataclass
class Observer:
    """Keeps the last status of each job.  ``clock`` tells Unix time, s; ``patience`` is s."""

    pool: BinderPool
    clock: Callable[[], float]
    patience: float = PATIENCE
    _seen: dict[str, JobStatus] = field(default_factory=dict, init=False)
    _asked: dict[EngineKey, _Asked] = field(default_factory=dict, init=False)
    _silent: Mapping[str, str] = field(default_factory=dict, init=False)
    _threads: ThreadPoolExecutor | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def seen(self) -> dict[str, JobStatus]:
        """The last status of each job, by job name."""
        return dict(self._seen)

    def close(self) -> None:
        """Ask no more; what is asked is waited for."""
        if self._threads is not None:
            self._threads.shutdown()

    def observe(self, deployed: Iterable[Deployment]) -> dict[str, JobStatus]:
        """Ask the engines now, and wait for them all; answers the statuses of these jobs by name."""
        grouped = by_engine(deployed)
        if not grouped:
            return {}
        with ThreadPoolExecutor(min(len(grouped), THREADS), thread_name_prefix="observe") as threads:
            looks = list(threads.map(lambda each: self._statuses(each[0], each[1]), grouped.items()))
        found = {name: status for statuses in looks for name, status in statuses.items()}
        self._seen.update(found)
        return found

    def look(self, deployed: Iterable[Deployment]) -> Observation:
        """One round: the statuses of these jobs, and what else their engines run.

        Of an engine that has not answered in time, all jobs are UNKNOWN.
        """
        grouped = by_engine(deployed)
        asked = {key for key, jobs in grouped.items() if self._ask(key, jobs)}
        # Who was silent the last time is given little of the others' time.
        wait([self._asked[key][1] for key in grouped if key[1] not in self._silent], self.patience)
        wait([self._asked[key][1] for key in grouped], min(_MOMENT, self.patience))
        looks = [self._taken(key, jobs, key in asked) for key, jobs in grouped.items()]
        statuses = {name: status for each in looks for name, status in each.statuses.items()}
        self._seen.update(statuses)
        self._silent = {address: why for each in looks for address, why in each.silent.items()}
        found = {address: jobs for each in looks for address, jobs in each.found.items()}
        return Observation(statuses, found, self._silent)

    def forget(self, names: Iterable[str]) -> None:
        """Drop what is known of jobs that are no more, or are about to change."""
        for name in names:
            self._seen.pop(name, None)

    def _pool_of_threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="look")
            return self._threads

    def _ask(self, key: EngineKey, jobs: Sequence[Deployment]) -> bool:
        """Have an engine asked, if it is not being asked; answers whether it is asked now."""
        if key in self._asked:
            return False
        self._asked[key] = (jobs, self._pool_of_threads().submit(self._look_at, key, jobs))
        return True

    def _taken(self, key: EngineKey, jobs: Sequence[Deployment], now: bool) -> Observation:
        """The answer of an engine, if it is there; it is used once."""
        asked, answer = self._asked[key]
        if not answer.done():
            return self._silence(key[1], jobs, "has not answered yet")
        del self._asked[key]
        look = answer.result()
        if now:
            return look
        # What was asked in an earlier round may be of an attempt that was replaced since.
        same = {job.job_name for job, handle in asked if (job, handle) in jobs}
        statuses = {name: status for name, status in look.statuses.items() if name in same}
        return Observation(statuses, {}, look.silent)

    def _silence(self, address: str, jobs: Iterable[Deployment], why: str) -> Observation:
        unknown = JobStatus(JobState.UNKNOWN, self.clock(), f"{address}: {why}")
        return Observation({job.job_name: unknown for job, _ in jobs}, {}, {address: why})

    def _look_at(self, key: EngineKey, jobs: Sequence[Deployment]) -> Observation:
        address = key[1]
        try:
            statuses = self._statuses(key, jobs)
            if all(each.state is JobState.UNKNOWN for each in statuses.values()):
                return Observation(statuses, {}, {address: next(iter(statuses.values())).message})
            return Observation(statuses, self._found(key))
        except Exception as error:
            return self._silence(address, jobs, f"internal error: {error!r}")

    def _found(self, key: EngineKey) -> dict[str, Sequence[Found]]:
        binder = self.pool.engine_at(*key)
        try:
            return {key[1]: binder.running()} if isinstance(binder, ListsRunning) else {}
        except SpeckError:
            return {}  # it cannot be told what else runs there

    def _statuses(self, key: EngineKey, jobs: Sequence[Deployment]) -> dict[str, JobStatus]:
        try:
            binder = self.pool.engine_at(*key)
        except SpeckError as error:
            lost = JobStatus(JobState.UNKNOWN, self.clock(), str(error))
            return {job.job_name: lost for job, _ in jobs}
        if isinstance(binder, BatchStatus):
            statuses = binder.statuses([handle for _, handle in jobs])
            return {job.job_name: statuses[handle.engine_id] for job, handle in jobs}
        return self._one_by_one(binder, jobs)

    def _one_by_one(self, binder: EngineBinder, jobs: Iterable[Deployment]) -> dict[str, JobStatus]:
        """An engine that does not answer costs one call: its other jobs are UNKNOWN without being asked."""
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
