"""Garbage collection of jars: the labels of a cluster's jobs, their code, and the jars that are unused."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from binders.flink.rest.client import FlinkRest
from binders.flink.rest.overviews import JobLine
from binders.flink.submission.cluster_state import ClusterState
from binders.flink.submission.labels import Labels, labels_of
from speck.errors import BinderError, OutcomeUnknown, Unreachable

_log = logging.getLogger(__name__)

TRIES = 3  # a jar that a submission is just using cannot be deleted
_POLL = 0.1  # s


@dataclass(frozen=True)
class JarGarbageCollector:
    """The jobs and jars of one cluster, as known to the cluster and to this process."""

    rest: FlinkRest
    cluster: ClusterState

    def live_jobs(self) -> list[JobLine]:
        """The jobs that have not ended."""
        known = list(self.cluster.live)  # a job that starts during the request may not be listed
        lines = [line for line in self.rest.jobs().values() if not line.ended]
        self.cluster.live.difference_update({*known} - {line.id for line in lines})
        return lines

    def labels(self, job: str) -> Labels:
        """The labels of a job; fetched from the cluster once."""
        if job not in self.cluster.labels:
            self.cluster.labels[job] = labels_of(self.rest.job_parameters(job))
        return self.cluster.labels[job]

    def is_of(self, line: JobLine, job_name: str) -> bool:
        """True if this is a copy of the job of this name."""
        return (self.labels(line.id).job or line.name) == job_name

    def collect_after(self, job: str, *, required: bool) -> None:
        """Delete the jar of a stopped job; ``required``: raise if the cluster does not answer.

        A job that is moved or updated does not wait for that.
        """
        try:
            for one_try in Retrying(
                stop=stop_after_attempt(TRIES),
                wait=wait_fixed(_POLL),
                retry=retry_if_exception_type(OutcomeUnknown),
                reraise=True,
            ):
                with one_try:
                    self._delete_jar(job)
        except (OutcomeUnknown, Unreachable):
            if required:
                raise
        except BinderError as error:
            _log.info("a jar was not deleted at %s: %s", self.rest.address, error)

    def _delete_jar(self, job: str) -> None:
        """Delete all unused jars, if the stopped job's own is one of them."""
        cluster, code = self.cluster, self.labels(job).code
        cluster.live.discard(job)
        cluster.stopped.add(job)
        if self._runs(code):
            return  # without a request: of many jobs that are stopped, only the last one queries the cluster
        used = self._codes_in_use()
        # In this order: the jar of a job that is started meanwhile is first needed, and then in use.
        if code not in used and not cluster.jars.is_needed(code) and not self._runs(code):
            cluster.jars.delete_unused(self.rest, used)

    def _runs(self, code: str) -> bool:
        """True if a job of this code runs, as far as this process knows."""
        labels = self.cluster.labels
        return any(labels[job].code == code for job in list(self.cluster.live))

    def collect(self) -> None:
        """Delete the jars of which no job runs."""
        self.cluster.jars.delete_unused(self.rest, self._codes_in_use())

    def _codes_in_use(self) -> set[str]:
        """The hashes of the code of all jobs that run on the cluster, foreign ones included.

        The list of jobs may lag behind: jobs that this process has stopped do not count.
        """
        listed = {line.id for line in self.live_jobs()}
        self.cluster.stopped &= listed
        running = listed - self.cluster.stopped
        codes = {self.labels(job).code for job in running}
        self.cluster.live.update(running)
        return codes
