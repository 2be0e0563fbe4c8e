"""Each change to a composition as the composition that it makes, read from the last revision."""

from __future__ import annotations

from dataclasses import dataclass, replace

from speck.coordinator.placing.cut_queries import recut
from speck.coordinator.placing.placer import Placer
from speck.coordinator.planning.admission import refuse_part
from speck.core.change import (
    Adopt,
    Apply,
    ApplyJob,
    Change,
    DeleteComposition,
    DeleteJob,
    Pin,
    Place,
    Recut,
    Request,
    Rollback,
)
from speck.core.job import Composition
from speck.errors import Fault, InvalidInput
from speck.store.artifacts import Artifacts
from speck.store.deployments import Deployments
from speck.store.history import History


@dataclass(frozen=True)
class Resolver:
    """Resolves changes; nothing is changed."""

    deployments: Deployments
    history: History
    artifacts: Artifacts
    placer: Placer

    def name(self, change: Change) -> str:
        """The name of the composition that is changed.  Raises :class:`~speck.errors.NotFound`."""
        match change:
            case Apply() | Adopt():
                return change.composition.name
            case DeleteJob() | Pin():
                return self.deployments.known_job(change.job).composition
        return change.composition

    def resolved(self, change: Change, request: Request) -> tuple[Apply | DeleteComposition | Adopt, Request]:
        """The change as one of a whole composition, and its request with what follows from the change.

        Raises :class:`~speck.errors.NotFound` and :class:`~speck.errors.InvalidInput`.
        """
        request = replace(request, kind=change.kind)
        match change:
            case Apply() | DeleteComposition() | Adopt():
                return change, request
            case Rollback():
                return self._former(change, request)
        head = self.deployments.head(self.name(change))
        last = self.deployments.last(head)
        match change:
            case ApplyJob(job):
                return _as_it_runs(replace(last, jobs={**last.jobs, job.job_name: job})), request
            case DeleteJob(name):
                refuse_part(last.jobs.get(name))
                others = {key: job for key, job in last.jobs.items() if key != name}
                return _as_it_runs(replace(last, jobs=others)), request
            case Place(jobs=jobs, site=site):
                return _as_it_runs(self.placer.moved(last, jobs, site)), request
            case Recut(cuts=cuts):
                return _as_it_runs(recut(last, cuts)), request
            case Pin(name, pin, site):
                base = head.revision if request.base_revision is None else request.base_revision
                pinned = self.placer.pinned(last, name, pin, site)
                return _as_it_runs(pinned), replace(request, base_revision=base)

    def _former(self, change: Rollback, request: Request) -> tuple[Apply, Request]:
        """An earlier revision as the next one."""
        name, number = change.composition, change.number
        last = self.deployments.last_revision(name)
        is_deleted = self.deployments.store.deleted(name) is not None
        if number is None:
            number = last if is_deleted else self.history.before(name, last)
        former = self.deployments.store.revision_once(name, number)
        if faults := self.artifacts.lost(former.jobs.values()):
            raise InvalidInput(faults, f"composition {name!r}")
        gone = "its jobs start as new jobs: their former state and unprocessed messages are gone"
        warnings = (Fault(f"composition {name!r} is deleted; {gone}"),) if is_deleted else ()
        composition = Composition(name, former.jobs, former.placement, former.declared)
        message = request.message or f"rollback to revision {number}"
        resolved = Apply(composition, warnings, restored=number, cuts_stay=True)
        return resolved, replace(request, message=message)


def _as_it_runs(composition: Composition) -> Apply:
    """A composition that is made of the last revision, whose cuts stay."""
    return Apply(composition, cuts_stay=True)
