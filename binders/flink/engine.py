"""The binder of Flink: one job is one job of a session cluster, started over REST under the attempt's id.

Flink takes an id once and for ever, so an attempt that is submitted again starts nothing more, and whoever
knows an attempt finds its job.  What several binders of one cluster must agree on within this process is in
:class:`Cluster`; all else is asked of the cluster.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from binders.flink import logs, python, states
from binders.flink.account import EXPECTED, checkup_of, is_known
from binders.flink.cause import root_cause
from binders.flink.code import check_code
from binders.flink.jars import JarShelf
from binders.flink.meter import Meter
from binders.flink.orders import (
    CODE_PARAMETER,
    HASH_PARAMETER,
    JOB_PARAMETER,
    READS_PARAMETER,
    SAVEPOINT_KEYS,
    STATE_KIND,
    directories,
    places,
    run_body,
)
from binders.flink.parcel import Parcel, is_python, parcel_of
from binders.flink.rest import FlinkRefused, FlinkRest, JobLine, Overview
from binders.flink.room import Room
from binders.flink.stopping import Stopper
from binders.flink.turns import Turns
from speck.errors import BinderError, NoAnswer, NoCapacity, Refused, Unreachable
from speck.model import (
    Attempt,
    Capacity,
    Checkup,
    Found,
    Handle,
    Inventory,
    Job,
    JobMetrics,
    JobState,
    JobStatus,
    State,
    session_fingerprint,
)

_log = logging.getLogger(__name__)

FIND_PATIENCE = 10.0  # s, for a job that another submit of the same attempt starts
UNSETTLED = 120.0  # s, for which a main method that gave no answer may still come to a job
PYTHON_FRESH = 600.0  # s, for which a JobManager's Python is taken to be as it was seen
TRIES = 5  # of a Python program beside programs that others start
TIDY_TRIES = 3
_POLL = 0.1

_DUPLICATE = ("DuplicateApplicationSubmissionException", "DuplicateJobSubmissionException")
_STARTING = frozenset({"INITIALIZING", "CREATED", "RECONCILING"})
_FALTERING = frozenset({"RESTARTING", "FAILING"})


@dataclass(frozen=True)
class Tag:
    """Whose job a job of the cluster is; what is not told is empty.

    ``job`` is SpecK's name of it, ``code`` the hash of what was uploaded, ``reads`` the fingerprint of its
    session, ``hash`` that of the file which the job names.
    """

    job: str = ""
    code: str = ""
    reads: str = ""
    hash: str = ""


class Cluster:
    """What the binders of one cluster within this process share."""

    def __init__(self) -> None:
        self.shelf = JarShelf()
        self.room = Room()
        self.meter = Meter()
        self.tags: dict[str, Tag] = {}
        self.live: set[str] = set()  # of the jobs, those that this process has not stopped
        self.unsettled: dict[str, float] = {}
        self.turns = Turns()
        self.python_seen = float("-inf")  # when a Python was found that runs programs


_clusters: WeakValueDictionary[str, Cluster] = WeakValueDictionary()
_clusters_guard = threading.Lock()


def _cluster(address: str) -> Cluster:
    with _clusters_guard:
        return _clusters.setdefault(address.rstrip("/"), Cluster())


@dataclass
class FlinkEngine:
    """The engine at one ``http(s)://HOST:PORT``.  See :class:`speck.binder.EngineBinder` for the methods."""

    address: str
    inventory: Inventory
    rest: FlinkRest = field(init=False)
    log_about: str = field(default=logs.ABOUT, init=False)

    def __post_init__(self) -> None:
        self._known = self.inventory.engine(self.address)
        self.rest = FlinkRest(self.address, self._known.engine_login)
        self.stopper = Stopper(self.rest)
        self._shared = _cluster(self.address)
        self._settings: Mapping[str, str] = {}

    # -- the contract

    def check(self, job: Job, state: State | None) -> None:
        """Ask for the version, a place for savepoints, the state, the jar, and room; and bring the jar.

        Starts and stops nothing.  Raises :class:`~speck.errors.NoCapacity` when too few slots are free, those
        counted that were promised to other jobs and those that come free when this one is stopped.
        """
        seen = self._check_version()
        self._check_places(job)
        if state is not None:
            self._check_state(state, job)
        fault = check_code(Path(job.job_path), job.entry_class)
        if fault is not None:
            raise self._refusal(job, fault)
        self._check_room(job, seen)
        jar = self._shared.shelf.hold(self.rest, job.job_name, parcel_of(job))
        if is_python(job):
            self._check_python(job, jar, seen.version)

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Run the jar's main method, or the Python program, with the attempt's id.

        Raises :class:`~speck.errors.Refused` when the job's code or Flink refuses, in which case nothing
        runs, and :class:`~speck.errors.NoAnswer` when it is not known whether the job runs.
        """
        parcel, shared = parcel_of(job), self._shared
        with shared.room.taking(job.job_name, attempt.id), shared.shelf.in_use(job.job_name, parcel.code):
            asked = time.monotonic()
            try:
                self._run(job, attempt, parcel)
            except FlinkRefused as error:
                return self._after_refusal(job, attempt, error, asked)
            reads = session_fingerprint(job.source_broker, attempt.session)
            shared.tags[attempt.id] = Tag(job.job_name, parcel.code, reads, job.code_hash)
            shared.live.add(attempt.id)
        return self._handle(attempt)

    def find(self, attempt: Attempt) -> Handle | None:
        """The job of the attempt, also one that has failed or come to its end by itself.

        Raises :class:`~speck.errors.NoAnswer` while a submit of this process that gave no answer may still
        come to a job: Flink runs the job's main method for as long as that takes.
        """
        state = self.rest.job_state(attempt.id)
        if state is None:
            self._refuse_unsettled(attempt)
            return None
        self._shared.unsettled.pop(attempt.id, None)
        if state == "CANCELED" or (state == "FINISHED" and self.stopper.savepoint_of(attempt.id)):
            return None
        return self._handle(attempt)

    def status(self, handle: Handle) -> JobStatus:
        """What the cluster says of the job.

        STARTING until all of its tasks run, and again while Flink restarts it (the message says after what).
        STOPPED of a job that was cancelled or stopped with a savepoint, LOST when the cluster has none such.
        """
        return self.statuses([handle])[handle.engine_id]

    def statuses(self, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        """The statuses of many jobs by ``engine_id``: one request, and one more for each that faltered."""
        asked = [handle.engine_id for handle in handles]
        try:
            jobs = self.rest.jobs()
            found = {each: self._observe(each, jobs.get(each)) for each in asked}
        except BinderError as error:
            found = {each: (JobState.UNKNOWN, str(error)) for each in asked}
        now = time.time()
        return {each: JobStatus(state, now, message) for each, (state, message) in found.items()}

    def running(self) -> list[Found]:
        """The jobs that have not ended; one request, and one more for each that is new to this process."""
        return [self._found(line) for line in self._live_jobs()]

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """Stop the job with a savepoint, or cancel it; drop its jar when no other job is of the same code.

        The state of a job that cannot give a savepoint (it has ended, or cannot come up) is its last
        checkpoint.  Raises :class:`~speck.errors.Refused` when the savepoint fails: the job runs on then.
        """
        location = self.stopper.stop(handle, keep_state)
        self._shared.meter.forget(handle.engine_id)
        self._shared.room.freed(handle.details.get("job", ""))
        self._tidy(handle, last=not keep_state)
        return State(STATE_KIND, location) if location else None

    def state_of(self, handle: Handle) -> State | None:
        """The folder where the job's savepoint will be."""
        place = handle.details.get("savepoints")
        return State(STATE_KIND, place) if place else None

    def state_fault(self, state: State) -> str | None:
        """Why this cluster may not see the state's place, judged by the places of both clusters.

        Flink reads no file for who asks, so that it is there is seen only by who starts from it.
        """
        if state.kind != STATE_KIND:
            return f"state of kind {state.kind!r} is not Flink's (expected {STATE_KIND})"
        own = directories(self._known, self._cluster_settings())
        fault = states.unshared(state, [own.savepoints, own.checkpoints], self.address)
        advice = "expected savepoint_dir of both sites in one place that both see, or upgrade: stateless"
        return None if fault is None else f"{fault} ({advice})"

    def left_state(self, handle: Handle) -> State | None:
        """The newest checkpoint or savepoint among the files that this machine sees."""
        location = self.stopper.left_by(handle)
        return State(STATE_KIND, location) if location else None

    def metrics(self, handle: Handle) -> JobMetrics:
        """See :meth:`binders.flink.meter.Meter.metrics`.

        Raises :class:`~speck.errors.Refused` of a job that runs no more.
        """
        found = self._shared.meter.metrics(self.rest, handle.engine_id)
        state = self.rest.job_state(handle.engine_id) if found is not None else None
        if found is None or state in (None, "CANCELED", "FINISHED"):
            raise Refused(
                f"{self.address} runs no job {handle.engine_id} ({handle.details.get('job', '')})",
                address=self.address,
            )
        return found

    def capacity(self) -> Capacity:
        """Slots, and the processors and the memory of the TaskManagers (memory they do not use is free)."""
        seen = self.rest.overview()
        managers = self.rest.task_managers()
        try:
            hosts = [(each["hardware"], each["memoryConfiguration"]) for each in managers]
            return Capacity(
                slots=seen.slots,
                slots_free=seen.slots_free,
                cores=sum(int(hardware["cpuCores"]) for hardware, _ in hosts) if hosts else None,
                memory=sum(int(memory["totalProcessMemory"]) for _, memory in hosts) if hosts else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise NoAnswer(
                f"{self.address} does not tell of its TaskManagers as Flink does", address=self.address
            ) from error

    def log_tail(self, handle: Handle, lines: int) -> list[str]:
        """See :mod:`binders.flink.logs`."""
        return logs.log_tail(self.rest, handle.engine_id, handle.details.get("job", ""), lines)

    def checkup(self) -> Checkup:
        """Version, slots, places of state, and the clock as a TaskManager's last sign of life shows it."""
        before = time.time()
        managers = self.rest.task_managers()
        asked = (before, time.time())
        return checkup_of(self.rest.overview(), managers, self.rest.settings(), self._known, asked)

    def close(self) -> None:
        """Close connections; jobs go on."""
        self.rest.close()

    # -- starting

    def _run(self, job: Job, attempt: Attempt, parcel: Parcel) -> None:
        shelf = self._shared.shelf
        jar = shelf.jar(self.rest, parcel)
        try:
            self._run_jar(jar, job, attempt, parcel)
        except FlinkRefused as error:
            if not _jar_is_gone(error, jar):
                raise
            # Dropped by another coordinator in between, or the cluster is a new one.
            shelf.gone(parcel.code, jar)
            self._run_jar(shelf.jar(self.rest, parcel), job, attempt, parcel)

    def _run_jar(self, jar: str, job: Job, attempt: Attempt, parcel: Parcel) -> None:
        body = run_body(job, attempt, parcel.code, self._known, self.inventory)
        try:
            if is_python(job):
                self._run_python(jar, body, job, attempt)
            else:
                with self._shared.turns.together():
                    self.rest.run(jar, body)
        except NoAnswer:
            self._shared.unsettled[attempt.id] = time.monotonic() + UNSETTLED
            raise

    def _run_python(self, jar: str, body: Mapping[str, Any], job: Job, attempt: Attempt) -> None:
        """Run a Python program, once more when a program of somebody else's came between."""
        with self._shared.turns.alone():
            body = python.driven(body, python.place_of(self.rest, jar), job, attempt)
            for _ in range(TRIES - 1):
                try:
                    self.rest.run(jar, body)
                except FlinkRefused as error:
                    if not python.mixed_up(error.trace):
                        raise
                    time.sleep(_POLL)
                else:
                    return
            self.rest.run(jar, body)

    def _after_refusal(self, job: Job, attempt: Attempt, error: FlinkRefused, asked: float) -> Handle:
        if any(name in error.trace for name in _DUPLICATE):
            return self._same_again(job, attempt)
        line = self.rest.jobs().get(attempt.id)
        if line is not None and not line.ended and line.duration > time.monotonic() - asked:
            return self._handle(attempt)  # it ran before it was asked for again
        # A main method that fails after it has started a job leaves it running.
        self.stopper.end(attempt.id)
        with suppress(BinderError):
            self._drop_unused()
        cause = python.reason(error.trace) if is_python(job) else root_cause(error.trace)
        reason = f"cannot be started on {self.address}: {cause}{_advice(error.trace)}"
        raise self._refusal(job, reason) from error

    def _same_again(self, job: Job, attempt: Attempt) -> Handle:
        """The job of an attempt that Flink has taken before."""
        deadline = time.monotonic() + FIND_PATIENCE
        while self.rest.job_state(attempt.id) is None and time.monotonic() < deadline:
            time.sleep(_POLL)
        found = self.find(attempt)
        if found is None:
            raise self._refusal(
                job,
                f"this attempt has ended before at {self.address} (a new one is needed)",
            )
        return found

    def _refuse_unsettled(self, attempt: Attempt) -> None:
        until = self._shared.unsettled.get(attempt.id)
        if until is None:
            return
        if time.monotonic() < until:
            raise NoAnswer(
                f"{self.address}: job {attempt.job_name!r} is not there, but its main method gave no answer "
                "and may still start it",
                address=self.address,
            )
        del self._shared.unsettled[attempt.id]

    def _handle(self, attempt: Attempt) -> Handle:
        at = places(self._known, self._cluster_settings(), attempt)
        details = {"job": attempt.job_name, "checkpoints": at.checkpoints, "savepoints": at.savepoints}
        if attempt.state is not None:
            details["state"] = attempt.state.location
        return Handle(self.address, attempt.id, details)

    # -- before the start

    def _check_version(self) -> Overview:
        seen = self.rest.overview()
        if not is_known(seen.version):
            raise Refused(f"{self.address} is Flink {seen.version} ({EXPECTED})", address=self.address)
        return seen

    def _check_python(self, job: Job, jar: str, version: str) -> None:
        """See that the JobManager has a Python with PyFlink; looked at again after a while."""
        shared = self._shared
        if time.monotonic() < shared.python_seen + PYTHON_FRESH:
            return
        with shared.turns.alone():
            if time.monotonic() < shared.python_seen + PYTHON_FRESH:
                return  # another job's check has seen it just now
            try:
                found = python.probe(self.rest, jar)
            except FlinkRefused as error:
                reason = f"cannot be started on {self.address}: {python.reason(error.trace)}"
                raise self._refusal(job, reason) from error
            if (fault := python.fault_of(found, version)) is not None:
                raise self._refusal(job, f"cannot be started on {self.address}: {fault}")
            shared.python_seen = time.monotonic()

    def _check_places(self, job: Job) -> None:
        settings = self._cluster_settings()
        told = self._known.savepoint_dir or any(settings.get(key) for key in SAVEPOINT_KEYS)
        if job.upgrade == "stateful" and not told:
            raise self._refusal(
                job,
                f"{self.address} has no place for savepoints (expected savepoint_dir of the site, "
                f"or {SAVEPOINT_KEYS[0]} of the cluster; or upgrade: stateless)",
            )

    def _check_state(self, state: State, job: Job) -> None:
        if state.kind != STATE_KIND:
            raise self._refusal(job, f"state of kind {state.kind!r} is not Flink's (expected {STATE_KIND})")
        fault = states.missing(state.location)
        if fault is not None:
            raise self._refusal(job, f"{fault} (savepoint_dir of the sites must be one that all of them see)")

    def _check_room(self, job: Job, seen: Overview) -> None:
        slots = job.parallelism or int(self._cluster_settings().get("parallelism.default") or 1)

        def own() -> int:
            return sum(self._slots_of(line.id) for line in self._live_jobs() if self._is(line, job.job_name))

        shortage = self._shared.room.promise(self.rest, seen, job.job_name, slots, own)
        if shortage is not None:
            raise NoCapacity(
                f"{self.address} has no room for job {job.job_name!r}, which takes {slots}: {shortage}",
                address=self.address,
            )

    def _slots_of(self, job: str) -> int:
        vertices = (self.rest.job_details(job) or {}).get("vertices", [])
        return max((int(vertex["parallelism"]) for vertex in vertices), default=0)

    # -- observing

    def _observe(self, job: str, line: JobLine | None) -> tuple[JobState, str]:
        if line is None:
            return JobState.LOST, f"{self.address} does not know the job"
        if line.state == "RUNNING":
            return (JobState.RUNNING, "") if line.up else (JobState.STARTING, _waiting(line))
        if line.state in _STARTING:
            return JobState.STARTING, line.state.lower()
        if line.state in _FALTERING:
            return (
                JobState.STARTING,
                f"{line.state.lower()} after: {root_cause(self.rest.root_exception(job))}",
            )
        if line.state == "FAILED":
            return JobState.FAILED, self._failure(job)
        if line.state == "CANCELED":
            return JobState.STOPPED, "canceled"
        if line.state == "FINISHED":
            savepoint = self.stopper.savepoint_of(job)
            return (
                (JobState.STOPPED, f"stopped, state at {savepoint}") if savepoint else (JobState.FINISHED, "")
            )
        return JobState.RUNNING, line.state.lower()  # CANCELLING: its tasks are at work still

    def _failure(self, job: str) -> str:
        return root_cause(self.rest.root_exception(job)) or "a failure that Flink does not tell"

    def _live_jobs(self) -> list[JobLine]:
        return [line for line in self.rest.jobs().values() if not line.ended]

    # -- whose is what

    def _tag(self, job: str) -> Tag:
        """Whose a job is; asked of the cluster once."""
        if job not in self._shared.tags:
            told = self.rest.job_parameters(job)
            names = (JOB_PARAMETER, CODE_PARAMETER, READS_PARAMETER, HASH_PARAMETER)
            self._shared.tags[job] = Tag(*(told.get(name, "") for name in names))
        return self._shared.tags[job]

    def _found(self, line: JobLine) -> Found:
        tag = self._tag(line.id)
        if not tag.job:
            return Found(line.id, line.name)
        return Found(line.id, tag.job, line.id, tag.hash, tag.reads)

    def _is(self, line: JobLine, job_name: str) -> bool:
        return (self._tag(line.id).job or line.name) == job_name

    def _tidy(self, handle: Handle, *, last: bool) -> None:
        """Drop the jar of a stopped job; ``last``: should there be no answer, ask again for the stop.

        A job that goes on elsewhere, or in another form, does not wait for that.
        """
        patience = stop_after_attempt(TIDY_TRIES)
        try:
            for one_try in Retrying(
                stop=patience, wait=wait_fixed(_POLL), retry=retry_if_exception_type(NoAnswer), reraise=True
            ):
                with one_try:
                    self._drop_jar(handle)
        except (NoAnswer, Unreachable):
            if last:
                raise
        except BinderError as error:
            _log.info("a jar is left at %s: %s", self.address, error)

    def _drop_jar(self, handle: Handle) -> None:
        """Drop the jars that nothing uses, if the stopped job's own is one of them."""
        shared, code = self._shared, self._tag(handle.engine_id).code
        shared.live.discard(handle.engine_id)
        if self._runs(code):
            return  # not asked of the cluster: of many jobs that are stopped, only the last one asks
        used = self._codes_in_use()
        # In this order: a job that is started meanwhile is wanted first, and runs then.
        if code not in used and not shared.shelf.is_wanted(code) and not self._runs(code):
            shared.shelf.drop_unused(self.rest, used)

    def _runs(self, code: str) -> bool:
        """Whether a job of this code runs, as far as this process knows."""
        tags = self._shared.tags
        return any(tags[job].code == code for job in list(self._shared.live))

    def _drop_unused(self) -> None:
        self._shared.shelf.drop_unused(self.rest, self._codes_in_use())

    def _codes_in_use(self) -> set[str]:
        """The hashes of the code of all jobs that run on the cluster, whoever started them."""
        running = [line.id for line in self._live_jobs()]
        codes = {self._tag(job).code for job in running}
        self._shared.live.update(running)
        return codes

    def _cluster_settings(self) -> Mapping[str, str]:
        if not self._settings:
            self._settings = self.rest.settings()
        return self._settings

    def _refusal(self, job: Job, what: str) -> Refused:
        who = f"job {job.job_name!r} ({job.entry_class} of {Path(job.job_path).name})"
        return Refused(f"{who}: {what}", address=self.address)


def _jar_is_gone(error: FlinkRefused, jar: str) -> bool:
    return jar in error.trace and "does not exist" in error.trace


def _waiting(line: JobLine) -> str:
    waiting = {state: count for state, count in line.tasks.items() if count and state != "total"}
    return "tasks: " + ", ".join(f"{count} {state}" for state, count in sorted(waiting.items()))


def connect_engine(address: str, inventory: Inventory) -> FlinkEngine:
    """The binder of the Flink cluster at ``http(s)://HOST:PORT``; opens no connection yet."""
    return FlinkEngine(address, inventory)


def _advice(trace: str) -> str:
    """What helps against an error, for people; empty when that is not known."""
    if "NoClassDefFoundError: io/speck/" in trace:
        return " (put SpecK's connector, flink-mqtt.jar, into the cluster's lib folder or the job's jar)"
    return ""
