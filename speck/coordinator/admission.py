"""Admission of a composition: its claims to job names and sessions, and the quotas of a coordinator."""

from __future__ import annotations

from speck.core.job import Composition, Job
from speck.core.quotas import refuse_composition, refuse_jobs
from speck.core.settings import Quotas
from speck.errors import Fault, InvalidInput
from speck.schema import client_id_conflicts
from speck.store import Store


def refuse_unplaced(composition: Composition) -> None:
    """Raise :class:`InvalidInput` when a job has no site yet, or a topic of it no home."""
    faults = [
        Fault(
            f"has no site yet among {', '.join(job.sites)} (expected one to be chosen before it is planned; "
            "to choose it by hand, write 'site: NAME')",
            job=name,
            field="sites",
            value=", ".join(job.sites),
        )
        for name, job in composition.jobs.items()
        if not job.settled
    ]
    if faults:
        raise InvalidInput(faults, f"composition {composition.name!r}")


def refuse_claimed(store: Store, quotas: Quotas, composition: Composition) -> None:
    """Raise :class:`InvalidInput` when a job name or a session belongs to another composition.

    Raises :class:`~speck.errors.Conflict` when a quota would be exceeded.
    """
    owners = {record.name: record.composition for record in store.jobs()}
    refuse_composition(quotas, {head.name for head in store.heads()}, composition.name)
    refuse_jobs(quotas, composition.name, composition.jobs, owners)
    faults = [
        Fault(
            f"job_name {name!r} is a job of composition {owners[name]!r} already (expected another name; "
            f"to change that composition, give this one its name: 'name: {owners[name]}')",
            job=name,
            field="job_name",
            value=name,
        )
        for name in composition.jobs
        if owners.get(name, composition.name) != composition.name
    ]
    taken = {fault.job for fault in faults}
    others = [job for job in _desired_elsewhere(store, composition.name) if job.job_name not in taken]
    faults += client_id_conflicts([*others, *composition.jobs.values()])
    if faults:
        raise InvalidInput(faults, f"composition {composition.name!r}")


def _desired_elsewhere(store: Store, name: str) -> list[Job]:
    return [
        job
        for head in store.heads()
        if head.name != name and head.revision
        for job in store.revision(head.name, head.revision).jobs.values()
    ]
