"""The engine binder of a world in memory."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from speck.binder import EngineBinder
from speck.core.engine_plan import EnginePlan, OperatorClass, PlanEdge, PlanNode, ShipStrategy
from speck.core.job import Job, session_fingerprint
from speck.core.profile import JobSample
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
from speck.errors import BinderError, NoCapacity, OutcomeUnknown, Rejected, StateLost, Unreachable
from testbed.doubles.world import LIVE, RunningJob, World, checkpoint

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
STATE_KIND = {"spark": "spark-checkpoint", "flink": "flink-savepoint"}


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


def _found(engine_id: str, running: RunningJob) -> Found:
    job, attempt = running.job, running.attempt
    if running.foreign:
        return Found(engine_id, job.job_name)
    reads = session_fingerprint(job.source_broker, attempt.session)
    form = running.form
    stamps = (None, 0, "") if running.unstamped else (attempt.incarnation, attempt.origin, attempt.lineage)
    identity = attempt.id, job.code_hash, reads, attempt.number, form, attempt.owner
    return Found(engine_id, job.job_name, *identity, *stamps)
