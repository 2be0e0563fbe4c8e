"""The apply protocol: what is stored, then asked, then stored, for each action of a plan.

Each action has two steps.  *Prepare* changes no job that runs: what an earlier, interrupted try left
behind is settled, the engine is asked whether it could take the job, the brokers are asked whether
they answer, and a session that is new is made.  *Act* stops what is to stop and starts what is to
start.  A job acts only after all who read what it writes were prepared, so that nothing is written
before the session stands that keeps it.  A job that goes, or is to read elsewhere, is stopped only after
those that wrote to it have been switched to others, and after it has worked off what they had sent it.  A
new copy that dies at once counts as not started: the old one is put back.

An attempt is in the store before its engine hears of it, and leaves the store only when the engine
has said that it runs no more; a session is in the store before its broker hears of it, likewise.  So
whatever a crash leaves half done is found in the store at the next start, and settled there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn

from speck.apply.abandon import Abandoner
from speck.apply.attempts import Attempts, carried
from speck.apply.context import OperationContext
from speck.apply.drain import BOUND, Copy, await_drained
from speck.apply.operation import Operation
from speck.apply.sessions import Sessions
from speck.apply.startup_probe import StartupProbe, fault_in_coming_up
from speck.apply.state_transfer import STATE_LIMIT, StateTransfer
from speck.apply.task_graph import Task, run_tasks
from speck.binder.pool import BinderPool
from speck.binder.retry import is_transient, with_retries
from speck.core.graph import Graph, source_of
from speck.core.job import Job
from speck.core.plan import Action, Keep, Move, Plan, Start, Stop, Update
from speck.core.rewiring import Rewiring, rewirings
from speck.errors import BinderError, OutcomeUnknown, SpeckError, StoreError, Unreachable
from speck.logs import about
from speck.store import JobRecord, Store

_log = logging.getLogger(__name__)


@dataclass
class PlanApplier:
    """Carries out the plan of one operation.

    ``placed`` answers a job with the path where its code is kept; ``mint`` makes attempt ids; ``clock``
    tells Unix time, s.  ``drain`` is how long (s) a job that is to read elsewhere may take to work off what
    waits for it.  ``state_limit`` is the size up to which a state is carried over, bytes.  What is at the
    engines and brokers of ``left_behind`` (addresses) is not stopped or deleted but left: they are not asked.
    """

    store: Store
    pool: BinderPool
    operation: Operation
    wanted: Mapping[str, Job]
    placed: Callable[[Job], Job]
    mint: Callable[[], str]
    clock: Callable[[], float] = time.time
    drain: float = BOUND
    state_limit: int = STATE_LIMIT
    left_behind: frozenset[str] = frozenset()
    _rewirings: Mapping[str, Rewiring] = field(default_factory=dict, init=False)
    _formers: dict[str, int | None] = field(default_factory=dict, init=False)
    _found: set[str] = field(default_factory=set, init=False)
    _on_trial: set[str] = field(default_factory=set, init=False)
    _lookouts: dict[tuple[str, str], StartupProbe] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        ledger = self._ledger = OperationContext(self.store, self.pool, self.operation, self.clock)
        operation = self.operation
        self._carrier = StateTransfer(self.pool, self.state_limit, operation.count)
        self._leaver = Abandoner(
            self.store, self.pool, operation.composition, self.left_behind, ledger.event, operation.note
        )
        self._sessions = Sessions(ledger, self._leaver)
        self._attempts = Attempts(ledger, self._carrier, self._leaver, self.placed, self.mint)

    def run(self, plan: Plan) -> None:
        """Carry out the plan; the operation tells how each action went."""
        actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
        self._rewirings = rewirings(actions, delete_all=not self.wanted)
        kept = {each.job.job_name: each for each in plan.actions if isinstance(each, Keep)}
        self._on_trial = {
            each.job.job_name
            for each in plan.actions
            if not isinstance(each, Stop) and self._form_before(each.job) is not None
        }
        run_tasks([*self._tasks(actions), *self._watching(kept), *self._tidying(kept, actions)])

    # --- order

    def _tasks(self, actions: Mapping[str, Action]) -> Iterable[Task]:
        wanted = Graph.of(self.wanted.values())
        brokers = {name: self._brokers(action) for name, action in actions.items()}
        for broker in sorted(set().union(*brokers.values())):
            yield self._broker_task(broker)
        for name, action in actions.items():
            prepare, act = ("prepare", name), ("act", name)
            needs = {("broker", address) for address in brokers[name]}
            yield self._task(prepare, action, self._prepare, frozenset(needs))
            after: set[Hashable] = {prepare}
            if not isinstance(action, Stop):
                after |= {("prepare", reader) for reader in wanted.readers_of(action.job)}
            if name in self._rewirings:
                after.add(("drain", name))
                yield self._drain_task(action, prepare)
            yield self._task(act, action, self._act, frozenset(after))
            if isinstance(action, Update | Move) or name in self._on_trial:
                yield self._up_task(action, {act})

    def _brokers(self, action: Action) -> set[str]:
        """The brokers without which an action waits."""
        job = action.job
        if not isinstance(action, Stop):
            return {job.source_broker, job.sink_broker}
        # One that never came as far as its broker (a wrong address, say) can go without it.
        reached = self._ledger.record(job.job_name).sessions or self.store.attempts(job.job_name)
        return {job.source_broker} - self.left_behind if reached else set()

    def _broker_task(self, address: str) -> Task:
        def check() -> None:
            with_retries(self.pool.broker(address).check)

        return Task(("broker", address), self.pool.broker_lane(address), check, lambda key, error: None)

    def _up_task(self, action: Action, needs: Iterable[Hashable] = ()) -> Task:
        name = action.job.job_name
        return self._task(("up", name), action, self._settled, frozenset(needs), self.pool.waiting_lane)

    def _watching(self, kept: Mapping[str, Keep]) -> Iterable[Task]:
        """A crash broke off the watch over a copy that took another's place: it is watched anew."""
        for name in self._on_trial & kept.keys():
            self.operation.reopen(name)
            yield self._up_task(kept[name])

    def _tidying(self, kept: Mapping[str, Keep], actions: Iterable[str]) -> Iterable[Task]:
        """A job that stays may have a session, or a copy of its state, left of a change before."""
        needs = frozenset((step, name) for name in actions for step in ("act", "up"))
        for record in self.store.jobs(self.operation.composition):
            if record.name in self._on_trial:
                continue  # what came before may have to be put back
            if record.name in kept and (len(record.sessions) > 1 or record.left):
                yield self._task(("tidy", record.name), kept[record.name], self._tidy, needs)

    def _drain_task(self, action: Action, prepare: Hashable) -> Task:
        name = action.job.job_name
        # A writer that does not come up is put back, and writes where it wrote before.
        switched = {(step, writer) for writer in self._rewirings[name].writers for step in ("act", "up")}
        needs = frozenset({prepare, *switched})
        return self._task(("drain", name), action, self._drain, needs, self.pool.waiting_lane)

    def _task(
        self,
        key: Hashable,
        action: Action,
        step: Callable[[Action], None],
        needs: frozenset[Hashable],
        lane: Executor | None = None,
    ) -> Task:
        name = action.job.job_name
        site = self.pool.inventory.site_of_engine(action.job.spe_address)

        def work() -> None:
            with about(job=name, site=site.name if site else None):
                carry_out()

        def carry_out() -> None:
            try:
                self.operation.begin(name)
                step(action)
            except SpeckError as error:
                self._failed(action, str(error), waits=is_transient(error))
                raise
            except Exception as error:
                _log.exception("action on job %r", name)
                self._failed(action, f"internal error: {error!r}")
                raise

        def skip(need: Hashable, error: Exception) -> None:
            kind, other = need if isinstance(need, tuple) else ("", "")
            if kind == "broker":
                self._failed(action, str(error), waits=is_transient(error))
            elif other != name and is_transient(error):
                self.operation.finish(name, "waiting", f"depends on job {other!r}, which waits: {error}")
            elif other != name:  # what failed of its own has been told
                self.operation.finish(name, "skipped", f"depends on job {other!r}, which failed: {error}")

        return Task(key, lane or self.pool.engine_lane(action.job), work, skip, needs)

    def _failed(self, action: Action, error: str, *, waits: bool = False) -> None:
        name, state = action.job.job_name, "waiting" if waits else "failed"
        if self.operation.actions[name].state in ("failed", "waiting"):
            return  # its other step did, and told so
        message = f"job {name!r} at {action.job.spe_address}: {error}"
        try:
            with self.store.transaction() as transaction:
                record = self.store.job(name)
                if record is not None:
                    transaction.put_job(replace(record, error=error))
                transaction.add_event(self._ledger.event(state, name, message))
        except StoreError as trouble:
            _log.error("that the action on job %r failed could not be stored: %s", name, trouble)
        self.operation.finish(name, state, message)

    # --- prepare

    def _prepare(self, action: Action) -> None:
        if isinstance(action, Stop):
            return
        job, record = action.job, self._ledger.record(action.job.job_name)
        if isinstance(action, Start) and self._settle(job):
            return
        record = self._with_left_state(job, record)
        handle, former = self._attempts.copy_at_work(job.job_name)
        with_retries(partial(self._carrier.check, self.placed(job), carried(job, record), handle, former))
        self._sessions.make(job, record)

    def _settle(self, job: Job) -> bool:
        """Find out what became of an attempt whose outcome is unknown; answers whether it runs as wanted.

        One that is not found is left to the act: its engine may have been asked just before the crash, and
        be about to start it.
        """
        for record in self._attempts.unsettled(job):
            handle = self._ledger.call("find", partial(self.pool.engine(job).find, record.attempt))
            if handle is not None:
                self._attempts.started(record, handle)
                self._found.add(job.job_name)
                return True
        return False

    def _with_left_state(self, job: Job, record: JobRecord) -> JobRecord:
        """The job's record with the state of a copy that is about to be left behind."""
        for attempt in self.store.attempts(job.job_name):
            form = self._ledger.form(attempt)
            if self._leaver.leaves(form) and job.upgrade == "stateful":
                record = replace(record, state=self._leaver.state_of(attempt, form))
                with self.store.transaction() as transaction:
                    transaction.put_job(record)
        return record

    # --- drain

    def _drain(self, action: Action) -> None:
        """Wait until the copies that run have worked off what waits where they read."""
        if self.drain > 0:
            self._await_drained(action.job.job_name)

    def _await_drained(self, name: str) -> None:
        for record in self.store.attempts(name):
            form = self._ledger.form(record)
            if record.handle is not None and record.phase == "running" and not self._is_left(form):
                engine, broker = self.pool.engine(form), self.pool.broker(form.source_broker)
                copy = Copy(form, record.attempt.session, record.handle, engine, broker)
                await_drained(copy, f"{self.operation.id}-{self.mint()[:8]}", self.drain)

    def _work_off(self, job: Job) -> None:
        """Start a copy that died before it had drained once more as it was, to work off what it left."""
        for record in self.store.attempts(job.job_name):
            form = self._ledger.form(record)
            if self.drain <= 0 or source_of(form) == source_of(job) or self._is_left(form):
                continue
            broker = self.pool.broker(form.source_broker)
            if with_retries(partial(broker.waiting, record.attempt.session)):
                self._attempts.stop_all(job.job_name, keep_state=True)
                try:
                    self._attempts.launch(form, record.revision)
                except OutcomeUnknown:
                    raise
                except BinderError as error:
                    _log.warning("job %r cannot work off what it left: %s", job.job_name, error)
                    continue
                self._await_drained(job.job_name)

    def _is_left(self, form: Job) -> bool:
        """Whether nobody can work off what waits for a job in this form."""
        return self._leaver.leaves(form) or self._leaver.leaves_source(form)

    # --- act

    def _act(self, action: Action) -> None:
        name = action.job.job_name
        match action:
            case Start():
                if not self._runs(action.job) and not self._take_up(action.job):
                    self._work_off(action.job)
                    self._attempts.stop_all(name, keep_state=action.job.upgrade == "stateful")
                    self._begin(action.job)
                if name in self._on_trial:
                    return  # done when it has come up
                self._drop_former(name)
                self._is_up(name)
            case Update() | Move():
                self._replace(action)
                return  # done when it has come up
            case Stop():
                self._attempts.stop_all(name, keep_state=False)
                self._forget(name)
        self.operation.finish(name, "done")

    def _runs(self, job: Job) -> bool:
        """Whether an attempt in this form was found to run, while its start was prepared."""
        attempts = self.store.attempts(job.job_name)
        return job.job_name in self._found and any(self._ledger.form(each) == job for each in attempts)

    def _take_up(self, job: Job) -> bool:
        """Ask once more for what was asked for before a crash; answers whether it runs now.

        Under the same attempt: should the engine be at work on the first request still, nothing starts twice.
        """
        for record in self._attempts.unsettled(job):
            try:
                self._attempts.give(job, record)
            except (Unreachable, OutcomeUnknown):
                raise
            except BinderError as error:
                _log.info("attempt %d of job %r is given up: %s", record.attempt.number, job.job_name, error)
                return False
            return True
        return False

    def _replace(self, action: Update | Move) -> None:
        """Stop the old copy and start the new one; put the old one back when the new one does not start."""
        name = action.job.job_name
        self._formers[name] = former = self._attempts.stop_all(name, keep_state=True)
        try:
            self._attempts.launch(action.job, self.operation.revision)
        except OutcomeUnknown:
            raise  # it may run: a second copy would double it
        except BinderError as error:
            if former is None:
                raise
            self._put_back(action.previous, former, error)

    def _begin(self, job: Job) -> None:
        """Start a job; when it does not start, put back the form that a crash found stopped for it."""
        try:
            self._attempts.launch(job, self.operation.revision)
        except OutcomeUnknown:
            raise
        except BinderError as error:
            before = self._form_before(job)
            if before is None:
                raise
            self._put_back(*before, error)

    def _form_before(self, job: Job) -> tuple[Job, int] | None:
        """The form that was stopped to make place for this one, which is not up yet, and its revision."""
        former = self._ledger.record(job.job_name).former
        previous = self._ledger.wanted_in(former).get(job.job_name) if former else None
        if previous is None or previous == job or self._leaver.leaves_source(previous):
            return None
        return previous, former

    def _put_back(self, previous: Job, former: int, error: BinderError) -> NoReturn:
        """Start the previous version again; the session of the new one goes on to collect for it."""
        try:
            self._attempts.launch(previous, former)
        except BinderError as second:
            raise BinderError(f"{error}; nor could the previous version be put back: {second}") from error
        self._attempts.discard_left(previous.job_name)
        self._is_up(previous.job_name)
        raise BinderError(f"{error}; the previous version was put back and runs") from error

    def _settled(self, action: Action) -> None:
        """See that the new copy lives, or put the old one back; then forget the old session."""
        name = action.job.job_name
        fault = self._fault_in_coming_up(action)
        if fault is not None:
            self._give_way(action, BinderError(fault, address=action.job.spe_address))
        self._drop_former(name)
        self._is_up(name)
        self.operation.finish(name, "kept" if isinstance(action, Keep) else "done")

    def _fault_in_coming_up(self, action: Action) -> str | None:
        attempts = self.store.attempts(action.job.job_name)
        record = next((each for each in attempts if each.phase == "running"), None)
        settle = self.pool.startup_seconds(action.job)
        if settle <= 0 or record is None or record.handle is None:
            return None
        engine = self.pool.engine(action.job)
        lookout = self._lookouts.setdefault((action.job.engine, action.job.spe_address), StartupProbe(engine))
        return fault_in_coming_up(lookout, record.handle, settle)

    def _give_way(self, action: Action, error: BinderError) -> NoReturn:
        """Put back what was there before, if anything was."""
        name = action.job.job_name
        before = self._form_before(action.job)
        if isinstance(action, Update | Move):
            former = self._formers[name]
            before = None if former is None else (action.previous, former)
        if before is None:
            raise error
        self._attempts.stop_all(name, keep_state=True)
        self._put_back(*before, error)

    def _is_up(self, name: str) -> None:
        """There is no way back to a former version any more."""
        record = self._ledger.record(name)
        if record.former:
            with self.store.transaction() as transaction:
                transaction.put_job(replace(record, former=0))

    def _tidy(self, action: Action) -> None:
        """Of a job that runs: leave nothing that a change before has left."""
        name = action.job.job_name
        try:
            self._sessions.keep_current(action.job)
            self._attempts.discard_left(name)
        except SpeckError as error:
            message = f"job {name!r}: a session of before could not be deleted: {error}"
            with self.store.transaction() as transaction:
                transaction.add_event(self._ledger.event("failed", name, message))

    def _drop_former(self, name: str) -> None:
        """Delete the sessions through which the job read before, and the copies of its state from before."""
        self._sessions.drop_former(name)
        self._attempts.discard_left(name)

    def _forget(self, name: str) -> None:
        self._attempts.give_up_states(name)
        for state in self._attempts.discard_left(name):
            self.operation.note(name, f"a state that nobody needs is left at {state.location}")
        self._sessions.delete(name, told=name in self._rewirings)
        with self.store.transaction() as transaction:
            transaction.delete_job(name)
