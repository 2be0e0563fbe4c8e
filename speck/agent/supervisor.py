"""The supervisor of an engine: looks at its attempts, and starts those again that it has lost.

While the coordinator is away, it also starts those again that have failed.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from speck.agent.decide import WELL, Missed, Step, decide, given_up, superseded
from speck.agent.durable_engine import DurableEngine
from speck.agent.fences import Fences, Late, Unbelieved
from speck.agent.journal import Journal
from speck.agent.looks import Looks
from speck.agent.run_state import Phase, Record
from speck.agent.settling import Settling
from speck.agent.turns import Turn, Turns
from speck.binder import BrokerBinder, Capability
from speck.binder.deadline import within
from speck.core.runtime import JobState, JobStatus, State
from speck.errors import BinderError, Rejected, SpeckError, StateLost, one_line

LOOK = 3.0  # s between two looks
AT_ONCE = 4  # starts under way at an engine, for the memory and the processor of a small site
_STARTING = 180.0  # s, for one start
_PREPARING = 30.0  # s, for the questions to a broker about one job

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Restart:
    """An attempt to be started again; ``failure`` is empty if its engine has lost it."""

    record: Record
    failure: str = ""

    def gone(self, now: Record) -> Record:
        if not self.failure:
            return now.to(Phase.GONE, "its engine has lost it")
        return replace(now.to(Phase.GONE, f"it failed: {self.failure}"), failed=True)


@dataclass
class Supervisor:
    """Supervises the attempts at one engine: looks at them, and starts the lost ones again.

    ``broker(address, owner)`` is the binder of a broker of jobs that acts for an owner; ``own_broker`` is the
    address of the site's broker.

    ``may_start()`` is false while nothing may be started here (a copied disk).  ``alone()`` is the time
    without contact, s; 0 while the coordinator is connected.  ``clock`` is steady, s.
    """

    engine: DurableEngine
    turns: Turns
    broker: Callable[[str, str], BrokerBinder]
    own_broker: str
    looks: Looks
    journal: Journal
    may_start: Callable[[], bool] = lambda: True
    alone: Callable[[], float] = lambda: math.inf
    clock: Callable[[], float] = time.monotonic
    _missed: dict[str, Missed] = field(default_factory=dict, init=False)
    _running_since: dict[str, float] = field(default_factory=dict, init=False)  # by the ids of attempts
    _settling: Settling = field(default_factory=Settling, init=False)
    _fences: Fences = field(init=False)
    _starts: list[threading.Thread] = field(default_factory=list, init=False)
    _contact: threading.Event = field(default_factory=threading.Event, init=False)  # it is new

    def __post_init__(self) -> None:
        self._fences = Fences(self.broker)

    def note_contact(self) -> None:
        """Note that the uplink is back: the next round asks the places again that were away."""
        self._contact.set()

    def round(self) -> float:
        """Look at all attempts once; returns the time until the next round, s."""
        if self._contact.is_set():
            self._contact.clear()
            self._fences.forget()
            for key, each in list(self._missed.items()):
                self._missed[key] = each.at_contact()
        changes = self.looks.begin(self.engine.address)
        records = self.engine.attempts.permitted(self.engine.address)
        known = {each.attempt.id for each in records}
        # In place: starts that are under way note their failures.
        for memory in (self._missed, self._running_since):
            for key in set(memory) - known:
                memory.pop(key, None)
        seen = {each.attempt.id: status for each, status in self._statuses(records)}
        self.looks.report(self._settling.look(self.engine, records, seen, self.clock()), changes)
        restarts = list[_Restart]()
        for record in records:
            if self.turns.is_taken(record.attempt.job_name):
                continue
            status = seen[record.attempt.id]
            step = self._step(record, status.state)
            if step is Step.CONFIRM:
                self._confirm(record)
            elif step in (Step.START, Step.RETRY):
                restarts.append(_Restart(record, _message(status) if step is Step.RETRY else ""))
            elif step is Step.WAIT:
                self._note_failures(record, status)
        if restarts and self.engine.durable and self.may_start():
            self._restart(restarts)
        return LOOK if not self._missed else min(LOOK, 1.0)

    def _statuses(self, records: Iterable[Record]) -> Iterable[tuple[Record, JobStatus]]:
        """The statuses of the last runs; of one that was never confirmed, by its id."""
        listed = list(records)
        runs = [each.run_handle for each in listed if each.run_handle is not None]
        binder = self.engine.binder
        with within(_PREPARING):
            statuses = binder.statuses(runs) if runs else {}
            for each in listed:
                if each.run_handle is not None:
                    yield each, statuses[each.run_handle.engine_id]
                else:
                    yield each, self._status_by_id(each)

    def _status_by_id(self, record: Record) -> JobStatus:
        try:
            found = self.engine.binder.find(record.run)
            lost = JobStatus(JobState.LOST, time.time())
            return lost if found is None else self.engine.binder.status(found)
        except BinderError as error:
            return JobStatus(JobState.UNKNOWN, time.time(), one_line(error))

    def _step(self, record: Record, seen: JobState) -> Step:
        now, key = self.clock(), record.attempt.id
        if seen in (JobState.LOST, JobState.FAILED):
            self._missed.setdefault(key, Missed(now))
            self._running_since.pop(key, None)
        elif seen is not JobState.UNKNOWN:
            self._missed.pop(key, None)
            self._note_well(record, seen, now)
        return decide(record, seen, self._missed.get(key), now, self.alone())

    def _note_well(self, record: Record, seen: JobState, now: float) -> None:
        """Forget the failures of a job that has run for some time since."""
        if not record.failures or seen is not JobState.RUNNING:
            self._running_since.pop(record.attempt.id, None)
        elif now - self._running_since.setdefault(record.attempt.id, now) >= WELL:
            with self._turn(record) as current, contextlib.suppress(BinderError):
                if current is not None and current.phase is Phase.RUNNING:
                    self.engine.attempts.put(replace(current, failures=0))

    def _note_failures(self, record: Record, failed: JobStatus) -> None:
        with self._turn(record) as now, contextlib.suppress(BinderError):
            if now is not None and now.phase is Phase.RUNNING:
                times = now.failures + 1
                why = f"it has failed {times} times, and waits for the coordinator: {_message(failed)}"
                self.engine.attempts.put(now.to(Phase.GONE, why))
                self.journal.add(now.attempt, why, started=False)
                _log.warning("job %r is not started again: %s", now.attempt.job_name, why)

    def _confirm(self, record: Record) -> None:
        with self._turn(record) as now, contextlib.suppress(BinderError):
            if now is None or not now.phase.permitted or now.phase is Phase.RUNNING:
                return
            handle = now.run_handle or self.engine.binder.find(now.run)
            if handle is not None:
                self.engine.attempts.put(now.confirmed(handle))

    @contextlib.contextmanager
    def _turn(self, record: Record) -> Iterator[Record | None]:
        """The record as it is now, in a turn of its job; ``None`` while another has the turn, or without one.

        A stop or a start may take minutes, and must not hold up the other jobs.
        """
        turn = self.turns.take_free(record.attempt.job_name)
        if turn is None:
            yield None
            return
        with turn:
            yield self.engine.attempts.get(record.attempt.id)

    # --- starting again

    def _restart(self, restarts: list[_Restart]) -> None:
        """End the copies that were replaced elsewhere, prepare the sessions of the others, then start these.

        All fences are read first: the rest may take minutes at a loaded site.  A job that writes to a broker
        starts after the sessions there that the others read through: what it writes would reach nobody.  That
        concerns the site's own broker alone; those of others have not lost theirs with the site.
        """
        fenced = self._fences.read([each.record for each in restarts])
        newest = [each for each in restarts if self._is_newest(each.record, fenced[each.record.attempt.id])]
        ready = [each for each in newest if self._prepare(each)]
        # What is written for these waits in their sessions, until their fences are put right.
        barred = [each for each in restarts if isinstance(fenced[each.record.attempt.id], Unbelieved)]
        prepared = [*ready, *(each for each in barred if self._prepare(each))]
        waiting = [
            each.record
            for each in restarts
            if each not in prepared
            and not self._is_over(each.record)
            and not self._replaced(each.record, fenced[each.record.attempt.id])  # another attempt reads
        ]
        unsafe = {each.job.source_broker for each in waiting} & {self.own_broker}
        for each in ready:
            broker = each.record.job.sink_broker
            if broker in unsafe:
                with self._turn(each.record) as now:
                    if now is not None:
                        self._await_place(now, f"broker {broker} lacks the sessions of other jobs")
            else:
                self._start_in_thread(each.record)

    def _is_over(self, record: Record) -> bool:
        now = self.engine.attempts.get(record.attempt.id)
        return now is None or not now.phase.permitted

    def _is_newest(self, record: Record, fenced: int | SpeckError) -> bool:
        """True if no other attempt has replaced this one, by its fence; one that was replaced ends."""
        with self._turn(record) as now:
            if now is None or not now.phase.permitted:
                return False
            if isinstance(fenced, SpeckError):
                self._await_place(now, one_line(fenced), late=isinstance(fenced, Late))
                return False
            if why := self._replaced(now, fenced):
                self._end(now, why)
                return False
            return True

    def _replaced(self, record: Record, fenced: int | SpeckError) -> str:
        """The reason why an attempt ends, as of :func:`superseded`; empty also if its fence is not known."""
        if isinstance(fenced, SpeckError):
            return ""
        return superseded(record, max(fenced, self.engine.attempts.newest(record.attempt)))

    def _prepare(self, restart: _Restart) -> bool:
        """Restore the session at the site's broker; true if it is there, so that others may write to it.

        The job itself may start if its phase is ``GONE`` afterwards.
        """
        with self._turn(restart.record) as now, within(_PREPARING):
            if now is None or not now.phase.permitted:
                return False
            try:
                if now.job.source_broker == self.own_broker:
                    broker = self.broker(now.job.source_broker, now.attempt.owner)
                    if (number := now.job.partitions.get(now.job.source_topic)) is not None:
                        broker.ensure_topic(now.job.source_topic, number)
                    broker.claim_session(now.attempt.session, now.job.source_topic)
                    broker.restore_session(now.attempt.session, now.job.source_topic)
            except SpeckError as error:
                self._await_place(now, one_line(error))
                return False
            try:
                if now.phase is not Phase.GONE or (restart.failure and not now.failed):
                    self.engine.attempts.put(restart.gone(now))
            except BinderError as error:
                # A full disk: those that write to its session need not wait for that.
                self._await_place(now, one_line(error))
            return True

    def _start_in_thread(self, record: Record) -> None:
        """Start a job in its own thread; if too many starts are under way, the next round tries again."""
        self._starts = [each for each in self._starts if each.is_alive()]
        if len(self._starts) >= AT_ONCE:
            return
        turn = self.turns.take_free(record.attempt.job_name)
        if turn is None:
            return
        thread = threading.Thread(target=self._rerun, args=(record, turn), name="start", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no memory for a thread: no one else would end the turn
            with turn:
                raise
        self._starts.append(thread)

    def close(self, seconds: float) -> None:
        """Wait for the starts that are under way, for at most this time, s."""
        deadline = time.monotonic() + seconds
        for each in self._starts:
            each.join(max(0.0, deadline - time.monotonic()))

    def _rerun(self, record: Record, turn: Turn) -> None:
        with turn, within(_STARTING):
            now = self.engine.attempts.get(record.attempt.id)
            if now is None or now.phase is not Phase.GONE:
                return
            try:
                state = self._state_of_failed(now) if now.failed else self._state(now)
                self.engine.binder.check(now.job, state)
                now = self.engine.attempts.put(now.next_run(state))
                handle = self.engine.binder.submit(now.job, now.run)
                self.engine.attempts.put(now.confirmed(handle))
            except StateLost as error:
                self._end(now, one_line(error))
            except SpeckError as error:
                refused = isinstance(error, Rejected)
                missed = self._missed.get(now.attempt.id)
                if refused and given_up(missed, in_contact=not self.alone()):
                    self._end(now, one_line(error))
                else:
                    self._retry_later(now, one_line(error))
            except Exception as error:  # a defect: without a pause, each look would start it again
                _log.exception("job %r could not be started again", now.attempt.job_name)
                self._retry_later(now, f"internal error: {error!r}")
            else:
                self._missed.pop(now.attempt.id, None)
                self.journal.add(now.attempt, f"start {now.runs}: {now.reason}", started=True)
                _log.warning("job %r was started again (run %d)", now.attempt.job_name, now.runs)

    def _state(self, record: Record) -> State | None:
        """The state from which the next run starts.  Raises :class:`~speck.errors.StateLost`."""
        binder = self.engine.binder
        if record.run_handle is None:
            return record.state  # the engine has never confirmed it
        state = binder.left_state(record.run_handle)
        fault = binder.state_fault(state) if state is not None else None
        if fault is not None:
            raise StateLost(f"{self.engine.address}: {fault}", address=self.engine.address)
        return state

    def _state_of_failed(self, record: Record) -> State | None:
        """The newest state of a run that has failed; ``None`` for one that has kept nothing.

        Raises :class:`~speck.errors.StateLost`.
        """
        binder, run = self.engine.binder, record.run_handle
        assert run is not None  # noqa: S101 - see decide
        state = binder.stop(run, True)  # also what is left of it at the engine
        counts = Capability.PROGRESS in binder.capabilities
        if state is None and not (counts and binder.kept_nothing(run)):
            raise StateLost(f"{self.engine.address} has no state of it", address=self.engine.address)
        return state

    def _await_place(self, record: Record, why: str, *, late: bool = False) -> None:
        """Note the place that a job waits for, which is asked again soon; ``late``: it may still answer."""
        missed = self._missed.get(record.attempt.id, Missed(self.clock()))
        self._note_wait(record, why, missed.at_once() if late else missed.waits(self.clock()))

    def _retry_later(self, record: Record, why: str) -> None:
        """Note the reason why a start failed; it is tried again after a pause."""
        missed = self._missed.get(record.attempt.id, Missed(self.clock()))
        self._note_wait(record, why, missed.failed(self.clock()))

    def _note_wait(self, record: Record, why: str, missed: Missed) -> None:
        self._missed[record.attempt.id] = missed
        now = self.engine.attempts.get(record.attempt.id)
        if now is not None and (now.phase is not Phase.GONE or now.reason != why) and now.phase.permitted:
            try:
                self.engine.attempts.put(now.to(Phase.GONE, why))
            except BinderError:  # a full disk, which may be the reason
                self.engine.attempts.show(replace(now, reason=why))
        _log.info("job %r waits: %s", record.attempt.job_name, why)

    def _end(self, record: Record, why: str) -> None:
        """End the attempt permanently at this site; on a full disk, later."""
        gone = record if record.phase in (Phase.GONE, Phase.ACCEPTED) else record.to(Phase.GONE, why)
        try:
            self.engine.attempts.put(gone.to(Phase.ENDED, why))
        except BinderError as error:  # it must not keep the others from being started
            self._retry_later(record, one_line(error))
            return
        _log.warning("job %r is not started again: %s", record.attempt.job_name, why)
        self.journal.add(record.attempt, why, started=False)


def _message(status: JobStatus) -> str:
    """An engine's message in one line."""
    return " ".join(status.message.split()) or "without a message"
