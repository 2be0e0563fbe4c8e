"""The program of a job's driver on a Spark standalone cluster, once its files are fetched: runs one query.

Runs beside :mod:`binders.spark.standalone.driver_bootstrap`, out of the bundle that the coordinator made.
If the query ends permanently (by the job's own error, a newer attempt, or a request), the driver exits with
code 0 and writes the reason to its status file; otherwise it exits with 1, and the master starts it again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from binders.spark.query.builder import rehearse, start_query
from binders.spark.query.progress import failure_line
from binders.spark.query.spec import QuerySpec
from binders.spark.query.text import is_between_batches, status_text
from binders.spark.query.user_code import JobFault, explain
from binders.spark.standalone.driver_control import listen
from binders.spark.standalone.lease import AttemptLease, OwnerUnknown

DONE, AGAIN = 0, 1  # exit codes: supervised drivers are started again after any but 0

_POLL = 1.0  # s, between polls of the query
_HEARTBEAT = 5.0  # s, between writes of the status file while nothing changes


class DriverStatus(Protocol):
    """See :class:`binders.spark.standalone.driver_bootstrap.DriverStatus`."""

    previous: dict[str, Any]

    def write(self, kind: str, message: str = "", **fields: object) -> None:
        """Replace the status."""


def run(
    submission: Mapping[str, Any], files: Mapping[str, Path], status: DriverStatus, driver_id: str
) -> int:
    """Run the query that the submission specifies, its rehearsal, or a probe; returns the exit code."""
    if "probe" in submission:
        return _probe(submission["probe"], str(files["connector"]), status)
    spec = QuerySpec(**{**submission["query"], "path": str(files["job"])})
    if spec.rehearsal:
        return _rehearse(spec, str(files["connector"]), status)
    try:
        SparkContext._ensure_initialized()
        fault = _start_fault(submission, spec, driver_id)
        if fault is not None:
            status.write(*fault)
            return DONE
        session = _session(str(files["connector"]))
        try:
            return Driver(session, spec, status).run(submission["stop_token"], submission["stop_grace"])
        finally:
            with contextlib.suppress(Py4JError, ConnectionError):  # the Java process has ended already
                session.stop()
    except (Py4JError, ConnectionError) as error:
        status.write("starting", f"the driver's Java process has ended: {explain(error, spec.path)}")
        return AGAIN
    except OwnerUnknown as error:
        status.write("starting", str(error))
        return AGAIN


def _probe(options: Mapping[str, str], connector: str, status: DriverStatus) -> int:
    """Run one task of the connector's probe, and write its figures to the status."""
    try:
        SparkContext._ensure_initialized()
        session = _session(connector)
        try:
            row = session.read.format("mqtt-probe").options(**options).load().collect()[0]
        finally:
            with contextlib.suppress(Py4JError, ConnectionError):
                session.stop()
        status.write("finished", figures=row.asDict())
    except Exception as error:  # whatever Spark raises becomes the outcome that the coordinator reads
        status.write("failed", failure_line(str(error)))
    return DONE


def _rehearse(spec: QuerySpec, connector: str, status: DriverStatus) -> int:
    """Build the query without starting it, and write the fault of its code, if any, to the status."""
    try:
        SparkContext._ensure_initialized()
        session = _session(connector)
    except (Py4JError, ConnectionError) as error:
        status.write("failed", f"the driver's Java process has ended: {explain(error, spec.path)}")
        return DONE
    status.write("building")
    try:
        rehearse(session, spec)
    except JobFault as fault:
        status.write("refused", str(fault))
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # a job's code may raise anything
        status.write("refused", explain(error, spec.path))
    else:
        status.write("finished")
    with contextlib.suppress(Py4JError, ConnectionError):
        session.stop()
    return DONE


def _start_fault(submission: Mapping[str, Any], spec: QuerySpec, driver_id: str) -> tuple[str, str] | None:
    """The final status if another driver has the lease of the attempt, or its state does not exist."""
    lease = AttemptLease(SparkContext._jvm, spec.checkpoint, submission["rest"], submission["rest_token"])
    other = lease.acquire(submission["attempt"], driver_id)
    if other is not None:
        return "gave_way", f"driver {other} runs this attempt"
    if submission["has_state"] and not lease.has_checkpoint():
        return "refused", f"its worker finds no checkpoint at {spec.checkpoint!r}"
    return None


def _session(connector: str) -> SparkSession:
    """A session whose driver and executors have the connector on their class path."""
    jvm: Any = SparkContext._jvm
    # As spark-submit does for --jars, which would have to be known before this program runs.  ADD JAR is not
    # enough: the driver deserializes results of the connector's tasks outside of any session.
    url = jvm.java.io.File(connector).toURI().toURL()
    jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(url)
    return SparkSession.builder.config("spark.jars", connector).getOrCreate()


class Driver:
    """One run of one job's query."""

    def __init__(self, session: SparkSession, spec: QuerySpec, status: DriverStatus) -> None:
        self._session, self._spec, self._status = session, spec, status
        self._stop = threading.Event()
        self._query: Any = None
        self._written_at = 0.0
        self._progress: str | None = None

    def run(self, stop_token: str, stop_grace: float) -> int:
        """Start the query and supervise it until it ends; returns the exit code."""
        fault = self._start()
        if fault is not None:
            return self._not_started(fault)
        control = listen(_host_of(self._session), stop_token, self._stop, self._physical_plan)
        self._report_running(running_since=time.time(), control=control)
        return self._supervise(stop_grace)

    def _start(self) -> str | None:
        """Start the query; returns the reason if it cannot be started, in one line."""
        self._status.write("building")
        try:
            self._query = start_query(self._session, self._spec)
        except JobFault as fault:
            return str(fault)
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # a job's code may raise anything
            return explain(error, self._spec.path)
        return None

    def _not_started(self, message: str) -> int:
        if self._status.previous.get("ran"):
            # The same code has run before, so the cause is outside of it, and may be transient.
            self._status.write("starting", message)
            return AGAIN
        self._status.write("refused", message)
        return DONE

    def _supervise(self, grace: float) -> int:
        while not self._stop.wait(_POLL):
            if not self._query.isActive:
                return self._ended()
            self._report_running()
        self._await_batch_end(grace)
        self._query.stop()
        self._status.write("stopped", "stopped on request", progress=self._last_progress())
        return DONE

    def _ended(self) -> int:
        failure = self._query.exception()
        if failure is None:
            self._status.write("finished", "the query ended on its own", progress=self._last_progress())
            return DONE
        thrown = self._query._jsq.exception().get()
        text = self._session._jvm.org.apache.spark.util.Utils.exceptionString(thrown)  # type: ignore[union-attr]
        self._status.write("failed", failure_line(text), progress=self._last_progress())
        return DONE

    def _report_running(self, **fields: object) -> None:
        progress, now = self._last_progress(), time.monotonic()
        if fields or progress != self._progress or now - self._written_at > _HEARTBEAT:
            self._progress, self._written_at = progress, now
            message = status_text(self._query.status["message"])
            self._status.write("running", message, ran=True, progress=progress, **fields)

    def _last_progress(self) -> str | None:
        report = self._query._jsq.lastProgress()
        return None if report is None else str(report.json())

    def _physical_plan(self) -> str:
        return str(self._query._jsq.explainInternal(False))

    def _await_batch_end(self, grace: float) -> None:
        """Wait for the end of the current batch; one that takes longer is aborted, and repeated later."""
        deadline = time.monotonic() + grace
        while self._query.isActive and time.monotonic() < deadline:
            status = self._query.status
            if is_between_batches(status["isTriggerActive"], status["message"]):
                return
            time.sleep(0.02)


def _host_of(session: SparkSession) -> str:
    """The address of this machine in the cluster."""
    return session.conf.get("spark.driver.host") or "127.0.0.1"
