"""Limits on the work of a coordinator, so that one user cannot exhaust it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from speck.errors import Conflict, Overloaded


@dataclass(frozen=True, slots=True)
class Quotas:
    """The most ``operations`` of users that run at once, and the most ``jobs`` and ``compositions``."""

    operations: int = 100
    jobs: int = 20_000
    compositions: int = 2_000

    def refuse_operation(self, running: int) -> None:
        """Raise :class:`~speck.errors.Overloaded` if no further operation is allowed beside those running."""
        if running >= self.operations:
            raise Overloaded(
                f"{running} operations are running (at most {self.operations}; retry when one has ended)"
            )

    def refuse_jobs(self, composition: str, desired: Collection[str], owners: Mapping[str, str]) -> None:
        """Raise :class:`~speck.errors.Conflict` if a composition with these jobs exceeds the limit.

        ``owners`` are the compositions of all existing jobs, by job name.
        """
        others = {job: owner for job, owner in owners.items() if owner != composition}
        growing = len(desired) > len(owners) - len(others)
        if growing and len(others) + len(desired) > self.jobs:
            raise Conflict(
                f"composition {composition!r}: its {len(desired):,} jobs and {len(others):,} others exceed "
                f"this server's limit of {self.jobs:,} jobs (speck serve --max-jobs)"
            )

    def refuse_composition(self, existing: Collection[str], name: str) -> None:
        """Raise :class:`~speck.errors.Conflict` if a new composition exceeds the limit."""
        if name not in existing and len(existing) >= self.compositions:
            raise Conflict(
                f"composition {name!r} exceeds this server's limit of {self.compositions:,} compositions "
                "(speck serve --max-compositions)"
            )
