"""The messages that the jobs of a plan are to read from their start on, counted at the brokers.

A new job begins at its start.  A job whose start changes reads again from there: without its state, since
that has counted the messages already, and under other names of what it writes, which its readers would drop
otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from speck.apply.sessions import reads_again
from speck.binder.pool import BinderPool
from speck.core.job import Job
from speck.core.plan import Deployed, Keep, Plan, Stop, UndrainedSession, continued_jobs
from speck.core.start import LATEST, start_text
from speck.errors import BinderError, Fault
from speck.store import JobRecord
from speck.store.deployments import Snapshot

_SKIPPED = "its start skips them"


@dataclass(frozen=True)
class Reading:
    """Messages that a job is to read from its start on (``None``: they cannot be counted now).

    ``again``: it has a place already, before which ``skipped`` messages lie that it would not read.
    """

    job: Job
    messages: int | None
    again: bool
    skipped: int = 0

    def text(self) -> str:
        """The remark on the job."""
        count = "an unknown number of" if self.messages is None else f"{self.messages:,}"
        again = " again" if self.again else ""
        text = f"reads {self.job.source_topic!r}{again} from {start_text(self.job.start)}: {count} messages"
        return f"{text}; its results are written again under new names" if self.again else text


@dataclass(frozen=True)
class Replays:
    """Counts the messages that a plan's jobs read from their start; ``left_behind`` are not asked."""

    pool: BinderPool
    left_behind: Collection[str]

    def of(self, plan: Plan, snapshot: Snapshot) -> dict[str, Reading]:
        """The readings of a plan's jobs, by job name."""
        jobs = (each.job for each in plan.actions if not isinstance(each, Stop | Keep))
        found = (self._reading(job, snapshot.records.get(job.job_name)) for job in jobs)
        return {each.job.job_name: each for each in found if each is not None}

    def _reading(self, job: Job, record: JobRecord | None) -> Reading | None:
        if job.start == LATEST:
            return None
        if record is None or not record.sessions:
            return self._counted(job, "")
        return self._counted(job, record.sessions[-1].name) if reads_again(job, record) else None

    def _counted(self, job: Job, session: str) -> Reading:
        again = bool(session)
        if job.source_broker in self.left_behind:
            return Reading(job, None, again)
        try:
            found = self.pool.broker(job.source_broker).count_from(job.source_topic, job.start, session)
        except BinderError:
            return Reading(job, None, again)
        return Reading(job, found.messages, again, found.skipped)


def reading_notes(readings: Mapping[str, Reading]) -> dict[str, str]:
    """A remark on each job, by job name."""
    return {name: each.text() for name, each in readings.items()}


def skipped_messages(readings: Mapping[str, Reading]) -> Iterator[UndrainedSession]:
    """The messages that jobs do not read any more, since their start is behind them."""
    for name, each in sorted(readings.items()):
        if each.skipped:
            job = each.job
            yield UndrainedSession(name, job.source_broker, job.source_topic, each.skipped, _SKIPPED, False)


def refused_starts(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> list[Fault]:
    """A fault for each job that would read another source, and again, at once."""
    return [
        Fault(
            f"start {after.start!r} changes together with the source of the job, which has to drain first "
            f"(expected {before.start!r}, and the change of its start afterwards)",
            job=after.job_name,
            field="start",
            value=after.start,
        )
        for before, after in continued_jobs(desired, stored)
        if after.start not in (LATEST, before.start)
        and (after.source_broker, after.source_topic) != (before.source_broker, before.source_topic)
    ]
