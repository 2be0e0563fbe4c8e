"""A planned change: everything that accepting it carries out, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from speck.apply.adoption import AdoptionPlan
from speck.apply.operation import Operation
from speck.core.change import Request
from speck.core.job import Job
from speck.core.plan import Plan
from speck.core.waves import Wave
from speck.errors import Fault
from speck.store import Head, Revision


@dataclass(frozen=True, kw_only=True)
class PlannedChange:
    """A change as it was planned from a composition's ``head``.

    ``request`` has the revision that it was planned from, and addresses in place of the names of sites.
    ``desired`` are the jobs that the operation is to reach, ``plan`` its actions.  ``revision`` is the next
    one, ``None`` if the last one stays; ``restored`` the number of the revision that a rollback brings back.
    ``generation`` is that of the composition (:meth:`speck.apply.operations.Operations.generations`), of a
    change by a loop that gives way to any other.  ``resumes`` is the interrupted operation that is carried
    on: its intent and its revision are stored already.  ``waits`` has the reasons of jobs whose actions are
    left to the reconciler.  ``waves`` are the sites with their jobs in the order of the roll-out.
    """

    request: Request
    head: Head
    plan: Plan
    desired: Mapping[str, Job]
    revision: Revision | None = None
    restored: int = 0
    deletes: bool = False
    warnings: tuple[Fault, ...] = ()
    adoption: AdoptionPlan | None = None
    generation: int | None = None
    resumes: Operation | None = None
    waits: Mapping[str, str] = field(default_factory=dict)
    waves: tuple[Wave, ...] = ()

    @property
    def composition(self) -> str:
        """The name of the composition."""
        return self.head.name

    @property
    def number(self) -> int:
        """The number of the revision that the operation is on."""
        return self.head.revision if self.revision is None else self.revision.number

    @property
    def due(self) -> Plan:
        """The part of the plan that is carried out now."""
        if not self.waits:
            return self.plan
        due = tuple(each for each in self.plan.actions if each.job.job_name not in self.waits)
        return replace(self.plan, actions=due)
