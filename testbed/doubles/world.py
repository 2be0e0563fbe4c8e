"""An engine and a broker in memory, for tests of what lies above the binders.

A :class:`World` holds what exists outside of the coordinator, by address: engines with their jobs, brokers
with their sessions.  It outlives any coordinator, so that a test can throw one away and start the next.
The binders of :mod:`testbed.doubles.kinds` keep the contract of :mod:`speck.binder`; messages are not
simulated.

Trouble is arranged on the world: :meth:`World.fail`, :meth:`World.hold`, :meth:`World.down`,
:meth:`World.restart`, :meth:`World.crash`.  What was asked of the binders is in ``World.calls``, and
what must never happen but did (two copies of a job, a start without a session) in ``World.violations``.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from speck.core.engine_plan import EnginePlan
from speck.core.job import Job, form_fingerprint
from speck.core.profile import AckSample, BatchSample, JobSample
from speck.core.runtime import Attempt, Checkup, JobMetrics, JobState, Worker
from speck.core.topic import matches
from speck.errors import BinderError, Unreachable
from testbed.doubles.troubles import Call, Hold, Trouble

if TYPE_CHECKING:
    from testbed.doubles.broker import InMemoryFeed

CHANGES = frozenset({"submit", "stop"})  # the engine calls that change an engine
LIVE = frozenset({JobState.STARTING, JobState.RUNNING})
WORK_PER_BATCH, WORK_PER_MESSAGE = 0.02, 0.0002  # s


@dataclass
class RunningJob:
    """A job as an engine double holds it."""

    job: Job
    attempt: Attempt
    state: JobState = JobState.RUNNING
    message: str = ""
    foreign: bool = False
    unstamped: bool = False  # its marks lack the numbers of its stamps, as those of an earlier version
    said: list[str] = field(default_factory=list)  # its log
    _formed: tuple[Job, str] | None = None

    @property
    def form(self) -> str:
        """The fingerprint in its marks, which an engine does not compute again for each request."""
        if self._formed is None or self._formed[0] is not self.job:
            self._formed = self.job, form_fingerprint(self.job)
        return self._formed[1]


@dataclass
class EngineState:
    """One engine: its jobs by attempt id."""

    jobs: dict[str, RunningJob] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    slots: int | None = None
    workers: dict[str, int] | None = None  # slots by id; the engine has these together
    reachable: bool = True
    checkup: Checkup = field(default_factory=lambda: Checkup(version="double 1.0"))

    def live(self) -> list[RunningJob]:
        return [running for running in self.jobs.values() if running.state in LIVE]

    def room(self) -> int | None:
        return self.slots if self.workers is None else sum(self.workers.values())

    def listed_workers(self) -> list[Worker]:
        """The workers, filled one after the other; without any, the engine itself is one."""
        if self.workers is None:
            return [Worker(id="worker-1", free=not self.live(), cores=2)]
        found, jobs = [], len(self.live())
        for name, slots in self.workers.items():
            used, jobs = min(slots, jobs), max(0, jobs - slots)
            found.append(Worker(id=name, free=not used, cores=2, slots=slots, slots_free=slots - used))
        return found


@dataclass
class BrokerState:
    """One broker: the topic and the owner of each session, the attempt that each fence or tombstone names."""

    sessions: dict[str, str] = field(default_factory=dict)
    dropped: int = 0
    owners: dict[str, str] = field(default_factory=dict)
    fences: dict[str, int] = field(default_factory=dict)
    tombstones: dict[str, int] = field(default_factory=dict)
    refilled: list[str] = field(default_factory=list)  # topics whose writers were asked to send again
    writers: dict[str, list[str]] = field(default_factory=dict)  # by session
    backlog: dict[str, int] = field(default_factory=dict)  # by session; it drains only when a test says so
    unsaved: dict[str, int | None] = field(default_factory=dict)  # by topic; lost, and retained by writers
    stranded: int | None = 0
    ages: dict[str, float] = field(default_factory=dict)  # by session, s; of the oldest message of a backlog
    deleted: dict[str, int] = field(default_factory=dict)  # by session; unread messages
    partitions: dict[str, int] = field(default_factory=dict)  # by topic, of topics that were made
    kept: dict[str, int] = field(default_factory=dict)  # by topic; messages for sessions that begin there
    skipped: dict[str, int] = field(default_factory=dict)  # by session; messages that a start lies behind
    feeds: list[InMemoryFeed] = field(default_factory=list)
    controls: list[tuple[str, bytes]] = field(default_factory=list)  # session and message
    unread: set[str] = field(default_factory=set)  # sessions whose jobs never take them
    clients: set[str] = field(default_factory=set)  # that were left to it
    deaf: bool = False  # whether its readers cannot tell that they are through
    warnings: list[str] = field(default_factory=list)
    packet_bytes: int | None = None
    reachable: bool = True


class World:
    """Engines and brokers by address; made on first use.  Safe for use from several threads."""

    def __init__(self) -> None:
        self.engines: dict[str, EngineState] = {}
        self.brokers: dict[str, BrokerState] = {}
        # All copies there were, so that a world of many jobs is not searched for each call.
        self.asked: dict[str, set[str]] = defaultdict(set)  # the addresses of their engines, by job name
        self.readers: dict[tuple[str, str], list[RunningJob]] = defaultdict(list)  # by broker and session
        self.states: set[str] = set()
        self.lost_states: set[str] = set()  # places of states that are gone
        self.silent_jobs: set[str] = set()  # engine ids of which their engine says nothing
        self.metrics: dict[str, JobMetrics] = {}  # what engines tell of jobs, by job name
        self.plans: dict[str, EnginePlan] = {}  # by job name; PASSING for others
        self.profiles: dict[str, JobSample] = {}  # what they tell of the work of jobs, by job name
        self.cut_off: set[tuple[str, str]] = set()  # engines and the brokers that they do not reach
        self.bridges: dict[str, list[str]] = {}  # by broker: those that get its messages too
        self.doubles: dict[str, list[str]] = {}  # by broker: its other addresses
        self.ended_numbers: dict[str, int] = {}  # of attempts that engines remember, by job name
        self.worked: bool | None = True  # whether those that run have completed their first work
        self.calls: list[Call] = []
        self.violations: list[str] = []
        self.doomed: Callable[[Job], bool] = lambda job: False  # which jobs die as soon as they run
        self.lock = threading.RLock()
        self._troubles: list[Trouble] = []
        self._holds: list[Hold] = []

    # -- what a test arranges

    def fail(
        self,
        method: str,
        error: BinderError,
        *,
        address: str | None = None,
        name: str | None = None,
        times: int | None = 1,
        after: bool = False,
    ) -> None:
        """Let calls of a method fail (``name``: the job's; of a broker call, the session's).

        ``times=None`` means every time.  ``after=True`` does the work first: a lost answer.
        """
        with self.lock:
            self._troubles.append(Trouble(method, address, name, error, times, after))

    def heal(self) -> None:
        """Forget every failure that was arranged."""
        with self.lock:
            self._troubles.clear()

    def hold(self, method: str, name: str | None = None, address: str | None = None, spared: int = 0) -> Hold:
        """Block the calls of a method, after the first ``spared`` ones, until the hold is released."""
        hold = Hold(method, name, address, spared)
        with self.lock:
            self._holds.append(hold)
        return hold

    def down(self, address: str) -> None:
        """Make an engine or broker unreachable; what it holds stays."""
        self._set_reachable(address, False)

    def up(self, address: str) -> None:
        """Make an engine or broker reachable again."""
        self._set_reachable(address, True)

    def restart(self, address: str) -> None:
        """Restart an engine: its jobs are gone, their stored state is still there."""
        with self.lock:
            for running in self.engine(address).jobs.values():
                self.states.add(checkpoint(running.attempt))
            self.engine(address).jobs.clear()
            self.up(address)

    def lose_states(self, job_name: str) -> None:
        """Empty the places of a job's states, also of copies that run."""
        with self.lock:
            places = {checkpoint(running.attempt) for running in self.running(job_name)}
            places |= {place for place in self.states if place.startswith(f"memory:/{job_name}/")}
            self.lost_states |= places
            self.states -= places

    def crash(self, job_name: str, message: str = "it crashed", state: JobState = JobState.FAILED) -> None:
        """Let the running copies of a job fail, or end otherwise."""
        with self.lock:
            for running in self.running(job_name):
                self.states.add(checkpoint(running.attempt))
                running.state, running.message = state, message

    def intrude(self, address: str, job: Job, attempt: Attempt, *, foreign: bool = False) -> None:
        """Let an engine run a copy that no coordinator of this world has asked for."""
        with self.lock:
            self.add(address, RunningJob(job, attempt, foreign=foreign))

    def add(self, address: str, copy: RunningJob) -> None:
        """Let an engine run a copy."""
        self.asked[copy.job.job_name].add(address)
        self.readers[copy.job.source_broker, copy.attempt.session].append(copy)
        self.engine(address).jobs[copy.attempt.id] = copy

    def pass_on(self, job: Job, payloads: Sequence[bytes]) -> None:
        """Let a job pass these messages on as they are, in one batch."""
        with self.lock:
            idle = JobSample(
                engine_id="", observed=0.0, messages_in=0, messages_out=0, bytes_in=0, bytes_out=0
            )
            before, rows = self.profiles.get(job.job_name, idle), len(payloads)
            size, number = sum(map(len, payloads)), len(before.batches)
            batch = BatchSample(number=number, rows=rows, work=WORK_PER_BATCH + rows * WORK_PER_MESSAGE)
            self.profiles[job.job_name] = replace(
                before,
                messages_in=(before.messages_in or 0) + rows,
                messages_out=(before.messages_out or 0) + rows,
                bytes_in=(before.bytes_in or 0) + size + rows * len(job.source_topic.encode()),
                bytes_out=(before.bytes_out or 0) + size + rows * len(job.sink_topic.encode()),
                batches=(*before.batches, batch),
                acks=(AckSample(broker=job.sink_broker, least=0.001, median=0.002),),
                state_bytes=0,
            )

    def publish(self, broker: str, topic: str, payload: bytes) -> None:
        """Publish a message, for the present subscribers; for none if the broker is down."""
        with self.lock:
            place = self.broker(broker)
            for feed in place.feeds if place.reachable else ():
                if any(matches(each, topic) for each in feed.topics):
                    feed.waiting.append((topic, payload))

    def take_over(self, broker: str, session: str) -> None:
        """The reader of a session loses it, reads the fence, and ends if it names a newer attempt."""
        with self.lock:
            fence = self.broker(broker).fences.get(session, 0)
            for running in self.readers[broker, session]:
                if running.state in LIVE and fence > running.attempt.number:
                    running.state, running.message = JobState.FAILED, f"taken over by attempt {fence}"

    # -- what a test looks at

    def running(self, job_name: str | None = None) -> list[RunningJob]:
        """The copies that run now, of one job or of all, on whatever engine, reachable or not."""
        with self.lock:
            asked = self.engines if job_name is None else self.asked.get(job_name, ())
            return [
                running
                for engine in (self.engines[each] for each in asked if each in self.engines)
                for running in engine.live()
                if job_name in (None, running.job.job_name)
            ]

    def runs(self, copy: RunningJob) -> bool:
        """True if an engine has this copy, and it has not ended."""
        places = (self.engines.get(each) for each in self.asked.get(copy.job.job_name, ()))
        return copy.state in LIVE and any(
            place is not None and place.jobs.get(copy.attempt.id) is copy for place in places
        )

    def is_cut_off(self, copy: RunningJob) -> bool:
        """True if neither a copy nor the broker from which it reads is reachable."""
        with self.lock:
            engine = next(each for each in self.engines.values() if copy.attempt.id in each.jobs)
            return not engine.reachable and not self.broker(copy.job.source_broker).reachable

    def where(self) -> dict[str, str]:
        """The engine's address of each running job, by job name."""
        with self.lock:
            return {
                running.job.job_name: address
                for address, engine in self.engines.items()
                for running in engine.live()
            }

    def changes(self) -> list[Call]:
        """The calls so far that change an engine."""
        with self.lock:
            return [call for call in self.calls if call[0] in CHANGES]

    def counts(self) -> Counter[str]:
        """The number of calls of each method."""
        with self.lock:
            return Counter(method for method, _, _ in self.calls)

    # -- what the binders use

    def engine(self, address: str) -> EngineState:
        with self.lock:
            return self.engines.setdefault(address, EngineState())

    def broker(self, address: str) -> BrokerState:
        with self.lock:
            return self.brokers.setdefault(address, BrokerState())

    @contextmanager
    def call(self, method: str, address: str, name: str, *, broker: bool = False) -> Iterator[None]:
        """One call of a binder: logged, held, failed as arranged; the work inside holds the world's lock."""
        call = (method, address, name)
        with self.lock:
            self.calls.append(call)
            holds = list(self._holds)
        for hold in holds:
            hold.pass_through(call)
        with self.lock:
            self._raise_trouble(call, after=False)
            place = self.broker(address) if broker else self.engine(address)
            if not place.reachable:
                raise Unreachable(f"{address} cannot be reached: connection refused", address=address)
            yield
            self._raise_trouble(call, after=True)

    def _raise_trouble(self, call: Call, after: bool) -> None:
        for trouble in self._troubles:
            if trouble.matches(call, after):
                if trouble.times is not None:
                    trouble.times -= 1
                raise trouble.error

    def _set_reachable(self, address: str, reachable: bool) -> None:
        with self.lock:
            # A place that is not known yet may turn out to be either.
            unknown = address not in self.engines and address not in self.brokers
            if unknown or address in self.engines:
                self.engine(address).reachable = reachable
            if unknown or address in self.brokers:
                self.broker(address).reachable = reachable
                for feed in self.broker(address).feeds:
                    feed.ended = True


def checkpoint(attempt: Attempt) -> str:
    """The place of an attempt's state."""
    return attempt.state.location if attempt.state else f"memory:/{attempt.job_name}/{attempt.id}"
