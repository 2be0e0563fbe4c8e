"""Starts a job under an attempt's id, and finds it again when the outcome of the start is unknown."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from binders.flink.rest.client import FlinkRest
from binders.flink.rest.requests import FlinkRefused, NotReady
from binders.flink.rest.stack_trace import root_cause
from binders.flink.state import locations
from binders.flink.state.savepoints import SavepointManager
from binders.flink.submission import pyflink
from binders.flink.submission.cluster_state import ClusterState, PendingSubmit
from binders.flink.submission.jar_gc import JarGarbageCollector
from binders.flink.submission.job_config import job_parameters, run_body
from binders.flink.submission.labels import labels_of
from binders.flink.submission.package import Package, is_python, package_of
from binders.flink.submission.preflight import rejection
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle
from speck.errors import BinderError, OutcomeUnknown, Unreachable

FIND_PATIENCE = 10.0  # s, for a job that another submit of the same attempt starts
PENDING = 120.0  # s, for which a main method whose run was not answered may still start a job
TRIES = 5  # of a Python program, while programs of other clients are started at the same time
OCCUPIED = 60.0  # s, for a program whose request timed out, and which the JobManager still starts
_POLL = 0.1  # s
_PAUSE = 1.0  # s, between tries that Flink begins with a server of its own each

_GONE = re.compile(r"does not exist|FileNotFoundException|NoSuchFileException")
_DUPLICATE = ("DuplicateApplicationSubmissionException", "DuplicateJobSubmissionException")


@dataclass(frozen=True)
class Launcher:
    """Starts the jobs of one cluster."""

    rest: FlinkRest
    cluster: ClusterState
    savepoints: SavepointManager
    jar_gc: JarGarbageCollector
    inventory: Inventory
    handle_of: Callable[[Attempt], Handle]

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Run the jar's main method, or the Python program, with the attempt's id.

        Raises :class:`~speck.errors.Rejected` when the job's code fails or Flink rejects it, in which case
        nothing runs, and :class:`~speck.errors.OutcomeUnknown` when the job may or may not run.
        """
        package, cluster = package_of(job), self.cluster
        submitting = cluster.slots.submitting(job.job_name, attempt.id)
        with submitting, cluster.jars.in_use(job.job_name, package.code):
            requested_at = time.monotonic()
            try:
                self._run(job, attempt, package)
            except FlinkRefused as error:
                try:
                    return self._after_rejection(job, attempt, error, requested_at)
                except Unreachable as away:  # whether it runs was not asked
                    raise OutcomeUnknown(str(away), address=self.rest.address) from away
            cluster.labels[attempt.id] = labels_of(job_parameters(job, attempt, package.code))
            cluster.live.add(attempt.id)
            cluster.pending_submits.pop(attempt.id, None)
        return self.handle_of(attempt)

    def build(self, job: Job) -> None:
        """Have the cluster make the graph of a job (``POST /jars/:id/plan``), which starts nothing.

        Raises :class:`~speck.errors.Rejected` when the job's code fails or Flink rejects it.
        """
        attempt = Attempt(id=uuid.uuid4().hex, job_name=job.job_name, number=0, session="speck-build")
        package, cluster = package_of(job), self.cluster
        with cluster.jars.in_use(job.job_name, package.code):
            try:
                self._on_jar(package, lambda jar: self._plan_jar(jar, job, attempt, package))
            except FlinkRefused as error:
                cause = pyflink.reason(error.trace) if is_python(job) else root_cause(error.trace)
                reason = f"cannot be built on {self.rest.address}: {cause}{_advice(error.trace)}"
                with suppress(BinderError):
                    self.jar_gc.collect()
                raise rejection(self.rest.address, job, reason) from error

    def find(self, attempt: Attempt) -> Handle | None:
        """The job of the attempt, also one that has failed, finished, or was lost with its cluster.

        A lost job is found by its checkpoints: it must be started from them, not anew.  Where they cannot be
        seen, a job counts as lost if a JobManager that has ended since may have started it.  Raises
        :class:`~speck.errors.OutcomeUnknown` while an unanswered submit of this process may still start one:
        Flink runs the job's main method for as long as that takes.
        """
        state = self.rest.job_state(attempt.id)
        if state is None:
            ended, lost = self._has_ended_amid(attempt), self.handle_of(attempt)
            is_lost = self.savepoints.has_checkpoint(lost) or (ended and not self.savepoints.sees(lost))
            return lost if is_lost else None
        self.cluster.pending_submits.pop(attempt.id, None)
        if state == "CANCELED" or (state == "FINISHED" and self.savepoints.savepoint_of(attempt.id)):
            return None
        handle = self.handle_of(attempt)
        restored = self._restored_from(attempt.id) if attempt.state is None else None
        return replace(handle, details={**handle.details, "state": restored}) if restored else handle

    def _restored_from(self, job: str) -> str | None:
        """The state from which a job was started; waits for a job that is initializing."""
        patience = stop_after_delay(FIND_PATIENCE)
        retry = retry_if_exception_type(NotReady)
        for one_try in Retrying(stop=patience, wait=wait_fixed(_POLL), retry=retry, reraise=True):
            with one_try:
                found = locations.restored(self.rest.checkpoints(job) or {})
        return found

    def _run(self, job: Job, attempt: Attempt, package: Package) -> None:
        self._on_jar(package, lambda jar: self._run_jar(jar, job, attempt, package))

    def _on_jar(self, package: Package, use: Callable[[str], None]) -> None:
        jars = self.cluster.jars
        jar = jars.jar(self.rest, package)
        try:
            use(jar)
        except FlinkRefused as error:
            if not _jar_is_missing(error, jar):
                raise
            # Deleted by another coordinator in between, or the cluster is a new one.
            jars.invalidate(package.code, jar)
            use(jars.jar(self.rest, package))

    def _body(self, job: Job, attempt: Attempt, package: Package) -> dict[str, Any]:
        known = self.inventory.engine(self.rest.address)
        details = self.handle_of(attempt).details
        checkpoints, savepoints = str(details["checkpoints"]), str(details["savepoints"])
        return run_body(job, attempt, package.code, known, self.inventory, checkpoints, savepoints)

    def _plan_jar(self, jar: str, job: Job, attempt: Attempt, package: Package) -> None:
        body = self._body(job, attempt, package)
        if not is_python(job):
            with self.cluster.submission_lock.shared():
                self.rest.plan(jar, body)
            return
        with self.cluster.submission_lock.exclusive():
            body = pyflink.python_run_body(
                body, pyflink.path_of(self.rest, jar), job, attempt, self.inventory
            )
            patiently(lambda: self.rest.plan(jar, body))

    def _run_jar(self, jar: str, job: Job, attempt: Attempt, package: Package) -> None:
        body = self._body(job, attempt, package)
        process = self.rest.process()
        try:
            if is_python(job):
                self._run_python(jar, body, job, attempt)
            else:
                with self.cluster.submission_lock.shared():
                    self.rest.run(jar, body)
        except OutcomeUnknown:
            pending = PendingSubmit(time.monotonic() + PENDING, process)
            self.cluster.pending_submits[attempt.id] = pending
            raise

    def _run_python(self, jar: str, body: Mapping[str, Any], job: Job, attempt: Attempt) -> None:
        """Run a Python program."""
        with self.cluster.submission_lock.exclusive():
            body = pyflink.python_run_body(
                body, pyflink.path_of(self.rest, jar), job, attempt, self.inventory
            )
            patiently(lambda: self.rest.run(jar, body))

    def _after_rejection(self, job: Job, attempt: Attempt, error: FlinkRefused, since: float) -> Handle:
        if any(name in error.trace for name in _DUPLICATE):
            return self._existing(job, attempt)
        line = self.rest.jobs().get(attempt.id)
        if line is not None and not line.ended and line.duration > time.monotonic() - since:
            return self.handle_of(attempt)  # it ran before this request
        # A main method that fails after it has started a job leaves it running.
        self.savepoints.end(attempt.id)
        with suppress(BinderError):
            self.jar_gc.collect()
        cause = pyflink.reason(error.trace) if is_python(job) else root_cause(error.trace)
        reason = f"cannot be started on {self.rest.address}: {cause}{_advice(error.trace)}"
        raise rejection(self.rest.address, job, reason) from error

    def _existing(self, job: Job, attempt: Attempt) -> Handle:
        """The job of an attempt that Flink has accepted before."""
        deadline = time.monotonic() + FIND_PATIENCE
        while self.rest.job_state(attempt.id) is None and time.monotonic() < deadline:
            time.sleep(_POLL)
        found = self.find(attempt)
        if found is None:
            raise rejection(
                self.rest.address,
                job,
                f"this attempt has ended before at {self.rest.address} (expected a new attempt)",
            )
        return found

    def _has_ended_amid(self, attempt: Attempt) -> bool:
        """True if the JobManager has ended that was submitted an attempt, and did not answer.

        Raises :class:`~speck.errors.OutcomeUnknown` while it may still start the job.
        """
        pending = self.cluster.pending_submits.get(attempt.id)
        if pending is None:
            return False
        if self._has_ended(pending.process):
            return True
        if time.monotonic() < pending.deadline:
            raise OutcomeUnknown(
                f"{self.rest.address}: job {attempt.job_name!r} does not run, but its main method was not "
                "answered and may still start it",
                address=self.rest.address,
            )
        self.cluster.pending_submits.pop(attempt.id, None)
        return False

    def _has_ended(self, process: str) -> bool:
        """True if another JobManager process has taken the place of this one, with all that it was asked."""
        answering = self.rest.process()
        return bool(process) and bool(answering) and answering != process


def _jar_is_missing(error: FlinkRefused, jar: str) -> bool:
    """True if a run failed because its jar was deleted, before it was opened or while its main method ran."""
    return any(jar in line and _GONE.search(line) is not None for line in error.trace.splitlines())


def _advice(trace: str) -> str:
    """Advice for the user on an error; empty if there is none."""
    if "NoClassDefFoundError: io/speck/" in trace:
        return " (put SpecK's connector, flink-mqtt.jar, into the cluster's lib folder or the job's jar)"
    return ""


def patiently(ask: Callable[[], object]) -> None:
    """Ask for a Python program; again if another program interfered, or is still being started."""
    tries, deadline = TRIES, time.monotonic() + OCCUPIED
    while True:
        try:
            ask()
        except FlinkRefused as error:
            if pyflink.is_occupied(error.trace) and time.monotonic() < deadline:
                time.sleep(_PAUSE)
            elif pyflink.is_mixed_up(error.trace) and tries > 1:
                tries -= 1
                time.sleep(_POLL)
            else:
                raise
        else:
            return
