"""Whether a cluster could take a job now; asked before anything is stopped for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from binders.flink.rest.client import FlinkRefused, FlinkRest, Overview
from binders.flink.state import locations
from binders.flink.submission import pyflink
from binders.flink.submission.admission import places_fault, version_fault
from binders.flink.submission.cluster_state import Shared
from binders.flink.submission.code_check import check_code
from binders.flink.submission.jar_gc import JarGarbageCollector
from binders.flink.submission.job_config import STATE_KIND, directories
from binders.flink.submission.package import is_python, parcel_of
from speck.core.inventory import Engine
from speck.core.job import Job
from speck.core.runtime import State
from speck.errors import BinderError, NoCapacity, Rejected

PYTHON_FRESH = 600.0  # s, for which a JobManager's Python is taken to be as it was seen


@dataclass(frozen=True)
class Readiness:
    """What is asked of one cluster before a job comes; ``settings`` are those of the cluster."""

    rest: FlinkRest
    shared: Shared
    belongings: JarGarbageCollector
    known: Engine
    settings: Callable[[], Mapping[str, str]]

    def check(self, job: Job, state: State | None) -> None:
        """Ask for the version, places for state, the state, the jar, and room; and bring the jar.

        Starts and stops nothing.  Raises :class:`~speck.errors.NoCapacity` when too few slots are free, those
        counted that were promised to other jobs and those that come free when this one is stopped.
        """
        seen = self._check_version()
        self._check_places(job)
        if state is not None:
            self._check_state(state, job)
        fault = check_code(Path(job.job_path), job.entry_class)
        if fault is not None:
            raise refusal(self.rest.address, job, fault)
        self._check_room(job, seen)
        jar = self.shared.shelf.hold(self.rest, job.job_name, parcel_of(job))
        if is_python(job):
            try:
                self._check_python(job, jar, seen.version)
            except Rejected:
                self.shared.shelf.let_go(job.job_name)
                with suppress(BinderError):
                    self.belongings.drop_unused()
                raise

    def _check_version(self) -> Overview:
        seen = self.rest.overview()
        fault = version_fault(seen.version)
        if fault is not None:
            raise Rejected(f"{self.rest.address} {fault}", address=self.rest.address)
        return seen

    def _check_python(self, job: Job, jar: str, version: str) -> None:
        """See that the JobManager has a Python with PyFlink; looked at again after a while."""
        shared = self.shared
        if time.monotonic() < shared.python_seen + PYTHON_FRESH:
            return
        with shared.turns.alone():
            if time.monotonic() < shared.python_seen + PYTHON_FRESH:
                return  # another job's check has seen it just now
            try:
                found = pyflink.probe(self.rest, jar)
            except FlinkRefused as error:
                reason = f"cannot be started on {self.rest.address}: {pyflink.reason(error.trace)}"
                raise refusal(self.rest.address, job, reason) from error
            if (fault := pyflink.fault_of(found, version)) is not None:
                raise refusal(self.rest.address, job, f"cannot be started on {self.rest.address}: {fault}")
            shared.python_seen = time.monotonic()

    def _check_places(self, job: Job) -> None:
        fault = places_fault(directories(self.known, self.settings()))
        if job.upgrade == "stateful" and fault is not None:
            raise refusal(self.rest.address, job, f"{self.rest.address} {fault}")

    def _check_state(self, state: State, job: Job) -> None:
        if state.kind != STATE_KIND:
            raise refusal(
                self.rest.address, job, f"state of kind {state.kind!r} is not Flink's (expected {STATE_KIND})"
            )
        fault = locations.missing(state.location)
        if fault is not None:
            raise refusal(
                self.rest.address,
                job,
                f"{fault} (savepoint_dir of the sites must be one that all of them see)",
            )

    def _check_room(self, job: Job, seen: Overview) -> None:
        slots = job.parallelism or int(self.settings().get("parallelism.default") or 1)

        def own() -> int:
            return sum(
                self._slots_of(line.id)
                for line in self.belongings.live_jobs()
                if self.belongings.is_of(line, job.job_name)
            )

        shortage = self.shared.room.promise(self.rest, seen, job.job_name, slots, own)
        if shortage is not None:
            raise NoCapacity(
                f"{self.rest.address} has no room for job {job.job_name!r}, which takes {slots}: {shortage}",
                address=self.rest.address,
            )

    def _slots_of(self, job: str) -> int:
        vertices = (self.rest.job_details(job) or {}).get("vertices", [])
        return max((int(vertex["parallelism"]) for vertex in vertices), default=0)


def refusal(address: str, job: Job, what: str) -> Rejected:
    """The error that says why this job cannot be at this cluster."""
    who = f"job {job.job_name!r} ({job.entry_class} of {Path(job.job_path).name})"
    return Rejected(f"{who}: {what}", address=address)
