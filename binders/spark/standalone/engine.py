"""The binder for Spark standalone: one job is one driver in cluster mode, with executors of its own.

**Running an attempt once.**  An attempt that was submitted twice, because an answer was lost or by two
coordinators, has two drivers; a lease in the checkpoint (:mod:`binders.spark.standalone.lease`) decides which
of them runs, and the other exits.  So a handle has the attempt, and the driver is looked up; it also changes
when the master restarts it elsewhere.

**Status of a driver.**  It is in a file beside the driver's logs
(:mod:`binders.spark.standalone.driver_status`), also read through the worker: the coordinator polls it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import pyspark

from binders.common.named_locks import NamedLocks
from binders.spark.query import plan
from binders.spark.query.code_check import check_code
from binders.spark.query.history import BatchHistory
from binders.spark.query.options import STATE_KIND, checkpoint_of, checkpoints_of, same_storage
from binders.spark.query.progress import metrics_of
from binders.spark.standalone.driver_registry import HEAD_END, DriverRegistry
from binders.spark.standalone.driver_status import is_present
from binders.spark.standalone.healthcheck import standalone_checkup
from binders.spark.standalone.job_drivers import JobDrivers, rejection
from binders.spark.standalone.master import Cluster, Master
from binders.spark.standalone.measurements import Measurements
from binders.spark.standalone.rehearsals import Rehearsals
from binders.spark.standalone.room import Room
from binders.spark.standalone.submission import Submitter
from binders.spark.standalone.workers import slots_of, workers_of
from speck.binder import ArtifactServer, EngineBinder
from speck.core.engine_plan import EnginePlan
from speck.core.inventory import Inventory, is_loopback
from speck.core.job import Job
from speck.core.profile import CoreProbe, JobSample, LinkProbe
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
from speck.errors import BinderError, NoCapacity, Rejected, StateLost

START_TIMEOUT = 120.0  # s, for a driver to start and the job's code to come to a started query
STOP_GRACE = 30.0  # s, for the current batch

_MAX_LOG = 1 << 20  # bytes
_LONG_LINE = 500  # bytes

_T = TypeVar("_T")


class StandaloneEngine(EngineBinder):
    """The engine at one ``spark://HOST:PORT``.  See :class:`speck.binder.EngineBinder` for the methods."""

    log_about = (
        "from the log of the job's driver, after its output (marked out:); the output of functions in "
        "executors is in the logs of their workers"
    )

    def __init__(self, address: str, inventory: Inventory) -> None:
        self.address = address
        self.start_timeout = START_TIMEOUT
        self.stop_grace = STOP_GRACE
        self._known = inventory.engine(address)
        self._master = Master(address, self._known)
        self._submitter = Submitter(address, self._master, inventory)
        self._locks = NamedLocks()  # of attempts
        self._drivers = DriverRegistry(address, self._master)
        self._room = Room(self._master, self._drivers, self._known.slots)
        self._rehearsals = Rehearsals(self._master, self._submitter, self._drivers, self._room)
        self._measurements = Measurements(self._master, self._submitter, self._drivers, inventory)
        self._job_drivers = JobDrivers(self._master, self._submitter, self._drivers)
        self._batches = BatchHistory()

    def take_artifacts(self, server: ArtifactServer) -> None:
        """See :meth:`speck.binder.EngineBinder.take_artifacts`."""
        self._submitter.server = server

    # -- the contract

    def check(self, job: Job, state: State | None) -> None:
        """Check version, web interfaces, the code, the state, and free capacity; starts nothing.

        Raises :class:`~speck.errors.NoCapacity` also when the free capacity is reserved for others.  The
        existence of a state is checked for a master on this machine only; elsewhere the driver checks it.
        """
        self._submitter.check()
        self._refuse(self._master.version_fault(pyspark.__version__))
        self._check_code(job)
        cluster = self._master.cluster()
        self._refuse(self._master.address_fault(cluster))
        if not cluster.workers:
            raise NoCapacity(f"{self.address} has no worker that is alive", address=self.address)
        self._master.check_worker(cluster.workers[0])
        if state is not None:
            self._check_state(state, job)
        self._room.reserve(job.job_name)

    def check_acceptance(self) -> None:
        """Check that the master's REST server answers, and the version and the address of the master."""
        self._refuse(self._master.version_fault(pyspark.__version__))
        self._refuse(self._master.address_fault(self._master.cluster()))

    def build_job(self, job: Job) -> None:
        """Build the job in a driver of its own; see :class:`~binders.spark.standalone.rehearsals.Rehearsals`.

        Raises :class:`~speck.errors.NoCapacity` without a core and memory for that driver.
        """
        fault = check_code(Path(job.job_path), job.entry_class) or self._rehearsals.build(job)
        if fault:
            raise rejection(job, self.address, fault, "built")

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Start a driver for the attempt, and wait until its query has started.

        Raises :class:`~speck.errors.Rejected` when the job's code fails or Spark rejects it and
        :class:`~speck.errors.NoCapacity` when no worker accepts the driver, in which cases nothing runs, and
        :class:`~speck.errors.OutcomeUnknown` when the query may or may not run.
        """
        try:
            with self._locks.of(attempt.id):
                self._job_drivers.start(job, attempt, stop_grace=self.stop_grace, timeout=self.start_timeout)
                return self._handle(attempt)
        finally:
            self._room.release(job.job_name)

    def find(self, attempt: Attempt) -> Handle | None:
        """The driver of the attempt, also one whose query has failed.

        Raises :class:`~speck.errors.OutcomeUnknown` while a driver waits for a worker which may be the
        attempt's.
        """
        chosen = self._drivers.find(attempt.id, strict=True)
        if chosen is None or self._job_drivers.is_stopped(attempt.id) or not is_present(*chosen):
            return None
        return self._handle(attempt)

    def status(self, handle: Handle) -> JobStatus:
        """The status by the driver's status file, or else by the master's view of the driver."""
        return self.statuses([handle])[handle.engine_id]

    def statuses(self, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        """The statuses of many jobs by ``engine_id``: one request to the master, and one for each driver."""
        attempts = [handle.engine_id for handle in handles]
        try:
            cluster = self._master.cluster()
            unknown = self._drivers.identify(cluster)
        except BinderError as error:
            unreachable = JobStatus(JobState.UNKNOWN, time.time(), str(error))
            return dict.fromkeys(attempts, unreachable)
        return {each: self._job_drivers.status(each, cluster, unknown) for each in attempts}

    def running(self) -> list[Found]:
        """The active drivers of SpecK, as far as they are identified."""
        cluster = self._master.cluster()
        return [marks.found(marks.attempt) for marks in self._drivers.active(cluster)]

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """Request the driver to stop after the current batch; kill it if it does not.

        Without a state to keep, the driver is killed at once.  The state is the checkpoint; ``None`` for a
        query that was never started.  Raises :class:`~speck.errors.StateLost` for a checkpoint that is not
        there, if this machine sees the cluster's files (elsewhere the driver that is to start from it looks);
        the query is not stopped in that case.  Raises :class:`~speck.errors.OutcomeUnknown` for a driver that
        may be the attempt's and is not identified.
        """
        attempt = handle.engine_id
        chosen = self._drivers.find(attempt, strict=True)
        status = chosen[1] if chosen is not None else None
        if keep_state and (chosen is None or (status is not None and status.ran)):
            self._check_checkpoint(handle)
        if chosen is not None:
            if keep_state and status is not None:
                self._job_drivers.end_batch(attempt, status, self.stop_grace)
            self._job_drivers.kill(attempt)
        self._job_drivers.note_stopped(attempt)
        if not keep_state or (status is not None and not status.ran):
            return None
        return State(STATE_KIND, handle.details["checkpoint"])

    def _check_checkpoint(self, handle: Handle) -> None:
        fault = self.state_fault(State(STATE_KIND, handle.details["checkpoint"]))
        if is_loopback(self._master.host) and fault is not None:
            raise StateLost(
                f"job {handle.details['job']!r}: its checkpoint is gone: {fault} (put it back, or write "
                "'upgrade: stateless' to start without it)",
                address=self.address,
            )

    def state_of(self, handle: Handle) -> State | None:
        """The checkpoint of the driver's query."""
        return State(STATE_KIND, handle.details["checkpoint"])

    def state_fault(self, state: State) -> str | None:
        """The reason why drivers here may not see a checkpoint; ``None`` if they do, or may.

        The checkpoint is looked up if the cluster is on this machine; elsewhere its location is compared with
        the engine's checkpoint directory.
        """
        if state.kind != STATE_KIND:
            return f"state of kind {state.kind!r} is not Spark's (expected {STATE_KIND})"
        place = Path(state.location)
        if not is_loopback(self._master.host):
            seen = same_storage(state.location, checkpoints_of(self._known))
        else:
            # If the folder of the job's checkpoints exists, this machine's files are the engine's.
            seen = not place.parent.is_dir() or (place / "metadata").exists()
        advice = "expected checkpoint_dir of the sites to be visible to all of them"
        return None if seen else f"{self.address} finds no checkpoint at {state.location!r} ({advice})"

    def left_state(self, handle: Handle) -> State | None:
        """The query's checkpoint; the engine that is to read it must check that it can."""
        return State(STATE_KIND, handle.details["checkpoint"])

    def metrics(self, handle: Handle) -> JobMetrics:
        """The metrics of the last progress report.  Raises :class:`~speck.errors.Rejected` for a lost job."""
        return self._metrics(handle, self._identified())

    def measure(self, handles: Iterable[Handle]) -> dict[str, JobMetrics | BinderError]:
        """The metrics of many jobs by ``engine_id``: one request to the master, and one for each driver."""
        return self._sampled(handles, self._metrics)

    def profile(self, handles: Iterable[Handle]) -> dict[str, JobSample | BinderError]:
        """The counts of many jobs by ``engine_id``, by the requests of :meth:`measure`.

        Their batches are those of the reports that were read, one each time.
        """
        return self._sampled(handles, self._profile)

    def _sampled(
        self, handles: Iterable[Handle], sample: Callable[[Handle, Cluster], _T]
    ) -> dict[str, _T | BinderError]:
        cluster = self._identified()
        found: dict[str, _T | BinderError] = {}
        for handle in handles:
            try:
                found[handle.engine_id] = sample(handle, cluster)
            except BinderError as error:
                found[handle.engine_id] = error
        return found

    def _identified(self) -> Cluster:
        """The cluster now; its drivers are identified, also those that another coordinator has started."""
        cluster = self._master.cluster()
        self._drivers.identify(cluster)
        return cluster

    def _metrics(self, handle: Handle, cluster: Cluster) -> JobMetrics:
        report = self._report(handle, cluster)
        self._batches.note(handle.engine_id, report)
        return metrics_of(report, time.time())

    def _profile(self, handle: Handle, cluster: Cluster) -> JobSample:
        cores = sum(worker.cores for worker in cluster.workers)
        run = handle.engine_id
        return self._batches.sample(
            run, run, lambda: self._report(handle, cluster), lambda: [self._report(handle, cluster)], cores
        )

    def _report(self, handle: Handle, cluster: Cluster) -> str | None:
        chosen = self._drivers.choose(handle.engine_id, cluster)
        if chosen is None or not is_present(*chosen) or self._job_drivers.is_stopped(handle.engine_id):
            self._batches.forget(handle.engine_id)
            name = handle.details.get("job", "")
            raise Rejected(f"{self.address} runs no driver of job {name!r}", address=self.address)
        status = chosen[1]
        return status.progress if status is not None else None

    def probe_link(self, broker: str) -> LinkProbe:
        """See :class:`~binders.spark.standalone.measurements.Measurements`."""
        return self._measurements.link(broker)

    def reach(self, broker: str) -> float:
        """See :class:`~binders.spark.standalone.measurements.Measurements`."""
        return self._measurements.reach(broker)

    def probe_core(self) -> CoreProbe:
        """See :class:`~binders.spark.standalone.measurements.Measurements`."""
        return self._measurements.core()

    def capacity(self) -> Capacity:
        """Cores and memory of the workers that are alive; ``slots`` are the inventory's, if it has them."""
        cluster = self._master.cluster()
        slots = slots_of(cluster, self._known)
        running = len(self._drivers.active_jobs(cluster)) if slots is not None else 0
        return Capacity(
            slots=slots,
            slots_free=max(0, slots - running) if slots is not None else None,
            cores=sum(worker.cores for worker in cluster.workers),
            memory=sum(worker.memory for worker in cluster.workers),
            memory_free=sum(worker.memory_free for worker in cluster.workers),
        )

    def workers(self) -> list[Worker]:
        """The workers that are alive; one is free without a driver and an executor."""
        return workers_of(self._master.cluster())

    def log_tail(self, handle: Handle, lines: int) -> list[str]:
        """The end of the driver's output, at most half of the lines, and the end of its log."""
        cluster = self._identified()
        chosen = self._drivers.choose(handle.engine_id, cluster)
        worker = cluster.worker(chosen[0].worker) if chosen is not None else None
        if chosen is None or worker is None or self._job_drivers.is_stopped(handle.engine_id):
            name = handle.details.get("job", "")
            raise Rejected(f"{self.address} has no log of a driver of job {name!r}", address=self.address)
        size = min(_MAX_LOG, lines * _LONG_LINE)
        kinds = ("stdout", "stderr")
        texts = (self._master.log(worker, chosen[0].id, kind, start=None, length=size).text for kind in kinds)
        # The head is the command that started the driver, some kilobytes in one line.
        printed, logged = (text.rpartition(HEAD_END)[2].splitlines() for text in texts)
        half = [f"out: {line}" for line in printed[-(lines // 2) :]] if lines > 1 else []
        return half + logged[len(half) - lines :]

    def engine_plan(self, handle: Handle) -> EnginePlan:
        """The physical plan of the query's last batch, from its driver; see :mod:`binders.spark.query.plan`.

        Raises :class:`~speck.errors.Rejected` while the driver's query does not run.
        """
        cluster = self._identified()
        report = self._report(handle, cluster)
        chosen = self._drivers.choose(handle.engine_id, cluster)
        status = chosen[1] if chosen is not None else None
        if status is None or status.kind != "running" or not status.control:
            name = handle.details.get("job", "")
            message = f"{self.address}: the driver of job {name!r} runs no query that has a plan"
            raise Rejected(message, address=self.address)
        text = self._master.physical_plan(status.control, self._submitter.stop_token(handle.engine_id))
        return plan.engine_plan(text, plan.source_partitions(report))

    def checkup(self) -> Checkup:
        """See :func:`binders.spark.standalone.healthcheck.standalone_checkup`."""
        return standalone_checkup(self._master, self._known.scale is not None)

    def close(self) -> None:
        """Close the connections; drivers continue to run."""
        self._master.close()

    # -- helpers

    def _handle(self, attempt: Attempt) -> Handle:
        details: Mapping[str, str] = {
            "job": attempt.job_name,
            # Found by its number alone, an attempt does not name the state that it started from.
            "checkpoint": self._drivers.checkpoint(attempt.id) or checkpoint_of(attempt, self._known),
        }
        return Handle(self.address, attempt.id, details)

    def _refuse(self, fault: str | None) -> None:
        if fault is not None:
            raise Rejected(fault, address=self.address)

    def _check_code(self, job: Job) -> None:
        fault = check_code(Path(job.job_path), job.entry_class)
        if fault is not None:
            raise rejection(job, self.address, fault)

    def _check_state(self, state: State, job: Job) -> None:
        fault = self.state_fault(state)
        self._refuse(fault and f"job {job.job_name!r}: {fault}")
