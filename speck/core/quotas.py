"""Rejection of work beyond the quotas, so that one user cannot exhaust a coordinator."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from speck.core.settings import Quotas
from speck.errors import Conflict, Overloaded


def refuse_operation(quotas: Quotas, running: int) -> None:
    """Raise :class:`~speck.errors.Overloaded` if no further operation is allowed beside those running."""
    if running >= quotas.operations:
        raise Overloaded(
            f"{running} operations are running (at most {quotas.operations}; retry when one has ended)"
        )


def refuse_jobs(
    quotas: Quotas, composition: str, desired: Collection[str], owners: Mapping[str, str]
) -> None:
    """Raise :class:`~speck.errors.Conflict` if a composition with these jobs exceeds the quota.

    ``owners`` are the compositions of all existing jobs, by job name.
    """
    others = {job: owner for job, owner in owners.items() if owner != composition}
    growing = len(desired) > len(owners) - len(others)
    if growing and len(others) + len(desired) > quotas.jobs:
        raise Conflict(
            f"composition {composition!r}: its {len(desired):,} jobs and {len(others):,} others exceed "
            f"this server's limit of {quotas.jobs:,} jobs (speck serve --max-jobs)"
        )


def refuse_composition(quotas: Quotas, known: Collection[str], name: str) -> None:
    """Raise :class:`~speck.errors.Conflict` if a new composition exceeds the quota."""
    if name not in known and len(known) >= quotas.compositions:
        raise Conflict(
            f"composition {name!r} exceeds this server's limit of {quotas.compositions:,} compositions "
            "(speck serve --max-compositions)"
        )
