"""The drivers of attempts: starts them, observes them, and ends them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from binders.spark.standalone.driver_registry import HEAD, DriverRegistry
from binders.spark.standalone.driver_status import DriverStatus, is_present, last_error_line, state_of
from binders.spark.standalone.master import Cluster, Driver, Master
from binders.spark.standalone.submission import Submitter
from speck.core.job import Job, job_title
from speck.core.runtime import Attempt, JobState, JobStatus
from speck.errors import BinderError, NoCapacity, OutcomeUnknown, Rejected

END_TIMEOUT = 30.0  # s, for a killed driver; a worker waits 10 s before it uses SIGKILL

_POLL = 0.2  # s


class JobDrivers:
    """The drivers of attempts at one cluster; its methods name an attempt by its id."""

    def __init__(self, master: Master, submitter: Submitter, drivers: DriverRegistry) -> None:
        self.address = master.address
        self._master, self._submitter, self._drivers = master, submitter, drivers
        self._stopped: set[str] = set()  # attempts that were stopped here, which the master may still list

    # -- observing

    def is_stopped(self, attempt: str) -> bool:
        """True if the attempt was stopped here, although the master may still list its driver."""
        return attempt in self._stopped

    def status(self, attempt: str, cluster: Cluster, unknown: list[Driver]) -> JobStatus:
        """The status of the attempt's job; ``unknown`` are the drivers that are not identified."""
        try:
            state, message = self._observe(attempt, cluster, unknown)
        except BinderError as error:
            state, message = JobState.UNKNOWN, str(error)
        return JobStatus(state, time.time(), message)

    def _observe(self, attempt: str, cluster: Cluster, unknown: list[Driver]) -> tuple[JobState, str]:
        chosen = self._drivers.choose(attempt, cluster)
        if self.is_stopped(attempt) and (chosen is None or not chosen[0].active):
            return JobState.LOST, "the job was stopped"
        if chosen is None and unknown:
            names = ", ".join(driver.id for driver in unknown)
            return JobState.UNKNOWN, f"{self.address} has drivers that are not identified yet ({names})"
        if chosen is None:
            return JobState.LOST, f"Spark master {self.address} does not know the job's driver"
        driver, status = chosen
        if driver.state == "RELAUNCHING" and unknown:
            return JobState.STARTING, f"driver {driver.id} is being restarted on another worker"
        waits = any(attempt in name for name in cluster.waiting)
        state, message = state_of(driver, status, waits)
        if state is JobState.FAILED and (status is None or status.kind == "running"):
            message = f"{message}: {self._end_reason(driver, cluster)}"
        return state, message

    def _end_reason(self, driver: Driver, cluster: Cluster) -> str:
        """The reason of the end of a driver that did not write it to its status file."""
        if driver.state == "ERROR":
            return self._master.failure(driver.id) or "no reason given"
        worker = cluster.worker(driver.worker)
        if worker is None:
            return "its worker is lost"
        log = self._master.log(worker, driver.id, "stderr", start=None, length=HEAD)
        return last_error_line(log.text) or "its log is empty"

    # -- starting

    def start(self, job: Job, attempt: Attempt, *, stop_grace: float, timeout: float) -> None:
        """Submit a driver, unless the attempt has one, and wait until its query has started.

        ``stop_grace`` (s) is the driver's time to end its last batch, ``timeout`` (s) that for its start.
        Raises :class:`~speck.errors.Rejected` for code that fails, :class:`~speck.errors.NoCapacity` for a
        driver that no worker accepts, and :class:`~speck.errors.OutcomeUnknown`.
        """
        chosen = self._drivers.find(attempt.id, strict=False)
        if chosen is None:
            driver = self._submitter.submit(job, attempt, stop_grace)
            self._drivers.add(driver, self._submitter.marks(job, attempt))
        elif not is_present(*chosen):
            raise rejection(job, self.address, "this attempt has ended before (expected a new attempt)")
        self._await_start(job, attempt.id, timeout)

    def _await_start(self, job: Job, attempt: str, timeout: float) -> None:
        begin = time.monotonic()
        while True:
            overdue = time.monotonic() - begin > timeout
            with self._submitted():
                cluster = self._master.cluster()
                self._drivers.identify(cluster)
                chosen = self._drivers.choose(attempt, cluster)
                if chosen is None:
                    message = f"{self.address} has lost the driver of job {job.job_name!r}"
                    raise OutcomeUnknown(message, address=self.address)
                driver, status = chosen
                if status is not None and status.ran:
                    return
                fault = self._start_fault(driver, status, cluster)
                if fault or overdue:
                    self.kill(attempt)
            if fault or overdue:
                raise self._not_started(job, driver, fault, timeout)
            time.sleep(_POLL)

    @contextmanager
    def _submitted(self) -> Iterator[None]:
        """No error in the block means that nothing runs: the driver was submitted before."""
        try:
            yield
        except BinderError as error:
            raise OutcomeUnknown(str(error), address=self.address) from error

    def _start_fault(self, driver: Driver, status: DriverStatus | None, cluster: Cluster) -> str:
        """The reason why a driver will not start its query; empty while it may."""
        if status is not None and status.kind in ("refused", "stopped"):
            return status.message
        if not driver.active or (status is not None and status.crashes):
            return self._end_reason(driver, cluster)
        return ""

    def _not_started(self, job: Job, driver: Driver, fault: str, timeout: float) -> BinderError:
        if fault:
            return rejection(job, self.address, fault)
        if driver.state == "SUBMITTED":
            message = f"{self.address} has no room for job {job.job_name!r}: no worker accepted its driver"
            return NoCapacity(f"{message} in {timeout:g} s", address=self.address)
        reason = f"its code did not come to a started query in {timeout:g} s"
        return rejection(job, self.address, reason)

    # -- ending

    def end_batch(self, attempt: str, status: DriverStatus, grace: float) -> None:
        """Request the driver to stop after the current batch, and wait for its end.

        It has ``grace`` (s) for the batch.  A driver that refuses, or does not end in time, keeps running.
        """
        if status.kind != "running" or not status.control:
            return
        if self._master.request_stop(status.control, self._submitter.stop_token(attempt)):
            self._await_end(attempt, grace + END_TIMEOUT)

    def kill(self, attempt: str) -> None:
        """Kill all drivers of the attempt, and wait until the master reports their end.

        Raises :class:`~speck.errors.OutcomeUnknown` for one that does not end.
        """
        for driver in self._drivers.of_attempt(attempt, self._master.cluster()):
            if driver.active:
                self._master.kill(driver.id)
        if not self._await_end(attempt, END_TIMEOUT):
            raise OutcomeUnknown(
                f"{self.address} still runs the driver of attempt {attempt} {END_TIMEOUT:g} s after its kill",
                address=self.address,
            )
        self.note_stopped(attempt)

    def note_stopped(self, attempt: str) -> None:
        """Note that the attempt was stopped; an attempt without a driver is one, too."""
        self._stopped.add(attempt)

    def _await_end(self, attempt: str, patience: float) -> bool:
        """Wait for the end of its drivers and its application (the executors); true if they ended."""
        deadline = time.monotonic() + patience
        while self._is_running(attempt, self._master.cluster()):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True

    def _is_running(self, attempt: str, cluster: Cluster) -> bool:
        return any(driver.active for driver in self._drivers.of_attempt(attempt, cluster)) or any(
            attempt in name for name in cluster.applications
        )


def rejection(job: Job, address: str, reason: str, deed: str = "started") -> Rejected:
    """The error of a job that cannot be ``deed`` at an engine."""
    return Rejected(f"{job_title(job)} cannot be {deed} on {address}: {reason}", address=address)
