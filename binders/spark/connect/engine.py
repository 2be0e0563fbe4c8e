"""The binder of Spark Connect: one job is one streaming query in a session of its own.

The session's id is the attempt's, so that whoever knows an attempt finds its query.  A session keeps its
query when clients come and go, and ends when the job is stopped.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from binders.common.reservations import Reservations, no_slot, slots_taken
from binders.spark.connect.checkpoint_transfer import CheckpointFiles
from binders.spark.connect.grpc_client import ConnectClient, Query, ServerRefused, endpoint_of
from binders.spark.connect.healthcheck import connect_checkup
from binders.spark.connect.launcher import SHARED
from binders.spark.connect.probe import ServerProbe
from binders.spark.query.code_check import check_code, mentions_python_functions
from binders.spark.query.options import (
    CONNECTOR_FORMAT,
    STATE_KIND,
    checkpoint_of,
    checkpoints_of,
    settings,
    sink_options,
    source_options,
)
from binders.spark.query.progress import failure_line, metrics_of, report_line
from binders.spark.query.spec import CHECKPOINT_SETTING, QUERY_SETTING, RUN_SETTING, ConnectOrders
from binders.spark.query.text import query_says
from speck.binder import Snapshot
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
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable

BUILD_TIMEOUT = 60.0  # s, for a job's code and the analysis of its DataFrame
FIND_PATIENCE = 10.0  # s, for a query that another launch of the same attempt starts
STOP_GRACE = 30.0  # s, for the batch in hand
_FRESH = 1.0  # s, for which what ran there is good enough to promise a slot, and not to refuse one

_CALM = ("Getting offsets from", "Waiting for")  # of a query's status message: no batch is in hand
_WAITING = ("Waiting for data",)
_STARTING = ("Initializing",)


class ConnectEngine:
    """The engine at one ``sc://HOST:PORT``.  See :class:`speck.binder.EngineBinder` for the methods."""

    log_about = (
        "Spark Connect shows no log: these are the query's last progress reports, its status, and the "
        "failure that ended it; what the job's code and its functions print stays in the server's own output"
    )

    def __init__(self, address: str, inventory: Inventory) -> None:
        self.address = address
        self.build_timeout = BUILD_TIMEOUT
        self.stop_grace = STOP_GRACE
        self._inventory = inventory
        self._known = inventory.engine(address)
        self._endpoint = endpoint_of(address, self._known.engine_login)
        self._client = ConnectClient(address, self._endpoint)
        self._launcher = SHARED.acquire()
        self._closed = False
        self._probe = ServerProbe(address, self._client)
        self._files = CheckpointFiles(address, self._client, self._probe, checkpoints_of(self._known))
        self._promises = Reservations()
        self._names: frozenset[str] | None = None
        self._named = (float("-inf"), 0)  # when, and how many promises had ended by then
        self._guard = threading.Lock()
        self._attempts: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    # -- the contract

    def check(self, job: Job, state: State | None) -> None:
        """Ask for the server's version, its connector, the state, and room; starts nothing.

        Raises :class:`~speck.errors.NoCapacity` when the site's slots are taken by other jobs, or promised to
        them.  A job with Python functions is refused by a server whose Python is another.
        """
        self._launcher.warm_up()
        self._probe.check_version()
        self._probe.check_connector(job)
        self._check_code(job)
        self._check_python(job)
        if state is not None:
            self._check_state(state, job)
        self._check_room(job)

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Start the job's query in the attempt's session.

        Raises :class:`~speck.errors.Rejected` when the job's code or Spark refuses, in which case nothing
        runs, and :class:`~speck.errors.OutcomeUnknown` when it is not known whether the query runs.
        """
        with self._guard:
            one_at_a_time = self._attempts.setdefault(attempt.id, threading.Lock())
        try:
            with one_at_a_time:
                return self.find(attempt) or self._launch(job, attempt)
        finally:
            self._promises.end(job.job_name)

    def find(self, attempt: Attempt) -> Handle | None:
        """The query of the attempt, also one that has failed; asks nothing but the attempt's session."""
        session = _session_of(attempt)
        if not self._client.session_exists(session):
            return None
        names = [QUERY_SETTING, RUN_SETTING, CHECKPOINT_SETTING]
        left = self._client.settings(session, names)
        query = self._active(session, attempt.job_name)
        if query is None and QUERY_SETTING in left and RUN_SETTING in left:
            query = Query(left[QUERY_SETTING], left[RUN_SETTING])
        if query is None:
            return None
        checkpoint = left.get(CHECKPOINT_SETTING) or checkpoint_of(attempt, self._known)
        return self._handle(attempt, query, checkpoint)

    def status(self, handle: Handle) -> JobStatus:
        """What the server says of the query; LOST when it does not know the session or the query."""
        try:
            state, message = self._observe(handle)
        except (Unreachable, OutcomeUnknown) as error:
            state, message = JobState.UNKNOWN, str(error)
        except ServerRefused as error:
            state, message = _state_of_refusal(error), str(error)
        return JobStatus(state, time.time(), message)

    def statuses(self, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        """The statuses of many jobs by ``engine_id``.

        One question where the server can say what runs, and three more for each job that does not.  It costs
        as much as nine jobs asked one by one, which takes longer on a busy machine: their answers add up.
        """
        asked = list(handles)
        try:
            running = self._probe.running() if len(asked) > 1 else None
        except BinderError as error:
            unknown = JobStatus(JobState.UNKNOWN, time.time(), str(error))
            return {each.engine_id: unknown for each in asked}
        runs, now = {query.run_id for query in running or ()}, time.time()
        at_work = JobStatus(JobState.RUNNING, now)
        return {
            each.engine_id: at_work if _query_of(each).run_id in runs else self.status(each) for each in asked
        }

    def running(self) -> list[Found]:
        """The queries of all sessions, each by its run's id.

        Whose they are is not told.  Raises :class:`~speck.errors.Rejected` where the server cannot say.
        """
        running = self._probe.running()
        if running is None:
            raise Rejected(f"{self.address} does not say which queries it runs", address=self.address)
        return [Found(query.run_id, query.name) for query in running]

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """Let the batch in hand end (for ``stop_grace`` seconds), stop the query, end its session.

        The state is the query's checkpoint; ``None`` when there is none at its place.
        """
        if self._client.session_exists(handle.engine_id):
            self._end_query(handle)
            self._client.release(handle.engine_id)
        if not keep_state:
            return None
        state = State(STATE_KIND, handle.details["checkpoint"])
        return state if self._probe.has_checkpoint(state.location) else None

    def left_state(self, handle: Handle) -> State | None:
        """The query's checkpoint; whether it can be read there, another engine must tell."""
        return State(STATE_KIND, handle.details["checkpoint"])

    def metrics(self, handle: Handle) -> JobMetrics:
        """The numbers of the last progress report.  Raises :class:`~speck.errors.Rejected` of a lost job."""
        report = self._client.last_progress(handle.engine_id, _query_of(handle))
        return metrics_of(report, time.time())

    def has_worked(self, handle: Handle) -> bool:
        """Whether the query has been through a batch, or waits for data."""
        session, query = handle.engine_id, _query_of(handle)
        if self._client.query_status(session, query).message.startswith(_WAITING):
            return True
        return self._client.last_progress(session, query) is not None

    def capacity(self) -> Capacity:
        """What the site and the server tell.

        ``slots`` and ``memory`` are the inventory's where it has them; ``memory`` else the heap's limit of
        the server's driver.  ``cores`` is Spark's default parallelism.  ``slots_free`` is told where the
        server runs its queries in its own process (a local master).  ``memory_free`` is not told.
        """
        slots = self._known.slots
        running = self._probe.running() if slots is not None else None
        return Capacity(
            slots=slots,
            slots_free=max(0, slots - len(running)) if slots is not None and running is not None else None,
            cores=self._probe.cores(),
            memory=self._known.memory or self._probe.heap(),
        )

    def log_tail(self, handle: Handle, lines: int) -> list[str]:
        """A line for each batch reported on, then the query's status, then its failure with all causes."""
        session, query = handle.engine_id, _query_of(handle)
        status = self._client.query_status(session, query)
        said = [report_line(each) for each in self._client.recent_progress(session, query)]
        said.append(f"{'active' if status.active else 'ended'}: {query_says(status.message)}")
        if not status.active:
            said += (self._client.query_exception(session, query) or "").splitlines()
        return said[-lines:]

    def checkup(self) -> Checkup:
        """See :func:`binders.spark.connect.healthcheck.connect_checkup`."""
        return connect_checkup(self._client, self._probe)

    # -- state that others are to read (speck.binder.CarriesState)

    def state_of(self, handle: Handle) -> State | None:
        """The query's checkpoint."""
        return State(STATE_KIND, handle.details["checkpoint"])

    def state_fault(self, state: State) -> str | None:
        """Why no query could go on from the state here; ``None`` when its checkpoint is seen."""
        if state.kind != STATE_KIND:
            return f"state of kind {state.kind!r} is not Spark's (expected {STATE_KIND})"
        if not self._probe.has_checkpoint(state.location):
            return f"{self.address} finds no checkpoint at {state.location!r}"
        return None

    def state_size(self, state: State) -> int:
        """The bytes of the checkpoint's files that a query would need."""
        return self._files.size(state.location)

    def read_state(self, state: State) -> Snapshot:
        """The checkpoint's files that a query needs, without old batches."""
        return self._files.read(state.location)

    def state_place(self, job_name: str, name: str) -> State:
        """A folder of the name, beside the job's other checkpoints."""
        return State(STATE_KIND, self._files.place(job_name, name), self.address)

    def check_state_place(self, job_name: str) -> None:
        """Write a small file to the directory of checkpoints."""
        self._files.check_place()

    def write_state(self, state: State, snapshot: Snapshot) -> None:
        """Write the files of a checkpoint, and compare their hashes as the server makes them."""
        self._files.write(state.location, snapshot)

    def delete_state(self, state: State) -> None:
        """Delete the checkpoint's folder."""
        self._files.delete(state.location)

    def close(self) -> None:
        """Close the channel and let go of the launcher; sessions and queries stay."""
        if not self._closed:
            self._closed = True
            self._client.close()
            SHARED.release()

    # -- starting

    def _launch(self, job: Job, attempt: Attempt) -> Handle:
        orders = self._orders(job, attempt)
        answer = self._launcher.launch(orders.to_json(), self.build_timeout)
        kind, message = answer["kind"], answer.get("message", "")
        if kind == "started":
            return self._handle(attempt, Query(answer["query"], answer["run"]), orders.checkpoint)
        found = self._await_found(attempt) if kind in ("exists", "no_answer") else None
        if found is None:
            raise self._undone(job, orders.session, kind, message)
        return found

    def _await_found(self, attempt: Attempt) -> Handle | None:
        """The query that another launch of the same attempt has started or is about to."""
        deadline = time.monotonic() + FIND_PATIENCE
        while time.monotonic() < deadline:
            try:
                found = self.find(attempt)
            except (Unreachable, OutcomeUnknown):
                return None
            if found is not None:
                return found
            time.sleep(0.1)
        return None

    def _undone(self, job: Job, session: str, kind: str, message: str) -> BinderError:
        # With its session ended, nothing that the launch may have started goes on.
        what = f"job {job.job_name!r} ({job.entry_class} of {Path(job.job_path).name})"
        try:
            self._client.release(session)
        except (Unreachable, OutcomeUnknown) as error:
            kind, message = "no_answer", f"{message} ({error})"
        if kind == "no_answer":
            reason = f"{what}: whether {self.address} has started it is not known: {message}"
            return OutcomeUnknown(reason, address=self.address)
        if kind == "timeout":
            message = f"its code did not come to a started query in {self.build_timeout:g} s"
        elif kind == "died":
            message = f"its code ended the process that ran it ({message})"
        elif "SESSION_CLOSED" in message:
            message = "this attempt has ended before (a new one is needed)"
        return Rejected(f"{what} cannot be started on {self.address}: {message}", address=self.address)

    def _orders(self, job: Job, attempt: Attempt) -> ConnectOrders:
        keys = self._endpoint.keys
        return ConnectOrders(
            host=self._endpoint.host,
            port=self._endpoint.port,
            token=keys.token,
            ca_file=keys.ca_file,
            certificate_file=keys.certificate_file,
            key_file=keys.key_file,
            tls=keys.tls,
            session=_session_of(attempt),
            job_name=job.job_name,
            path=str(Path(job.job_path).absolute()),
            entry=job.entry_class,
            arguments=dict(job.arguments),
            trigger=job.trigger,
            checkpoint=checkpoint_of(attempt, self._known),
            settings=settings(job),
            source_format=CONNECTOR_FORMAT,
            source_options=source_options(job, attempt, self._inventory),
            sink_format=CONNECTOR_FORMAT,
            sink_options=sink_options(job, self._inventory),
        )

    def _handle(self, attempt: Attempt, query: Query, checkpoint: str) -> Handle:
        details = {
            "job": attempt.job_name,
            "query": query.id,
            "run": query.run_id,
            "checkpoint": checkpoint,
        }
        return Handle(self.address, _session_of(attempt), details)

    # -- before the start

    def _check_python(self, job: Job) -> None:
        if not mentions_python_functions(Path(job.job_path)):
            return
        fault = self._probe.python_fault()
        if fault is not None and (nodes := self._rehearse(job).get("python")):
            what = f"job {job.job_name!r} has Python functions ({nodes})"
            raise Rejected(f"{what}, which {self.address} cannot run: {fault}", address=self.address)

    def _rehearse(self, job: Job) -> dict[str, str]:
        """Run the job's code up to its plan, in a session that is ended again; the launcher's answer."""
        attempt = Attempt(id=uuid.uuid4().hex, job_name=job.job_name, number=0, session="speck-rehearsal")
        orders = replace(self._orders(job, attempt), rehearsal=True)
        try:
            return self._launcher.launch(orders.to_json(), self.build_timeout)
        finally:
            self._client.release(orders.session)

    def _check_state(self, state: State, job: Job) -> None:
        fault = self.state_fault(state)
        if fault is not None:
            advice = "checkpoint_dir of the sites must be one that all of them see"
            raise Rejected(f"job {job.job_name!r}: {fault} ({advice})", address=self.address)

    def _check_room(self, job: Job) -> None:
        """See that a slot is free; its own comes free first, and those promised to others do not count."""
        slots = self._known.slots
        if slots is None:
            return
        with self._promises.deciding(job.job_name) as promised:
            for fresh in (False, True):
                names = self._names_at_work(fresh)
                if names is None:
                    return
                others = names - {job.job_name}
                taken = slots_taken(others, 0, promised)
                if taken < slots:
                    return
            raise no_slot(self.address, job.job_name, slots, len(others), taken)

    def _check_code(self, job: Job) -> None:
        fault = check_code(Path(job.job_path), job.entry_class)
        if fault is not None:
            what = f"job {job.job_name!r} ({job.entry_class} of {Path(job.job_path).name})"
            raise Rejected(f"{what} cannot be started on {self.address}: {fault}", address=self.address)

    def _names_at_work(self, fresh: bool) -> frozenset[str] | None:
        """The names of what runs there, as of a moment ago unless ``fresh``; ``None`` if it cannot say.

        Looked at anew when a job that had a promise may have come since.
        """
        looked, ended = self._named
        if fresh or time.monotonic() > looked + _FRESH or ended != self._promises.ended:
            now, ended = time.monotonic(), self._promises.ended
            running = self._probe.running()
            self._names = None if running is None else frozenset(query.name for query in running)
            self._named = (now, ended)
        return self._names

    # -- observing and stopping

    def _active(self, session: str, name: str) -> Query | None:
        return next((query for query in self._client.active_queries(session) if query.name == name), None)

    def _observe(self, handle: Handle) -> tuple[JobState, str]:
        session, query = handle.engine_id, _query_of(handle)
        if not self._client.session_exists(session):
            return JobState.LOST, f"Spark Connect server {self.address} does not know the job's session"
        status = self._client.query_status(session, query)
        if status.active:
            starting = status.message.startswith(_STARTING)
            return JobState.STARTING if starting else JobState.RUNNING, query_says(status.message)
        failure = self._client.query_exception(session, query)
        if failure is not None:
            return JobState.FAILED, failure_line(failure)
        return JobState.STOPPED, status.message

    def _end_query(self, handle: Handle) -> None:
        session, query = handle.engine_id, _query_of(handle)
        try:
            if self._await_calm(session, query):
                self._client.stop_query(session, query)
        except ServerRefused as error:
            # Gone in between, or so long ended that Spark has forgotten it: there is nothing to stop.
            if _state_of_refusal(error) is not JobState.LOST:
                raise

    def _await_calm(self, session: str, query: Query) -> bool:
        """Wait until no batch is in hand, at most ``stop_grace`` seconds; False when the query has ended."""
        deadline, pause = time.monotonic() + self.stop_grace, 0.01
        while time.monotonic() < deadline:
            status = self._client.query_status(session, query)
            if not status.active:
                return False
            if not status.in_trigger or status.message.startswith(_CALM):
                return True
            time.sleep(pause)
            pause = min(pause * 1.5, 0.2)
        return True  # the batch is broken off, and comes again from the checkpoint


def _session_of(attempt: Attempt) -> str:
    return str(uuid.UUID(hex=attempt.id))


def _query_of(handle: Handle) -> Query:
    return Query(handle.details["query"], handle.details["run"], handle.details["job"])


def _state_of_refusal(error: ServerRefused) -> JobState:
    lost = error.of_session or "STREAMING_QUERY" in error.error_class
    return JobState.LOST if lost else JobState.UNKNOWN
