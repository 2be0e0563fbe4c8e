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
from typing import NoReturn, TypeVar

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential,
)

from speck.binder import MOST_COUNTED
from speck.carry import STATE_LIMIT, Carrier, Parcel, at
from speck.drain import BOUND, Copy, await_drained
from speck.errors import BinderError, NoAnswer, NoCapacity, SpeckError, StoreError, Unfinished, Unreachable
from speck.graph import Graph, source_of
from speck.leaving import Leaver
from speck.model import Attempt, Handle, Job, State, client_id
from speck.operation import Operation
from speck.plan import Action, Keep, Move, Plan, Start, Stop, Update
from speck.pool import BinderPool
from speck.rewiring import Rewiring, rewirings
from speck.schedule import Task, run_tasks
from speck.settling import fault_in_coming_up
from speck.store import AttemptRecord, Event, JobRecord, SessionRecord, Store

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_TRIES = 3
_SOON = 5.0  # s; a call that took longer to give no answer is not made again within its operation


@dataclass
class Runner:
    """Carries out the plan of one operation.

    ``placed`` answers a job with the path where its code is kept; ``mint`` makes attempt ids; ``clock``
    tells Unix time, s.  ``drain`` is how long (s) a job that is to read elsewhere may take to work off what
    waits for it.  ``state_limit`` is the size up to which a state is carried over, bytes.  What runs at the
    engines of ``left_behind`` (addresses) is not stopped but left.
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

    def __post_init__(self) -> None:
        self._carrier = Carrier(self.pool, self.state_limit, self.operation.count)
        composition, count = self.operation.composition, self.operation.count
        self._leaver = Leaver(self.store, self.pool, composition, self.left_behind, count, self._event)

    def run(self, plan: Plan) -> None:
        """Carry out the plan; the operation tells how each action went."""
        actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
        self._rewirings = rewirings(actions, all_goes=not self.wanted)
        kept = {each.job.job_name: each for each in plan.actions if isinstance(each, Keep)}
        run_tasks([*self._tasks(actions), *self._tidying(kept, actions)])
        self._leaver.settle()

    # --- order

    def _tasks(self, actions: Mapping[str, Action]) -> Iterable[Task]:
        wanted = Graph.of(self.wanted.values())
        for broker in sorted({address for action in actions.values() for address in _brokers(action)}):
            yield self._broker_task(broker)
        for name, action in actions.items():
            prepare, act = ("prepare", name), ("act", name)
            needs = {("broker", address) for address in _brokers(action)}
            yield self._task(prepare, action, self._prepare, frozenset(needs))
            after: set[Hashable] = {prepare}
            if not isinstance(action, Stop):
                after |= {("prepare", reader) for reader in wanted.readers_of(action.job)}
            if name in self._rewirings:
                after.add(("drain", name))
                yield self._drain_task(action, prepare)
            yield self._task(act, action, self._act, frozenset(after))
            if isinstance(action, Update | Move):
                yield self._task(
                    ("up", name), action, self._settled, frozenset({act}), self.pool.waiting_lane
                )

    def _broker_task(self, address: str) -> Task:
        def check() -> None:
            _again(self.pool.broker(address).check)

        return Task(("broker", address), self.pool.broker_lane(address), check, lambda key, error: None)

    def _tidying(self, kept: Mapping[str, Keep], actions: Iterable[str]) -> Iterable[Task]:
        """A job that stays may have a session, or a copy of its state, left of a change before."""
        needs = frozenset((step, name) for name in actions for step in ("act", "up"))
        for record in self.store.jobs(self.operation.composition):
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

        def work() -> None:
            try:
                self.operation.begin(name)
                step(action)
            except SpeckError as error:
                self._failed(action, str(error), waits=_waits(error))
                raise
            except Exception as error:
                _log.exception("action on job %r", name)
                self._failed(action, f"internal error: {error!r}")
                raise

        def skip(need: Hashable, error: Exception) -> None:
            kind, other = need if isinstance(need, tuple) else ("", "")
            if kind == "broker":
                self._failed(action, str(error), waits=_waits(error))
            elif other != name and _waits(error):
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
                transaction.add_event(self._event(state, name, message))
        except StoreError as trouble:
            _log.error("that the action on job %r failed could not be stored: %s", name, trouble)
        self.operation.finish(name, state, message)

    # --- prepare

    def _prepare(self, action: Action) -> None:
        if isinstance(action, Stop):
            return
        job, record = action.job, self._record(action.job.job_name)
        if isinstance(action, Start) and self._settle(job):
            return
        record = self._with_left_state(job, record)
        handle, former = self._copy_at_work(job.job_name)
        _again(partial(self._carrier.check, self.placed(job), _carried(job, record), handle, former))
        self._make_session(job, record)

    def _settle(self, job: Job) -> bool:
        """Find out what became of an attempt whose outcome is unknown; answers whether it runs as wanted.

        One that is not found is left to the act: its engine may have been asked just before the crash, and
        be about to start it.
        """
        for record in self._unsettled(job):
            handle = self._call("find", partial(self.pool.engine(job).find, record.attempt))
            if handle is not None:
                self._started(record, handle)
                self._found.add(job.job_name)
                return True
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

    def _unsettled(self, job: Job) -> list[AttemptRecord]:
        """The attempts at a job in this very form of which it is not known whether they run."""
        attempts = self.store.attempts(job.job_name)
        return [each for each in attempts if each.phase == "intended" and self._form(each) == job]

    def _make_session(self, job: Job, record: JobRecord) -> None:
        session, known = _session_for(job, record, self.operation.revision)
        if known and any(each.attempt.session == session.name for each in self.store.attempts(job.job_name)):
            return  # a copy may be reading through it; to make sure of it would take it over
        with self.store.transaction() as transaction:
            transaction.put_job(_with_current(record, session))
        broker = self.pool.broker(session.broker)
        _again(partial(broker.ensure_session, session.name, session.topic))

    # --- drain

    def _drain(self, action: Action) -> None:
        """Wait until the copies that run have worked off what waits where they read."""
        if self.drain > 0:
            self._await_drained(action.job.job_name)

    def _await_drained(self, name: str) -> None:
        for record in self.store.attempts(name):
            if record.handle is not None and record.phase == "running":
                form = self._form(record)
                if self._leaver.leaves(form):
                    continue
                engine, broker = self.pool.engine(form), self.pool.broker(form.source_broker)
                copy = Copy(form, record.attempt.session, record.handle, engine, broker)
                await_drained(copy, f"{self.operation.id}-{self.mint()[:8]}", self.drain)

    def _work_off(self, job: Job) -> None:
        """Start a copy that died before it had drained once more as it was, to work off what it left."""
        for record in self.store.attempts(job.job_name):
            form = self._form(record)
            if self.drain <= 0 or source_of(form) == source_of(job):
                continue
            broker = self.pool.broker(form.source_broker)
            if _again(partial(broker.waiting, record.attempt.session)):
                self._stop_attempts(job.job_name, keep_state=True)
                try:
                    self._launch(form, record.revision)
                except NoAnswer:
                    raise
                except BinderError as error:
                    _log.warning("job %r cannot work off what it left: %s", job.job_name, error)
                    continue
                self._await_drained(job.job_name)

    # --- act

    def _act(self, action: Action) -> None:
        name = action.job.job_name
        match action:
            case Start():
                if not self._runs(action.job) and not self._take_up(action.job):
                    self._work_off(action.job)
                    self._stop_attempts(name, keep_state=action.job.upgrade == "stateful")
                    self._begin(action.job)
                self._drop_sessions(name)
                self._is_up(name)
            case Update() | Move():
                self._replace(action)
                return  # done when it has come up
            case Stop():
                self._stop_attempts(name, keep_state=False)
                self._forget(name)
        self.operation.finish(name, "done")

    def _runs(self, job: Job) -> bool:
        """Whether an attempt in this form was found to run, while its start was prepared."""
        attempts = self.store.attempts(job.job_name)
        return job.job_name in self._found and any(self._form(each) == job for each in attempts)

    def _take_up(self, job: Job) -> bool:
        """Ask once more for what was asked for before a crash; answers whether it runs now.

        Under the same attempt: should the engine be at work on the first request still, nothing starts twice.
        """
        for record in self._unsettled(job):
            try:
                self._give(job, record)
            except (Unreachable, NoAnswer):
                raise
            except BinderError as error:
                _log.info("attempt %d of job %r is given up: %s", record.attempt.number, job.job_name, error)
                return False
            return True
        return False

    def _replace(self, action: Update | Move) -> None:
        """Stop the old copy and start the new one; put the old one back when the new one does not start."""
        name = action.job.job_name
        self._formers[name] = former = self._stop_attempts(name, keep_state=True)
        try:
            self._launch(action.job, self.operation.revision)
        except NoAnswer:
            raise  # it may run: a second copy would double it
        except BinderError as error:
            if former is None:
                raise
            self._put_back(action.previous, former, error)

    def _begin(self, job: Job) -> None:
        """Start a job; when it does not start, put back the form that a crash found stopped for it."""
        try:
            self._launch(job, self.operation.revision)
        except NoAnswer:
            raise
        except BinderError as error:
            former = self._record(job.job_name).former
            previous = self._wanted_in(former).get(job.job_name) if former else None
            if previous is None or previous == job:
                raise
            self._put_back(previous, former, error)

    def _put_back(self, previous: Job, former: int, error: BinderError) -> NoReturn:
        """Start the previous version again; the session of the new one goes on to collect for it."""
        try:
            self._launch(previous, former)
        except BinderError as second:
            raise BinderError(f"{error}; nor could the previous version be put back: {second}") from error
        self._discard_left(previous.job_name)
        self._is_up(previous.job_name)
        raise BinderError(f"{error}; the previous version was put back and runs") from error

    def _settled(self, action: Action) -> None:
        """See that the new copy lives, or put the old one back; then forget the old session."""
        assert isinstance(action, Update | Move)  # noqa: S101 - such tasks are made for no other
        name, former = action.job.job_name, self._formers[action.job.job_name]
        settle = self.pool.settle(action.job)
        record = next((each for each in self.store.attempts(name) if each.phase == "running"), None)
        if settle > 0 and record is not None and record.handle is not None:
            fault = fault_in_coming_up(self.pool.engine(action.job), record.handle, settle)
            if fault is not None and former is not None:
                self._stop_attempts(name, keep_state=True)
                reason = BinderError(fault, address=action.job.spe_address)
                self._put_back(action.previous, former, reason)
            if fault is not None:
                raise BinderError(fault, address=action.job.spe_address)
        self._drop_sessions(name)
        self._is_up(name)
        self.operation.finish(name, "done")

    def _is_up(self, name: str) -> None:
        """There is no way back to a former version any more."""
        record = self._record(name)
        if record.former:
            with self.store.transaction() as transaction:
                transaction.put_job(replace(record, former=0))

    def _launch(self, job: Job, revision: int) -> None:
        state = self._bring_state(job)
        record = self._record(job.job_name)
        session, _ = _session_for(job, record, revision)
        attempt = Attempt(
            id=self.mint(),
            job_name=job.job_name,
            number=record.attempts + 1,
            session=session.name,
            state=state,
        )
        intended = AttemptRecord(attempt, revision)
        with self.store.transaction() as transaction:
            transaction.put_attempt(intended)
            transaction.put_job(replace(_with_current(record, session), attempts=attempt.number))
        try:
            self._give(job, intended)
        except Unreachable:
            self._dismiss(intended)  # nothing was asked of the engine, now or before
            raise

    def _give(self, job: Job, intended: AttemptRecord) -> None:
        """Hand an attempt that is in the store to its engine.

        It leaves the store when the engine says no.  When there is no answer it stays there as intended, for
        whether it runs is not known.
        """
        attempt = intended.attempt
        try:
            _again(partial(self.pool.broker(job.source_broker).fence, attempt.session, attempt.number))
            handle = self._submit(job, attempt)
        except (Unreachable, NoAnswer):
            raise
        except BinderError:
            self._dismiss(intended)
            raise
        self._started(intended, handle)

    def _bring_state(self, job: Job) -> State | None:
        """The state that the next attempt starts from, carried to where the job's engine sees it."""
        record = self._record(job.job_name)
        state = _carried(job, record)
        if state is None:
            return None
        try:
            parcel = _again(partial(self._carrier.pack, job, state, record.attempts + 1, record.left))
            return state if parcel is None else self._delivered(job, record, parcel)
        except BinderError as error:
            # Not of the error's own class: a carriage may give no answer, and still nothing was started.
            message = f"the state of job {job.job_name!r} could not be brought to {job.spe_address}: {error}"
            raise BinderError(message, address=error.address) from error

    def _delivered(self, job: Job, record: JobRecord, parcel: Parcel) -> State:
        others = tuple(each for each in record.left if each != parcel.place)
        with self.store.transaction() as transaction:
            transaction.put_job(replace(record, left=(*others, parcel.place)))
        _again(partial(self._carrier.deliver, job, parcel))
        with self.store.transaction() as transaction:
            # From now on the state is there alone: the copy that starts from it changes it.
            transaction.put_job(replace(record, state=parcel.place, left=(*others, parcel.source)))
        return parcel.place

    def _discard_left(self, name: str) -> None:
        """Delete the copies of a job's state that nothing starts from; what cannot be is left for later."""
        left = self._record(name).left
        if left:
            kept = tuple(state for state in left if not self._carrier.discard(state))
            with self.store.transaction() as transaction:
                transaction.put_job(replace(self._record(name), left=kept))

    def _dismiss(self, record: AttemptRecord) -> None:
        with self.store.transaction() as transaction:
            transaction.delete_attempt(record.attempt)

    def _submit(self, job: Job, attempt: Attempt) -> Handle:
        unsure = False

        def ask() -> Handle:
            nonlocal unsure
            try:
                return self.pool.engine(job).submit(self.placed(job), attempt)
            except NoAnswer:
                unsure = True
                raise
            except Unreachable as error:
                if not unsure:
                    raise
                # Nothing was asked this time; the time before, something may have been.
                raise NoAnswer(str(error), address=error.address) from error

        try:
            return self._call("submit", ask)
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
                stop=stop_after_attempt(_TRIES),
                wait=wait_exponential(0.2, max=2),
                retry=retry_if_exception_type(BinderError),
                reraise=True,
            ):
                with one_try:
                    self.operation.count("find")
                    return engine.find(attempt)
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
            handle = record.handle or self._bring_out(form, record)
            state = None
            if handle is not None:
                with self.store.transaction() as transaction:
                    transaction.put_attempt(replace(record, phase="stopping", handle=handle))
                state = self._call("stop", partial(engine.stop, handle, keep_state))
                former = record.revision
            self._stopped(record, at(state, form) if state else None, handle is not None)
        return former

    def _bring_out(self, form: Job, record: AttemptRecord) -> Handle | None:
        """The handle of an attempt that is to stop and may not have come up yet; ``None``: it never will.

        That an engine does not know it is no proof: a request from before a crash may be under way there.
        The same request once more is answered when the first is through, and starts nothing more.
        """
        found = self._call("find", partial(self.pool.engine(form).find, record.attempt))
        if found is not None:
            return found
        try:
            return self._submit(form, record.attempt)
        except (Unreachable, NoAnswer):
            raise
        except BinderError:
            return None

    def _stopped(self, record: AttemptRecord, state: State | None, ran: bool) -> None:
        name = record.attempt.job_name
        job = self._record(name)
        former = record.revision if ran else job.former
        with self.store.transaction() as transaction:
            transaction.delete_attempt(record.attempt)
            transaction.put_job(replace(job, state=state or job.state, former=former))
            if ran:
                message = f"job {name!r} stopped (attempt {record.attempt.number})"
                transaction.add_event(self._event("stopped", name, message))

    def _drop_sessions(self, name: str) -> None:
        """Delete the sessions through which the job read before, and the copies of its state from before."""
        record = self._record(name)
        for session in record.sessions[:-1]:
            self._tell_left(name, session)
            _again(partial(self.pool.broker(session.broker).delete_session, session.name))
        if len(record.sessions) > 1:
            with self.store.transaction() as transaction:
                transaction.put_job(replace(self._record(name), sessions=record.sessions[-1:]))
        self._discard_left(name)

    def _tidy(self, action: Action) -> None:
        """Of a job that runs: keep the session that it reads through, and no other."""
        job, record = action.job, self._record(action.job.job_name)
        session, _ = _session_for(job, record, self.operation.revision)
        try:
            with self.store.transaction() as transaction:
                transaction.put_job(_with_current(record, session))
            self._drop_sessions(job.job_name)
        except SpeckError as error:
            message = f"job {job.job_name!r}: a session of before could not be deleted: {error}"
            with self.store.transaction() as transaction:
                transaction.add_event(self._event("failed", job.job_name, message))

    def _forget(self, name: str) -> None:
        self._discard_left(name)
        record = self.store.job(name)
        for session in record.sessions if record else ():
            if name in self._rewirings:
                self._tell_left(name, session)
            _again(partial(self.pool.broker(session.broker).delete_session, session.name))
        self._leaver.keep_out(name)
        with self.store.transaction() as transaction:
            transaction.delete_job(name)

    def _tell_left(self, name: str, session: SessionRecord) -> None:
        """Say how much goes with a session that is about to be deleted."""
        left = _again(partial(self.pool.broker(session.broker).waiting, session.name))
        if not left:
            return
        # Engines acknowledge a batch when they begin the next one: the last may be among what is left.
        some = f"at most {left} message{'s' * (left > 1)}"
        many = f"{left} or more messages" if left == MOST_COUNTED else some
        text = f"given up: {many} that waited at {session.topic!r} of {session.broker}"
        self.operation.note(name, text)
        with self.store.transaction() as transaction:
            transaction.add_event(self._event("given up", name, f"job {name!r}: {text}"))

    # --- small things

    def _call(self, method: str, call: Callable[[], _T]) -> _T:
        def counted() -> _T:
            self.operation.count(method)
            return call()

        return _again(counted)

    def _record(self, name: str) -> JobRecord:
        return self.store.job(name) or JobRecord(name, self.operation.composition)

    def _copy_at_work(self, name: str) -> tuple[Handle | None, Job | None]:
        """The handle and the form of the copy that an engine has of a job."""
        for record in self.store.attempts(name):
            form = self._form(record)
            if record.handle is not None and not self._leaver.leaves(form):
                return record.handle, form
        return None, None

    def _form(self, record: AttemptRecord) -> Job:
        """The job as this attempt runs it."""
        return self._wanted_in(record.revision)[record.attempt.job_name]

    def _wanted_in(self, revision: int) -> Mapping[str, Job]:
        return self.store.revision(self.operation.composition, revision).jobs

    def _event(self, kind: str, job: str, message: str) -> Event:
        return Event(self.clock(), kind, message, self.operation.composition, job, self.operation.id)


def _again(call: Callable[[], _T]) -> _T:
    """Make a call, and once more while it gives no answer: all of a binder's may be made again."""
    for one_try in Retrying(
        stop=stop_after_attempt(_TRIES) | stop_after_delay(_SOON),
        wait=wait_exponential(0.1, max=1),
        retry=retry_if_exception_type(NoAnswer),
        reraise=True,
    ):
        with one_try:
            return call()
    raise AssertionError("a try ends in an answer or an error")


def _waits(error: Exception) -> bool:
    """Whether what failed so is worth another try as it is: nobody said no to it."""
    return isinstance(error, Unreachable | NoAnswer | NoCapacity | Unfinished)


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
