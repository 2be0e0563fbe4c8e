"""Takes the running copies of a lost store into this one: a revision whose jobs run already."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from speck.apply.adoption import Adoption, AdoptionPlan, Adoptions, event_of
from speck.apply.operation import Operation
from speck.coordinator.coordinator import Coordinator
from speck.coordinator.placing.placer import NEW
from speck.coordinator.planning.admission import refuse_claimed, refuse_unplaced
from speck.coordinator.planning.planner import refuse_stale
from speck.core.change import Request
from speck.core.job import Composition, Job
from speck.core.lifecycle import OperationKind
from speck.core.plan import Keep, Plan
from speck.errors import Fault, InvalidInput
from speck.store import Head, Revision
from speck.store.history import count, differences


@dataclass(frozen=True)
class Adopter:
    """Adopts by operations of a coordinator, whose actions keep the adopted jobs as they are.

    Nothing is started, stopped or moved: the revision has the adopted jobs, and those of the last one.
    """

    coordinator: Coordinator
    adoptions: Adoptions

    def plan(
        self, composition: Composition, jobs: Collection[str] = (), base_revision: int | None = None
    ) -> AdoptionPlan:
        """The adoption of a composition's jobs, or of those that ``jobs`` name.  Nothing is changed.

        Raises :class:`~speck.errors.InvalidInput` for a name of no job, and
        :class:`~speck.errors.StaleRevision`.
        """
        return self._planned(composition, jobs, base_revision)[1]

    def adopt(
        self,
        composition: Composition,
        jobs: Collection[str] = (),
        *,
        base_revision: int | None = None,
        warnings: Iterable[str] = (),
        author: str = "",
        message: str = "",
    ) -> tuple[Operation, AdoptionPlan]:
        """Make the copies of other stores the attempts of this store's jobs; all of them, or none.

        Besides the errors of :meth:`plan`, raises :class:`~speck.errors.NotAdoptable`, with the reason for
        each job, :class:`~speck.errors.Busy`, and a :class:`~speck.errors.BinderError` of a broker that does
        not hand its sessions over: what it has handed over by then is adopted by the next try.
        """
        coordinator, name = self.coordinator, composition.name
        with coordinator.operations.exclusive(name):
            composition, found = self._planned(composition, jobs, base_revision)
            found.refuse()
            handles = self.adoptions.handles(composition.jobs, found.adoptions)
            adopted = {each.job: composition.jobs[each.job] for each in found.adoptions}
            head = coordinator.changeable_head(name)
            revision = self._revision(head, composition, adopted, author, message)
            number = head.revision if revision is None else revision.number
            request = Request(
                kind=OperationKind.ADOPT, author=author, message=message, base_revision=head.revision
            )
            operation = coordinator.operations.new(name, number, request, warnings)
            plan = Plan(name, head.revision, tuple(map(_keep, adopted.values(), found.adoptions)))
            operation.plan(plan)
            with coordinator.operations.admission(name):
                refuse_claimed(coordinator.store, coordinator.settings.quotas, composition)
                coordinator.artifacts.keep(adopted.values())
                coordinator.backoff.forget(adopted)
                self.adoptions.take_sessions(found.adoptions)
                events = [
                    event_of(adopted[each.job], each, handles[each.job], number) for each in found.adoptions
                ]
                desired = adopted if revision is None else revision.jobs
                coordinator.accept(operation, plan, desired, revision, events)
        return operation, found

    def _planned(
        self, composition: Composition, jobs: Collection[str], base_revision: int | None
    ) -> tuple[Composition, AdoptionPlan]:
        """A composition with all of its places, and its adoption."""
        coordinator = self.coordinator
        head = coordinator.changeable_head(composition.name)
        refuse_stale(head, base_revision)
        if faults := [_unknown(each, composition) for each in jobs if each not in composition.jobs]:
            raise InvalidInput(faults, f"composition {composition.name!r}")
        composition, _ = coordinator.code.recognised(head, composition)
        composition = coordinator.placer.assign(composition, NEW).composition
        refuse_unplaced(composition)
        refuse_claimed(coordinator.store, coordinator.settings.quotas, composition)
        found = self.adoptions.plan(composition.name, head.revision, composition.jobs.values(), jobs)
        return composition, found

    def _revision(
        self, head: Head, composition: Composition, adopted: Mapping[str, Job], author: str, message: str
    ) -> Revision | None:
        """The next revision, or ``None`` if the last one has these jobs already."""
        last = self.coordinator.desired(head.name)
        jobs = {**last.jobs, **adopted}
        found = differences(last.jobs, jobs)
        if head.revision and not found:
            return None
        added, removed, changed = count(found).values()
        return Revision(
            head.name,
            self.coordinator.next_number(head.name),
            self.coordinator.clock(),
            jobs,
            author,
            message,
            0,
            (added, removed, changed),
            composition.placement,
            composition.declared,
        )


def _unknown(name: str, composition: Composition) -> Fault:
    known = ", ".join(sorted(composition.jobs))
    return Fault(
        f"is no job of composition {composition.name!r} (expected one of {known})", job=name, value=name
    )


def _keep(job: Job, adoption: Adoption) -> Keep:
    return Keep(job, f"adopted: {adoption.text()}")
