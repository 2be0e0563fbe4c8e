"""The one way by which what is deployed is changed: a change is planned as a value, and accepted as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from speck.apply.adoption import Adoptions, event_of
from speck.apply.job_events import CopyAdopted
from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.apply.planned import PlannedChange
from speck.controller.backoff import Backoff
from speck.coordinator.acceptance import Acceptance
from speck.coordinator.placing.cuts import CutChooser
from speck.coordinator.placing.figures import assigned_figures
from speck.coordinator.placing.placer import Placer, refuse_unplaced
from speck.coordinator.planning.admission import refuse_claimed, refuse_growth, refuse_removed_sites
from speck.coordinator.planning.builds import Builds
from speck.coordinator.planning.code_changes import CodeChanges
from speck.coordinator.planning.planner import Planner, PlanOptions, joined_notes, refuse_stale
from speck.coordinator.planning.resolver import Resolver
from speck.coordinator.planning.undrained import undrained_text
from speck.core.change import Adopt, Apply, Change, DeleteComposition, Request
from speck.core.code import CodeChange
from speck.core.job import Composition, changed_options
from speck.core.plan import Basis, Keep, Plan, Stop
from speck.core.runtime import Handle
from speck.core.settings import Settings
from speck.core.waves import texts_of
from speck.errors import Busy, Fault, InvalidInput
from speck.store import Event, Head, Revision, Store
from speck.store.artifacts import Artifacts
from speck.store.deployments import Deployments
from speck.store.history import count, differences


@dataclass(frozen=True)
class Changes:
    """Plans changes and accepts them.  Safe to use from several threads.  ``clock`` gives Unix time, s."""

    store: Store
    settings: Settings
    clock: Callable[[], float]
    artifacts: Artifacts
    deployments: Deployments
    operations: Operations
    backoff: Backoff
    placer: Placer
    cuts: CutChooser
    code: CodeChanges
    builds: Builds
    planner: Planner
    resolver: Resolver
    adoptions: Adoptions
    acceptance: Acceptance

    def plan(self, change: Change, request: Request) -> PlannedChange:
        """The planned change from what runs.  Nothing is changed.

        Raises :class:`~speck.errors.NotFound`, :class:`~speck.errors.StaleRevision`,
        :class:`~speck.errors.Conflict` and :class:`~speck.errors.InvalidInput`.
        """
        return self._planned(change, request, reserve=False)

    def inspected(self, planned: PlannedChange, *, build: bool = False) -> PlannedChange:
        """A planned change, and the places that do not respond now.

        With ``build``, the new forms of its jobs are built at their engines.
        """
        left_behind = frozenset(planned.request.leave_behind)
        plan = planned.plan
        if build:
            plan = replace(plan, unbuilt=tuple(self.builds.check(plan, left_behind, on_request=True)))
        return replace(planned, plan=self.planner.with_reachability(plan, left_behind))

    def accept(self, planned: PlannedChange) -> Operation:
        """Carry out a planned change in the background, as it was planned.

        Raises :class:`~speck.errors.StaleRevision` and :class:`~speck.errors.StalePlan` if what it was
        planned from has changed, :class:`~speck.errors.Busy`, :class:`~speck.errors.JobsOfAnother`,
        :class:`~speck.errors.NotAdoptable`, :class:`~speck.errors.InvalidInput`, and
        :class:`~speck.errors.Conflict` for a request that was accepted before; nothing is touched then.
        """
        name = planned.composition
        with self.operations.exclusive(name, planned.request.kind), self.placer.reservation(name):
            self.operations.refuse_repeated(planned.request)
            adopts = planned.adoption is not None
            self.placer.reserve(Composition(name, planned.desired), running=adopts)
            return self._accept(self.planner.revised(planned))

    def carry_out(
        self, change: Change, request: Request, events: Sequence[Event] = ()
    ) -> tuple[Operation, PlannedChange]:
        """Plan a change and accept it, with nothing else in between; ``events`` are stored with it.

        Raises as both, and :class:`~speck.errors.Conflict` for a request that was accepted before.
        """
        name = self.resolver.name(change)
        with self.operations.exclusive(name, change.kind), self.placer.reservation(name):
            self.operations.refuse_repeated(request)
            if (now := self.resolver.name(change)) != name:  # a request on a job that waited for another one
                raise Busy(
                    f"composition {name!r}: its job was moved to composition {now!r} meanwhile (retry)"
                )
            planned = self._planned(change, request, reserve=True)
            return self._accept(planned, events), planned

    # --- planning

    def _planned(self, change: Change, request: Request, *, reserve: bool) -> PlannedChange:
        """A planned change; with ``reserve``, its places count for all others (``Placer.reservation``)."""
        resolved, request = self.resolver.resolved(change, request)
        match resolved:
            case DeleteComposition():
                return self._deletion(resolved, request)
            case Adopt():
                return self._adoption(resolved, request)
            case Apply():
                # Of a whole composition: another change leaves the jobs that it does not name as they are.
                logins = isinstance(change, Apply)
                return self._revision(resolved, request, reserve=reserve, logins=logins)

    def _revision(self, apply: Apply, request: Request, *, reserve: bool, logins: bool) -> PlannedChange:
        """The plan of a composition as the next revision; ``logins`` as of :class:`PlanOptions`."""
        head = self.deployments.changeable_head(apply.composition.name)
        composition, notes = apply.composition, dict[str, str]()
        if not apply.cuts_stay:
            composition, notes = self.cuts.chosen(composition)
        unreached: Mapping[str, CodeChange] = {}
        if not apply.all_code:
            composition, unreached = self.code.recognised(head, composition)
        left_behind = self.planner.left_behind(head, request.leave_behind)
        assigned = self.placer.assign(composition, apply.place, reserve=reserve, left_behind=left_behind)
        composition = assigned.composition
        options = PlanOptions(
            left_behind=left_behind, give_up=request.give_up, unreached=unreached, logins=logins
        )
        plan = self.planner.checked(head, composition, request.base_revision, options)
        if apply.restored:
            self.planner.refuse_lost_states(plan, left_behind, apply.restored)
        waves = self.planner.waves(request.waves, plan)
        refuse_growth(plan, atomic=request.atomic, waves=bool(waves))
        return PlannedChange(
            request=replace(request, base_revision=head.revision, leave_behind=tuple(sorted(left_behind))),
            head=head,
            plan=replace(
                plan,
                figures=assigned_figures(assigned),
                consequences=joined_notes((apply.notes, notes, plan.consequences)),
            ),
            desired=composition.jobs,
            revision=self._next(head, composition, request, apply.restored),
            restored=apply.restored,
            warnings=apply.warnings,
            waves=waves,
        )

    def _next(self, head: Head, composition: Composition, request: Request, restored: int) -> Revision | None:
        """The next revision; ``None`` if it would equal the last one."""
        last = self.deployments.last(head)
        found = differences(last.jobs, composition.jobs)
        options = changed_options(last.placement, composition.placement)
        noted = last.declared != composition.declared
        if head.revision and not (found or options or noted):
            return None
        added, removed, changed = count(found).values()
        return Revision(
            composition=head.name,
            number=self.deployments.next_number(head.name),
            at=self.clock(),
            jobs=composition.jobs,
            author=request.author,
            message=request.message,
            restored=restored,
            counts=(added, removed, changed),
            placement=composition.placement,
            declared=composition.declared,
        )

    def _deletion(self, change: DeleteComposition, request: Request) -> PlannedChange:
        head = self.deployments.known_head(change.composition)
        refuse_stale(head, request.base_revision)
        left_behind = self.planner.left_behind(head, request.leave_behind)
        options = PlanOptions(left_behind=left_behind)
        plan = self.planner.plan(self.deployments.snapshot(head), {}, options)
        return PlannedChange(
            request=replace(request, base_revision=head.revision, leave_behind=tuple(sorted(left_behind))),
            head=head,
            plan=plan,
            desired={},
            deletes=True,
        )

    def _adoption(self, change: Adopt, request: Request) -> PlannedChange:
        """The plan of an adoption: nothing is started, stopped or moved.

        The next revision has the adopted jobs, and those of the last one.
        """
        composition, head = change.composition, self.deployments.changeable_head(change.composition.name)
        refuse_stale(head, request.base_revision)
        if faults := [_unknown(each, composition) for each in change.jobs if each not in composition.jobs]:
            raise InvalidInput(faults, f"composition {composition.name!r}")
        composition, _ = self.cuts.chosen(composition)
        composition, _ = self.code.recognised(head, composition)
        composition = self.placer.assign(composition).composition
        refuse_unplaced(composition)
        refuse_claimed(self.store, self.settings.quotas, composition)
        found = self.adoptions.plan(head.name, head.revision, composition.jobs.values(), change.jobs)
        adopted = {each.job: composition.jobs[each.job] for each in found.adoptions}
        last = self.deployments.last(head)
        jobs = {**last.jobs, **adopted}
        changed = not head.revision or differences(last.jobs, jobs)
        revision = self._next(head, replace(composition, jobs=jobs), request, 0) if changed else None
        actions = tuple(Keep(adopted[each.job], f"adopted: {each.text()}") for each in found.adoptions)
        basis = Basis(self.deployments.snapshot(head).stored())
        return PlannedChange(
            request=replace(request, base_revision=head.revision),
            head=head,
            plan=Plan(head.name, head.revision, actions, basis=basis),
            desired=adopted if revision is None else revision.jobs,
            revision=revision,
            warnings=change.warnings,
            adoption=found,
        )

    # --- accepting

    def _accept(self, planned: PlannedChange, events: Sequence[Event] = ()) -> Operation:
        """Accept a planned change of which nothing has changed since; its composition is reserved."""
        if planned.waves:  # a change that stays half made would be completed without its waves
            request = replace(planned.request, waves=texts_of(planned.waves), atomic=True)
            planned = replace(planned, request=request)
        request, plan, adoption = planned.request, planned.plan, planned.adoption
        refuse_growth(plan, atomic=request.atomic, waves=bool(planned.waves))
        handles: Mapping[str, Handle] = {}
        if adoption is not None:
            adoption.refuse()
            handles = self.adoptions.handles(planned.desired, adoption.adoptions)
        self.planner.refuse_foreign(plan)
        warnings = [*map(str, planned.warnings), *self.builds.check(plan, request.leave_behind)]
        if not planned.deletes:
            warnings += [f"job {each.job!r}: {undrained_text(each)}" for each in plan.leaves]
        coded = [each.job for each in plan.actions if not isinstance(each, Stop)]
        if adoption is not None:
            with self.operations.admission(planned.composition, request.kind):
                self._refuse_again(planned)  # before any session is taken
        adopted = self._adopted(planned, handles)  # a broker may not answer: no lock of all is held meanwhile
        with self.artifacts.copied(coded), self.operations.admission(planned.composition, request.kind):
            self._refuse_again(planned)
            self.artifacts.keep(coded)
            self.backoff.forget(each.job.job_name for each in plan.actions)
            record = partial(self.acceptance.write, adopted=adopted, events=events)
            return self.operations.begin(planned, record, warnings)

    def _refuse_again(self, planned: PlannedChange) -> None:
        """Refuse what other compositions have claimed since the plan, and sites removed since."""
        if not planned.deletes:
            desired = Composition(planned.composition, planned.desired)
            refuse_claimed(self.store, self.settings.quotas, desired)
            refuse_removed_sites(planned.plan, self.planner.inventory)

    def _adopted(self, planned: PlannedChange, handles: Mapping[str, Handle]) -> list[CopyAdopted]:
        """The copies that become attempts of this store, whose sessions are made this store's.

        The sessions that a broker has handed over before an error are adopted by the next try.
        """
        if planned.adoption is None:
            return []
        copies = planned.adoption.adoptions
        self.adoptions.take_sessions(copies)
        number = planned.number
        return [event_of(planned.desired[each.job], each, handles[each.job], number) for each in copies]


def _unknown(name: str, composition: Composition) -> Fault:
    known = ", ".join(sorted(composition.jobs))
    return Fault(
        f"is not a job of composition {composition.name!r} (expected one of {known})", job=name, value=name
    )
