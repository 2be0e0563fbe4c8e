"""Refuses what goes beyond the quotas, so that no user, by mistake or not, takes all of a coordinator."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from speck.core.settings import Quotas
from speck.errors import Conflict, Overloaded


def refuse_operation(quotas: Quotas, at_work: int) -> None:
    """Raise :class:`~speck.errors.Overloaded` when so many operations of users are enough."""
    if at_work >= quotas.operations:
        raise Overloaded(
            f"{at_work} operations are at work (at most {quotas.operations}; try again when one has ended)"
        )


def refuse_jobs(
    quotas: Quotas, composition: str, desired: Collection[str], owners: Mapping[str, str]
) -> None:
    """Raise :class:`~speck.errors.Conflict` when a composition has more jobs than there may be.

    ``owners`` are the compositions of all jobs that there are.
    """
    others = {job: owner for job, owner in owners.items() if owner != composition}
    growing = len(desired) > len(owners) - len(others)
    if growing and len(others) + len(desired) > quotas.jobs:
        raise Conflict(
            f"composition {composition!r}: {len(desired):,} jobs beside {len(others):,} others are more "
            f"than this server takes ({quotas.jobs:,}; speck serve --max-jobs)"
        )


def refuse_composition(quotas: Quotas, known: Collection[str], name: str) -> None:
    """Raise :class:`~speck.errors.Conflict` when a composition is one more than there may be."""
    if name not in known and len(known) >= quotas.compositions:
        raise Conflict(
            f"composition {name!r} would be one more than this server takes "
            f"({quotas.compositions:,}; speck serve --max-compositions)"
        )
