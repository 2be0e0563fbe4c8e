"""Plans from the deployment, by the store and the engines, to a desired state.  Nothing is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from speck.apply.abandon import addresses_of, refuse_use
from speck.apply.foreign import ForeignJobs
from speck.apply.leaving import left_sources
from speck.apply.planned import PlannedChange
from speck.apply.qos0 import qos0_notes
from speck.apply.stamps import stamp_notes
from speck.binder.pool import BinderPool
from speck.coordinator.placing.placer import place_notes, refuse_unplaced
from speck.coordinator.planning.admission import desired_elsewhere, refuse_claimed, refuse_removed_sites
from speck.coordinator.planning.code_changes import CodeChanges
from speck.coordinator.planning.cycles import cycle_notes, refused_cycles
from speck.coordinator.planning.message_sizes import size_notes, written
from speck.coordinator.planning.partitions import Partitions
from speck.coordinator.planning.query_edits import query_notes, refused_queries, refused_recuts
from speck.coordinator.planning.reachability import Reachability
from speck.coordinator.planning.replays import (
    Reading,
    Replays,
    reading_notes,
    refused_starts,
    skipped_messages,
)
from speck.coordinator.planning.retained import retained_notes
from speck.coordinator.planning.state_moves import StateMoves, lost_state_faults, state_notes
from speck.coordinator.planning.undrained import UndrainedSessions, refuse_loss
from speck.core.code import CodeChange
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job
from speck.core.logins import NO_LOGINS, login_mark
from speck.core.plan import (
    Basis,
    Deployed,
    ForeignJob,
    Keep,
    Move,
    Plan,
    Start,
    UndrainedSession,
    Update,
    make_plan,
)
from speck.core.refusals import refused_splits, stranded_state
from speck.core.rewiring import replacements, rewirings
from speck.core.runtime import JobStatus
from speck.core.settings import Settings
from speck.core.waves import Wave, refuse_crossed, waves_of
from speck.errors import Fault, InvalidInput, JobsOfAnother, StalePlan, StaleRevision
from speck.observe.observer import PATIENCE, PLAN_PATIENCE, Observer
from speck.observe.sampler import Sampler
from speck.placement.profile import JobProfile, Value, with_expected
from speck.store import Head, Store
from speck.store.artifacts import Artifacts
from speck.store.deployments import Deployments, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The part of a plan that its request decides, besides the desired jobs.

    ``left_behind`` are the addresses of engines and brokers that are treated as lost: they are not asked, and
    the stored records of the jobs there stand.  With ``give_up``, messages may be discarded.  ``unreached``
    are changes of files that their jobs do not reach, by job name.  With ``logins``, jobs that run with a
    former login to a broker are restarted.
    """

    left_behind: frozenset[str] = frozenset()
    give_up: bool = False
    unreached: Mapping[str, CodeChange] = field(default_factory=dict)
    logins: bool = False


@dataclass(frozen=True)
class Planner:
    """Makes the plans of one coordinator.  Safe to use from several threads."""

    store: Store
    inventory: Inventory
    settings: Settings
    pool: BinderPool
    deployments: Deployments
    observer: Observer
    sampler: Sampler
    code: CodeChanges
    artifacts: Artifacts

    def checked(
        self, head: Head, composition: Composition, base_revision: int | None, options: PlanOptions
    ) -> Plan:
        """The plan to a composition that may be the next revision, if nothing speaks against it.

        Raises :class:`~speck.errors.StaleRevision` and :class:`~speck.errors.InvalidInput`.
        """
        left_behind = options.left_behind
        refuse_stale(head, base_revision)
        refuse_unplaced(composition)
        refuse_claimed(self.store, self.settings.quotas, composition)
        refuse_use(composition.name, composition.jobs.values(), left_behind)
        snapshot = self.deployments.snapshot(head)
        stored = self.deployments.last_run(snapshot)
        faults = stranded_state(composition.jobs, stored) + refused_splits(composition.jobs, stored)
        faults += self._refused_queries(composition, stored) + refused_starts(composition.jobs, stored)
        faults += refused_cycles(composition.jobs.values(), self.deployments.desired(head).values())
        faults += Partitions(self.pool, left_behind).faults(composition.jobs.values())
        if faults:
            raise InvalidInput(faults, f"composition {composition.name!r}")
        plan = self.plan(snapshot, composition.jobs, options)
        refuse_removed_sites(plan, self.inventory)
        if faults := refused_recuts(composition.jobs, stored, plan.basis.observed):
            raise InvalidInput(faults, f"composition {composition.name!r}")
        refuse_loss(composition.name, plan.leaves, options.give_up)
        return replace(plan, foreign=self._foreign(plan, left_behind))

    def _refused_queries(self, composition: Composition, stored: Mapping[str, Deployed]) -> list[Fault]:
        desired = composition.jobs
        if not any(job.query for job in (*desired.values(), *(each.job for each in stored.values()))):
            return []  # no job reads by a contract here
        elsewhere = desired_elsewhere(self.store, composition.name).values()
        return refused_queries(desired, stored, [job for jobs in elsewhere for job in jobs])

    def revised(self, planned: PlannedChange) -> PlannedChange:
        """A planned change with the messages and the jobs of other stores that are in its way now.

        Raises :class:`~speck.errors.StaleRevision` or :class:`~speck.errors.StalePlan` if it would be planned
        otherwise by now, and :class:`~speck.errors.InvalidInput` if messages would be lost.
        """
        name, request, plan = planned.composition, planned.request, planned.plan
        head = self.deployments.head(name)
        refuse_stale(head, planned.head.revision)
        if head.deleting and not planned.deletes:
            raise StalePlan(name, [f"composition {name!r} is being deleted"])
        if planned.revision is not None and planned.number != (number := self.deployments.next_number(name)):
            raise StalePlan(name, [f"its next revision was {planned.number} and is {number}"])
        snapshot = self.deployments.snapshot(head)
        options = PlanOptions(left_behind=frozenset(request.leave_behind), give_up=request.give_up)
        observed = self._observed(snapshot, options.left_behind)
        if changes := list(plan.basis.changes(Basis(snapshot.stored(), observed))):
            raise StalePlan(name, changes)
        readings = Replays(self.pool, options.left_behind).of(plan, snapshot)
        plan = replace(plan, leaves=self._leaves(plan, snapshot, planned.desired, readings, options))
        if not planned.deletes:
            refuse_loss(name, plan.leaves, options.give_up)
        return replace(planned, plan=replace(plan, foreign=self._foreign(plan, options.left_behind)))

    def _leaves(
        self,
        plan: Plan,
        snapshot: Snapshot,
        desired: Mapping[str, Job],
        readings: Mapping[str, Reading],
        options: PlanOptions,
    ) -> tuple[UndrainedSession, ...]:
        """The messages that the jobs of a plan leave: those that wait, and those before their start."""
        undrained = UndrainedSessions(
            self.deployments.history, self.pool, self.settings.drain, options.left_behind, options.give_up
        )
        return (*undrained.of(plan, snapshot, desired, plan.basis.observed), *skipped_messages(readings))

    def _foreign(self, plan: Plan, left_behind: Collection[str]) -> tuple[ForeignJob, ...]:
        starts = (each.job for each in plan.actions if isinstance(each, Start))
        return ForeignJobs(self.store, self.pool, left_behind).of(starts)

    def refuse_foreign(self, plan: Plan) -> None:
        """Raise :class:`~speck.errors.JobsOfAnother` for a plan that would start jobs of another store."""
        if plan.foreign:
            raise JobsOfAnother("\n".join(each.text(self.store.identity) for each in plan.foreign))

    def plan(self, snapshot: Snapshot, desired: Mapping[str, Job], options: PlanOptions) -> Plan:
        """The plan to these jobs, with the messages that they leave and remarks on each."""
        logged_in = desired.keys() if options.logins else ()
        plan = self._compared(snapshot, desired, options.left_behind, options.unreached, logged_in=logged_in)
        readings = Replays(self.pool, options.left_behind).of(plan, snapshot)
        leaves = self._leaves(plan, snapshot, desired, readings, options)
        notes = (
            place_notes(plan),
            reading_notes(readings),
            Partitions(self.pool, options.left_behind).notes(written(plan)),
            stamp_notes(plan, self.sampler.stamps()),
            qos0_notes(plan, self.sampler.qos0_rates()),
            query_notes(desired, self.deployments.last_run(snapshot)),
            cycle_notes(plan, desired, desired_elsewhere(self.store, snapshot.head.name)),
        )
        return replace(plan, leaves=leaves, consequences=joined_notes(notes))

    def resumed(
        self, snapshot: Snapshot, left_behind: Collection[str], updated: Collection[str] = ()
    ) -> Plan:
        """The plan of an operation that was interrupted; waits only a moment for each engine.

        ``updated`` are the jobs that it was to restart at their engines, perhaps for another login.
        """
        plan = self._compared(snapshot, snapshot.desired, left_behind, patience=PATIENCE, logged_in=updated)
        return replace(plan, consequences=place_notes(plan) | stamp_notes(plan, self.sampler.stamps()))

    def _compared(
        self,
        snapshot: Snapshot,
        desired: Mapping[str, Job],
        left_behind: Collection[str],
        unreached: Mapping[str, CodeChange] = MappingProxyType({}),
        patience: float = PLAN_PATIENCE,
        logged_in: Collection[str] = (),
    ) -> Plan:
        """The actions from what runs to these jobs; waits ``patience`` seconds for the engines.

        The jobs ``logged_in`` are restarted if they run with a former login.
        """
        head, observed = snapshot.head, self._observed(snapshot, left_behind, patience)
        changes = self.code.of_forms(snapshot.forms, desired.values())
        # A file that the job did not keep, though it reaches no change: its whole content was asked for.
        code = {**unreached, **{name: each.as_a_whole() for name, each in changes.items()}}
        stored, logins = snapshot.stored(), NO_LOGINS
        if logged_in:
            stored = {
                name: each if name in logged_in else replace(each, logins=None)
                for name, each in stored.items()
            }
            logins = self._login_marks(each.job for each in stored.values() if each.logins is not None)
        return make_plan(head.name, head.revision, desired, stored, observed, code, logins)

    def _login_marks(self, jobs: Iterable[Job]) -> Mapping[str, str]:
        """The marks of the logins that jobs get at their brokers now."""
        brokers = {broker for job in jobs for broker in (job.source_broker, job.sink_broker)}
        return {each: login_mark(self.inventory.broker(each)) for each in brokers}

    def _observed(
        self, snapshot: Snapshot, left_behind: Collection[str], patience: float = PLAN_PATIENCE
    ) -> Mapping[str, JobStatus]:
        asked = (each for each in snapshot.deployed() if each[0].spe_address not in left_behind)
        return self.observer.observe(asked, patience)

    def with_reachability(self, plan: Plan, left_behind: Collection[str]) -> Plan:
        """A plan with the engines and brokers that do not answer now, and what those that do state."""
        asked = Reachability(self.pool, left_behind)
        unreachable = asked.unreachable(plan)
        away = {each.address for each in unreachable if not each.refuses} | set(left_behind)
        notes = (
            state_notes(self._refused_states(plan, left_behind)),
            plan.consequences,
            size_notes(plan, asked.limits, self._sizes(plan, asked.limits)),
            retained_notes(plan, away, self.sampler.details()),
        )
        return replace(plan, unreachable=unreachable, consequences=joined_notes(notes))

    def refuse_lost_states(self, plan: Plan, left_behind: Collection[str], restored: int) -> None:
        """Raise :class:`~speck.errors.InvalidInput` for a rollback with jobs whose state cannot come along.

        They would fail one by one while the others are rolled back.
        """
        if faults := lost_state_faults(self._refused_states(plan, left_behind), restored):
            raise InvalidInput(faults, f"composition {plan.composition!r}")

    def _refused_states(self, plan: Plan, left_behind: Collection[str]) -> Mapping[str, str]:
        if not any(isinstance(each, Update | Move) for each in plan.actions):
            return {}
        snapshot = self.deployments.snapshot(self.deployments.head(plan.composition))
        moves = StateMoves(self.pool, self.artifacts, self.settings.state_limit, left_behind)
        return moves.refused(plan, snapshot)

    def _sizes(self, plan: Plan, limits: Mapping[str, int]) -> dict[str, Value]:
        """The best known size of the messages that jobs write to brokers with limits, in bytes."""
        jobs = [job for job in written(plan) if job.sink_broker in limits]
        measures = self.sampler.measures
        found = {} if measures is None else measures.jobs(jobs)
        profiles = {
            job.job_name: with_expected(
                found[job.job_name].estimate.profile if found else JobProfile(), job.expects
            )
            for job in jobs
        }
        return {name: each.bytes_out for name, each in profiles.items() if each.bytes_out is not None}

    def waves(self, texts: Sequence[str], plan: Plan, *, resumed: bool = False) -> tuple[Wave, ...]:
        """The waves of a plan, as :func:`~speck.core.waves.waves_of` reads them.

        Of an operation that is ``resumed``, their sites may have left the inventory.  Raises
        :class:`~speck.errors.InvalidInput`.
        """
        sites = {each.job.job_name: self._site_of(each.job) for each in plan.actions}
        known = {*self.inventory.sites, *(",".join(texts).split(",") if resumed else ())}
        found = waves_of(texts, plan, sites, known, resumed=resumed)
        if found:
            actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
            records = {each.name: each for each in self.store.jobs(plan.composition)}
            left = left_sources(self.deployments.history, plan, records)
            refuse_crossed(found, rewirings(actions, left=left), replacements(actions))
        return found

    def _site_of(self, job: Job) -> str:
        site = self.inventory.site_of_engine(job.spe_address, *job.site_hints)
        return "" if site is None else site.name

    def left_behind(self, head: Head, names: Iterable[str]) -> frozenset[str]:
        """The addresses of the sites, engines and brokers that are to be abandoned."""
        if not (given := list(names)):
            return frozenset()
        used = self.deployments.snapshot(head).addresses()
        # What was abandoned before may be named again.
        used |= {each.address for each in self.store.abandoned_attempts()}
        used |= {each.broker for each in self.store.abandoned_sessions()}
        return addresses_of(given, self.inventory, used)


def joined_notes(notes: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The remarks of several kinds as one for each job."""
    found: dict[str, list[str]] = {}
    for each in notes:
        for name, note in each.items():
            found.setdefault(name, []).append(note)
    return {name: "; ".join(texts) for name, texts in found.items()}


def refuse_stale(head: Head, base_revision: int | None) -> None:
    """Raise :class:`~speck.errors.StaleRevision` if a change was made from another revision than the last."""
    if base_revision is not None and base_revision != head.revision:
        raise StaleRevision(head.name, base_revision, head.revision)
