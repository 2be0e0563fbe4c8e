"""The apply protocol: what is stored, then asked, then stored, for each action of a plan.

Each action has two steps.  *Prepare* changes no running job: an attempt of an earlier, interrupted try is
confirmed, the engine is asked for room and code, the brokers are asked for an answer, and a new session is
made.  *Act* stops and starts copies.  A job acts only after all readers of its output were prepared, so that
nothing is written before the session stands that keeps it.  A job that goes, or is to read elsewhere, is
stopped only after its former writers have been switched to others, and after it has drained its input.  A
new copy that dies at once counts as not started: the former one is started again.

An attempt is in the store before its engine is asked, and leaves the store only after the engine has
answered that it runs no more; a session is in the store before its broker is asked, likewise.  So whatever a
crash leaves half done is found in the store at the next start, and completed.  The transitions of a job are
those of :mod:`speck.apply.job_state`, the steps on one job those of :mod:`speck.apply.steps`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from enum import Enum, auto

from speck.apply.abandon import Abandoner
from speck.apply.attempts import Attempts
from speck.apply.context import OperationContext
from speck.apply.draining import SourceSwitch
from speck.apply.foreign import ForeignJobs
from speck.apply.job_state import ActionFailed
from speck.apply.operation import Operation
from speck.apply.sessions import Sessions
from speck.apply.state_transfer import StateTransfer
from speck.apply.steps import Steps
from speck.apply.task_graph import Task, run_tasks
from speck.apply.writers import Writers
from speck.binder.pool import BinderPool
from speck.binder.retry import is_transient, with_retries
from speck.core.graph import Graph
from speck.core.job import Job
from speck.core.lifecycle import ActionState
from speck.core.plan import Action, Keep, Move, Plan, Stop, Update
from speck.core.schedule import Rewiring, rewirings
from speck.core.settings import Settings
from speck.errors import SpeckError, StoreError
from speck.logs import about
from speck.store import Store

_log = logging.getLogger(__name__)


class Step(Enum):
    """The tasks of an action; with the job's name (of BROKER: the address) the key of a task."""

    BROKER = auto()
    PREPARE = auto()
    DRAIN = auto()
    ACT = auto()
    AWAIT_RUNNING = auto()
    PRUNE = auto()


_Key = tuple[Step, str]


@dataclass
class PlanApplier:
    """Carries out the plan of one operation: orders the steps of its actions, and runs them side by side.

    ``desired`` are the jobs of its revision, by name.  ``placed`` answers a job with the path where its code
    is kept; ``mint`` makes attempt ids; ``clock`` answers Unix time, s.  ``abandoned`` are addresses of
    engines and brokers that are not asked: what is there is abandoned.
    """

    store: Store
    pool: BinderPool
    operation: Operation
    desired: Mapping[str, Job]
    placed: Callable[[Job], Job]
    mint: Callable[[], str]
    clock: Callable[[], float] = time.time
    settings: Settings = field(default_factory=Settings)
    abandoned: frozenset[str] = frozenset()
    _context: OperationContext = field(init=False)
    _steps: Steps = field(init=False)
    _rewirings: Mapping[str, Rewiring] = field(default_factory=dict, init=False)

    def run(self, plan: Plan) -> None:
        """Carry out the plan; the operation shows how each action went."""
        actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
        keeps = {each.job.job_name: each for each in plan.actions if isinstance(each, Keep)}
        self._rewirings = rewirings(actions, delete_all=not self.desired)
        self._steps = self._make_steps()
        self._steps.begin(plan)
        run_tasks([*self._tasks(actions), *self._resumed_waits(keeps), *self._prunings(keeps, actions)])
        self._steps.writers.finish()

    def _make_steps(self) -> Steps:
        context = OperationContext(self.store, self.pool, self.operation, self.clock)
        transfer = StateTransfer(self.pool, self.settings.state_limit, self.operation.count)
        abandoner = Abandoner(context, self.abandoned)
        attempts = Attempts(context, transfer, abandoner, self.placed, self.mint)
        sessions, rewired = Sessions(context, abandoner), frozenset(self._rewirings)
        self._context = context
        source_switch = SourceSwitch(context, attempts, sessions, abandoner, self.mint, self.settings.drain)
        writers = Writers(context, self.desired, self.abandoned)
        foreign = ForeignJobs(self.store, self.pool, self.abandoned)
        return Steps(
            context,
            attempts,
            sessions,
            writers,
            transfer,
            abandoner,
            self.placed,
            source_switch,
            rewired,
            foreign,
        )

    # --- order

    def _tasks(self, actions: Mapping[str, Action]) -> Iterable[Task]:
        desired = Graph.of(self.desired.values())
        brokers = {name: self._brokers(action) for name, action in actions.items()}
        for broker in sorted(set().union(*brokers.values())):
            yield self._broker_task(broker)
        for name, action in actions.items():
            needs: set[_Key] = {(Step.BROKER, address) for address in brokers[name]}
            yield self._task((Step.PREPARE, name), action, self._steps.prepare, needs)
            after: set[_Key] = {(Step.PREPARE, name)}
            if not isinstance(action, Stop):
                after |= {(Step.PREPARE, reader) for reader in desired.readers_of(action.job)}
            if name in self._rewirings:
                after.add((Step.DRAIN, name))
                yield self._drain_task(action)
            yield self._task((Step.ACT, name), action, self._steps.act, after)
            if isinstance(action, Update | Move) or name in self._steps.on_trial:
                yield self._await_task(action, {(Step.ACT, name)})

    def _brokers(self, action: Action) -> set[str]:
        """The brokers without which an action waits."""
        job = action.job
        if not isinstance(action, Stop):
            return {job.source_broker, job.sink_broker}
        # A job that never reached its broker (a wrong address, say) can be deleted without it.
        reached = self._context.record(job.job_name).sessions or self.store.attempts(job.job_name)
        return {job.source_broker} - self.abandoned if reached else set()

    def _broker_task(self, address: str) -> Task:
        def check() -> None:
            with_retries(self.pool.broker(address).check)

        lane = self.pool.broker_lane(address, self.operation.composition)
        return Task((Step.BROKER, address), lane, check, lambda key, error: None)

    def _await_task(self, action: Action, needs: Iterable[_Key] = ()) -> Task:
        key = (Step.AWAIT_RUNNING, action.job.job_name)
        return self._task(key, action, self._steps.await_running, needs, self._waiting_lane)

    def _resumed_waits(self, keeps: Mapping[str, Keep]) -> Iterable[Task]:
        """A crash broke off the wait for a copy that took another's place: it is awaited anew."""
        for name in self._steps.on_trial & keeps.keys():
            self.operation.reopen(name)
            yield self._await_task(keeps[name])

    def _prunings(self, keeps: Mapping[str, Keep], actions: Iterable[str]) -> Iterable[Task]:
        """A job that is kept may have a session, or a copy of its state, of an earlier change."""
        needs = {(step, name) for name in actions for step in (Step.ACT, Step.AWAIT_RUNNING)}
        for record in self.store.jobs(self.operation.composition):
            if record.name in self._steps.on_trial:
                continue  # its former form may have to be started again
            if record.name in keeps and (len(record.sessions) > 1 or record.garbage_states):
                yield self._task((Step.PRUNE, record.name), keeps[record.name], self._steps.prune, needs)

    def _drain_task(self, action: Action) -> Task:
        name = action.job.job_name
        # A writer that does not come up is rolled back, and writes where it wrote before.
        writers = self._rewirings[name].writers
        switched = {(step, writer) for writer in writers for step in (Step.ACT, Step.AWAIT_RUNNING)}
        needs = {(Step.PREPARE, name), *switched}
        return self._task((Step.DRAIN, name), action, self._steps.drain, needs, self._waiting_lane)

    @property
    def _waiting_lane(self) -> Executor:
        return self.pool.waiting_lane(self.operation.composition)

    # --- a step as a task

    def _task(
        self,
        key: _Key,
        action: Action,
        step: Callable[[Action], None],
        needs: Iterable[_Key],
        lane: Executor | None = None,
    ) -> Task:
        name = action.job.job_name
        site = self.pool.inventory.site_of_engine(action.job.spe_address, *action.job.site_hints)

        def work() -> None:
            with about(job=name, site=site.name if site else None):
                self._run_step(action, step)

        def skip(need: Hashable, error: Exception) -> None:
            self._skip(action, need, error)

        lane = lane or self.pool.engine_lane(action.job, self.operation.composition)
        return Task(key, lane, work, skip, frozenset(needs))

    def _run_step(self, action: Action, step: Callable[[Action], None]) -> None:
        name = action.job.job_name
        try:
            self.operation.begin(name)
            step(action)
        except SpeckError as error:
            self._fail(action, str(error), waiting=is_transient(error))
            raise
        except Exception as error:
            _log.exception("action on job %r", name)
            self._fail(action, f"internal error: {error!r}")
            raise

    def _skip(self, action: Action, need: Hashable, error: Exception) -> None:
        """End an action because another step failed; its own failed step has ended it already."""
        step, other = need if isinstance(need, tuple) else (None, "")
        name, finish = action.job.job_name, self.operation.finish
        if step is Step.BROKER:
            self._fail(action, str(error), waiting=is_transient(error))
        elif other != name and is_transient(error):
            finish(name, ActionState.WAITING, f"depends on job {other!r}, which waits: {error}")
        elif other != name:
            finish(name, ActionState.SKIPPED, f"depends on job {other!r}, which failed: {error}")

    def _fail(self, action: Action, error: str, *, waiting: bool = False) -> None:
        name = action.job.job_name
        state = ActionState.WAITING if waiting else ActionState.FAILED
        if self.operation.actions[name].state in (ActionState.FAILED, ActionState.WAITING):
            return  # its other step failed, and was reported
        message = f"job {name!r} at {action.job.spe_address}: {error}"
        try:
            stored = [] if self.store.job(name) is None else [ActionFailed(error)]
            with self._context.advance(name, *stored) as transaction:
                transaction.add_event(self._context.event(state, name, message))
        except StoreError as fault:
            _log.error("the failure of the action on job %r could not be stored: %s", name, fault)
        self.operation.finish(name, state, message)
