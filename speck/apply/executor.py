"""The executor: carries out the schedule of one operation, step by step, in lanes.

How an operation is carried out
===============================

A *request* (apply, delete, roll back, pin, heal ...) is compared with what runs; that gives a *plan*: one
action for each job, to start, stop, update, move or keep it.  The *schedule* of a plan
(:func:`speck.core.schedule.schedule`) is its order as data: the steps of all actions, each with those that it
needs.  All of this is decided before the operation begins, and nothing was touched until then.  The
operation is in the store when the executor gets it.

The executor runs each step as soon as those that it needs are done, side by side with all others that are
ready.  Where there is nothing to do, there is no step.  The steps of one job that moves from one topic to
another are these, in this order:

1.  *Broker.*  Its source and sink brokers answer.  If one does not, the job waits and nothing else does.
2.  *Prepare.*  An attempt whose outcome a crash or a lost answer has left unknown is looked for.  The engine
    is asked whether it has room and takes the code; the session at the new source is made.  No running copy
    is touched: what fails here costs nothing.
3.  *Drain.*  Its former writers have been switched, and their new copies have come up.  So what waits in its
    former session is all that ever will.  The running copy processes it, and confirms that.
4.  *Act.*  All readers of its new output are prepared, so that a session keeps what it writes.  The copy is
    stopped, its state is kept, and the next one is started from it.  If that fails, the former one is started
    again: the job runs in one form or the other, never in both.
5.  *Await running.*  A copy that dies at once counts as not started, and the former form is started again.
    Otherwise the former session is deleted; there is no way back then.
6.  *Settle.*  With waves, nothing more of a job of the next wave begins before all jobs of this one have run
    for a while.
7.  *Prune.*  When all jobs are changed, kept jobs lose the sessions and states that earlier operations left.

A step that fails ends the action of its job: as *failed*, or as *waiting* if a place does not answer, which
the reconciler tries again.  Steps that need it are *skipped*; no other notices.  Two kinds of lanes bound
what runs at a time: calls to one engine (or broker), and waits for something to happen, which may take long
and hold up no call.  Every composition has lanes of its own.

Whatever a crash leaves half done is found in the store at the next start, and completed, because of two
rules.  An attempt is in the store before its engine is asked, and leaves the store only after the engine has
answered that it runs no more; a session is in the store before its broker is asked, likewise.  After a crash
nothing is continued in the middle: a new plan is made from the store and the engines, and a new schedule.

Steps run side by side by :mod:`speck.apply.step_runner`.  Those on one job are in :mod:`speck.apply.steps`,
drains in :mod:`speck.apply.draining`, and the transitions of a job in the store in
:mod:`speck.apply.job_state`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor as Lane
from dataclasses import dataclass, field
from functools import partial

from speck.apply.abandon import Abandoner
from speck.apply.attempts import Attempts
from speck.apply.context import OperationContext
from speck.apply.draining import SourceSwitch
from speck.apply.fallbacks import fallbacks_of
from speck.apply.foreign import ForeignJobs
from speck.apply.job_events import ActionFailed
from speck.apply.leaving import left_sources
from speck.apply.operation import Operation
from speck.apply.planned import PlannedChange
from speck.apply.sessions import Sessions
from speck.apply.settling import Settling, Unhealthy
from speck.apply.state_transfer import StateTransfer
from speck.apply.step_runner import run_steps
from speck.apply.steps import Steps
from speck.apply.writers import Writers
from speck.binder.pool import BinderPool
from speck.binder.retry import is_transient, with_retries
from speck.core.job import Job
from speck.core.lifecycle import ActionState
from speck.core.plan import Action, Keep, Plan, Stop
from speck.core.schedule import Leftovers, Step, StepKey, StepKind, schedule
from speck.core.settings import Settings
from speck.core.waves import Wave
from speck.errors import SpeckError, StoreError
from speck.logs import about
from speck.store import Store
from speck.store.history import History

_log = logging.getLogger(__name__)

_WAITING = frozenset({StepKind.DRAIN, StepKind.AWAIT_RUNNING, StepKind.SETTLE})
_NOT_DONE = frozenset({ActionState.WAITING, ActionState.FAILED, ActionState.SKIPPED})


def schedule_of(store: Store, planned: PlannedChange) -> tuple[Step, ...]:
    """The schedule of a planned change, with what earlier operations have left to be done.

    It is read when it is shown and when it is carried out: accepting a change writes records that it depends
    on.
    """
    plan, left_behind = planned.due, planned.request.leave_behind
    actions = {each.job.job_name: each for each in plan.actions}
    records = store.jobs(planned.composition)  # not one by one: they are many
    found = [(record, actions[record.name]) for record in records if record.name in actions]
    by_name = {record.name: record for record in records}
    leftovers = Leftovers(
        reached={
            record.name
            for record, action in found
            if isinstance(action, Stop) and (record.sessions or store.attempts(record.name))
        },
        fallbacks=fallbacks_of(store, plan, by_name, left_behind),
        prunable={record.name for record, _ in found if len(record.sessions) > 1 or record.garbage_states},
        left=left_sources(History(store), plan, by_name),
    )
    return schedule(
        plan,
        leftovers,
        delete_all=not planned.desired,
        left_behind=left_behind,
        waves=[each.jobs for each in planned.waves],
    )


@dataclass
class Executor:
    """Carries out one operation.

    ``desired`` are the jobs of its revision, by name.  ``placed`` returns a job with the path where its code
    is kept; ``mint`` makes attempt ids; ``clock`` returns Unix time, s.
    """

    store: Store
    pool: BinderPool
    operation: Operation
    desired: Mapping[str, Job]
    placed: Callable[[Job], Job]
    mint: Callable[[], str]
    clock: Callable[[], float] = time.time
    settings: Settings = field(default_factory=Settings)
    _actions: Mapping[str, Action] = field(init=False)
    _context: OperationContext = field(init=False)
    _work: Mapping[StepKind, Callable[[Action], None]] = field(init=False)
    _waves: Sequence[Wave] = field(default=(), init=False)

    def run(self, plan: Plan, steps: Collection[Step], waves: Sequence[Wave] = ()) -> None:
        """Carry out the steps of a plan; the operation shows how each action went."""
        self._waves = waves
        if len(waves) > 1:
            self.operation.roll_out(1)
        self._actions = {each.job.job_name: each for each in plan.actions}
        self._context = context = OperationContext(self.store, self.pool, self.operation, self.clock)
        abandoner = Abandoner(context)
        transfer = StateTransfer(self.pool, self.settings.state_limit, self.operation.count)
        attempts = Attempts(context, transfer, abandoner, self.placed, self.mint)
        sessions = Sessions(context, abandoner)
        switch = SourceSwitch(context, attempts, sessions, self.mint, self.settings.drain)
        on_job = Steps(
            context=context,
            attempts=attempts,
            sessions=sessions,
            writers=Writers(context, self.desired),
            transfer=transfer,
            abandoner=abandoner,
            placed=self.placed,
            source_switch=switch,
            foreign=ForeignJobs(self.store, self.pool, context.left_behind),
            draining=_subjects(steps, StepKind.DRAIN),
            awaited=_subjects(steps, StepKind.AWAIT_RUNNING),
        )
        self._work = {
            StepKind.PREPARE: on_job.prepare,
            StepKind.DRAIN: switch.drain,
            StepKind.ACT: on_job.act,
            StepKind.AWAIT_RUNNING: on_job.await_running,
            StepKind.PRUNE: on_job.prune,
        }
        for name in on_job.awaited:
            if isinstance(self._actions[name], Keep):  # a crash broke off the wait for its copy
                self.operation.reopen(name)
        run_steps(steps, self)
        on_job.writers.finish()

    # --- a step

    def lane(self, step: Step) -> Lane | None:
        """The lane that bounds a step; ``None`` for one without work."""
        composition = self.operation.composition
        if step.kind is StepKind.CHANGED:
            return None
        if step.kind is StepKind.BROKER:
            return self.pool.broker_lane(step.subject, composition)
        if step.kind in _WAITING:
            return self.pool.waiting_lane(composition)
        return self.pool.engine_lane(self._actions[step.subject].job, composition)

    def carry_out(self, step: Step) -> None:
        """Do the work of one step; raises its error, for which its job's action has ended then."""
        if step.kind is StepKind.BROKER:
            with_retries(self.pool.broker(step.subject).check)
            return
        if step.kind is StepKind.SETTLE:
            self._settle(int(step.subject))
            return
        action = self._actions[step.subject]
        site = self.pool.inventory.site_of_engine(action.job.spe_address, *action.job.site_hints)
        with about(job=step.subject, site=site.name if site else None):
            self._act(action, self._work[step.kind])

    def _settle(self, number: int) -> None:
        """Wait until the jobs of a wave have been running for a while; the next one begins then."""
        wave = self._waves[number - 1]
        # A job whose change was left to the reconciler runs, too, in its former form.
        behind = [each for each in wave.jobs if self.operation.actions[each].state in _NOT_DONE]
        if behind:
            raise Unhealthy(f"job {behind[0]!r} is {self.operation.actions[behind[0]].state}")
        jobs = [self.desired[name] for name in wave.jobs if name in self.desired]
        settling = Settling(self.store, self.pool, report=partial(self.operation.roll_out, number))
        settling.settle(jobs, self.operation.request.settle)
        self.operation.roll_out(number + 1)

    def _act(self, action: Action, work: Callable[[Action], None]) -> None:
        name = action.job.job_name
        try:
            self.operation.begin(name)
            work(action)
        except SpeckError as error:
            self._fail(action, str(error), waiting=is_transient(error))
            raise
        except Exception as error:  # a fault of SpecK or of a binder: it ends this action, and no other
            _log.exception("action on job %r", name)
            self._fail(action, f"internal error: {error!r}")
            raise

    def skip(self, step: Step, need: StepKey, error: Exception) -> None:
        """End the action of a step because another step failed; its own failed step has ended it already."""
        kind, other = need
        name, finish = step.subject, self.operation.finish
        if step.kind in (StepKind.CHANGED, StepKind.PRUNE, StepKind.SETTLE) or other == name:
            return
        if kind is StepKind.BROKER:
            self._fail(self._actions[name], str(error), waiting=is_transient(error))
        elif kind is StepKind.SETTLE:
            state = ActionState.WAITING if is_transient(error) else ActionState.SKIPPED
            finish(name, state, f"wave {other} did not settle: {error}")
        elif is_transient(error):
            finish(name, ActionState.WAITING, f"depends on job {other!r}, which waits: {error}")
        else:
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


def _subjects(steps: Iterable[Step], kind: StepKind) -> frozenset[str]:
    return frozenset(step.subject for step in steps if step.kind is kind)
