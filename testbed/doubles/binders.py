"""An engine and a broker in memory, for tests of what lies above the binders.

A :class:`World` holds what exists outside of the coordinator, by address: engines with their jobs, brokers
with their sessions.  It outlives any coordinator, so that a test can throw one away and start the next.
Binders made by :func:`double_kinds` keep the contract of :mod:`speck.binder`; messages are not simulated.

Trouble is arranged on the world: :meth:`World.fail`, :meth:`World.hold`, :meth:`World.down`,
:meth:`World.restart`, :meth:`World.crash`.  What was asked of the binders is in ``World.calls``, and
what must never happen but did (two copies of a job, a start without a session) in ``World.violations``.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from binders.common.python_reach import reached_code
from speck.binder import BrokerBinder, BrokerKind, EngineBinder, EngineKind, OwnedSession, Registry
from speck.core.engine_plan import EnginePlan, OperatorClass, PlanEdge, PlanNode, ShipStrategy
from speck.core.inventory import Inventory
from speck.core.job import Job, form_fingerprint, session_fingerprint
from speck.core.profile import AckSample, BatchSample, JobSample
from speck.core.runtime import (
    Attempt,
    Capacity,
    Checkup,
    Found,
    Handle,
    JobMetrics,
    JobState,
    JobStatus,
    State,
    Worker,
)
from speck.core.split import control_topic
from speck.core.topic import matches
from speck.errors import (
    BinderError,
    NoCapacity,
    OutcomeUnknown,
    Rejected,
    SessionOfAnother,
    StateLost,
    Unreachable,
)

CHANGES = frozenset({"submit", "stop"})  # the engine calls that change an engine
# The plan of a job that passes its messages on.
PASSING = EnginePlan.of(
    [
        PlanNode(id="1", kind=OperatorClass.SOURCE, name="messages", parallelism=1, task="a"),
        PlanNode(
            id="2",
            kind=OperatorClass.FILTER,
            name="clean",
            description="clean (value > 3)",
            parallelism=1,
            task="a",
        ),
        PlanNode(id="3", kind=OperatorClass.SINK, name="writer", parallelism=1, task="a"),
    ],
    [
        PlanEdge(source="1", target="2", strategy=ShipStrategy.FORWARD, chained=True),
        PlanEdge(source="2", target="3", strategy=ShipStrategy.FORWARD, chained=True),
    ],
    {"a": "messages -> clean -> writer"},
)
LIVE = frozenset({JobState.STARTING, JobState.RUNNING})
STATE_KIND = {"spark": "spark-checkpoint", "flink": "flink-savepoint"}

Call = tuple[str, str, str]
CheckCode = Callable[[Path, str], str | None]


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
        """The fingerprint in its marks, which an engine does not compute anew for each question."""
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


WORK_PER_BATCH, WORK_PER_MESSAGE = 0.02, 0.0002  # s
MESSAGE_BYTES = 100  # of each message that waits in a session of the double


@dataclass
class InMemoryFeed:
    """A subscription at a broker double."""

    world: World
    address: str
    topics: Sequence[str]
    waiting: list[tuple[str, bytes]] = field(default_factory=list)
    ended: bool = False

    def receive(self) -> list[tuple[str, bytes]]:
        with self.world.call("receive", self.address, "", broker=True):
            if self.ended:
                raise OutcomeUnknown(f"{self.address} closed the connection", address=self.address)
            found, self.waiting = self.waiting, []
            return found

    def close(self) -> None:
        with self.world.lock:
            feeds = self.world.broker(self.address).feeds
            if self in feeds:
                feeds.remove(self)


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
    ages: dict[str, float] = field(default_factory=dict)  # by session, s; of the oldest message of a backlog
    deleted: dict[str, int] = field(default_factory=dict)  # by session; messages that nobody has read
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


@dataclass
class Trouble:
    """A failure to come: ``times`` calls that match raise ``error`` (``after``: when the work is done)."""

    method: str
    address: str | None
    name: str | None
    error: BinderError
    times: int | None
    after: bool

    def matches(self, call: Call, after: bool) -> bool:
        method, address, name = call
        return (
            self.after == after
            and self.times != 0
            and self.method == method
            and self.address in (None, address)
            and self.name in (None, name)
        )


@dataclass
class Hold:
    """Calls that match wait until ``release`` is called, but for the first ones, which are ``spared``.

    ``reached`` is set when one waits.
    """

    method: str
    name: str | None
    address: str | None = None
    spared: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    _gate: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self._gate.set()

    def pass_through(self, call: Call) -> None:
        method, address, name = call
        if method == self.method and self.address in (None, address) and self.name in (None, name):
            self.spared -= 1
            if self.spared >= 0:
                return
            self.reached.set()
            if not self._gate.wait(60):
                raise AssertionError(f"nobody released the hold on {self.method}")


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
        """Let calls of a method wait until the hold is released, but for so many before."""
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
        """Start an engine anew: it knows no job any more, what it wrote as state is still there."""
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
        """Publish a message, which those get who are subscribed now; nobody if the broker is down."""
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
        """True if a copy is where nobody reaches it, nor the broker from which it reads."""
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


class InMemoryEngine(EngineBinder):
    """The engine binder of one address of a world."""

    def __init__(self, world: World, address: str, kind: str = "spark") -> None:
        self.world, self.address, self.kind = world, address, kind
        self._promised: set[str] = set()  # slots, to jobs that were asked about and not started

    def check(self, job: Job, state: State | None) -> None:
        with self.world.call("check", self.address, job.job_name):
            self._admit(job.job_name, state)
            self._promised.add(job.job_name)

    def build_job(self, job: Job) -> None:
        with self.world.call("build_job", self.address, job.job_name):
            pass

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        with self.world.call("submit", self.address, job.job_name):
            engine = self.world.engine(self.address)
            self._promised.discard(job.job_name)
            if attempt.id in engine.ended:
                message = f"{self.address}: attempt {attempt.id} of job {job.job_name!r} has ended before"
                raise Rejected(message, address=self.address)
            if attempt.id not in engine.jobs:
                self._admit(job.job_name, attempt.state)
                self._note_violations(job, attempt)
                self.world.add(self.address, RunningJob(job, attempt))
                if self.world.doomed(job):
                    self.world.crash(job.job_name, "it died at once")
            return self._handle(attempt)

    def find(self, attempt: Attempt) -> Handle | None:
        with self.world.call("find", self.address, attempt.job_name):
            known = attempt.id in self.world.engine(self.address).jobs
            return self._handle(attempt) if known else None

    def status(self, handle: Handle) -> JobStatus:
        now = time.time()
        try:
            with self.world.call("status", self.address, handle.details.get("job", "")):
                return self._reported(handle.engine_id, now)
        except (Unreachable, OutcomeUnknown) as error:
            return JobStatus(JobState.UNKNOWN, now, str(error))

    def statuses(self, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        asked, now = list(handles), time.time()
        try:
            with self.world.call("statuses", self.address, ""):
                return {each.engine_id: self._reported(each.engine_id, now) for each in asked}
        except (Unreachable, OutcomeUnknown) as error:
            return {each.engine_id: JobStatus(JobState.UNKNOWN, now, str(error)) for each in asked}

    def running(self) -> list[Found]:
        with self.world.call("running", self.address, ""):
            jobs = self.world.engine(self.address).jobs
            for each in jobs.values():
                self._end_when_fenced(each)
            return [_found(key, each) for key, each in jobs.items() if each.state in LIVE]

    def last_ended(self, job_name: str, owner: str) -> int:
        return self.world.ended_numbers.get(job_name, 0) if owner else 0

    def has_worked(self, handle: Handle) -> bool | None:
        with self.world.call("has_worked", self.address, handle.details.get("job", "")):
            known = handle.engine_id in self.world.engine(self.address).jobs
            return self.world.worked if known else None

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        with self.world.call("stop", self.address, handle.details.get("job", "")):
            engine = self.world.engine(self.address)
            location = handle.details.get("checkpoint", "")
            if keep_state and location in self.world.lost_states:
                name = handle.details.get("job", "")
                raise StateLost(
                    f"{self.address}: state {location!r} of job {name!r} is gone", address=self.address
                )
            engine.ended.add(handle.engine_id)
            running = engine.jobs.pop(handle.engine_id, None)
            if running is not None:
                self.world.states.add(location)
            retained = keep_state and location in self.world.states
            return State(STATE_KIND[self.kind], location) if retained else None

    def left_state(self, handle: Handle) -> State | None:
        location = handle.details["checkpoint"]
        if location in self.world.lost_states:
            name = handle.details.get("job", "")
            raise StateLost(
                f"{self.address}: state {location!r} of job {name!r} is gone", address=self.address
            )
        self.world.states.add(location)
        return State(STATE_KIND[self.kind], location)

    def metrics(self, handle: Handle) -> JobMetrics:
        with self.world.call("metrics", self.address, handle.details.get("job", "")):
            if handle.engine_id not in self.world.engine(self.address).jobs:
                raise Rejected(f"{self.address} does not know job {handle.engine_id}", address=self.address)
            idle = JobMetrics(time.time(), input_rate=0.0, processing_rate=0.0, input_rows=0, batch_id=0)
            return self.world.metrics.get(handle.details.get("job", ""), idle)

    def profile(self, handles: Iterable[Handle]) -> dict[str, JobSample | BinderError]:
        with self.world.call("profile", self.address, ""):
            return {each.engine_id: self._profile(each) for each in handles}

    def _profile(self, handle: Handle) -> JobSample | BinderError:
        if handle.engine_id not in self.world.engine(self.address).jobs:
            return Rejected(f"{self.address} does not know job {handle.engine_id}", address=self.address)
        idle = JobSample(engine_id="", observed=0.0)
        known = self.world.profiles.get(handle.details.get("job", ""), idle)
        return replace(known, engine_id=handle.engine_id, observed=known.observed or time.time())

    log_about = "from memory"

    def log_tail(self, handle: Handle, lines: int) -> list[str]:
        with self.world.call("log_tail", self.address, handle.details.get("job", "")):
            running = self.world.engine(self.address).jobs.get(handle.engine_id)
            if running is None:
                raise Rejected(f"{self.address} does not know job {handle.engine_id}", address=self.address)
            said = [f"attempt {running.attempt.number} of {running.job.job_name} {running.state.value}"]
            return [*running.said, *said, *filter(None, [running.message])][-lines:]

    def engine_plan(self, handle: Handle) -> EnginePlan:
        name = handle.details.get("job", "")
        with self.world.call("engine_plan", self.address, name):
            if handle.engine_id not in self.world.engine(self.address).jobs:
                raise Rejected(f"{self.address} does not know job {handle.engine_id}", address=self.address)
            return self.world.plans.get(name, PASSING)

    def checkup(self) -> Checkup:
        with self.world.call("checkup", self.address, ""):
            return self.world.engine(self.address).checkup

    def reach(self, broker: str) -> float:
        with self.world.call("reach", self.address, broker):
            if (self.address, broker) in self.world.cut_off:
                raise Rejected(f"cannot reach broker {broker}", address=self.address)
            return 0.001

    def capacity(self) -> Capacity:
        with self.world.call("capacity", self.address, ""):
            engine = self.world.engine(self.address)
            slots = engine.room()
            free = None if slots is None else max(0, slots - len(engine.live()))
            return Capacity(slots=slots, slots_free=free, cores=2)

    def workers(self) -> list[Worker]:
        with self.world.call("workers", self.address, ""):
            return self.world.engine(self.address).listed_workers()

    def close(self) -> None:
        """Nothing is held."""

    def _reported(self, engine_id: str, now: float) -> JobStatus:
        running = self.world.engine(self.address).jobs.get(engine_id)
        if engine_id in self.world.silent_jobs:
            return JobStatus(JobState.UNKNOWN, now, f"{self.address} does not say")
        if running is None:
            return JobStatus(JobState.LOST, now, f"{self.address} does not know the job")
        self._end_when_fenced(running)
        return JobStatus(running.state, now, running.message)

    def _handle(self, attempt: Attempt) -> Handle:
        details = {"job": attempt.job_name, "checkpoint": checkpoint(attempt)}
        return Handle(self.address, attempt.id, details)

    def _admit(self, job_name: str, state: State | None) -> None:
        engine = self.world.engine(self.address)
        others = {running.job.job_name for running in engine.live()} | self._promised
        others.discard(job_name)
        if (room := engine.room()) is not None and len(others) >= room:
            message = f"{self.address} has no room for job {job_name!r}: {room} slots, none free"
            raise NoCapacity(message, address=self.address)
        if state is not None and state.kind != STATE_KIND[self.kind]:
            message = f"{self.address}: state of kind {state.kind!r} is not of {self.kind}"
            raise Rejected(message, address=self.address)
        if state is not None and state.location not in self.world.states:
            message = f"{self.address}: state {state.location!r} of job {job_name!r} cannot be read"
            raise Rejected(message, address=self.address)

    def _note_violations(self, job: Job, attempt: Attempt) -> None:
        world = self.world
        world.violations.extend(
            f"job {job.job_name!r} started while attempt {other.attempt.id} of it runs"
            for other in world.running(job.job_name)
            if not world.is_cut_off(other)
        )
        if attempt.session not in world.broker(job.source_broker).sessions:
            world.violations.append(f"job {job.job_name!r} started without its session {attempt.session!r}")

    def _end_when_fenced(self, running: RunningJob) -> None:
        fence = self.world.broker(running.job.source_broker).fences.get(running.attempt.session, 0)
        if running.state in LIVE and fence > running.attempt.number:
            running.state, running.message = JobState.FAILED, f"taken over by attempt {fence}"


class InMemoryBroker(BrokerBinder):
    """The broker binder of one address of a world."""

    def __init__(self, world: World, address: str) -> None:
        self.world, self.address = world, address
        self._owner = ""

    def take_owner(self, owner: str) -> None:
        self._owner = owner

    def check(self) -> None:
        with self._call("check", ""):
            pass

    def packet_bytes(self) -> int | None:
        with self._call("packet_bytes", ""):
            return self._state.packet_bytes

    def warnings(self) -> list[str]:
        with self._call("warnings", ""):
            return list(self._state.warnings)

    def ensure_session(self, session: str, topic: str) -> None:
        with self._call("ensure_session", session):
            self._adopt(session)
            self._state.sessions[session] = topic
            self.world.take_over(self.address, session)

    def restore_session(self, session: str, topic: str) -> None:
        is_new = session not in self._state.sessions
        self.ensure_session(session, topic)
        if is_new:
            self._state.refilled.append(topic)

    def session_exists(self, session: str) -> bool:
        with self._call("session_exists", session):
            return session in self._state.sessions

    def delete_session(self, session: str) -> None:
        with self._call("delete_session", session):
            self._reject_foreign(session)
            known = self._state.sessions.pop(session, None)
            self._state.owners.pop(session, None)
            self._state.backlog.pop(session, None)
            self._state.writers.pop(session, None)
            fence = self._state.fences.pop(session, None)
            if known is not None or fence is not None:
                self._state.tombstones[session] = (fence or 0) + 1

    def name_writers(self, session: str, writers: Sequence[str]) -> None:
        with self._call("name_writers", session):
            self._reject_foreign(session)
            self._state.writers[session] = list(writers)

    def fence(self, session: str, attempt: int) -> None:
        with self._call("fence", session):
            self._reject_foreign(session)
            named = self._named(session)
            self._state.tombstones.pop(session, None)
            self._state.fences[session] = max(attempt, named)

    def claim_session(self, session: str, topic: str) -> None:
        with self._call("claim_session", session):
            self._reject_foreign(session)
            if session not in self._state.tombstones:
                self._adopt(session)

    def fenced(self, session: str) -> int:
        with self._call("fenced", session):
            self._reject_foreign(session)
            return self._named(session)

    def foreign_sessions(self) -> list[OwnedSession]:
        with self._call("foreign_sessions", ""):
            return [
                OwnedSession(session, owner, (self._state.sessions.get(session, ""),))
                for session, owner in sorted(self._state.owners.items())
                if self._owner and owner != self._owner
            ]

    def owned_sessions(self) -> list[OwnedSession]:
        with self._call("owned_sessions", ""):
            return [
                OwnedSession(session, owner, (self._state.sessions.get(session, ""),), self._named(session))
                for session, owner in sorted(self._state.owners.items())
            ]

    def adopt_session(self, session: str, former: str) -> None:
        with self._call("adopt_session", session):
            if self._state.owners.get(session) != former:
                self._reject_foreign(session)
            if session in self._state.owners:
                self._state.owners[session] = self._owner

    def drained(self, session: str, marker: str, seconds: float) -> bool | None:
        with self._call("drained", session):
            if self._state.deaf or not self._is_read(session):
                return None
            return not self._state.backlog.get(session)

    def readers(self, sessions: Sequence[str]) -> dict[str, int]:
        with self._call("readers", ""):
            return {
                each.attempt.session: each.attempt.number
                for session in sessions
                if session not in self._state.unread
                for each in self._running_readers(session)
            }

    def waiting(self, session: str) -> int:
        with self._call("waiting", session):
            self._reject_foreign(session)
            return self._state.backlog.get(session, 0)

    def subscribe(self, topics: Sequence[str]) -> InMemoryFeed:
        with self._call("subscribe", ""):
            feed = InMemoryFeed(self.world, self.address, topics)
            self._state.feeds.append(feed)
            return feed

    def send_control(self, session: str, message: bytes, seconds: float) -> None:
        with self._call("send_control", session):
            self._state.controls.append((session, message))
            self.world.publish(self.address, control_topic(session), message)

    def send_probe(self, topic: str) -> None:
        with self._call("send_probe", ""):
            self.world.publish(self.address, topic, b"")
            passed_on = self.world.bridges.get(self.address, []) + self.world.doubles.get(self.address, [])
            for target in passed_on:
                self.world.publish(target, topic, b"")

    def leave_client(self, client: str) -> None:
        with self._call("leave_client", ""):
            for address in (self.address, *self.world.doubles.get(self.address, ())):
                self.world.broker(address).clients.add(client)

    def forget_client(self, client: str) -> bool:
        with self._call("forget_client", ""):
            known = client in self._state.clients
            self._state.clients.discard(client)
            return known

    def stored(self) -> int | None:
        with self._call("stored", ""):
            return sum(self._state.backlog.values())

    def stored_bytes(self) -> int | None:
        with self._call("stored_bytes", ""):
            return sum(self._state.backlog.values()) * MESSAGE_BYTES

    def dropped(self) -> int | None:
        with self._call("dropped", ""):
            return self._state.dropped

    def close(self) -> None:
        """Nothing is held."""

    def _named(self, session: str) -> int:
        state = self._state
        return max(state.fences.get(session, 0), state.tombstones.get(session, 0))

    def _adopt(self, session: str) -> None:
        self._reject_foreign(session)
        if self._owner:
            self._state.owners[session] = self._owner

    def _reject_foreign(self, session: str) -> None:
        owner = self._state.owners.get(session, self._owner)
        if self._owner and owner != self._owner:
            message = (
                f"session {session!r} at broker {self.address} belongs to another SpecK, with store {owner}"
            )
            raise SessionOfAnother(f"{message} (this one has store {self._owner})", address=self.address)

    def _is_read(self, session: str) -> bool:
        return bool(self._running_readers(session))

    def _running_readers(self, session: str) -> list[RunningJob]:
        copies = self.world.readers.get((self.address, session), ())
        return [each for each in copies if self.world.runs(each)]

    @property
    def _state(self) -> BrokerState:
        return self.world.broker(self.address)

    @contextmanager
    def _call(self, method: str, session: str) -> Iterator[None]:
        with self.world.call(method, self.address, session, broker=True):
            yield


def _found(engine_id: str, running: RunningJob) -> Found:
    job, attempt = running.job, running.attempt
    if running.foreign:
        return Found(engine_id, job.job_name)
    reads = session_fingerprint(job.source_broker, attempt.session)
    form = running.form
    stamps = (None, 0, "") if running.unstamped else (attempt.incarnation, attempt.origin, attempt.lineage)
    identity = attempt.id, job.code_hash, reads, attempt.number, form, attempt.owner
    return Found(engine_id, job.job_name, *identity, *stamps)


def accept_any_code(path: Path, entry_class: str) -> str | None:
    """The double runs no code, so any will do."""
    return None


def double_kinds(
    world: World, *, check_code: CheckCode = accept_any_code, bound: int = 4, startup: float = 0.0
) -> Registry:
    """A world's kinds: ``spark`` (``sc``), ``flink`` (``http``, ``https``), an MQTT broker (``tcp``)."""

    def spark(address: str, inventory: Inventory) -> InMemoryEngine:
        return _engine(world, address, inventory, "spark")

    def flink(address: str, inventory: Inventory) -> InMemoryEngine:
        return _engine(world, address, inventory, "flink")

    def broker(address: str, inventory: Inventory) -> InMemoryBroker:
        return InMemoryBroker(world, address)

    sparks = EngineKind(
        "spark-connect",
        "spark",
        ("sc",),
        check_code,
        spark,
        bound=bound,
        startup_seconds=startup,
        aggregation=lambda path, entry_class: (),
        reached_code=lambda path, entry_class: reached_code(path.read_bytes(), entry_class, path.name),
    )
    flinks = replace(
        sparks, name="flink", engine="flink", schemes=("http", "https"), connect=flink, aggregation=None
    )
    return Registry.of([sparks, flinks, BrokerKind("mqtt", ("tcp", "mqtt"), broker)])


def _engine(world: World, address: str, inventory: Inventory, kind: str) -> InMemoryEngine:
    slots = inventory.engine(address).slots
    if slots is not None:
        world.engine(address).slots = slots
    return InMemoryEngine(world, address, kind)
