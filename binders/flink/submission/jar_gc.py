"""Whose the jobs of a cluster are, what code they run, and the jars that nothing uses any more."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from binders.flink.rest.client import FlinkRest, JobLine
from binders.flink.submission.cluster_state import Shared
from binders.flink.submission.labels import Tag, tag_of
from speck.errors import BinderError, OutcomeUnknown, Unreachable

_log = logging.getLogger(__name__)

TIDY_TRIES = 3
_POLL = 0.1


@dataclass(frozen=True)
class JarGarbageCollector:
    """The jobs and jars of one cluster, as the cluster and this process know them."""

    rest: FlinkRest
    shared: Shared

    def live_jobs(self) -> list[JobLine]:
        """The jobs that have not ended."""
        return [line for line in self.rest.jobs().values() if not line.ended]

    def tag(self, job: str) -> Tag:
        """Whose a job is; asked of the cluster once."""
        if job not in self.shared.tags:
            self.shared.tags[job] = tag_of(self.rest.job_parameters(job))
        return self.shared.tags[job]

    def is_of(self, line: JobLine, job_name: str) -> bool:
        """Whether this is a copy of the job of this name."""
        return (self.tag(line.id).job or line.name) == job_name

    def tidy(self, job: str, *, last: bool) -> None:
        """Drop the jar of a stopped job; ``last``: should there be no answer, ask again for the stop.

        A job that goes on elsewhere, or in another form, does not wait for that.
        """
        patience = stop_after_attempt(TIDY_TRIES)
        try:
            for one_try in Retrying(
                stop=patience,
                wait=wait_fixed(_POLL),
                retry=retry_if_exception_type(OutcomeUnknown),
                reraise=True,
            ):
                with one_try:
                    self._drop_jar(job)
        except (OutcomeUnknown, Unreachable):
            if last:
                raise
        except BinderError as error:
            _log.info("a jar is left at %s: %s", self.rest.address, error)

    def _drop_jar(self, job: str) -> None:
        """Drop the jars that nothing uses, if the stopped job's own is one of them."""
        shared, code = self.shared, self.tag(job).code
        shared.live.discard(job)
        shared.stopped.add(job)
        if self._runs(code):
            return  # not asked of the cluster: of many jobs that are stopped, only the last one asks
        used = self._codes_in_use()
        # In this order: a job that is started meanwhile is wanted first, and runs then.
        if code not in used and not shared.shelf.is_wanted(code) and not self._runs(code):
            shared.shelf.drop_unused(self.rest, used)

    def _runs(self, code: str) -> bool:
        """Whether a job of this code runs, as far as this process knows."""
        tags = self.shared.tags
        return any(tags[job].code == code for job in list(self.shared.live))

    def drop_unused(self) -> None:
        """Drop the jars of which no job runs."""
        self.shared.shelf.drop_unused(self.rest, self._codes_in_use())

    def _codes_in_use(self) -> set[str]:
        """The hashes of the code of all jobs that run on the cluster, whoever started them.

        The list of jobs may come a moment late: what this process has stopped is at work no more.
        """
        listed = {line.id for line in self.live_jobs()}
        self.shared.stopped &= listed
        running = listed - self.shared.stopped
        codes = {self.tag(job).code for job in running}
        self.shared.live.update(running)
        return codes
