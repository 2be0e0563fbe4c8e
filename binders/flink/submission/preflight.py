"""Checks that a cluster could start a job now, before anything is stopped for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from binders.flink.rest.client import FlinkRest
from binders.flink.rest.overviews import Overview
from binders.flink.rest.requests import FlinkRefused
from binders.flink.state import locations
from binders.flink.submission import pyflink
from binders.flink.submission.admission import directories_fault, settings_fault, version_fault
from binders.flink.submission.cluster_state import ClusterState
from binders.flink.submission.code_check import check_code
from binders.flink.submission.jar_gc import JarGarbageCollector
from binders.flink.submission.job_config import STATE_KIND, directories
from binders.flink.submission.package import is_python, package_of
from speck.core.inventory import Engine
from speck.core.job import Job, job_title
from speck.core.runtime import State
from speck.errors import BinderError, Rejected

PYTHON_FRESH = 600.0  # s, for which the check of a JobManager's Python is cached


@dataclass(frozen=True)
class Preflight:
    """The checks of one cluster before a job is submitted; ``settings`` fetches the cluster's settings."""

    rest: FlinkRest
    cluster: ClusterState
    jar_gc: JarGarbageCollector
    known: Engine
    settings: Callable[[], Mapping[str, str]]

    def check(self, job: Job, state: State | None) -> None:
        """Check the version, the state directories, the state, the code and free slots, and upload the jar.

        Starts and stops nothing.  Raises :class:`~speck.errors.NoCapacity` when too few slots are free;
        slots reserved for other jobs are not, and those of a running copy of this one are.
        """
        seen = self.check_acceptance()
        self._check_directories(job)
        if state is not None:
            self._check_state(state, job)
        fault = check_code(Path(job.job_path), job.entry_class)
        if fault is not None:
            raise rejection(self.rest.address, job, fault)
        self._reserve_slots(job, seen)
        jar = self.cluster.jars.reserve(self.rest, job.job_name, package_of(job))
        if is_python(job):
            try:
                self._check_python(job, jar, seen.version)
            except Rejected:
                self.cluster.jars.release(job.job_name)
                with suppress(BinderError):
                    self.jar_gc.collect()
                raise

    def check_acceptance(self) -> Overview:
        """Check the version, and that the cluster is set to accept jobs."""
        seen = self.rest.overview()
        fault = version_fault(seen.version) or settings_fault(self.settings())
        if fault is not None:
            raise Rejected(f"{self.rest.address} {fault}", address=self.rest.address)
        return seen

    def _check_python(self, job: Job, jar: str, version: str) -> None:
        """Check that the JobManager has a Python with PyFlink; cached for a while."""
        cluster = self.cluster
        if time.monotonic() < cluster.python_checked_at + PYTHON_FRESH:
            return
        with cluster.submission_lock.exclusive():
            if time.monotonic() < cluster.python_checked_at + PYTHON_FRESH:
                return  # checked for another job in the meantime
            try:
                found = pyflink.probe(self.rest, jar)
            except FlinkRefused as error:
                reason = f"cannot be started on {self.rest.address}: {pyflink.reason(error.trace)}"
                raise rejection(self.rest.address, job, reason) from error
            if (fault := pyflink.fault_of(found, version)) is not None:
                raise rejection(self.rest.address, job, f"cannot be started on {self.rest.address}: {fault}")
            cluster.python_checked_at = time.monotonic()

    def _check_directories(self, job: Job) -> None:
        fault = directories_fault(directories(self.known, self.settings()))
        if job.upgrade == "stateful" and fault is not None:
            raise rejection(self.rest.address, job, f"{self.rest.address} {fault}")

    def _check_state(self, state: State, job: Job) -> None:
        if state.kind != STATE_KIND:
            raise rejection(
                self.rest.address, job, f"state of kind {state.kind!r} is not Flink's (expected {STATE_KIND})"
            )
        fault = locations.missing(state.location)
        if fault is not None:
            raise rejection(
                self.rest.address,
                job,
                f"{fault} (expected savepoint_dir of the sites to be visible to all of them)",
            )

    def _reserve_slots(self, job: Job, seen: Overview) -> None:
        slots = job.parallelism or int(self.settings().get("parallelism.default") or 1)

        def own() -> int:
            return sum(
                self._slots_of(line.id)
                for line in self.jar_gc.live_jobs()
                if self.jar_gc.is_of(line, job.job_name)
            )

        self.cluster.slots.reserve(self.rest, seen, job.job_name, slots, own)

    def _slots_of(self, job: str) -> int:
        vertices = (self.rest.job_details(job) or {}).get("vertices", [])
        return max((int(vertex["parallelism"]) for vertex in vertices), default=0)


def rejection(address: str, job: Job, reason: str) -> Rejected:
    """The error of a job that cannot be started at this cluster."""
    return Rejected(f"{job_title(job)}: {reason}", address=address)
