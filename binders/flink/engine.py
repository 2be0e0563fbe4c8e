"""The binder for Flink: one job is one job of a session cluster, started over REST under the attempt's id.

Flink accepts each id once, so an attempt that is submitted again starts no second job, and the attempt alone
identifies its job.  State that several binders of one cluster share within this process is in
:mod:`binders.flink.submission.cluster_state`; all else is queried from the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from binders.flink import logs, plan, probes
from binders.flink.healthcheck import checkup_of
from binders.flink.rest.client import FlinkRest
from binders.flink.rest.overviews import FALTERING, JobLine
from binders.flink.rest.requests import FlinkRefused, NotReady
from binders.flink.rest.stack_trace import root_cause
from binders.flink.rest.validation import total
from binders.flink.state import locations
from binders.flink.state.first_checkpoint import FirstCheckpoints
from binders.flink.state.savepoints import SavepointManager
from binders.flink.submission.cluster_state import cluster_state_of
from binders.flink.submission.jar_gc import JarGarbageCollector
from binders.flink.submission.job_config import STATE_KIND, attempt_directories, directories
from binders.flink.submission.labels import found
from binders.flink.submission.launcher import Launcher
from binders.flink.submission.preflight import Preflight
from binders.flink.workers import cores_of, idle_cores, workers_of
from speck.binder import EngineBinder
from speck.core.engine_plan import EnginePlan
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.profile import CoreProbe, JobSample, LinkProbe, mean_event_loop
from speck.core.runtime import (
    Attempt,
    Capacity,
    Checkup,
    Found,
    Handle,
    JobMetrics,
    JobState,
    JobStatus,
    State,
    Worker,
)
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable

SETTINGS_FRESH = 10.0  # s, for which a cluster's settings are cached

_GONE = ("CANCELED", "FINISHED")  # states of jobs without metrics
# SUSPENDED: the job's JobManager has ended, and another one is to recover the job.
_STARTING = frozenset({"INITIALIZING", "CREATED", "RECONCILING", "SUSPENDED"})

_T = TypeVar("_T")


@dataclass
class FlinkEngine(EngineBinder):
    """The engine at one ``http(s)://HOST:PORT``.  See :class:`speck.binder.EngineBinder` for the methods."""

    address: str
    inventory: Inventory
    rest: FlinkRest = field(init=False)
    log_about: str = field(default=logs.ABOUT, init=False)

    def __post_init__(self) -> None:
        self._known = self.inventory.engine(self.address)
        self.rest = FlinkRest(self.address, self._known.engine_login)
        self.savepoints = SavepointManager(self.rest)
        self._first_checkpoints = FirstCheckpoints(self.rest)
        self._cluster = cluster_state_of(self.address)
        self._settings: Mapping[str, str] = {}
        self._settings_fetched = float("-inf")
        self._jar_gc = JarGarbageCollector(self.rest, self._cluster)
        self._preflight = Preflight(self.rest, self._cluster, self._jar_gc, self._known, self._fresh_settings)
        self._launcher = Launcher(
            self.rest, self._cluster, self.savepoints, self._jar_gc, self.inventory, self._handle
        )

    # -- the contract

    def check(self, job: Job, state: State | None) -> None:
        """Check the version, the state directories, the state, the code and free slots, and upload the jar.

        Starts and stops nothing.  Raises :class:`~speck.errors.NoCapacity` when too few slots are free;
        slots reserved for other jobs are not, and those of a running copy of this one are.
        """
        self._preflight.check(job, state)

    def check_acceptance(self) -> None:
        """Check the version, and that the cluster accepts jobs over REST (``web.submit.enable``)."""
        self._preflight.check_acceptance()

    def build_job(self, job: Job) -> None:
        """Have the cluster make the job graph: its main method, or its Python program, runs up to there."""
        self._launcher.build(job)

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Run the jar's main method, or the Python program, with the attempt's id.

        Raises :class:`~speck.errors.Rejected` when the job's code fails or Flink rejects it, in which case
        nothing runs, and :class:`~speck.errors.OutcomeUnknown` when the job may or may not run.
        """
        return self._launcher.submit(job, attempt)

    def find(self, attempt: Attempt) -> Handle | None:
        """The job of the attempt, also one that has failed or finished.

        Raises :class:`~speck.errors.OutcomeUnknown` while an unanswered submit of this process may still
        start a job: Flink runs the job's main method for as long as that takes.
        """
        return self._launcher.find(attempt)

    def status(self, handle: Handle) -> JobStatus:
        """The status of the job as the cluster reports it.

        STARTING until all of its tasks run, and again while Flink restarts it (the message has the cause).
        STOPPED if it was cancelled or stopped with a savepoint, LOST if the cluster does not know it.
        """
        return self.statuses([handle])[handle.engine_id]

    def statuses(self, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        """The statuses of many jobs by ``engine_id``: one request, and one more for each that faltered."""
        ids = [handle.engine_id for handle in handles]
        try:
            jobs = self.rest.jobs()
            seen = {each: self._observed(each, jobs.get(each)) for each in ids}
        except BinderError as error:
            seen = {each: (JobState.UNKNOWN, str(error)) for each in ids}
        now = time.time()
        return {each: JobStatus(state, now, message) for each, (state, message) in seen.items()}

    def running(self) -> list[Found]:
        """The jobs that have not ended; one request, and one more for each that is new to this process."""
        return [found(line, self._jar_gc.labels(line.id)) for line in self._jar_gc.live_jobs()]

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """Stop the job with a savepoint, or cancel it; delete its jar unless another job runs the same code.

        The state of a job that cannot take a savepoint (it has ended, or fails to start) is its last
        checkpoint.  Raises :class:`~speck.errors.Rejected` when the savepoint fails: the job goes on running.
        """
        location = self.savepoints.stop(handle, keep_state)
        self._cluster.metrics.forget(handle.engine_id)
        self._first_checkpoints.forget(handle.engine_id)
        self._cluster.slots.copy_stopped(handle.details.get("job", ""))
        self._jar_gc.collect_after(handle.engine_id, required=not keep_state)
        return State(STATE_KIND, location) if location else None

    def has_worked(self, handle: Handle) -> bool | None:
        """True if the job has completed a checkpoint since it was started; ``None``: not yet, or it cannot.

        One is requested, in which all of its tasks take part.
        """
        return self._first_checkpoints.completed(handle.engine_id) or None

    def state_of(self, handle: Handle) -> State | None:
        """The folder to which the job's savepoint will be written."""
        place = handle.details.get("savepoints")
        return State(STATE_KIND, place) if place else None

    def state_fault(self, state: State) -> str | None:
        """The reason why this cluster may not be able to read the state, by the directories of both clusters.

        Flink has no request to look at a file: a missing state is detected only when a job starts from it.
        """
        if state.kind != STATE_KIND:
            return f"state of kind {state.kind!r} is not Flink's (expected {STATE_KIND})"
        own = directories(self._known, self._fresh_settings())
        fault = locations.unshared(state, [own.savepoints, own.checkpoints], self.address)
        advice = "expected savepoint_dir of both sites in one place that both see, or upgrade: stateless"
        return None if fault is None else f"{fault} ({advice})"

    def dispose_state(self, state: State) -> None:
        """Have the cluster delete a savepoint, or a retained checkpoint."""
        self.savepoints.dispose(state.location)

    def kept_nothing(self, handle: Handle) -> bool:
        """True if a job that was started without a state ended before its first checkpoint."""
        return self.savepoints.made_no_checkpoint(handle)

    def left_state(self, handle: Handle) -> State | None:
        """The newest checkpoint or savepoint among the files that this machine sees."""
        location = self.savepoints.newest_on_disk(handle)
        return State(STATE_KIND, location) if location else None

    def metrics(self, handle: Handle) -> JobMetrics:
        """See :meth:`binders.flink.metrics.collector.MetricsCollector.metrics`.

        Raises :class:`~speck.errors.Rejected` for a job that has ended.
        """
        found = self._cluster.metrics.metrics(self.rest, handle.engine_id)
        state = self.rest.job_state(handle.engine_id) if found is not None else None
        if found is None or state in (None, *_GONE):
            raise self._not_running(handle)
        return found

    def measure(self, handles: Iterable[Handle]) -> dict[str, JobMetrics | BinderError]:
        """The metrics of many jobs by ``engine_id``; the states of all by one request.

        Raises :class:`~speck.errors.Unreachable` and :class:`~speck.errors.OutcomeUnknown`.
        """
        return self._sampled(handles, self._cluster.metrics.metrics)

    def profile(self, handles: Iterable[Handle]) -> dict[str, JobSample | BinderError]:
        """The counts of many jobs by ``engine_id``; raises as :meth:`measure`.

        See :meth:`binders.flink.metrics.collector.MetricsCollector.profile`.  Two requests give the processor
        time of all TaskManagers, and if it includes that of the JobManager.
        """
        found = self._sampled(handles, self._cluster.metrics.profile)
        samples = {key: each for key, each in found.items() if isinstance(each, JobSample) and each.vertices}
        if samples:
            busy = {key: sum(vertex.busy for vertex in each.vertices) for key, each in samples.items()}
            spent = self.rest.workers_processor_time()
            messages = {
                key: (each.messages_in or 0) + (each.messages_out or 0) for key, each in samples.items()
            }
            idle = idle_cores(self.rest.task_managers())
            loop = mean_event_loop((each.event_loop, messages[key]) for key, each in samples.items())
            share = self._cluster.processor_share.add(time.monotonic(), spent, busy, messages, idle, loop)
            found |= {key: replace(each, processor_share=share) for key, each in samples.items()}
        return found

    def _sampled(
        self, handles: Iterable[Handle], sample: Callable[[FlinkRest, str], _T | None]
    ) -> dict[str, _T | BinderError]:
        jobs = self.rest.jobs()
        return {each.engine_id: self._sample(each, jobs.get(each.engine_id), sample) for each in handles}

    def _sample(
        self, handle: Handle, line: JobLine | None, sample: Callable[[FlinkRest, str], _T | None]
    ) -> _T | BinderError:
        if line is None or line.state in _GONE:
            return self._not_running(handle)
        try:
            found = sample(self.rest, handle.engine_id)
        except (Unreachable, OutcomeUnknown):
            raise
        except BinderError as error:
            return error
        return self._not_running(handle) if found is None else found

    def _not_running(self, handle: Handle) -> Rejected:
        name = handle.details.get("job", "")
        return Rejected(f"{self.address} runs no job {handle.engine_id} ({name})", address=self.address)

    def probe_link(self, broker: str) -> LinkProbe:
        """Run a program that sends messages of some seconds, at most 4 MiB, to a topic without a reader."""
        return self._probed(probes.link_job(self.address, broker), probes.link_probe)

    def reach(self, broker: str) -> float:
        """Run a program that sends one byte to a topic without a reader."""
        return self._probed(
            probes.reach_job(self.address, broker), lambda found: probes.link_probe(found).rtt
        )

    def probe_core(self) -> CoreProbe:
        """Run a program that takes some seconds of a core."""
        return self._probed(probes.core_job(self.address), probes.core_probe)

    def _probed(self, job: Job, read: Callable[[Mapping[str, str]], _T]) -> _T:
        self.check(job, None)
        handle = self.submit(job, probes.attempt_of(job))
        try:
            return read(probes.results(self.rest, job, handle.engine_id))
        except (KeyError, ValueError) as error:
            what = f"{job.entry_class} reports no {error}"
            message = f"{self.address}: {what} (expected the connector of this version)"
            raise Rejected(message, address=self.address) from error
        finally:
            self.stop(handle, keep_state=False)

    def capacity(self) -> Capacity:
        """The slots of the cluster, the cores of its machines, and the memory (bytes) of its TaskManagers."""
        seen = self.rest.overview()
        managers = self.rest.task_managers()
        return Capacity(
            slots=seen.slots,
            slots_free=seen.slots_free,
            cores=cores_of(managers),
            memory=total(managers, "memoryConfiguration", "totalProcessMemory"),
        )

    def workers(self) -> list[Worker]:
        """The TaskManagers; see :mod:`binders.flink.workers`."""
        return workers_of(self.rest)

    def log_tail(self, handle: Handle, lines: int) -> list[str]:
        """See :mod:`binders.flink.logs`."""
        return logs.log_tail(self.rest, handle.engine_id, handle.details.get("job", ""), lines)

    def engine_plan(self, handle: Handle) -> EnginePlan:
        """The job graph, its vertices taken apart into operators; see :mod:`binders.flink.plan`.

        Raises :class:`~speck.errors.Rejected` for a job that the cluster does not know.
        """
        details = self.rest.job_details(handle.engine_id)
        if details is None:
            raise self._not_running(handle)
        return plan.engine_plan(details)

    def checkup(self) -> Checkup:
        """Version, slots, state directories, and the clock as inferred from the TaskManagers' heartbeats."""
        before = time.time()
        managers = self.rest.task_managers()
        requested = (before, time.time())
        return checkup_of(self.rest.overview(), managers, self.rest.settings(), self._known, requested)

    def close(self) -> None:
        """Close the connections; jobs continue to run."""
        self.rest.close()

    def _handle(self, attempt: Attempt) -> Handle:
        at = attempt_directories(self._known, self._cluster_settings(), attempt)
        details = {"job": attempt.job_name, "checkpoints": at.checkpoints, "savepoints": at.savepoints}
        if attempt.state is not None:
            details["state"] = attempt.state.location
        return Handle(self.address, attempt.id, details)

    # -- observing

    def _observed(self, job: str, line: JobLine | None) -> tuple[JobState, str]:
        """As :meth:`_observe`; unknown where Flink answers about this job with an error."""
        try:
            return self._observe(job, line)
        except Rejected as error:
            return JobState.UNKNOWN, str(error)

    def _observe(self, job: str, line: JobLine | None) -> tuple[JobState, str]:
        if line is None:
            return JobState.LOST, f"{self.address} does not know the job"
        if line.state == "RUNNING":
            return (JobState.RUNNING, "") if line.up else (JobState.STARTING, _waiting(line))
        if line.state in _STARTING:
            return JobState.STARTING, line.state.lower()
        if line.state in FALTERING:
            return JobState.STARTING, f"{line.state.lower()} after: {self._failure(job)}"
        if line.state == "FAILED":
            return JobState.FAILED, self._failure(job)
        if line.state == "CANCELED":
            return JobState.STOPPED, "canceled"
        if line.state == "FINISHED":
            savepoint = self.savepoints.savepoint_of(job)
            return (
                (JobState.STOPPED, f"stopped, state at {savepoint}") if savepoint else (JobState.FINISHED, "")
            )
        return JobState.RUNNING, line.state.lower()  # CANCELLING: its tasks are still running

    def _failure(self, job: str) -> str:
        """The cause of a failure; the state of the job is known without it."""
        cause = ""
        with suppress(FlinkRefused, NotReady):
            cause = root_cause(self.rest.root_exception(job))
        return cause or "a failure that Flink does not report"

    def _cluster_settings(self) -> Mapping[str, str]:
        """The settings as last fetched: a job that was just started was checked with them."""
        return self._settings or self._fresh_settings()

    def _fresh_settings(self) -> Mapping[str, str]:
        """The settings, fetched again after a while: the cluster may have been restarted with others."""
        if time.monotonic() > self._settings_fetched + SETTINGS_FRESH:
            self._settings = self.rest.settings()
            self._settings_fetched = time.monotonic()
        return self._settings


def _waiting(line: JobLine) -> str:
    waiting = {state: count for state, count in line.tasks.items() if count and state != "total"}
    return "tasks: " + ", ".join(f"{count} {state}" for state, count in sorted(waiting.items()))


def connect_engine(address: str, inventory: Inventory) -> FlinkEngine:
    """The binder of the Flink cluster at ``http(s)://HOST:PORT``; opens no connection yet."""
    return FlinkEngine(address, inventory)
