"""What a job's driver does on a Spark standalone cluster, once its files are there: one query, to its end.

Runs beside :mod:`binders.spark.standalone.driver_bootstrap`, out of the bundle that the coordinator made.
What ends the query for good (the job's own error, a newer attempt, a request) ends the driver with exit code
0, and is told in its account; with anything else it ends otherwise, and the master starts it again.
"""

from __future__ import annotations

import contextlib
import hmac
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from binders.spark.query.builder import start_query
from binders.spark.query.progress import failure_line
from binders.spark.query.spec import QuerySpec
from binders.spark.query.text import query_says
from binders.spark.query.user_code import JobFault, explain
from binders.spark.standalone.lease import AttemptLease, OwnerUnknown

DONE, AGAIN = 0, 1  # exit codes: supervised drivers are started again after any but 0

_BEAT = 1.0  # s, between looks at the query
_SIGN_OF_LIFE = 5.0  # s, between accounts of a query that has nothing new to tell
_CALM = ("Getting offsets from", "Waiting for")  # of a query's status message: no batch is in hand


class DriverStatus(Protocol):
    """See :class:`binders.spark.standalone.driver_bootstrap.DriverStatus`."""

    before: dict[str, Any]

    def tell(self, kind: str, message: str = "", **more: object) -> None:
        """Tell this from now on."""


def run(parcel: Mapping[str, Any], files: Mapping[str, Path], account: DriverStatus, driver_id: str) -> int:
    """Run the query that the parcel orders; answers the exit code."""
    orders = QuerySpec(**{**parcel["orders"], "path": str(files["job"])})
    try:
        SparkContext._ensure_initialized()
        ended = _may_not_work(parcel, orders, driver_id)
        if ended is not None:
            account.tell(*ended)
            return DONE
        session = _session(str(files["connector"]))
        try:
            return Driver(session, orders, account).run(parcel["stop_token"], parcel["stop_grace"])
        finally:
            with contextlib.suppress(Py4JError, ConnectionError):  # Java has gone already
                session.stop()
    except (Py4JError, ConnectionError) as error:
        account.tell("starting", f"the driver's Java process has gone: {explain(error, orders.path)}")
        return AGAIN
    except OwnerUnknown as error:
        account.tell("starting", str(error))
        return AGAIN


def _may_not_work(parcel: Mapping[str, Any], orders: QuerySpec, driver_id: str) -> tuple[str, str] | None:
    """What to tell when the attempt is another driver's, or its state is not there."""
    claims = AttemptLease(SparkContext._jvm, orders.checkpoint, parcel["rest"], parcel["rest_token"])
    other = claims.take(parcel["attempt"], driver_id)
    if other is not None:
        return "gave_way", f"driver {other} runs this attempt"
    if parcel["has_state"] and not claims.has_checkpoint():
        return "refused", f"its worker finds no checkpoint at {orders.checkpoint!r}"
    return None


def _session(connector: str) -> SparkSession:
    """A session whose driver and executors have the connector on their class path."""
    jvm: Any = SparkContext._jvm
    # What spark-submit does with --jars, which it would want before this program runs.  ADD JAR is not
    # enough: the driver reads what the connector's tasks answer outside of any session.
    url = jvm.java.io.File(connector).toURI().toURL()
    jvm.java.lang.Thread.currentThread().getContextClassLoader().addURL(url)
    return SparkSession.builder.config("spark.jars", connector).getOrCreate()


class Driver:
    """One run of one job's query."""

    def __init__(self, session: SparkSession, orders: QuerySpec, account: DriverStatus) -> None:
        self._session, self._orders, self._account = session, orders, account
        self._stop = threading.Event()
        self._query: Any = None
        self._told_at = 0.0
        self._progress: str | None = None

    def run(self, stop_token: str, stop_grace: float) -> int:
        """Start the query and see to it until it ends; answers the exit code."""
        refusal = self._start()
        if refusal is not None:
            return self._refused(refusal)
        control = _listen(_host_of(self._session), stop_token, self._stop)
        self._running(running_since=time.time(), control=control)
        return self._follow(stop_grace)

    def _start(self) -> str | None:
        """Start the query; answers why it cannot be, in one line."""
        self._account.tell("building")
        try:
            self._query = start_query(self._session, self._orders)
        except JobFault as fault:
            return str(fault)
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # a job's code may raise anything
            return explain(error, self._orders.path)
        return None

    def _refused(self, message: str) -> int:
        if self._account.before.get("ran"):
            # The same code has run before, so it is something around it, which may pass.
            self._account.tell("starting", message)
            return AGAIN
        self._account.tell("refused", message)
        return DONE

    def _follow(self, grace: float) -> int:
        while not self._stop.wait(_BEAT):
            if not self._query.isActive:
                return self._ended()
            self._running()
        self._await_calm(grace)
        self._query.stop()
        self._account.tell("stopped", "stopped on request", progress=self._last_progress())
        return DONE

    def _ended(self) -> int:
        failure = self._query.exception()
        if failure is None:
            self._account.tell("finished", "the query ended by itself", progress=self._last_progress())
            return DONE
        thrown = self._query._jsq.exception().get()
        text = self._session._jvm.org.apache.spark.util.Utils.exceptionString(thrown)  # type: ignore[union-attr]
        self._account.tell("failed", failure_line(text), progress=self._last_progress())
        return DONE

    def _running(self, **more: object) -> None:
        progress, now = self._last_progress(), time.monotonic()
        if more or progress != self._progress or now - self._told_at > _SIGN_OF_LIFE:
            self._progress, self._told_at = progress, now
            message = query_says(self._query.status["message"])
            self._account.tell("running", message, ran=True, progress=progress, **more)

    def _last_progress(self) -> str | None:
        report = self._query._jsq.lastProgress()
        return None if report is None else str(report.json())

    def _await_calm(self, grace: float) -> None:
        """Wait until no batch is in hand; one that takes longer is broken off, and comes again."""
        deadline = time.monotonic() + grace
        while self._query.isActive and time.monotonic() < deadline:
            status = self._query.status
            if not status["isTriggerActive"] or status["message"].startswith(_CALM):
                return
            time.sleep(0.02)


def _host_of(session: SparkSession) -> str:
    """The address by which the cluster knows this machine."""
    return session.conf.get("spark.driver.host") or "127.0.0.1"


def _listen(host: str, token: str, stop: threading.Event) -> str:
    """Take requests to stop; answers the URL for them, empty when there is no listening on this address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = self.headers.get("Authorization", "").encode("utf-8", "replace")
            allowed = hmac.compare_digest(given, f"Bearer {token}".encode())
            if allowed:
                stop.set()
            self.send_response(202 if allowed else 403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a port is looked at by more than us."""

    try:
        server = ThreadingHTTPServer((host, 0), Handler)
    except OSError:
        return ""
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="control", daemon=True).start()
    return f"http://{host}:{server.server_address[1]}"
