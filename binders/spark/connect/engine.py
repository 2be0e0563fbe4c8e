"""The binder for Spark Connect: one job is one streaming query in a session of its own.

The session's id is the attempt's, so that the attempt alone identifies its query.  A session outlives its
clients, and ends when the job is stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from binders.common.named_locks import NamedLocks
from binders.spark.connect.batch_end import BatchEnd
from binders.spark.connect.checkpoint_transfer import CheckpointFiles
from binders.spark.connect.grpc_client import ConnectClient, Query, ServerRefused, endpoint_of
from binders.spark.connect.healthcheck import connect_checkup
from binders.spark.connect.launch_errors import BUILD, START, launch_error
from binders.spark.connect.launcher import SHARED
from binders.spark.connect.measurements import Measurements
from binders.spark.connect.probe import ServerProbe
from binders.spark.connect.python_check import check_python
from binders.spark.connect.real_time import RealTimeRoom
from binders.spark.connect.rehearsals import Rehearsals
from binders.spark.connect.running import RunningQueries
from binders.spark.connect.slots import Slots
from binders.spark.connect.specification import query_spec, session_of
from binders.spark.query import plan
from binders.spark.query.code_check import check_code, may_have_several_sources
from binders.spark.query.history import BatchHistory
from binders.spark.query.marks import Marks
from binders.spark.query.options import STATE_KIND, checkpoint_of, checkpoints_of
from binders.spark.query.progress import failure_line, metrics_of, report_line
from binders.spark.query.spec import CHECKPOINT_SETTING, QUERY_SETTING, RUN_SETTING, ConnectQuerySpec
from binders.spark.query.text import status_text
from speck.binder import EngineBinder, StateFiles
from speck.core.engine_plan import EnginePlan
from speck.core.inventory import Inventory
from speck.core.job import Job, job_title
from speck.core.profile import CoreProbe, JobSample, LinkProbe
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
from speck.core.trigger import REAL_TIME
from speck.errors import BinderError, NoCapacity, OutcomeUnknown, Rejected, StateLost, Unreachable

if TYPE_CHECKING:
    from binders.spark.connect.processor import ServerProcess

BUILD_TIMEOUT = 60.0  # s, for a job's code and the analysis of its DataFrame
FIND_PATIENCE = 10.0  # s, for a query that another launch of the same attempt starts
STOP_GRACE = 30.0  # s, for the current batch

_WAITING = ("Waiting for data",)  # beginnings of a query's status message
_STARTING = ("Initializing",)


class ConnectEngine(EngineBinder):
    """The engine at one ``sc://HOST:PORT``.  See :class:`speck.binder.EngineBinder` for the methods."""

    log_about = (
        "Spark Connect provides no log: these are the query's last progress reports, its status, and the "
        "failure that ended it; what the job's functions print and log is in the server's own output, of "
        "all jobs together (docs/spark-jobs.md, Output of the code)"
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
        self._rehearsals = Rehearsals(self._client, self._launcher)
        self._closed = False
        self._probe = ServerProbe(address, self._client)
        self._files = CheckpointFiles(address, self._client, self._probe, checkpoints_of(self._known))
        self._running = RunningQueries(address, self._probe)
        self._slots = Slots(address, self._known.slots, self._probe)
        self._real_time = RealTimeRoom(address, self._client, self._probe)
        self._batch_end = BatchEnd(self._client, self._probe)
        self._measurements = Measurements(self._client, self._probe, inventory)
        self._batches = BatchHistory()
        self._cores: int | None = None  # of the server, once it was profiled
        self._locks = NamedLocks()  # of attempts

    # -- the contract

    def check(self, job: Job, state: State | None) -> None:
        """Check the server's version, its connector, the code, the state, and a free slot; starts nothing.

        Raises :class:`~speck.errors.NoCapacity` when the site's slots are used by other jobs, or reserved for
        them.  A job with Python functions is rejected if the server has another version of Python, or not the
        packages that these functions import.
        """
        self._launcher.warm_up()
        self._probe.check_version()
        self._probe.check_connector(job)
        self._check_code(job)
        check_python(job, self._probe, self._rehearse)
        if state is not None:
            self._check_state(state, job)
        self._check_real_time(job)
        self._slots.reserve(job.job_name)

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        """Start the job's query in the attempt's session.

        Raises :class:`~speck.errors.Rejected` when the job's code fails or Spark rejects it, in which case
        nothing runs, and :class:`~speck.errors.OutcomeUnknown` when the query may or may not run.
        """
        try:
            with self._locks.of(attempt.id):
                handle = self.find(attempt) or self._launch(job, attempt)
            marks = Marks.of(job, attempt, handle.details["checkpoint"])
            self._running.mark(handle.details["run"], marks)
            return handle
        finally:
            self._slots.release(job.job_name)
            self._real_time.release(job.job_name)

    def find(self, attempt: Attempt) -> Handle | None:
        """The query of the attempt, also one that has failed; queries the attempt's session only."""
        session = session_of(attempt)
        if not self._client.session_exists(session):
            return None
        names = [QUERY_SETTING, RUN_SETTING, CHECKPOINT_SETTING]
        stored = self._client.settings(session, names)
        query = self._active(session, attempt.job_name)
        if query is None and QUERY_SETTING in stored and RUN_SETTING in stored:
            query = Query(stored[QUERY_SETTING], stored[RUN_SETTING])
        if query is None:
            return None
        checkpoint = stored.get(CHECKPOINT_SETTING) or checkpoint_of(attempt, self._known)
        return self._handle(attempt, query, checkpoint)

    def status(self, handle: Handle) -> JobStatus:
        """The status of the query; LOST when the server does not know the session or the query."""
        try:
            state, message = self._observe(handle)
        except (Unreachable, OutcomeUnknown) as error:
            state, message = JobState.UNKNOWN, str(error)
        except ServerRefused as error:
            state, message = JobState.LOST if error.of_query else JobState.UNKNOWN, str(error)
        return JobStatus(state, time.time(), message)

    def statuses(self, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        """The statuses of many jobs by ``engine_id``.

        One request if the server can list its queries, and three more for each job that does not run.  The
        list costs as much as nine jobs queried one by one, but those add up on a busy machine.  It has no
        words on a query that runs: one job has none either, of which an agent would report each as a change.
        """
        jobs = list(handles)
        try:
            running = self._probe.running() if len(jobs) > 1 else None
        except BinderError as error:
            unknown = JobStatus(JobState.UNKNOWN, time.time(), str(error))
            return {each.engine_id: unknown for each in jobs}
        runs, now = {query.run_id for query in running or ()}, time.time()
        is_running = JobStatus(JobState.RUNNING, now)
        return {
            each.engine_id: is_running if _query_of(each).run_id in runs else _as_listed(self.status(each))
            for each in jobs
        }

    def running(self) -> list[Found]:
        """The queries of all sessions; see :meth:`RunningQueries.list`."""
        return self._running.list()

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        """Wait for the end of the current batch (``stop_grace`` seconds), stop the query, end its session.

        The state is the query's checkpoint, which Spark makes when a query starts.  Raises
        :class:`~speck.errors.StateLost` if it is not there; the query is not stopped in that case.
        """
        if keep_state:
            self._check_checkpoint(handle)
        if self._client.session_exists(handle.engine_id):
            self._end_query(handle)
            self._client.release(handle.engine_id)
        self._batches.forget(handle.details["run"])
        self._running.forget(handle.details["run"])
        return State(STATE_KIND, handle.details["checkpoint"]) if keep_state else None

    def _check_checkpoint(self, handle: Handle) -> None:
        location = handle.details["checkpoint"]
        if not self._probe.has_checkpoint(location):
            raise StateLost(
                f"job {handle.details['job']!r}: its checkpoint at {location!r} is gone, as far as "
                f"{self.address} sees (put it back, let the server see it, or write 'upgrade: stateless' to "
                "start without it)",
                address=self.address,
            )

    def left_state(self, handle: Handle) -> State | None:
        """The query's checkpoint; the engine that is to read it must check that it can."""
        return State(STATE_KIND, handle.details["checkpoint"])

    def metrics(self, handle: Handle) -> JobMetrics:
        """The metrics of the last progress report.  Raises :class:`~speck.errors.Rejected` for a lost job."""
        report = self._client.last_progress(handle.engine_id, _query_of(handle))
        self._batches.note(handle.details["run"], report)
        return metrics_of(report, time.time())

    def profile(self, handles: Iterable[Handle]) -> dict[str, JobSample | BinderError]:
        """The counts of many jobs by ``engine_id``: one request each, or none if their metrics are recent.

        Their state is the memory that Spark uses for it; processor time is known of a server on this machine.
        Raises as :meth:`metrics` if the server does not answer.
        """
        samples, failed, worked = dict[str, JobSample](), dict[str, BinderError](), dict[str, float]()
        for handle in handles:
            try:
                samples[handle.engine_id] = self._profiled(handle)
                worked[handle.engine_id] = self._batches.worked(handle.details["run"])
            except (Unreachable, OutcomeUnknown):
                raise
            except BinderError as error:
                self._batches.forget(handle.details.get("run", ""))
                failed[handle.engine_id] = error
        return {**failed, **self._process.shared(samples, worked)}

    @cached_property
    def _process(self) -> ServerProcess:
        # Imported once jobs are profiled: psutil takes 0.8 MB of an agent.
        from binders.spark.connect.processor import ServerProcess

        return ServerProcess(self.address, self._client, self._probe)

    def _profiled(self, handle: Handle) -> JobSample:
        session, query = handle.engine_id, _query_of(handle)
        if self._cores is None:
            self._cores = self._probe.cores()
        return self._batches.sample(
            query.run_id,
            session,
            lambda: self._client.last_progress(session, query),
            lambda: self._client.recent_progress(session, query),
            self._cores,
        )

    def probe_link(self, broker: str) -> LinkProbe:
        """See :class:`~binders.spark.connect.measurements.Measurements`."""
        self._refuse_without_slot()
        return self._measurements.link(broker)

    def reach(self, broker: str) -> float:
        """See :class:`~binders.spark.connect.measurements.Measurements`."""
        self._refuse_without_slot()
        return self._measurements.reach(broker)

    def probe_core(self) -> CoreProbe:
        """See :class:`~binders.spark.connect.measurements.Measurements`."""
        self._refuse_without_slot()
        return self._measurements.core()

    def _refuse_without_slot(self) -> None:
        found = self.capacity()
        if found.slots_free == 0:
            raise NoCapacity(
                f"{self.address} has no room for a probe: {found.slots} slots in use", address=self.address
            )

    def has_worked(self, handle: Handle) -> bool:
        """True if the query has completed a batch, or waits for data."""
        session, query = handle.engine_id, _query_of(handle)
        if self._client.query_status(session, query).message.startswith(_WAITING):
            return True
        return self._client.last_progress(session, query) is not None

    def capacity(self) -> Capacity:
        """The capacity according to the inventory and the server.

        ``slots`` and ``memory`` are the inventory's where it has them, or else ``memory`` is the limit of the
        heap of the server's driver.  ``cores`` is Spark's default parallelism.  ``slots_free`` is known if
        the server runs its queries in its own process (a local master).  ``memory_free`` is unknown.
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
        """A line for each reported batch, then the query's status, then its failure with all causes."""
        session, query = handle.engine_id, _query_of(handle)
        status = self._client.query_status(session, query)
        tail = [report_line(each) for each in self._client.recent_progress(session, query)]
        tail.append(f"{'active' if status.active else 'ended'}: {status_text(status.message)}")
        if not status.active:
            tail += (self._client.query_exception(session, query) or "").splitlines()
        return tail[-lines:]

    def engine_plan(self, handle: Handle) -> EnginePlan:
        """The physical plan of the query's last batch; see :mod:`binders.spark.query.plan`."""
        session, query = handle.engine_id, _query_of(handle)
        text = self._client.physical_plan(session, query)
        return plan.engine_plan(text, plan.source_partitions(self._client.last_progress(session, query)))

    def checkup(self) -> Checkup:
        """See :func:`binders.spark.connect.healthcheck.connect_checkup`."""
        return connect_checkup(self._client, self._probe)

    # -- state for other engines (Capability.TRANSFER)

    def state_of(self, handle: Handle) -> State | None:
        """The query's checkpoint."""
        return State(STATE_KIND, handle.details["checkpoint"])

    def state_fault(self, state: State) -> str | None:
        """The reason why no query can resume from the state here; ``None`` if its checkpoint is visible."""
        if state.kind != STATE_KIND:
            return f"state of kind {state.kind!r} is not Spark's (expected {STATE_KIND})"
        if not self._probe.has_checkpoint(state.location):
            return f"{self.address} finds no checkpoint at {state.location!r}"
        return None

    def resumption_fault(self, job: Job, state: State) -> str | None:
        """The fault of a form that reads its messages more or less often than the one of the checkpoint.

        Spark asserts that a query has as many sources as the offsets of its last batch (``OffsetSeq``); a
        union or a join of the messages with themselves has two.
        """
        before = self._files.sources(state.location)
        if before is None or (before == 1 and not may_have_several_sources(Path(job.job_path))):
            return None
        now = int(self._rehearse(job).get("sources", before))
        if now == before:
            return None
        return (
            f"{job.entry_class} of {Path(job.job_path).name} reads its messages {_times(now)} (a union or a "
            "join of them with themselves counts twice), its checkpoint is of a form that read them "
            f"{_times(before)}: Spark cannot continue from it (write 'upgrade: stateless' to start without "
            "the state, or keep the number)"
        )

    def state_size(self, state: State) -> int:
        """The size of the checkpoint's files that a query needs (bytes)."""
        return self._files.size(state.location)

    def read_state(self, state: State) -> StateFiles:
        """The checkpoint's files that a query needs, without old batches."""
        return self._files.read(state.location)

    def state_place(self, job_name: str, name: str) -> State:
        """A folder of this name, beside the job's other checkpoints."""
        return State(STATE_KIND, self._files.location(job_name, name), self.address)

    def check_state_place(self, job_name: str) -> None:
        """Write a small file to the checkpoint directory."""
        self._files.check_writable()

    def write_state(self, state: State, snapshot: StateFiles) -> None:
        """Write the files of a checkpoint, and verify them by the server's hashes."""
        self._files.write(state.location, snapshot)

    def delete_state(self, state: State) -> None:
        """Delete the checkpoint's folder."""
        self._files.delete(state.location)

    def close(self) -> None:
        """Close the channel and release the launcher; sessions and queries stay."""
        if not self._closed:
            self._closed = True
            self._client.close()
            SHARED.release()

    # -- starting

    def _launch(self, job: Job, attempt: Attempt) -> Handle:
        spec = self._query_spec(job, attempt)
        answer = self._launcher.launch(spec.to_json(), self.build_timeout)
        if answer["kind"] == "started":
            return self._handle(attempt, Query(answer["query"], answer["run"]), spec.checkpoint)
        found = self._await_found(attempt) if answer["kind"] in ("exists", "no_answer") else None
        if found is None:
            raise self._start_error(job, spec.session, answer)
        return found

    def _await_found(self, attempt: Attempt) -> Handle | None:
        """The query that another launch of the same attempt has started or is about to start."""
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

    def _start_error(self, job: Job, session: str, answer: Mapping[str, str]) -> BinderError:
        # Ending the session also ends a query that the launch may have started.
        try:
            self._client.release(session)
        except (Unreachable, OutcomeUnknown) as error:
            answer = {"kind": "no_answer", "message": f"{answer.get('message', '')} ({error})"}
        return launch_error(job, START, answer, self.address, self.build_timeout)

    def _query_spec(self, job: Job, attempt: Attempt) -> ConnectQuerySpec:
        return query_spec(job, attempt, self.address, self._endpoint, self._inventory)

    def _handle(self, attempt: Attempt, query: Query, checkpoint: str) -> Handle:
        details = {
            "job": attempt.job_name,
            "query": query.id,
            "run": query.run_id,
            "checkpoint": checkpoint,
        }
        return Handle(self.address, session_of(attempt), details)

    # -- before the start

    def _check_real_time(self, job: Job) -> None:
        if job.trigger == REAL_TIME:
            self.build_job(job)
            self._real_time.reserve(job)

    def _rehearse(self, job: Job) -> dict[str, str]:
        """Run the job's code up to its plan, in a temporary session; returns the launcher's answer."""
        return self._rehearsals.run(job, self._query_spec, self.build_timeout)

    def build_job(self, job: Job) -> None:
        """Run the job's code up to its plan, which the server analyses, in a temporary session."""
        self._check_code(job)
        answer = self._rehearse(job)
        if answer["kind"] != "rehearsed":
            raise launch_error(job, BUILD, answer, self.address, self.build_timeout)

    def _check_state(self, state: State, job: Job) -> None:
        fault = self.state_fault(state)
        if fault is not None:
            advice = "expected checkpoint_dir of the sites to be visible to all of them"
            raise Rejected(f"job {job.job_name!r}: {fault} ({advice})", address=self.address)

    def _check_code(self, job: Job) -> None:
        fault = check_code(Path(job.job_path), job.entry_class)
        if fault is not None:
            raise Rejected(f"{job_title(job)} {START.rejected} {self.address}: {fault}", address=self.address)

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
            return JobState.STARTING if starting else JobState.RUNNING, status_text(status.message)
        failure = self._client.query_exception(session, query)
        if failure is not None:
            return JobState.FAILED, failure_line(failure)
        return JobState.STOPPED, status.message

    def _end_query(self, handle: Handle) -> None:
        session, query = handle.engine_id, _query_of(handle)
        try:
            if self._batch_end.wait(session, query, self.stop_grace):
                self._client.stop_query(session, query)
        except ServerRefused as error:
            # It ended in between, or Spark has forgotten it: there is nothing to stop.
            if not error.of_query:
                raise


def _as_listed(status: JobStatus) -> JobStatus:
    return replace(status, message="") if status.state is JobState.RUNNING else status


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _query_of(handle: Handle) -> Query:
    return Query(handle.details["query"], handle.details["run"], handle.details["job"])
