"""The reconciler: observes the jobs, names those that drifted from what is desired, and heals them.

It is level-triggered: each round starts from the desired jobs in the store and the answers of the engines,
whatever happened before.  So what a crash, an unreachable site or a failed action left undone is found again,
and done.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from speck.apply.copies import AbandonedCopies, EngineCopy, copies_by_job
from speck.apply.fallbacks import fallbacks_of, is_unfinished
from speck.apply.leaving import left_sources
from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.apply.planned import PlannedChange
from speck.apply.stamps import stamp_notes
from speck.binder.patience import PatientCalls
from speck.binder.pool import BinderPool
from speck.controller.backoff import Backoff
from speck.controller.drift import GONE, Drifted, find_drifts
from speck.controller.drift_notes import DriftNotes
from speck.controller.gate import Blockers, GatedPlan, brokers_of, engines_of, gate_actions
from speck.controller.orphans import Orphans
from speck.controller.reaper import Reaper
from speck.controller.reports import AgentReports
from speck.core.change import Request
from speck.core.clocks import Clock, steady_beside
from speck.core.job import Job
from speck.core.lifecycle import ActionState, AttemptPhase, OperationKind, OperationState
from speck.core.plan import Action, Keep, Move, Plan, Start, Update, make_plan
from speck.core.runtime import Drift, JobState, JobStatus
from speck.core.schedule import Leftovers, schedule
from speck.errors import Busy, SpeckError, StoreError
from speck.loop import Loop
from speck.observe.metrics import Metrics
from speck.observe.observer import Observation, Observer
from speck.observe.readers import ReaderWatch
from speck.store import Head
from speck.store.deployments import Deployments, EngineKey, Snapshot

_log = logging.getLogger(__name__)

PATIENCE = 3.0  # s, that a round waits for the engines and brokers that it probes, and for orphans to end

NEVER = "restart: never (apply it again to start it)"


@dataclass
class Reconciler:
    """Observes all jobs in rounds, and begins to heal those that have drifted.

    ``clock`` returns Unix time, s.
    """

    deployments: Deployments
    observer: Observer
    pool: BinderPool
    operations: Operations
    reaper: Reaper
    clock: Callable[[], float]
    backoff: Backoff = field(default_factory=Backoff)
    metrics: Metrics = field(default_factory=Metrics)
    steady: Clock = field(init=False)  # that of the times of the back-off
    readers: ReaderWatch | None = None
    drifts: DriftNotes = field(init=False)
    orphans: Orphans = field(init=False)
    _reports: AgentReports = field(init=False)
    _probes: PatientCalls[str, str] = field(default_factory=lambda: PatientCalls("probe"), init=False)
    _ends: PatientCalls[str, str] = field(default_factory=lambda: PatientCalls("orphan"), init=False)
    _missed: Counter[str] = field(default_factory=Counter, init=False)
    _cleanups: Backoff = field(init=False)  # apart: a job that dies is started again without their delay
    _rounds: int = field(default=0, init=False)
    _period: float = field(default=0.0, init=False)
    _errors: dict[str, str] = field(default_factory=dict, init=False)  # logged ones, by composition
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self.steady = steady_beside(self.clock)
        self._cleanups = Backoff(self.backoff.wait)
        self.loop = Loop("reconciler", "a reconcile round", self._timed_round)
        self.drifts = DriftNotes(self.deployments.store, self.metrics, self.clock)
        self.orphans = Orphans(self.deployments.store, self.pool, self.operations, self.clock)
        self._reports = AgentReports(
            self.deployments.store, self.deployments.history, self.pool.inventory, self.clock
        )
        self.operations.on_end.append(self._record_end)

    # --- the thread

    def start(self, period: float) -> None:
        """Reconcile in the background, at once and then every ``period`` seconds."""
        self._period = period
        self.loop.start()

    def close(self) -> None:
        """Stop reconciling."""
        self.loop.close()
        self.reaper.close()
        if self.readers is not None:
            self.readers.close()

    def _timed_round(self) -> float:
        begun = time.monotonic()
        self.round()
        # By the beginnings, so that a long round does not delay the next one.
        return max(0.0, begun + self._period - time.monotonic())

    # --- queries

    @property
    def has_observed(self) -> bool:
        """True if a round ended well since the start, or if the reconciler does not run on its own."""
        return self._rounds > 0 or not self.loop.is_started

    def next_try(self, job: str) -> float | None:
        """The time of the next try of a failed job (Unix time, s)."""
        note = self.drifts.of(job)
        waits_for_user = note is None or note.waits == NEVER or self.backoff.suspended(job) is not None
        due = None if waits_for_user else self.backoff.next_try(job)
        return None if due is None else due + self.offset()

    def offset(self) -> float:
        """The difference of Unix time from the steady clock, s."""
        return self.clock() - self.steady()

    # --- ends of operations

    def _record_end(self, operation: Operation, plan: Plan, state: OperationState) -> None:
        """Record the outcome of each action, so that failed ones are tried again in due time."""
        now = self.steady()
        if operation.request.waves:  # before its way back is planned, which may be refused
            self.backoff.hold(operation.to_dict()["actions"])
        for action in plan.actions:
            name = action.job.job_name
            progress = operation.actions[name]
            failed = progress.state is ActionState.FAILED
            if failed and (_never(action) or self._disturbs(action)):
                why = f"was rejected (fix the cause and apply again): {progress.error}"
                self.backoff.suspend(name, why)
            elif isinstance(action, Keep):
                continue
            elif operation.kind == OperationKind.HEAL:
                self.backoff.ended(name, now)
            elif failed:
                self.backoff.record_attempt([name], now)
            elif progress.state is ActionState.DONE:
                self.backoff.forget([name])

    def _disturbs(self, action: Action) -> bool:
        """True if another try would stop a running copy: the former version, to which was rolled back."""
        attempts = self.deployments.store.attempts(action.job.job_name)
        running = any(each.phase is AttemptPhase.RUNNING for each in attempts)
        return isinstance(action, Update | Move) or running

    # --- a round

    def round(self) -> None:
        """Observe everything once, report drift, and begin to heal it.

        Raises :class:`~speck.errors.StoreError`, which may be about all compositions, once all the rest of
        the round is done.
        """
        with self.metrics.round():
            errors = self._round()
            self._rounds += 1
            if errors:
                raise errors[0]

    def _round(self) -> list[StoreError]:
        self.deployments.store.retry()
        generations = self.operations.generations()
        snapshots = self.deployments.snapshots()
        observation = self.observer.poll([each for snapshot in snapshots for each in snapshot.deployed()])
        copies = copies_by_job(
            observation.found, AbandonedCopies.of(self.deployments.store.abandoned_attempts())
        )
        self._forget_others(snapshots)
        errors: list[StoreError] = []
        for snapshot in snapshots:
            name, generation = snapshot.head.name, generations.get(snapshot.head.name, 0)
            # An observation during an operation may show half of its effect.
            if self.operations.is_idle(name) and self.operations.generations().get(name, 0) == generation:
                try:
                    self._reconcile(snapshot, observation, copies, generation)
                    self._errors.pop(name, None)
                except StoreError as error:
                    errors.append(error)
                except Exception as error:  # a defect in one composition must not keep others from healing
                    self._note_error(snapshot, error)
        if self.readers is not None:
            self.readers.note(snapshots, observation.statuses)
        self.reaper.round(observation.silent)
        self.orphans.retain({each.head.name for each in snapshots})
        self.orphans.report_unknown(copies, {name for each in snapshots for name in each.records})
        return errors

    def _note_error(self, snapshot: Snapshot, error: Exception) -> None:
        """Log an error of one composition, once as long as it repeats, and let its jobs name it."""
        name, text = snapshot.head.name, f"internal error: {error!r}"
        self.metrics.round_failed()
        self.drifts.set_waits(dict.fromkeys(snapshot.records.keys() | snapshot.desired.keys(), text))
        if self._errors.get(name) != text:
            self._errors[name] = text
            _log.error("composition %r could not be reconciled, and is tried again", name, exc_info=error)

    def _forget_others(self, snapshots: Sequence[Snapshot]) -> None:
        for name in self._errors.keys() - {each.head.name for each in snapshots}:
            del self._errors[name]
        # As the store has them now: one that was accepted during the observation may have been tried already.
        known = {each.name for each in self.deployments.store.jobs()}
        known |= {name for each in snapshots for name in each.desired}
        for name in self._missed.keys() - known:
            del self._missed[name]
        self.drifts.retain(known)
        self.backoff.retain(known)
        self._cleanups.retain(known)
        self._reports.retain(known)

    def _reconcile(
        self,
        snapshot: Snapshot,
        observation: Observation,
        copies: Mapping[str, Sequence[EngineCopy]],
        generation: int,
    ) -> None:
        head, statuses = snapshot.head, observation.statuses
        plan = make_plan(head.name, head.revision, snapshot.desired, snapshot.stored(), statuses)
        counted = self._reports.counted(snapshot, copies)
        drifted = find_drifts(plan, snapshot, statuses, counted, self.deployments.store.identity)
        self._count(snapshot, statuses, drifted)
        self.drifts.update(snapshot, statuses, drifted)
        self.orphans.note(snapshot, drifted)
        refused = self._handle_orphans(snapshot, drifted, generation)
        unfinished = self._unfinished(snapshot, plan, statuses, drifted)
        if not drifted and not unfinished and not head.deleting:
            self._end_allowances(head, generation)
            return
        fallbacks = fallbacks_of(self.deployments.store, plan, snapshot.records, head.left_behind)
        gated = self._gate(snapshot, plan, observation, drifted, fallbacks, unfinished)
        self.drifts.set_waits({name: refused.get(name) or gated.waits.get(name, "") for name in drifted})
        # A job that leaves a source is healed once its writers on trial have come up.
        early = fallbacks.keys() if gated.due else set[str]()
        cleanups = [each for each in unfinished if each.job.job_name in early or self._is_due(each)]
        if gated.due or cleanups or (head.deleting and not snapshot.records):
            self._heal(snapshot, plan, gated.due, cleanups, generation)

    def _is_due(self, cleanup: Keep) -> bool:
        now = self.steady()
        return (self._cleanups.next_try(cleanup.job.job_name) or now) <= now

    def _heal(
        self,
        snapshot: Snapshot,
        plan: Plan,
        due: Sequence[Action],
        cleanups: Sequence[Keep],
        generation: int,
    ) -> None:
        """Begin an operation with the actions that are due, and with the rest of changes (``cleanups``).

        None is begun if a user has been faster.
        """
        if not self.operations.may_heal():
            return
        now = self.steady()
        # Before anything is asked: should this coordinator die of it, the next one waits for its time.
        self.backoff.record_attempt([each.job.job_name for each in due], now)
        self._cleanups.record_attempt([each.job.job_name for each in cleanups], now)
        healing = replace(plan, actions=(*due, *cleanups), consequences=stamp_notes(plan, {}))
        why = "it drifted" if due or not cleanups else "its last change is unfinished"
        with suppress(Busy):
            self.operations.begin(_healing(snapshot, healing, generation, why))

    def _unfinished(
        self,
        snapshot: Snapshot,
        plan: Plan,
        statuses: Mapping[str, JobStatus],
        drifted: Mapping[str, Drifted],
    ) -> list[Keep]:
        """The jobs that run as desired, and of which the last change has left something to be done."""
        store, left_behind = self.deployments.store, snapshot.head.left_behind
        running = [
            each
            for each in plan.actions
            if isinstance(each, Keep)
            and each.job.job_name not in drifted
            and (status := statuses.get(each.job.job_name)) is not None
            and status.state is JobState.RUNNING
        ]
        found = [
            each
            for each in running
            if is_unfinished(store, snapshot.records[each.job.job_name], each.job, left_behind)
        ]
        self._cleanups.forget(snapshot.records.keys() - {each.job.job_name for each in found})
        return found

    def _end_allowances(self, head: Head, generation: int) -> None:
        """Forget what a user allowed for a change that is carried out: a later one must allow it again."""
        if not head.left_behind and not head.give_up:
            return
        try:
            with self.operations.idle_transaction(head.name, generation) as transaction:
                if transaction is not None:
                    transaction.put_head(replace(head, left_behind=(), give_up=False))
        except StoreError as error:
            _log.error("the end of the change to %r could not be stored: %s", head.name, error)

    def _count(
        self, snapshot: Snapshot, statuses: Mapping[str, JobStatus], drifted: Mapping[str, Drifted]
    ) -> None:
        now = self.steady()
        for name in snapshot.records:
            state = statuses[name].state if name in statuses else None
            if state is JobState.RUNNING:
                self.backoff.runs(name, now)
            elif state is not JobState.UNKNOWN:
                self.backoff.stopped(name)
            if name in drifted and drifted[name].drift is Drift.LOST:
                self._missed[name] += 1
            elif state is not JobState.UNKNOWN:
                self._missed.pop(name, None)

    # --- decisions

    def _gate(
        self,
        snapshot: Snapshot,
        plan: Plan,
        observation: Observation,
        drifted: Mapping[str, Drifted],
        fallbacks: Mapping[str, Job],
        unfinished: Iterable[Keep],
    ) -> GatedPlan:
        delayed = dict(self._own_delays(plan, drifted))
        begun = snapshot.begun(self.deployments.store.first_attempt)
        named = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
        engines = {name: engines_of(each) | snapshot.engines(name) for name, each in named.items()}
        candidates = [each for name, each in named.items() if name not in delayed]
        silent = observation.silent
        left_behind = frozenset(snapshot.head.left_behind)
        if candidates:
            asked = {key for name in named.keys() - delayed.keys() for key in engines[name]}
            asked = {key for key in asked if key[1] not in left_behind}
            silent = {**silent, **self._probe(asked, candidates, observation)}
        awaited = {each.job.job_name for each in unfinished}
        pending = dict.fromkeys(fallbacks.keys() - named.keys() - awaited, "is not running yet")
        left = left_sources(self.deployments.history, plan, snapshot.records)
        leftovers = Leftovers(fallbacks=fallbacks, left=left)
        steps = schedule(plan, leftovers, delete_all=not snapshot.desired)
        blockers = Blockers(delayed=delayed, pending=pending, silent=silent, left_behind=left_behind)
        return gate_actions(plan, steps, engines, begun, blockers)

    def _own_delays(self, plan: Plan, drifted: Mapping[str, Drifted]) -> Iterable[tuple[str, str]]:
        """The reasons of jobs that wait by themselves, by job name."""
        now = self.steady()
        for action in plan.actions:
            name = action.job.job_name
            drift, when = drifted.get(name), self.backoff.next_try(name)
            suspended = self.backoff.suspended(name)
            held = self.backoff.is_held(name) and not isinstance(action, Keep)
            if suspended is not None and (held or isinstance(action, Update | Move) or _never(action)):
                yield name, suspended
            elif drift is not None and drift.orphan is not None and isinstance(action, Start):
                yield name, drift.message
            elif drift is not None and drift.drift in GONE.values() and _never(action):
                yield name, NEVER
            elif when is not None and when > now:
                yield name, "waits for its next attempt"
            elif drift is not None and drift.drift is Drift.LOST and self._missed[name] < 2:
                # An engine that comes up again may not have recovered all of its jobs yet.
                yield name, "waits for a second observation"

    def _probe(
        self, engines: Iterable[EngineKey], actions: Iterable[Action], observation: Observation
    ) -> dict[str, str]:
        """The silent ones of the engines, and of these actions' brokers, with their reasons."""
        known = observation.found.keys() | observation.silent.keys()
        unknown = [key for key in engines if key[1] not in known]
        brokers = {address for action in actions for address in brokers_of(action)}
        probes = {key[1]: partial(_reason, partial(self._probe_engine, key)) for key in unknown}
        probes |= {address: partial(_reason, partial(self._probe_broker, address)) for address in brokers}
        answers = self._probes.results(probes, PATIENCE)
        reasons = {address: answers.get(address, f"{address}: has not responded yet") for address in probes}
        return {address: reason for address, reason in reasons.items() if reason}

    def _probe_engine(self, key: EngineKey) -> None:
        self.pool.engine_at(*key).capacity()

    def _probe_broker(self, address: str) -> None:
        self.pool.broker(address).check()

    def _handle_orphans(
        self, snapshot: Snapshot, drifted: Mapping[str, Drifted], generation: int
    ) -> dict[str, str]:
        """The reasons why orphans could not be terminated or adopted, by job name."""
        handle = self.orphans.handle
        ends = {
            name: partial(_reason, partial(handle, snapshot, name, each.orphan, generation))
            for name, each in drifted.items()
            if each.orphan is not None
        }
        faults = self._ends.results(ends, PATIENCE) if ends else {}
        return {name: fault for name, fault in faults.items() if fault}


def _healing(snapshot: Snapshot, plan: Plan, generation: int, why: str) -> PlannedChange:
    """A plan that heals, with what the user allowed for the last change."""
    head = snapshot.head
    request = Request(
        kind=OperationKind.HEAL,
        author="speck",
        message=why,
        leave_behind=head.left_behind,
        give_up=head.give_up,
    )
    return PlannedChange(
        request=request, head=head, plan=plan, desired=snapshot.desired, generation=generation
    )


def _never(action: Action) -> bool:
    return isinstance(action, Start) and action.job.restart == "never"


def _reason(ask: Callable[[], object]) -> str:
    try:
        ask()
    except SpeckError as error:
        return str(error)
    except Exception as error:
        _log.exception("a call of the reconciler failed")
        return f"internal error: {error!r}"
    return ""
