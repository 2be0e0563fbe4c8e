"""The coordinator: accepts compositions and has them applied.

It decides nothing about single jobs (:mod:`speck.core.plan` does) and calls no engine itself
(:mod:`speck.apply.executor` and :mod:`speck.observe.observer` do).  Users go before the reconciler
(:mod:`speck.controller.reconciler`), which heals by operations of its own, applied as any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from speck.apply import job_state
from speck.apply.job_state import CopyAdopted, RevisionNoted, lifecycle_of
from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.binder import Registry
from speck.binder.pool import BinderPool
from speck.controller.adaptation import Adaptation
from speck.controller.backoff import Backoff
from speck.controller.reaper import Reaper
from speck.controller.reconciler import Reconciler
from speck.controller.workers import WorkerController
from speck.coordinator.placing.figures import assigned_figures
from speck.coordinator.placing.placer import NEW, Placer
from speck.coordinator.planning.admission import refuse_claimed
from speck.coordinator.planning.builds import Builds
from speck.coordinator.planning.code_changes import CodeChanges
from speck.coordinator.planning.planner import Planner, refuse_stale
from speck.coordinator.planning.undrained import undrained_text
from speck.coordinator.revision_outcomes import RevisionOutcomes
from speck.core.change import Request
from speck.core.code import CodeChange
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job, changed_options
from speck.core.lifecycle import ActionState, EventKind, OperationKind
from speck.core.plan import Action, Keep, Plan, Start
from speck.core.settings import Settings
from speck.errors import Conflict, InvalidInput
from speck.observe.observer import Observer
from speck.observe.probing import Prober
from speck.observe.sampler import Sampler
from speck.observe.split_watch import SplitWatch
from speck.store import Event, Head, JobRecord, Revision, Store
from speck.store.artifacts import Artifacts, clear_scratch
from speck.store.deployments import Deployments
from speck.store.history import History, count, differences
from speck.store.retention import Retention

_log = logging.getLogger(__name__)

CLOSING = 60.0  # s, for which the end waits for running operations


@dataclass
class Coordinator:
    """Writes, and starts and shuts down its parts (:func:`speck.coordinator.build` wires them).

    One per store.  Safe to use from several threads.  ``clock`` gives Unix time, s.
    """

    store: Store
    registry: Registry
    inventory: Inventory
    settings: Settings
    clock: Callable[[], float]
    pool: BinderPool
    artifacts: Artifacts
    retention: Retention
    history: History
    deployments: Deployments
    observer: Observer
    sampler: Sampler
    prober: Prober
    operations: Operations
    reaper: Reaper
    reconciler: Reconciler
    adaptation: Adaptation
    splits: SplitWatch
    workers: WorkerController
    backoff: Backoff
    placer: Placer
    code: CodeChanges
    builds: Builds
    planner: Planner
    _recovered: bool = field(default=False, init=False)
    _outcomes: RevisionOutcomes = field(init=False)

    def __post_init__(self) -> None:
        self._outcomes = RevisionOutcomes(self.store, self.operations, self.rollback, self.delete_composition)
        self.operations.on_atomic_failure.append(self._outcomes.revert_atomic)

    def start(self) -> None:
        """Resume the operations that a crash or a stop interrupted, and begin to reconcile."""
        self.backoff.keep_in(self.store, self.reconciler.steady(), self.reconciler.offset)
        clear_scratch(self.store.directory)
        self.retention.sweep_code()  # code that was stored, but not accepted
        for data in self.operations.interrupted():
            self._resume(data)
        self._outcomes.resume_reverts()
        if self.settings.period:
            self.reconciler.start(self.settings.period)
            self.sampler.watch()
            self.splits.start()
            self.workers.start()
        self.adaptation.start()
        self._recovered = True

    def close(self, seconds: float = CLOSING) -> None:
        """Accept nothing new, wait for the running operations, and disconnect from engines and brokers.

        Waits ``seconds`` for the operations, of which the next start resumes those that run still, and only
        a moment for calls whose answers are used no more: an engine that is silent holds up no end.
        """
        self.finish_operations(seconds)
        self.prober.close()
        self.splits.close()
        self.workers.close()
        self.sampler.close()
        self.observer.close()
        self.pool.close()

    def finish_operations(self, seconds: float | None = None) -> None:
        """Accept nothing new, and wait for the running operations, for at most ``seconds``."""
        self.operations.refuse_new()
        self.adaptation.close()
        self.reconciler.close()
        self.operations.join(seconds)

    # --- health

    def faults(self) -> list[str]:
        """The faults that only a restart can repair, one sentence each."""
        parts = (self.reconciler, self.adaptation, self.workers, self.splits, self.sampler, self.prober)
        return [fault for part in parts if (fault := part.loop.fault())]

    def unready_reasons(self) -> list[str]:
        """The reasons why this coordinator cannot do all of its work now, one sentence each."""
        reasons = {
            "interrupted operations have not been resumed yet": not self._recovered,
            "the engines have not been observed yet": not self.reconciler.has_observed,
            "the server is shutting down": self.operations.is_closing,
            "the store cannot be written (GET /healthz says why)": self.store.failure is not None,
        }
        return [reason for reason, applies in reasons.items() if applies]

    # --- planning

    def plan(
        self,
        composition: Composition,
        base_revision: int | None = None,
        leave_behind: Iterable[str] = (),
        give_up: bool = False,
        place: str = NEW,
        build: bool = False,
        all_code: bool = False,
    ) -> Plan:
        """The plan from what runs to this composition.  Nothing is changed.

        With ``build``, its new forms are built at their engines; with ``all_code``, every change of a file
        counts for all of its jobs.  ``place`` is as in
        :meth:`~speck.coordinator.placing.placer.Placer.assign`.
        """
        head = self.deployments.head(composition.name)
        composition, elsewhere = self._recognised(head, composition, all_code)
        assigned = self.placer.assign(composition, place)
        left_behind = self.planner.left_behind(head, leave_behind)
        plan = self.planner.checked(
            head, assigned.composition, base_revision, left_behind, give_up, elsewhere
        )
        unbuilt = self.builds.check(plan, left_behind, on_request=True) if build else []
        plan = replace(plan, figures=assigned_figures(assigned), unbuilt=tuple(unbuilt))
        return self.planner.with_reachability(plan, left_behind)

    def _recognised(
        self, head: Head, composition: Composition, all_code: bool
    ) -> tuple[Composition, Mapping[str, CodeChange]]:
        return (composition, {}) if all_code else self.code.recognised(head, composition)

    # --- applying

    def apply(
        self,
        composition: Composition,
        *,
        base_revision: int | None = None,
        warnings: Iterable[str] = (),
        author: str = "",
        message: str = "",
        restored: int = 0,
        leave_behind: Iterable[str] = (),
        give_up: bool = False,
        place: str = NEW,
        kind: str = "",
        atomic: bool = False,
        all_code: bool = False,
    ) -> tuple[Operation, Plan]:
        """Accept a composition as its next revision, and carry it out in the background.

        One that is equal to the last revision makes no new one.  ``author`` and ``message`` are for the
        history, ``restored`` is the number of the revision that a rollback restores.  ``leave_behind`` names
        sites, or addresses of engines and brokers, that are not asked: copies and sessions there of jobs that
        leave are abandoned instead of stopped and deleted (:mod:`speck.apply.abandon`).  ``give_up`` allows
        the loss of messages in sessions that jobs leave (:mod:`speck.apply.draining`).  ``kind`` is that of
        the operation, if it is not of a user's request.  An ``atomic`` one is taken back if any job of it
        fails or waits.  ``all_code`` is as in :meth:`plan`.  Raises
        :class:`~speck.errors.StaleRevision`, :class:`~speck.errors.Busy`,
        :class:`~speck.errors.JobsOfAnother`, :class:`~speck.errors.InvalidInput`.
        """
        name = composition.name
        kind = kind or (OperationKind.ROLLBACK if restored else OperationKind.APPLY)
        with self.operations.exclusive(name, kind), ExitStack() as until_accepted:
            head = self.changeable_head(name)
            composition, elsewhere = self._recognised(head, composition, all_code)
            composition = until_accepted.enter_context(self.placer.reserved(composition, place))
            left_behind = self.planner.left_behind(head, leave_behind)
            plan = self.planner.checked(head, composition, base_revision, left_behind, give_up, elsewhere)
            self.planner.refuse_foreign(plan)
            last = self.desired(name)
            found = differences(last.jobs, composition.jobs)
            options = changed_options(last.placement, composition.placement)
            noted = last.declared != composition.declared
            same = bool(head.revision) and not found and not options and not noted
            number = head.revision if same else self.next_number(name)
            reported = [*warnings, *self.builds.check(plan, left_behind)]
            reported += [f"job {each.job!r}: {undrained_text(each)}" for each in plan.leaves]
            request = Request(
                kind=OperationKind(kind),
                author=author,
                message=message,
                base_revision=head.revision,
                leave_behind=tuple(sorted(left_behind)),
                give_up=give_up,
                atomic=atomic,
            )
            operation = self.operations.new(name, number, request, reported)
            operation.plan(plan)
            added, removed, changed = count(found).values()
            revision = Revision(
                name,
                number,
                self.clock(),
                composition.jobs,
                author,
                message,
                restored,
                (added, removed, changed),
                composition.placement,
                composition.declared,
            )
            with self.operations.admission(name, kind):
                # Again: another composition may have been accepted since.
                refuse_claimed(self.store, self.settings.quotas, composition)
                self.artifacts.keep(composition.jobs.values())
                self.backoff.forget(composition.jobs)
                self.accept(operation, plan, composition.jobs, None if same else revision)
        return operation, plan

    def plan_rollback(
        self,
        name: str,
        number: int | None = None,
        base_revision: int | None = None,
        give_up: bool = False,
    ) -> tuple[Plan, int]:
        """The plan of :meth:`rollback`, and the number of the revision to restore.  Nothing is changed."""
        former, restored = self._former(name, number)
        return self.plan(former, base_revision, give_up=give_up), restored

    def rollback_warnings(self, name: str) -> list[str]:
        """The warnings about a rollback: of a deleted composition, the things that it does not bring back."""
        deleted = self.store.deleted(name)
        gone = "its jobs start as new jobs: their former state and unprocessed messages are gone"
        return [] if deleted is None else [f"composition {name!r} is deleted; {gone}"]

    def rollback(
        self,
        name: str,
        number: int | None = None,
        *,
        base_revision: int | None = None,
        author: str = "",
        message: str = "",
        give_up: bool = False,
    ) -> tuple[Operation, Plan]:
        """Accept an earlier revision (the one before the last, when none is named) as the next one.

        Of a deleted composition that is the last one by default, whose jobs start as new ones.

        It is planned, refused and carried out like any other.  Besides the errors of :meth:`apply`, raises
        :class:`~speck.errors.NotFound` when there is no such revision, and
        :class:`~speck.errors.InvalidInput` when its code is no longer stored.
        """
        with self.operations.exclusive(name):
            former, restored = self._former(name, number)
            return self.apply(
                former,
                base_revision=base_revision,
                warnings=self.rollback_warnings(name),
                author=author,
                message=message or f"rollback to revision {restored}",
                restored=restored,
                give_up=give_up,
            )

    def _former(self, name: str, number: int | None) -> tuple[Composition, int]:
        """The composition of an earlier revision, and its number."""
        last = self.deployments.last_revision(name)
        if number is None:  # of a deleted composition, the last one is to come back
            number = last if self.store.deleted(name) is not None else self.history.before(name, last)
        former = self.store.revision_once(name, number)
        if faults := self.artifacts.lost(former.jobs.values()):
            raise InvalidInput(faults, f"composition {name!r}")
        return Composition(name, former.jobs, former.placement, former.declared), number

    def next_number(self, name: str) -> int:
        """The number of the next revision; that of a deleted composition goes on counting."""
        return max(self.store.revision_numbers(name), default=0) + 1

    def changeable_head(self, name: str) -> Head:
        """The head of a composition.  Raises :class:`~speck.errors.Conflict` while it is being deleted."""
        head = self.deployments.head(name)
        if head.deleting:
            raise Conflict(f"composition {name!r} is being deleted (delete it again, or wait)")
        return head

    def accept(
        self,
        operation: Operation,
        plan: Plan,
        desired: Mapping[str, Job],
        revision: Revision | None,
        adopted: Iterable[CopyAdopted] = (),
    ) -> None:
        """Write the intent at once: the revision, its new and adopted jobs, and the operation; then begin."""
        with self.operations.accepting(operation, desired, plan) as transaction:
            if revision is not None:
                transaction.put_revision(revision)
                transaction.delete_deleted(revision.composition)
            name, number = operation.composition, operation.revision
            self._outcomes.put_accepted(transaction, operation, number)
            request = operation.request
            transaction.put_head(
                Head(name, number, left_behind=request.leave_behind, give_up=request.give_up)
            )
            for action in plan.actions:
                job = action.job.job_name
                if isinstance(action, Start) and self.store.job(job) is None:
                    transaction.put_job(JobRecord(job, name, self.store.first_attempt))
                if isinstance(action, Keep) and action.changes and revision is not None:
                    stored = lifecycle_of(self.store, job, name)
                    job_state.write(transaction, stored, RevisionNoted(revision.number))
            for event in adopted:
                job_state.write(transaction, lifecycle_of(self.store, event.attempt.job_name, name), event)
                transaction.add_event(self._adoption_event(operation, event))

    def _adoption_event(self, operation: Operation, event: CopyAdopted) -> Event:
        attempt, session = event.attempt, event.session
        message = (
            f"job {attempt.job_name!r} adopted: attempt {attempt.number} ({attempt.id}) at "
            f"{event.handle.address}, with session {session.name!r} at {session.broker}"
        )
        name, identifier = operation.composition, operation.id
        return Event(self.clock(), EventKind.ADOPTED, message, name, attempt.job_name, identifier)

    def plan_deletion(
        self, name: str, base_revision: int | None = None, leave_behind: Iterable[str] = ()
    ) -> Plan:
        """The plan of :meth:`delete_composition`.  Nothing is changed."""
        head = self.deployments.known_head(name)
        refuse_stale(head, base_revision)
        left_behind = self.planner.left_behind(head, leave_behind)
        return self.planner.with_reachability(
            self.planner.plan(self.deployments.snapshot(head), {}, left_behind), left_behind
        )

    def delete_composition(
        self,
        name: str,
        author: str = "",
        message: str = "",
        *,
        base_revision: int | None = None,
        leave_behind: Iterable[str] = (),
    ) -> Operation:
        """Stop all of a composition's jobs, then forget it; refused when ``base_revision`` is stale.

        ``leave_behind`` is as in :meth:`apply`.
        """
        with self.operations.exclusive(name):
            head = self.deployments.known_head(name)
            refuse_stale(head, base_revision)
            left_behind = self.planner.left_behind(head, leave_behind)
            plan = self.planner.plan(self.deployments.snapshot(head), {}, left_behind)
            request = Request(
                kind=OperationKind.DELETE,
                author=author,
                message=message,
                base_revision=head.revision,
                leave_behind=tuple(sorted(left_behind)),
            )
            operation = self.operations.new(name, head.revision, request)
            operation.plan(plan)
            with self.operations.admission(name):
                self.backoff.forget(each.job.job_name for each in plan.actions)
                with self.operations.accepting(operation, {}, plan) as transaction:
                    deleting = replace(head, deleting=True, left_behind=operation.request.leave_behind)
                    transaction.put_head(deleting)
                    self._outcomes.put_accepted(transaction, operation, 0)
        return operation

    def apply_job(
        self, job: Job, composition: str, author: str = "", message: str = "", give_up: bool = False
    ) -> tuple[Operation, Plan]:
        """Deploy one job: a revision of its composition with this job added, the others as they are."""
        with self.operations.exclusive(composition):
            last = self.desired(composition)
            desired = replace(last, jobs={**last.jobs, job.job_name: job})
            return self.apply(desired, author=author, message=message, give_up=give_up)

    def pinned(self, name: str, pin: bool, site: str = "") -> tuple[Composition, int]:
        """The composition of a job with the job pinned or not, and the revision that this is made from.

        ``site`` is the name of another site for the job.  Nothing is changed.  Raises
        :class:`~speck.errors.NotFound`, and for a job with a fixed site :class:`~speck.errors.InvalidInput`.
        """
        head = self.deployments.head(self.deployments.known_job(name).composition)
        return self.placer.pinned(self.desired(head.name), name, pin, site), head.revision

    def plan_job_deletion(
        self,
        name: str,
        base_revision: int | None = None,
        leave_behind: Iterable[str] = (),
        give_up: bool = False,
    ) -> Plan:
        """The plan of :meth:`delete_job`.  Nothing is changed."""
        return self.plan(self._without(name), base_revision, leave_behind, give_up)

    def delete_job(
        self,
        name: str,
        author: str = "",
        message: str = "",
        leave_behind: Iterable[str] = (),
        give_up: bool = False,
        base_revision: int | None = None,
    ) -> Operation:
        """Stop and forget one job: a revision of its composition without it."""
        with self.operations.exclusive(self.deployments.known_job(name).composition):
            return self.apply(
                self._without(name),
                base_revision=base_revision,
                author=author,
                message=message,
                leave_behind=leave_behind,
                give_up=give_up,
            )[0]

    def _without(self, name: str) -> Composition:
        """The last revision of a job's composition, without the job."""
        last = self.desired(self.deployments.known_job(name).composition)
        return replace(last, jobs={key: job for key, job in last.jobs.items() if key != name})

    def desired(self, name: str) -> Composition:
        """The last revision of a composition; without jobs if it has none."""
        head = self.deployments.head(name)
        if not head.revision:
            return Composition(name, {})
        last = self.store.revision(name, head.revision)
        return Composition(name, last.jobs, last.placement, last.declared)

    def _resume(self, data: Mapping[str, Any]) -> None:
        """Resume an operation that did not end: plan again from the store and the engines.

        Actions that were tried just before are left to the reconciler, which waits: a coordinator that dies
        of a request to an engine must not repeat it again and again.
        """
        head = self.store.head(data["composition"])
        operation = Operation.from_dict(data, self.clock)
        if head is None:
            self.operations.end_at_once(operation)
            return
        snapshot = self.deployments.snapshot(head)
        plan = self.planner.resumed(snapshot, operation.request.leave_behind)
        if operation.kind in (OperationKind.HEAL, OperationKind.ADOPT):  # the other jobs were not due
            names = {each["job"] for each in data["actions"]}
            plan = replace(plan, actions=tuple(each for each in plan.actions if each.job.job_name in names))
        operation.plan(plan)
        waiting = self._waiting(plan)
        for name in waiting:
            operation.finish(name, ActionState.WAITING, "was interrupted and waits for its next attempt")
        plan = replace(plan, actions=tuple(each for each in plan.actions if each.job.job_name not in waiting))
        self.backoff.record_attempt([each.job.job_name for each in _acting(plan)], self.reconciler.steady())
        self.operations.begin(operation, snapshot.desired, plan)

    def _waiting(self, plan: Plan) -> list[str]:
        """The names of the jobs to act on whose next try is not due yet."""
        now = self.reconciler.steady()
        due = {each.job.job_name: self.backoff.next_try(each.job.job_name) or now for each in _acting(plan)}
        return [name for name, when in due.items() if when > now]


def _acting(plan: Plan) -> list[Action]:
    return [each for each in plan.actions if not isinstance(each, Keep)]
