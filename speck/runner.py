"""The apply protocol: what is stored, then asked, then stored, for each action of a plan.

Each action has two steps.  *Prepare* changes no job that runs: what an earlier, interrupted try left
behind is settled, the engine is asked whether it could take the job, the brokers are asked whether
they answer, and a session that is new is made.  *Act* stops what is to stop and starts what is to
start.  A job acts only after all who read what it writes were prepared, so that nothing is written
before the session stands that keeps it.  A job that goes is stopped only after those that wrote to it
have been switched to others.

An attempt is in the store before its engine hears of it, and leaves the store only when the engine
has said that it runs no more; a session is in the store before its broker hears of it, likewise.  So
whatever a crash leaves half done is found in the store at the next start, and settled there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from speck.errors import BinderError, NoAnswer, SpeckError
from speck.graph import Graph
from speck.leaving import Leaver
from speck.model import Attempt, Handle, Job, State, client_id
from speck.operation import Operation
from speck.plan import Action, Keep, Move, Plan, Start, Stop, Update
from speck.pool import BinderPool
from speck.schedule import Task, run_tasks
from speck.store import AttemptRecord, Event, JobRecord, SessionRecord, Store

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_FIND_TRIES = 3


@dataclass
class Runner:
    """Carries out the plan of one operation.

    ``placed`` answers a job with the path where its code is kept; ``mint`` makes attempt ids; ``clock``
    tells Unix time, s.  What runs at the engines of ``left_behind`` (addresses) is not stopped but left.
    """

    store: Store
    pool: BinderPool
    operation: Operation
    wanted: Mapping[str, Job]
    placed: Callable[[Job], Job]
    mint: Callable[[], str]
    clock: Callable[[], float] = time.time
    left_behind: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        composition, count = self.operation.composition, self.operation.count
        self._leaver = Leaver(self.store, self.pool, composition, self.left_behind, count, self._event)

    def run(self, plan: Plan) -> None:
        """Carry out the plan; the operation tells how each action went."""
        actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
        run_tasks(self._tasks(actions))
        self._leaver.settle()

    # --- order

    def _tasks(self, actions: Mapping[str, Action]) -> Iterable[Task]:
        wanted = Graph.of(self.wanted.values())
        for broker in sorted({address for action in actions.values() for address in _brokers(action)}):
            yield self._broker_task(broker)
        former_writers = _former_writers(actions)
        for name, action in actions.items():
            prepare, act = ("prepare", name), ("act", name)
            needs = {("broker", address) for address in _brokers(action)}
            yield self._task(prepare, action, self._prepare, frozenset(needs))
            after: set[Hashable] = {prepare}
            if isinstance(action, Stop):
                after |= {("act", writer) for writer in former_writers.get(name, ())}
            else:
                after |= {("prepare", reader) for reader in wanted.readers_of(action.job)}
            yield self._task(act, action, self._act, frozenset(after))

    def _broker_task(self, address: str) -> Task:
        def check() -> None:
            self.pool.broker(address).check()

        return Task(("broker", address), self.pool.broker_lane(address), check, lambda key, error: None)

    def _task(
        self, key: Hashable, action: Action, step: Callable[[Action], None], needs: frozenset[Hashable]
    ) -> Task:
        name = action.job.job_name

        def work() -> None:
            try:
                self.operation.begin(name)
                step(action)
            except SpeckError as error:
                self._failed(action, str(error))
                raise
            except Exception as error:
                _log.exception("action on job %r", name)
                self._failed(action, f"internal error: {error!r}")
                raise

        def skip(need: Hashable, error: Exception) -> None:
            kind, other = need if isinstance(need, tuple) else ("", "")
            if kind == "broker" or other == name:
                self._failed(action, str(error))
            else:
                self.operation.finish(name, "skipped", f"depends on job {other!r}, which failed: {error}")

        return Task(key, self.pool.engine_lane(action.job), work, skip, needs)

    def _failed(self, action: Action, error: str) -> None:
        name = action.job.job_name
        message = f"job {name!r} at {action.job.spe_address}: {error}"
        with self.store.transaction() as transaction:
            record = self.store.job(name)
            if record is not None:
                transaction.put_job(replace(record, error=error))
            transaction.add_event(self._event("failed", name, message))
        self.operation.finish(name, "failed", message)

    # --- prepare

    def _prepare(self, action: Action) -> None:
        if isinstance(action, Stop):
            return
        job, record = action.job, self._record(action.job.job_name)
        if isinstance(action, Start) and self._settle(job):
            self.operation.finish(job.job_name, "done")
            return
        record = self._with_left_state(job, record)
        self._call("check", partial(self.pool.engine(job).check, self.placed(job), _carried(job, record)))
        self._make_session(job, record)

    def _settle(self, job: Job) -> bool:
        """Find out what became of attempts whose outcome is unknown; answers whether one is as wanted."""
        for record in self.store.attempts(job.job_name):
            if record.phase != "intended":
                continue
            form = self._form(record)
            handle = self._call("find", partial(self.pool.engine(form).find, record.attempt))
            if handle is not None and form == job:
                self._started(record, handle)
                return True
            if handle is None:
                with self.store.transaction() as transaction:
                    transaction.delete_attempt(record.attempt)
        return False

    def _with_left_state(self, job: Job, record: JobRecord) -> JobRecord:
        """The job's record with the state of a copy that is about to be left behind."""
        for attempt in self.store.attempts(job.job_name):
            form = self._form(attempt)
            if self._leaver.leaves(form) and job.upgrade == "stateful":
                record = replace(record, state=self._leaver.state_of(attempt, form))
                with self.store.transaction() as transaction:
                    transaction.put_job(record)
        return record

    def _make_session(self, job: Job, record: JobRecord) -> None:
        session, known = _session_for(job, record, self.operation.revision)
        if known and self.store.attempts(job.job_name):
            return  # a copy may be reading through it; to make sure of it would take it over
        with self.store.transaction() as transaction:
            transaction.put_job(_with_current(record, session))
        self.pool.broker(session.broker).ensure_session(session.name, session.topic)

    # --- act

    def _act(self, action: Action) -> None:
        name = action.job.job_name
        if self.operation.actions[name].state == "done":
            return  # settled while it was prepared
        match action:
            case Start():
                self._stop_attempts(name, keep_state=action.job.upgrade == "stateful")
                self._launch(action.job, self.operation.revision)
                self._drop_sessions(name)
            case Update() | Move():
                self._replace(action)
                self._drop_sessions(name)
            case Stop():
                self._stop_attempts(name, keep_state=False)
                self._forget(name)
        self.operation.finish(name, "done")

    def _replace(self, action: Update | Move) -> None:
        """Stop the old copy and start the new one; put the old one back when the new one does not start."""
        name = action.job.job_name
        former = self._stop_attempts(name, keep_state=True)
        try:
            self._launch(action.job, self.operation.revision)
        except NoAnswer:
            raise  # it may run: a second copy would double it
        except BinderError as error:
            if former is None:
                raise
            try:
                self._launch(action.previous, former)
            except BinderError as second:
                raise BinderError(f"{error}; nor could the previous version be put back: {second}") from error
            self._drop_sessions(name)
            raise BinderError(f"{error}; the previous version was put back and runs") from error

    def _launch(self, job: Job, revision: int) -> None:
        record = self._record(job.job_name)
        session, _ = _session_for(job, record, revision)
        attempt = Attempt(
            id=self.mint(),
            job_name=job.job_name,
            number=record.attempts + 1,
            session=session.name,
            state=_carried(job, record),
        )
        intended = AttemptRecord(attempt, revision)
        with self.store.transaction() as transaction:
            transaction.put_attempt(intended)
            transaction.put_job(replace(_with_current(record, session), attempts=attempt.number))
        try:
            self.pool.broker(session.broker).fence(session.name, attempt.number)
            handle = self._submit(job, attempt)
        except NoAnswer:
            raise  # the attempt stays in the store as intended: whether it runs is not known
        except BinderError:
            with self.store.transaction() as transaction:
                transaction.delete_attempt(attempt)
            raise
        self._started(intended, handle)

    def _submit(self, job: Job, attempt: Attempt) -> Handle:
        engine = self.pool.engine(job)
        try:
            return self._call("submit", partial(engine.submit, self.placed(job), attempt))
        except NoAnswer as error:
            found = self._find(job, attempt)
            if found is not None:
                return found
            raise BinderError(f"{error} (looked for it: it does not run)") from error

    def _find(self, job: Job, attempt: Attempt) -> Handle | None:
        """Look for an attempt whose submit gave no answer.  Raises NoAnswer when that cannot be told."""
        engine = self.pool.engine(job)
        try:
            for one_try in Retrying(
                stop=stop_after_attempt(_FIND_TRIES),
                wait=wait_exponential(0.2, max=2),
                retry=retry_if_exception_type(BinderError),
                reraise=True,
            ):
                with one_try:
                    return self._call("find", partial(engine.find, attempt))
        except BinderError as error:
            raise NoAnswer(f"whether it started is not known: {error}", address=error.address) from error
        return None

    def _started(self, intended: AttemptRecord, handle: Handle) -> None:
        name = intended.attempt.job_name
        message = f"job {name!r} runs at {handle.address} (attempt {intended.attempt.number})"
        with self.store.transaction() as transaction:
            transaction.put_attempt(replace(intended, phase="running", handle=handle))
            # What a copy did not start from is not to come back when a later one is stateful again.
            transaction.put_job(replace(self._record(name), error="", state=intended.attempt.state))
            transaction.add_event(self._event("started", name, message))

    def _stop_attempts(self, name: str, *, keep_state: bool) -> int | None:
        """Stop whatever runs of a job; answers the revision of its last form that had been running."""
        former = None
        for record in self.store.attempts(name):
            form = self._form(record)
            if self._leaver.leaves(form):
                self._leaver.leave(record, form)
                continue
            engine = self.pool.engine(form)
            handle = record.handle or self._call("find", partial(engine.find, record.attempt))
            state = None
            if handle is not None:
                with self.store.transaction() as transaction:
                    transaction.put_attempt(replace(record, phase="stopping", handle=handle))
                state = self._call("stop", partial(engine.stop, handle, keep_state))
                former = record.revision
            self._stopped(record, state, handle is not None)
        return former

    def _stopped(self, record: AttemptRecord, state: State | None, ran: bool) -> None:
        name = record.attempt.job_name
        job = self._record(name)
        with self.store.transaction() as transaction:
            transaction.delete_attempt(record.attempt)
            if state is not None:
                transaction.put_job(replace(job, state=state))
            if ran:
                message = f"job {name!r} stopped (attempt {record.attempt.number})"
                transaction.add_event(self._event("stopped", name, message))

    def _drop_sessions(self, name: str) -> None:
        """Delete the sessions through which the job read before."""
        record = self._record(name)
        for session in record.sessions[:-1]:
            self.pool.broker(session.broker).delete_session(session.name)
        if len(record.sessions) > 1:
            with self.store.transaction() as transaction:
                transaction.put_job(replace(self._record(name), sessions=record.sessions[-1:]))

    def _forget(self, name: str) -> None:
        record = self.store.job(name)
        for session in record.sessions if record else ():
            self.pool.broker(session.broker).delete_session(session.name)
        self._leaver.keep_out(name)
        with self.store.transaction() as transaction:
            transaction.delete_job(name)

    # --- small things

    def _call(self, method: str, call: Callable[[], _T]) -> _T:
        self.operation.count(method)
        return call()

    def _record(self, name: str) -> JobRecord:
        return self.store.job(name) or JobRecord(name, self.operation.composition)

    def _form(self, record: AttemptRecord) -> Job:
        """The job as this attempt runs it."""
        return self.store.revision(self.operation.composition, record.revision).jobs[record.attempt.job_name]

    def _event(self, kind: str, job: str, message: str) -> Event:
        return Event(self.clock(), kind, message, self.operation.composition, job, self.operation.id)


def _carried(job: Job, record: JobRecord) -> State | None:
    """The state that the next attempt starts from."""
    return record.state if job.upgrade == "stateful" else None


def _session_for(job: Job, record: JobRecord, revision: int) -> tuple[SessionRecord, bool]:
    """The session through which a job reads, and whether it is known already.

    Another source is another session: what still waits in the old one is not mixed with the new.
    """
    for session in record.sessions:
        if (session.broker, session.topic) == (job.source_broker, job.source_topic):
            return session, True
    name = client_id(job.job_name)
    if record.sessions:
        name += f".{revision}"
    return SessionRecord(job.source_broker, name, job.source_topic), False


def _with_current(record: JobRecord, session: SessionRecord) -> JobRecord:
    """The record with this session last, which is where the current one stands."""
    others = (each for each in record.sessions if each != session)
    return replace(record, sessions=(*others, session))


def _brokers(action: Action) -> set[str]:
    if isinstance(action, Stop):
        return {action.job.source_broker}
    return {action.job.source_broker, action.job.sink_broker}


def _former_writers(actions: Mapping[str, Action]) -> dict[str, set[str]]:
    """For each job that goes: those who wrote to it and stay, switched elsewhere by this plan."""
    former = [each.previous for each in actions.values() if isinstance(each, Update | Move)]
    going = [each.job for each in actions.values() if isinstance(each, Stop)]
    graph = Graph.of([*former, *going])
    stay = {job.job_name for job in former}
    return {job.job_name: set(graph.writers_of(job)) & stay for job in going}
