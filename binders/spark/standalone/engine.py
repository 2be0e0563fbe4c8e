"""The binder of Spark standalone: one job is one driver in cluster mode, with executors of its own.

**How an attempt is found again.**  The master gives a driver its id, and its web interface lists all drivers,
those that wait included; that list is the truth about what runs.  Which attempt a driver is of stands in the
head of its log, which the worker writes when it starts the driver, and shows in its web interface.  So any
coordinator finds an attempt, whatever became of the one that submitted it, and none needs a storage that the
workers see.  A driver that waits for a worker has no log yet: while one is there that is not known,
:meth:`StandaloneEngine.find` does not say that an attempt is not there.

**How an attempt comes to work once.**  Submitted twice, because an answer was lost or by two coordinators, it
has two drivers; they settle it by a lease in the checkpoint (:mod:`binders.spark.standalone.lease`), and one
ends.  So a handle names the attempt, and the driver is looked up; it also changes when the master starts it
elsewhere.

**What a driver tells.**  It keeps its status in a file beside its logs
(:mod:`binders.spark.standalone.driver_status`), read through its worker too: the coordinator asks, and
nothing calls it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from weakref import WeakValueDictionary

import pyspark

from binders.common.reservations import Reservations, no_slot, slots_taken
from binders.spark.query.code_check import check_code
from binders.spark.query.options import STATE_KIND, checkpoint_of, checkpoints_of, same_storage
from binders.spark.query.progress import metrics_of
from binders.spark.standalone.capacity import has_room, no_room, still_to_come
from binders.spark.standalone.driver_status import DriverStatus, choose, last_words, read_account, state_of
from binders.spark.standalone.healthcheck import standalone_checkup
from binders.spark.standalone.master import Cluster, Driver, Master
from binders.spark.standalone.submission import MAIN_CLASS, Sender
from speck.binder import ArtifactServer
from speck.core.inventory import Inventory
from speck.core.job import Job
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
)
from speck.errors import BinderError, NoCapacity, OutcomeUnknown, Rejected, Unreachable

START_TIMEOUT = 120.0  # s, for a driver to start and the job's code to come to a started query
FIND_PATIENCE = 5.0  # s, for a driver that has just been given to a worker to become known
STOP_GRACE = 30.0  # s, for the batch in hand
END_TIMEOUT = 30.0  # s, for a driver that was killed; a worker gives it 10 s before it uses force

_POLL = 0.2  # s
_HEAD = 64 * 1024  # bytes; of a driver's log, and of an account
_MOST_OF_LOG = 1 << 20  # bytes
_LONG_LINE = 500  # bytes
_HEAD_END = "\n" + "=" * 40 + "\n"
_ATTEMPT = re.compile(r"-Dspark\.speck\.attempt=([0-9a-f]{32})\b")
_JOB = re.compile(r"-Dspark\.speck\.job=([A-Za-z0-9._-]+)")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class StandaloneEngine:
    """The engine at one ``spark://HOST:PORT``.  See :class:`speck.binder.EngineBinder` for the methods."""

    log_about = (
        "from the log of the job's driver, after what it printed (marked out:); what functions print in "
        "executors stays in the logs of their workers"
    )

    def __init__(self, address: str, inventory: Inventory) -> None:
        self.address = address
        self.start_timeout = START_TIMEOUT
        self.stop_grace = STOP_GRACE
        self._known = inventory.engine(address)
        self._master = Master(address, self._known)
        self._sender = Sender(address, self._master, inventory)
        self._promises = Reservations()
        self._guard = threading.Lock()
        self._attempts: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._owners: dict[str, tuple[str, str]] = {}  # driver id: attempt id and job name; empty: not ours
        self._over: set[str] = set()  # attempts that were stopped here, whatever the master remembers of them

    def take_artifacts(self, server: ArtifactServer) -> None:
        """See :class:`speck.binder.FetchesArtifacts`."""
        self._sender.server = server

    # -- the contract

    def check(self, job: Job, state: State | None) -> None:
        """Ask for the cluster's version, its web interfaces, the code, the state, and room; starts nothing.

        Raises :class:`~speck.errors.NoCapacity` when the room that is free is promised to others.  Whether a
        state is there can be told only of a master on this machine; a driver elsewhere says so.
        """
        self._sender.check()
        self._check_version()
        self._check_code(job)
        cluster = self._master.cluster()
        if (fault := self._master.address_fault(cluster)) is not None:
            raise Rejected(fault, address=self.address)
        if not cluster.workers:
            raise NoCapacity(f"{self.address} has no worker that is alive", address=self.address)
        self._master.check_worker(cluster.workers[0])
        if state is not None:
            self._check_state(state, job)
        self._check_room(job)

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Start a driver for the attempt, and wait until its query has started.

        Raises :class:`~speck.errors.Rejected` when the job's code or Spark refuses and
        :class:`~speck.errors.NoCapacity` when no worker takes the driver, in which cases nothing runs, and
        :class:`~speck.errors.OutcomeUnknown` when it is not known whether the query runs.
        """
        with self._guard:
            one_at_a_time = self._attempts.setdefault(attempt.id, threading.Lock())
        try:
            with one_at_a_time:
                return self._submit(job, attempt)
        finally:
            self._promises.end(job.job_name)

    def find(self, attempt: Attempt) -> Handle | None:
        """The driver of the attempt, also one whose query has failed.

        Raises :class:`~speck.errors.OutcomeUnknown` while a driver waits for a worker that may be the
        attempt's.
        """
        chosen = self._chosen(attempt.id, strict=True)
        if chosen is None or attempt.id in self._over or not _is_there(*chosen):
            return None
        return self._handle(attempt)

    def status(self, handle: Handle) -> JobStatus:
        """What the driver tells; what the master tells of a driver that cannot."""
        return self.statuses([handle])[handle.engine_id]

    def statuses(self, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        """The statuses of many jobs by ``engine_id``: the master is asked once, and each driver."""
        asked = [handle.engine_id for handle in handles]
        try:
            cluster = self._master.cluster()
            unknown = self._identify(cluster)
        except BinderError as error:
            silent = JobStatus(JobState.UNKNOWN, time.time(), str(error))
            return dict.fromkeys(asked, silent)
        return {each: self._status(each, cluster, unknown) for each in asked}

    def running(self) -> list[Found]:
        """The drivers that are active and SpecK's, as far as that can be told yet."""
        cluster = self._master.cluster()
        self._identify(cluster)
        active = (driver.id for driver in cluster.drivers if driver.active)
        owners = (self._owners.get(driver, ("", "")) for driver in active)
        return [Found(attempt, job, attempt) for attempt, job in owners if attempt]

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """Ask the driver to end after the batch in hand, and kill what does not end.

        Without a state to keep, the driver is killed at once.  The state is the checkpoint; ``None`` of a
        query that was never started.
        """
        attempt = handle.engine_id
        chosen = self._chosen(attempt, strict=False)
        account = chosen[1] if chosen is not None else None
        if chosen is not None:
            if keep_state and account is not None and self._request_stop(attempt, account):
                self._await_end(attempt, self.stop_grace + END_TIMEOUT)
            self._kill(attempt)
        self._over.add(attempt)
        if not keep_state or (account is not None and not account.ran):
            return None
        return State(STATE_KIND, handle.details["checkpoint"])

    def state_of(self, handle: Handle) -> State | None:
        """The checkpoint of the driver's query."""
        return State(STATE_KIND, handle.details["checkpoint"])

    def state_fault(self, state: State) -> str | None:
        """Why drivers here may not see a checkpoint: it is looked for where this machine's files are theirs.

        Elsewhere its place is compared with that of the engine's own checkpoints.
        """
        if state.kind != STATE_KIND:
            return f"state of kind {state.kind!r} is not Spark's (expected {STATE_KIND})"
        place = Path(state.location)
        if self._master.host not in _LOOPBACK:
            seen = same_storage(state.location, checkpoints_of(self._known))
        else:
            # The folder of the job's checkpoints tells that this machine's files are the engine's.
            seen = not place.parent.is_dir() or (place / "metadata").exists()
        advice = "checkpoint_dir of the sites must be one that all of them see"
        return None if seen else f"{self.address} finds no checkpoint at {state.location!r} ({advice})"

    def left_state(self, handle: Handle) -> State | None:
        """The query's checkpoint; whether it can be read there, another engine must tell."""
        return State(STATE_KIND, handle.details["checkpoint"])

    def metrics(self, handle: Handle) -> JobMetrics:
        """The numbers of the last progress report.  Raises :class:`~speck.errors.Rejected` of a lost job."""
        return self._metrics(handle, self._master.cluster())

    def measure(self, handles: Iterable[Handle]) -> dict[str, JobMetrics | BinderError]:
        """The metrics of many jobs by ``engine_id``: the master is asked once, and each driver."""
        cluster = self._master.cluster()
        found: dict[str, JobMetrics | BinderError] = {}
        for handle in handles:
            try:
                found[handle.engine_id] = self._metrics(handle, cluster)
            except BinderError as error:
                found[handle.engine_id] = error
        return found

    def _metrics(self, handle: Handle, cluster: Cluster) -> JobMetrics:
        chosen = self._look(handle.engine_id, cluster)
        if chosen is None or not _is_there(*chosen) or handle.engine_id in self._over:
            name = handle.details.get("job", "")
            raise Rejected(f"{self.address} runs no driver of job {name!r}", address=self.address)
        account = chosen[1]
        return metrics_of(account.progress if account is not None else None, time.time())

    def capacity(self) -> Capacity:
        """Cores and memory of the workers that are alive; ``slots`` are the inventory's where it has them."""
        cluster = self._master.cluster()
        slots = self._known.slots
        running = len(self._jobs(cluster)) if slots is not None else 0
        return Capacity(
            slots=slots,
            slots_free=max(0, slots - running) if slots is not None else None,
            cores=sum(worker.cores for worker in cluster.workers),
            memory=sum(worker.memory for worker in cluster.workers),
            memory_free=sum(worker.memory_free for worker in cluster.workers),
        )

    def log_tail(self, handle: Handle, lines: int) -> list[str]:
        """The end of the driver's log; before it, of at most half the lines, the end of its output."""
        cluster = self._master.cluster()
        self._identify(cluster)
        chosen = self._look(handle.engine_id, cluster)
        worker = cluster.worker(chosen[0].worker) if chosen is not None else None
        if chosen is None or worker is None or handle.engine_id in self._over:
            name = handle.details.get("job", "")
            raise Rejected(f"{self.address} has no log of a driver of job {name!r}", address=self.address)
        size = min(_MOST_OF_LOG, lines * _LONG_LINE)
        kinds = ("stdout", "stderr")
        texts = (self._master.log(worker, chosen[0].id, kind, start=None, length=size).text for kind in kinds)
        # The head is the command that started the driver, some kilobytes in one line.
        printed, logged = (text.rpartition(_HEAD_END)[2].splitlines() for text in texts)
        half = [f"out: {line}" for line in printed[-(lines // 2) :]] if lines > 1 else []
        return half + logged[len(half) - lines :]

    def checkup(self) -> Checkup:
        """See :func:`binders.spark.standalone.healthcheck.standalone_checkup`."""
        return standalone_checkup(self._master)

    def close(self) -> None:
        """Close the connections; drivers go on."""
        self._master.close()

    # -- which driver is whose

    def _chosen(self, attempt: str, *, strict: bool) -> tuple[Driver, DriverStatus | None] | None:
        """The driver of an attempt that counts.

        Where another one waits for a worker that may be it, a ``strict`` question raises
        :class:`~speck.errors.OutcomeUnknown`.  Who is about to submit need not be strict: of two drivers one
        ends.
        """
        deadline = time.monotonic() + FIND_PATIENCE
        while True:
            cluster = self._master.cluster()
            unknown = self._identify(cluster)
            chosen = self._look(attempt, cluster)
            replaced = chosen is not None and chosen[0].state == "RELAUNCHING"
            if not (strict or replaced):
                unknown = [driver for driver in unknown if driver.state == "RUNNING"]
            if not unknown or (chosen is not None and not replaced):
                return chosen
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL)
        if strict or replaced:
            raise OutcomeUnknown(
                f"{self.address} has drivers that wait for a worker, any of which may be the attempt's "
                f"({', '.join(driver.id for driver in unknown)})",
                address=self.address,
            )
        return chosen

    def _look(self, attempt: str, cluster: Cluster) -> tuple[Driver, DriverStatus | None] | None:
        drivers = self._drivers(attempt, cluster)
        return choose([(driver, self._account(driver, cluster)) for driver in drivers])

    def _drivers(self, attempt: str, cluster: Cluster) -> list[Driver]:
        return [each for each in cluster.drivers if self._owners.get(each.id, ("", ""))[0] == attempt]

    def _identify(self, cluster: Cluster) -> list[Driver]:
        """Find out whose the drivers are; answers the active ones of which that cannot be told yet."""
        unknown = []
        for driver in cluster.drivers:
            if driver.id in self._owners or driver.main_class != MAIN_CLASS:
                continue
            owner = self._owner(driver, cluster)
            if owner is not None:
                self._owners[driver.id] = owner
            elif driver.active:
                unknown.append(driver)
        return unknown

    def _owner(self, driver: Driver, cluster: Cluster) -> tuple[str, str] | None:
        worker = cluster.worker(driver.worker)
        if worker is None:
            return None
        try:
            head = self._master.log(worker, driver.id, "stderr", start=0, length=_HEAD).text
        except (Unreachable, OutcomeUnknown, Rejected):
            return None
        if _HEAD_END not in head:
            return None
        head = head.partition(_HEAD_END)[0]
        attempt, job = _ATTEMPT.search(head), _JOB.search(head)
        return (attempt[1], job[1]) if attempt and job else ("", "")

    def _jobs(self, cluster: Cluster) -> list[str]:
        """The names of the jobs that have a driver, or of which that cannot be told yet (empty)."""
        self._identify(cluster)
        active = [driver.id for driver in cluster.drivers if driver.active]
        owners = [self._owners.get(driver, ("unknown", "")) for driver in active]
        return [job for attempt, job in owners if attempt]

    def _account(self, driver: Driver, cluster: Cluster) -> DriverStatus | None:
        worker = cluster.worker(driver.worker)
        if worker is None:
            return None
        log = self._master.log(worker, driver.id, "out", start=0, length=_HEAD)
        return read_account(log.text, log.read_at)

    def _status(self, attempt: str, cluster: Cluster, unknown: list[Driver]) -> JobStatus:
        try:
            state, message = self._observe(attempt, cluster, unknown)
        except BinderError as error:
            state, message = JobState.UNKNOWN, str(error)
        return JobStatus(state, time.time(), message)

    def _observe(self, attempt: str, cluster: Cluster, unknown: list[Driver]) -> tuple[JobState, str]:
        chosen = self._look(attempt, cluster)
        if attempt in self._over and (chosen is None or not chosen[0].active):
            return JobState.LOST, "the job was stopped"
        if chosen is None and unknown:
            names = ", ".join(driver.id for driver in unknown)
            return JobState.UNKNOWN, f"{self.address} has drivers of which it cannot be told whose ({names})"
        if chosen is None:
            return JobState.LOST, f"Spark master {self.address} does not know the job's driver"
        driver, account = chosen
        if driver.state == "RELAUNCHING" and unknown:
            return JobState.STARTING, f"driver {driver.id} is being started again on another worker"
        waits = any(attempt in name for name in cluster.waiting)
        state, message = state_of(driver, account, waits)
        if state is JobState.FAILED and (account is None or account.kind == "running"):
            message = f"{message}: {self._last_words(driver, cluster)}"
        return state, message

    def _last_words(self, driver: Driver, cluster: Cluster) -> str:
        """Why a driver ended that could not tell."""
        if driver.state == "ERROR":
            return self._master.failure(driver.id) or "no reason given"
        worker = cluster.worker(driver.worker)
        if worker is None:
            return "its worker is gone"
        log = self._master.log(worker, driver.id, "stderr", start=None, length=_HEAD)
        return last_words(log.text) or "its log is empty"

    # -- starting

    def _submit(self, job: Job, attempt: Attempt) -> Handle:
        chosen = self._chosen(attempt.id, strict=False)
        if chosen is None:
            driver = self._sender.submit(job, attempt, self.stop_grace)
            self._owners[driver] = (attempt.id, attempt.job_name)
        elif not _is_there(*chosen):
            raise self._refusal(job, "this attempt has ended before (a new one is needed)")
        return self._await_start(job, attempt)

    def _await_start(self, job: Job, attempt: Attempt) -> Handle:
        begin = time.monotonic()
        while True:
            overdue = time.monotonic() - begin > self.start_timeout
            cluster = self._master.cluster()
            self._identify(cluster)
            chosen = self._look(attempt.id, cluster)
            if chosen is None:
                message = f"{self.address} has lost the driver of job {job.job_name!r}"
                raise OutcomeUnknown(message, address=self.address)
            driver, account = chosen
            if account is not None and account.ran:
                return self._handle(attempt)
            fault = self._fault(driver, account, cluster)
            if fault or overdue:
                self._kill(attempt.id)
                self._over.add(attempt.id)
                raise self._not_started(job, driver, fault)
            time.sleep(_POLL)

    def _fault(self, driver: Driver, account: DriverStatus | None, cluster: Cluster) -> str:
        """Why a driver will not come to a started query; empty while it may."""
        if account is not None and account.kind in ("refused", "stopped"):
            return account.message
        if not driver.active or (account is not None and account.crashes):
            return self._last_words(driver, cluster)
        return ""

    def _not_started(self, job: Job, driver: Driver, fault: str) -> BinderError:
        if fault:
            return self._refusal(job, fault)
        if driver.state == "SUBMITTED":
            message = f"{self.address} has no room for job {job.job_name!r}: no worker took its driver"
            return NoCapacity(f"{message} in {self.start_timeout:g} s", address=self.address)
        return self._refusal(job, f"its code did not come to a started query in {self.start_timeout:g} s")

    def _refusal(self, job: Job, reason: str) -> Rejected:
        what = f"job {job.job_name!r} ({job.entry_class} of {Path(job.job_path).name})"
        return Rejected(f"{what} cannot be started on {self.address}: {reason}", address=self.address)

    def _handle(self, attempt: Attempt) -> Handle:
        details: Mapping[str, str] = {
            "job": attempt.job_name,
            "checkpoint": checkpoint_of(attempt, self._known),
        }
        return Handle(self.address, attempt.id, details)

    # -- ending

    def _request_stop(self, attempt: str, account: DriverStatus) -> bool:
        """Ask the driver itself; answers whether it has heard."""
        if account.kind != "running" or not account.control:
            return False
        return self._master.post(account.control, self._sender.stop_token(attempt))

    def _kill(self, attempt: str) -> None:
        """Kill all drivers of an attempt, and wait until the master says that they have ended."""
        for driver in self._drivers(attempt, self._master.cluster()):
            if driver.active:
                self._master.kill(driver.id)
        if not self._await_end(attempt, END_TIMEOUT):
            raise OutcomeUnknown(
                f"{self.address} was asked to kill the driver of attempt {attempt}, which still runs",
                address=self.address,
            )

    def _await_end(self, attempt: str, patience: float) -> bool:
        """Wait for its drivers and its application, which has the executors; answers whether they ended."""
        deadline = time.monotonic() + patience
        while self._at_work(attempt, self._master.cluster()):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True

    def _at_work(self, attempt: str, cluster: Cluster) -> bool:
        return any(driver.active for driver in self._drivers(attempt, cluster)) or any(
            attempt in name for name in cluster.applications
        )

    # -- before the start

    def _check_version(self) -> None:
        theirs, ours = self._master.version(), pyspark.__version__
        if theirs.split(".")[:2] != ours.split(".")[:2]:
            message = f"Spark master {self.address} is of version {theirs} (expected {ours})"
            raise Rejected(message, address=self.address)

    def _check_code(self, job: Job) -> None:
        fault = check_code(Path(job.job_path), job.entry_class)
        if fault is not None:
            raise self._refusal(job, fault)

    def _check_room(self, job: Job) -> None:
        """See that there is a slot, and room on the workers, that is not promised to others."""
        with self._promises.deciding(job.job_name) as promised:
            cluster = self._master.cluster()
            jobs, slots = self._jobs(cluster), self._known.slots
            if job.job_name in jobs:
                return  # what it has comes free first
            known = [name for name in jobs if name]
            taken = slots_taken(known, len(jobs) - len(known), promised)
            if slots is not None and taken >= slots:
                raise no_slot(self.address, job.job_name, slots, len(jobs), taken)
            owners = {driver: name for driver, (_, name) in list(self._owners.items())}
            drivers, executors = still_to_come(cluster, owners, promised)
            if not has_room(cluster.workers, drivers, executors):
                raise no_room(self.address, job.job_name, cluster.workers, max(drivers, executors))

    def _check_state(self, state: State, job: Job) -> None:
        fault = self.state_fault(state)
        if fault is not None:
            raise Rejected(f"job {job.job_name!r}: {fault}", address=self.address)


def _is_there(driver: Driver, account: DriverStatus | None) -> bool:
    """Whether an attempt is at the engine: it runs, or has failed and can tell why."""
    return driver.active or (account is not None and account.kind in ("failed", "finished"))
