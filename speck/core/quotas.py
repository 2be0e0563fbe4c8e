"""How much a coordinator takes on, so that no user, by mistake or not, takes all of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from speck.errors import Conflict, Overloaded


@dataclass(frozen=True, slots=True)
class Quotas:
    """``operations`` of users at work at once, and ``jobs`` and ``compositions`` that there are in all."""

    operations: int = 100
    jobs: int = 20_000
    compositions: int = 2_000

    def refuse_operation(self, at_work: int) -> None:
        """Raise :class:`~speck.errors.Overloaded` when so many are enough."""
        if at_work >= self.operations:
            raise Overloaded(
                f"{at_work} operations are at work (at most {self.operations}; try again when one has ended)"
            )

    def refuse_jobs(self, composition: str, wanted: Collection[str], owners: Mapping[str, str]) -> None:
        """Raise :class:`~speck.errors.Conflict` when a composition wants more jobs than there may be.

        ``owners`` are the compositions of all jobs that there are.
        """
        others = {job: owner for job, owner in owners.items() if owner != composition}
        growing = len(wanted) > len(owners) - len(others)
        if growing and len(others) + len(wanted) > self.jobs:
            raise Conflict(
                f"composition {composition!r}: {len(wanted):,} jobs beside {len(others):,} others are more "
                f"than this server takes ({self.jobs:,}; speck serve --max-jobs)"
            )

    def refuse_composition(self, there: Collection[str], name: str) -> None:
        """Raise :class:`~speck.errors.Conflict` when a composition is one more than there may be."""
        if name not in there and len(there) >= self.compositions:
            raise Conflict(
                f"composition {name!r} would be one more than this server takes "
                f"({self.compositions:,}; speck serve --max-compositions)"
            )
