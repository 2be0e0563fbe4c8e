"""Jobs that run at an engine of no site, as where their site has left the inventory."""

from __future__ import annotations

from dataclasses import replace

from speck.core.inventory import Inventory
from speck.core.job import PLACED_FIELDS, POOLED, Composition, Job


def with_strays_fixed(composition: Composition, inventory: Inventory, but: str = "") -> Composition:
    """A composition that runs, in which jobs at an engine of no site stay there, and so do all topics.

    Such a job has no place among the sites: with it, no placement of the others could be computed.  The same
    composition if it has none, but for the job of this name.
    """
    strays = {name for name, job in composition.jobs.items() if name != but and _is_stray(job, inventory)}
    if not strays:
        return composition
    jobs = {
        name: _fixed(job) if name in strays else _beside(job, strays)
        for name, job in composition.jobs.items()
    }
    return replace(composition, jobs=jobs)


def with_places_of(composition: Composition, placed: Composition) -> Composition:
    """A composition with the places that its jobs have in another form of it."""
    fields = ("site", *PLACED_FIELDS)
    jobs = {
        name: replace(job, **{field: getattr(placed.jobs[name], field) for field in fields})
        for name, job in composition.jobs.items()
    }
    return replace(composition, jobs=jobs)


def _is_stray(job: Job, inventory: Inventory) -> bool:
    return job.movable and job.settled and inventory.site_of_engine(job.spe_address) is None


def _fixed(job: Job) -> Job:
    return replace(job, sites=(), with_job=None, apart=())


def _beside(job: Job, strays: set[str]) -> Job:
    """A job whose topics have the addresses that those of strays have, and that shares no rule with them."""
    return replace(
        job,
        placed=tuple(each for each in job.placed if each in POOLED),
        with_job=None if job.with_job in strays else job.with_job,
        apart=tuple(each for each in job.apart if each not in strays),
    )
