"""Jobs that their engines run and that do not read their sessions.

An engine calls a job running while its source still tries to reach the broker, and also when its program
reads by a client of its own.  The broker knows better: a reader claims the fence of its session before it
reads (:mod:`binders.mqtt.broker`).  Each attempt is looked for until its claim is seen once.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from speck.binder.asking import CLOSING
from speck.binder.pool import BinderPool
from speck.binder.start_limit import StartLimit, limit_of_looks
from speck.core.clocks import Clock, steady_beside
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.lifecycle import AttemptPhase, EventKind
from speck.core.runtime import JobState, JobStatus
from speck.errors import SpeckError
from speck.store import AttemptRecord, Event
from speck.store.deployments import Snapshot

_log = logging.getLogger(__name__)

GRACE = 10.0  # s, within which a job begins to read: Spark compiles its first batch meanwhile
SLOW_START = 3  # times as long for a job that is starting: a driver of Spark standalone on a small machine


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The last attempt at a job; ``reported`` by an event if it is not read.

    It was seen to run ``since`` (s, of the steady clock); infinite: its broker does not answer.
    """

    composition: str
    job: Job
    record: AttemptRecord
    since: float
    starting: bool = False
    is_read: bool = False
    reported: bool = False


@dataclass
class ReaderWatch:
    """Looks for the readers of all running jobs.  ``clock`` gives Unix time, s; ``write`` writes events.

    ``connected`` is true for a job whose engine reports a connected reader: one that may not
    write its fence claims none.
    """

    pool: BinderPool
    inventory: Inventory
    clock: Callable[[], float]
    write: Callable[[list[Event]], None]
    connected: Callable[[str], bool] = lambda _: False
    grace: float = GRACE
    steady: Clock = field(init=False)
    _looks: StartLimit = field(default_factory=limit_of_looks, init=False)
    _known: dict[str, _Attempt] = field(default_factory=dict, init=False)
    _asked: dict[str, Future[None]] = field(default_factory=dict, init=False)  # by broker
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _closed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.steady = steady_beside(self.clock)

    def note(self, snapshots: Sequence[Snapshot], statuses: Mapping[str, JobStatus]) -> None:
        """Note the jobs that run, and begin to look for the readers that were not seen; does not wait."""
        running = {
            name: (snapshot.head.name, snapshot.forms[name], attempts[-1], statuses[name].state)
            for snapshot in snapshots
            for name, attempts in snapshot.attempts.items()
            if _runs(attempts, statuses.get(name))
        }
        now = self.steady()
        with self._lock:
            # A job that is started again and again without reading is known as such meanwhile.
            there = {name for snapshot in snapshots for name in snapshot.records}
            retained = {name: each for name, each in self._known.items() if name in there}
            self._known = retained | {name: self._noted(now, *each) for name, each in running.items()}
            unseen: dict[str, list[_Attempt]] = defaultdict(list)
            for name in running:
                if not (each := self._known[name]).is_read:
                    unseen[each.job.source_broker].append(each)
        for broker, attempts in unseen.items():
            if broker not in self._asked or self._asked[broker].done():
                ask = partial(self._ask, broker, attempts)
                self._asked[broker] = self._looks.submit(ask, "readers")

    def _noted(
        self, now: float, composition: str, job: Job, record: AttemptRecord, state: JobState
    ) -> _Attempt:
        known, starting = self._known.get(job.job_name), state is JobState.STARTING
        if known is None:
            return _Attempt(composition, job, record, now, starting)
        if known.record.attempt.id == record.attempt.id:
            return known if known.starting == starting else replace(known, starting=starting)
        # A copy that takes the place of one that never read is late already.
        since = now if known.is_read else known.since
        return _Attempt(composition, job, record, since, starting, reported=known.reported)

    def await_answers(self) -> None:
        """Wait for the answers of all brokers that are being asked."""
        for each in list(self._asked.values()):
            each.result()

    def fault(self, job: str) -> str:
        """The remark on a job that runs and does not read; empty for others."""
        with self._lock:
            known = self._known.get(job)
        return "" if known is None or known.is_read or not known.reported else self._text(known)

    def unread(self) -> dict[str, str]:
        """The remarks on all jobs that run and do not read, by name."""
        with self._lock:
            names = list(self._known)
        return {name: text for name in names if (text := self.fault(name))}

    def forget(self, brokers: Iterable[str]) -> None:
        """Forget the observations of these brokers."""
        for broker in brokers:
            self._asked.pop(broker, None)

    def close(self) -> None:
        """Begin no further look, and wait a moment for those that are under way."""
        self._closed = True
        wait(self._asked.values(), CLOSING)

    def _ask(self, address: str, attempts: Sequence[_Attempt]) -> None:
        if self._closed:
            return
        try:
            broker = self.pool.broker(address)
            found = broker.readers([each.record.attempt.session for each in attempts])
        except SpeckError as error:
            _log.debug("%s does not report its readers: %s", address, error)
            self._put_off(attempts)
            return
        except Exception:
            _log.exception("the request to %s for its readers failed", address)
            return
        if found is None:
            return
        try:
            self._take(attempts, found)
        except SpeckError as error:
            _log.warning("the readers at %s could not be recorded: %s", address, error)

    def _put_off(self, attempts: Iterable[_Attempt]) -> None:
        """Begin the time of these attempts with the next answer: no job reads while its broker is away."""
        with self._lock:
            for each in attempts:
                known = self._known.get(each.job.job_name)
                same = known is not None and known.record.attempt.id == each.record.attempt.id
                if known is not None and same and not known.is_read and not known.reported:
                    self._known[each.job.job_name] = replace(known, since=inf)

    def _take(self, attempts: Iterable[_Attempt], found: Mapping[str, int]) -> None:
        now, events, former = self.steady(), list[Event](), dict[str, _Attempt]()
        with self._lock:
            for each in attempts:
                attempt, name = each.record.attempt, each.job.job_name
                if (known := self._known.get(name)) is None or known.record.attempt.id != attempt.id:
                    continue
                if found.get(attempt.session, -1) >= attempt.number:
                    self._known[name] = replace(known, is_read=True, reported=False)
                    if known.reported:
                        former[name] = known
                        message = f"job {name!r} reads its source {known.job.source_topic!r}"
                        events.append(self._event(known, EventKind.READING, message))
                elif known.since == inf:
                    self._known[name] = replace(known, since=now)
                elif not known.reported and self._is_late(known, now) and not self.connected(name):
                    self._known[name] = late = replace(known, reported=True)
                    former[name] = known
                    message = f"job {name!r} {self._text(late)}"
                    events.append(self._event(known, EventKind.UNREAD, message))
        if not events:
            return
        try:
            self.write(events)
        except SpeckError:  # the next look reports it
            with self._lock:
                self._known |= {name: each for name, each in former.items() if name in self._known}
            raise

    def _is_late(self, known: _Attempt, now: float) -> bool:
        return now - known.since >= self.grace * (SLOW_START if known.starting else 1)

    def _text(self, late: _Attempt) -> str:
        job = late.job
        address, of_jobs = job.source_broker, self.inventory.job_broker_address(job.source_broker)
        by = "" if of_jobs == address else f" (for jobs: {of_jobs})"
        return (
            f"does not read its source: for {self.steady() - late.since:.0f} s, no reader has taken session "
            f"{late.record.attempt.session!r} at broker {address}{by} (either its engine does not reach the "
            "broker: speck sites check --from-engines, speck logs; or its program uses its own client, and "
            "messages fill the session)"
        )

    def _event(self, known: _Attempt, kind: EventKind, message: str) -> Event:
        name = known.job.job_name
        return Event(self.clock(), kind, message, known.composition, name, automatic=True)


def _runs(attempts: Sequence[AttemptRecord], status: JobStatus | None) -> bool:
    """True if the last of the attempts runs; one that has just restarted counts, so that it stays known."""
    live = status is not None and status.state in (JobState.RUNNING, JobState.STARTING)
    return bool(attempts) and attempts[-1].phase is AttemptPhase.RUNNING and live
