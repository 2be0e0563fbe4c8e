"""How a job is started under an attempt's id, and found again when nobody heard whether it was."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from binders.flink.rest.client import FlinkRefused, FlinkRest, NotYet
from binders.flink.rest.stack_trace import root_cause
from binders.flink.state import locations
from binders.flink.state.savepoints import SavepointManager
from binders.flink.submission import pyflink
from binders.flink.submission.cluster_state import Shared
from binders.flink.submission.jar_gc import JarGarbageCollector
from binders.flink.submission.job_config import job_parameters, run_body
from binders.flink.submission.labels import tag_of
from binders.flink.submission.package import Package, is_python, parcel_of
from binders.flink.submission.preflight import refusal
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle
from speck.errors import BinderError, OutcomeUnknown

FIND_PATIENCE = 10.0  # s, for a job that another submit of the same attempt starts
UNSETTLED = 120.0  # s, for which a main method that gave no answer may still come to a job
TRIES = 5  # of a Python program beside programs that others start
_POLL = 0.1

_GONE = re.compile(r"does not exist|FileNotFoundException|NoSuchFileException")
_DUPLICATE = ("DuplicateApplicationSubmissionException", "DuplicateJobSubmissionException")


@dataclass(frozen=True)
class Launcher:
    """Starts the jobs of one cluster."""

    rest: FlinkRest
    shared: Shared
    stopper: SavepointManager
    belongings: JarGarbageCollector
    inventory: Inventory
    handle_of: Callable[[Attempt], Handle]

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Run the jar's main method, or the Python program, with the attempt's id.

        Raises :class:`~speck.errors.Rejected` when the job's code or Flink refuses, in which case nothing
        runs, and :class:`~speck.errors.OutcomeUnknown` when it is not known whether the job runs.
        """
        parcel, shared = parcel_of(job), self.shared
        with shared.room.taking(job.job_name, attempt.id), shared.shelf.in_use(job.job_name, parcel.code):
            asked = time.monotonic()
            try:
                self._run(job, attempt, parcel)
            except FlinkRefused as error:
                return self._after_refusal(job, attempt, error, asked)
            shared.tags[attempt.id] = tag_of(job_parameters(job, attempt, parcel.code))
            shared.live.add(attempt.id)
        return self.handle_of(attempt)

    def find(self, attempt: Attempt) -> Handle | None:
        """The job of the attempt, also one that has failed or come to its end by itself.

        Raises :class:`~speck.errors.OutcomeUnknown` while a submit of this process that gave no answer may
        still come to a job: Flink runs the job's main method for as long as that takes.
        """
        state = self.rest.job_state(attempt.id)
        if state is None:
            self._refuse_unsettled(attempt)
            return None
        self.shared.unsettled.pop(attempt.id, None)
        if state == "CANCELED" or (state == "FINISHED" and self.stopper.savepoint_of(attempt.id)):
            return None
        handle = self.handle_of(attempt)
        begun = self._begun_from(attempt.id) if attempt.state is None else None
        return replace(handle, details={**handle.details, "state": begun}) if begun else handle

    def _begun_from(self, job: str) -> str | None:
        """The state that a job began from; waits for one that is only beginning."""
        patience = stop_after_delay(FIND_PATIENCE)
        retry = retry_if_exception_type(NotYet)
        for one_try in Retrying(stop=patience, wait=wait_fixed(_POLL), retry=retry, reraise=True):
            with one_try:
                found = locations.restored(self.rest.checkpoints(job) or {})
        return found

    def _run(self, job: Job, attempt: Attempt, parcel: Package) -> None:
        shelf = self.shared.shelf
        jar = shelf.jar(self.rest, parcel)
        try:
            self._run_jar(jar, job, attempt, parcel)
        except FlinkRefused as error:
            if not _jar_is_gone(error, jar):
                raise
            # Dropped by another coordinator in between, or the cluster is a new one.
            shelf.gone(parcel.code, jar)
            self._run_jar(shelf.jar(self.rest, parcel), job, attempt, parcel)

    def _run_jar(self, jar: str, job: Job, attempt: Attempt, parcel: Package) -> None:
        body = run_body(job, attempt, parcel.code, self.inventory.engine(self.rest.address), self.inventory)
        try:
            if is_python(job):
                self._run_python(jar, body, job, attempt)
            else:
                with self.shared.turns.together():
                    self.rest.run(jar, body)
        except OutcomeUnknown:
            self.shared.unsettled[attempt.id] = time.monotonic() + UNSETTLED
            raise

    def _run_python(self, jar: str, body: Mapping[str, Any], job: Job, attempt: Attempt) -> None:
        """Run a Python program, once more when a program of somebody else's came between."""
        with self.shared.turns.alone():
            body = pyflink.driven(body, pyflink.place_of(self.rest, jar), job, attempt)
            for _ in range(TRIES - 1):
                try:
                    self.rest.run(jar, body)
                except FlinkRefused as error:
                    if not pyflink.mixed_up(error.trace):
                        raise
                    time.sleep(_POLL)
                else:
                    return
            self.rest.run(jar, body)

    def _after_refusal(self, job: Job, attempt: Attempt, error: FlinkRefused, asked: float) -> Handle:
        if any(name in error.trace for name in _DUPLICATE):
            return self._same_again(job, attempt)
        line = self.rest.jobs().get(attempt.id)
        if line is not None and not line.ended and line.duration > time.monotonic() - asked:
            return self.handle_of(attempt)  # it ran before it was asked for again
        # A main method that fails after it has started a job leaves it running.
        self.stopper.end(attempt.id)
        with suppress(BinderError):
            self.belongings.drop_unused()
        cause = pyflink.reason(error.trace) if is_python(job) else root_cause(error.trace)
        reason = f"cannot be started on {self.rest.address}: {cause}{_advice(error.trace)}"
        raise refusal(self.rest.address, job, reason) from error

    def _same_again(self, job: Job, attempt: Attempt) -> Handle:
        """The job of an attempt that Flink has taken before."""
        deadline = time.monotonic() + FIND_PATIENCE
        while self.rest.job_state(attempt.id) is None and time.monotonic() < deadline:
            time.sleep(_POLL)
        found = self.find(attempt)
        if found is None:
            raise refusal(
                self.rest.address,
                job,
                f"this attempt has ended before at {self.rest.address} (a new one is needed)",
            )
        return found

    def _refuse_unsettled(self, attempt: Attempt) -> None:
        until = self.shared.unsettled.get(attempt.id)
        if until is None:
            return
        if time.monotonic() < until:
            raise OutcomeUnknown(
                f"{self.rest.address}: job {attempt.job_name!r} is not there, but its main method gave no "
                "answer and may still start it",
                address=self.rest.address,
            )
        del self.shared.unsettled[attempt.id]


def _jar_is_gone(error: FlinkRefused, jar: str) -> bool:
    """Whether a run failed since its jar was deleted: before it was opened, or while its main method ran."""
    return any(jar in line and _GONE.search(line) is not None for line in error.trace.splitlines())


def _advice(trace: str) -> str:
    """What helps against an error, for people; empty when that is not known."""
    if "NoClassDefFoundError: io/speck/" in trace:
        return " (put SpecK's connector, flink-mqtt.jar, into the cluster's lib folder or the job's jar)"
    return ""
