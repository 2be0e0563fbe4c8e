"""The forms to which jobs can be put back: what ran before a form that has not come up yet.

They are read from the store alone, so that a crash between a stop and the next start loses none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from speck.core.job import Job
from speck.core.plan import Plan, Stop
from speck.store import JobRecord, Store


@dataclass(frozen=True, slots=True)
class Fallback:
    """A former form of a job that can be started again, and its revision."""

    job: Job
    revision: int


def fallback_of(store: Store, record: JobRecord, job: Job, left_behind: Collection[str]) -> Fallback | None:
    """The form that was stopped for this one, which has not come up yet.

    ``None`` if there is none, or if it reads at a broker that is left behind: it cannot be started again.
    """
    number = record.rollback_revision
    former = store.revision(record.composition, number).jobs.get(job.job_name) if number else None
    if former is None or former == job or former.source_broker in left_behind:
        return None
    return Fallback(former, number)


def fallbacks_of(
    store: Store, plan: Plan, records: Mapping[str, JobRecord], left_behind: Collection[str]
) -> dict[str, Job]:
    """The forms that the jobs of a plan may yet be put back to, by name: those of :func:`fallback_of`."""
    jobs = (each.job for each in plan.actions if not isinstance(each, Stop))
    known = [(job, records[job.job_name]) for job in jobs if job.job_name in records]
    found = ((job.job_name, fallback_of(store, record, job, left_behind)) for job, record in known)
    return {name: fallback.job for name, fallback in found if fallback is not None}


def is_unfinished(store: Store, record: JobRecord, job: Job, left_behind: Collection[str]) -> bool:
    """True if a job that runs in its desired form is still on trial, or has a session to be deleted."""
    released = any(not each.start for each in record.sessions)
    return released or fallback_of(store, record, job, left_behind) is not None
