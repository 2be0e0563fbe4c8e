"""Client of Flink's REST interface, one method a request; translates its errors into SpecK's.

An answer that is not Flink's (a proxy's error page, another program) counts as no answer: the outcome of the
request is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from urllib3 import encode_multipart_formdata

from binders.common.tls_errors import explain_tls_error, find_tls_error
from binders.flink.rest import validation
from binders.flink.rest.connections import Connections, to_json
from binders.flink.rest.overviews import JobLine, Overview
from binders.flink.rest.stack_trace import root_cause
from binders.flink.rest.validation import Aggregate, text
from speck.binder.bounded_http import CUT, FAILURE, LATE, NEVER_SENT, TLS, Answer, TooLarge
from speck.core.foreign_text import one_line
from speck.core.inventory import Login
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable

QUICK = 30.0  # s, for an answer that Flink has in memory
SLOW = 120.0  # s, for running a job's main method, and for a file
SLOWEST = 128 << 10  # bytes/s; the slowest link over which a jar is uploaded

MAX_LOG = 4 << 20  # bytes of a log's end that are retained
MAX_DOWNLOAD = 256 << 20  # bytes

# Of a request that may be sent again: time-out, too early, too many.
_UNDECIDED = frozenset({408, 425, 429})
_UNKNOWN_JOB = "FlinkJobNotFoundException"
_NOT_READY = "UnavailableDispatcherOperationException"
_AVAILABILITY = ("high-availability.type", "high-availability")
_HINT = "is it a JobManager's REST address?"


class FlinkRefused(Rejected):
    """Flink answered with an error; ``trace`` is its full text, up to some kilobytes."""

    def __init__(self, message: str, *, address: str, status: int, trace: str) -> None:
        super().__init__(message, address=address)
        self.status = status
        self.trace = trace

    @property
    def of_unknown_job(self) -> bool:
        """True if Flink does not know the requested job."""
        return _UNKNOWN_JOB in self.trace or (self.status == 404 and "not found" in self.trace.lower())

    @property
    def of_initializing_job(self) -> bool:
        """True if the requested job is initializing, and Flink cannot report on it yet."""
        return _NOT_READY in self.trace


class NotReady(OutcomeUnknown):
    """The requested job is initializing, and Flink cannot report on it yet."""


class FlinkRest:
    """The REST interface at an address such as ``http://HOST:8081/``; thread-safe.

    Raises :class:`~speck.errors.Unreachable` when there is no connection,
    :class:`~speck.errors.OutcomeUnknown` without an answer of Flink's, and :class:`FlinkRefused`.
    """

    def __init__(self, address: str, login: Login = Login()) -> None:  # noqa: B008 - frozen
        self.address = address
        self.quick, self.slow = QUICK, SLOW
        self._login = login
        self._connections = Connections(address, login)
        self._answered = False

    # -- the cluster

    def overview(self) -> Overview:
        """Version and slots."""
        with self._validated("/overview"):
            found = self._get("/overview")
            return Overview(
                text(found["flink-version"]), int(found["slots-total"]), int(found["slots-available"])
            )

    def settings(self) -> dict[str, str]:
        """The settings of the cluster; Flink masks the values of secrets."""
        with self._validated("/jobmanager/config"):
            return {text(each["key"]): str(each["value"]) for each in self._get("/jobmanager/config")}

    def process(self) -> str:
        """An identifier of the JobManager process that answers; empty if it cannot be identified.

        Flink makes a folder of a random name for its web server at each start.  With high availability,
        another JobManager than the one that received a request may answer while that one still runs.
        """
        settings = self.settings()
        available = any(settings.get(key, "NONE").upper() != "NONE" for key in _AVAILABILITY)
        folder = settings.get("web.tmpdir", "").replace("\\", "/").rpartition("/")[2]
        return folder if folder.startswith("flink-web-") and not available else ""

    def refresh_interval(self) -> float:
        """The age that Flink's statistics of checkpoints may have, s."""
        with self._validated("/config"):
            return float(self._get("/config")["refresh-interval"]) / 1000

    def task_managers(self) -> list[dict[str, Any]]:
        """The TaskManagers with their hardware and memory."""
        with self._validated("/taskmanagers"):
            return validation.managers(self._get("/taskmanagers")["taskmanagers"])

    def workers_processor_time(self) -> float | None:
        """The processor time (s) that all TaskManagers have taken since their start, as last fetched."""
        answer = self._get("/taskmanagers/metrics?get=Status.JVM.CPU.Time&agg=sum,min,max")
        with self._validated("/taskmanagers/metrics"):
            found = validation.aggregates(answer).get("Status.JVM.CPU.Time")
        return found.sum / 1e9 if found is not None else None

    def processor_time(self, manager: str) -> float | None:
        """The processor time (s) of one TaskManager since its start; ``None`` if it is not known (yet)."""
        path = f"/taskmanagers/{quote(manager, safe='')}/metrics"
        try:
            answer = self._get(f"{path}?get=Status.JVM.CPU.Time")
        except FlinkRefused:  # it has gone since it was listed
            return None
        with self._validated(path):
            found = [validation.number(float(each["value"])) for each in answer]
        return found[0] / 1e9 if found else None

    # -- jars

    def jars(self) -> dict[str, str]:
        """The names of the uploaded jars, by id."""
        try:
            answer = self._get("/jars")
        except FlinkRefused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            reason = "web.submit.enable is false, or it is no session cluster"
            raise Rejected(
                f"{self.address} accepts no jobs over REST: {reason}", address=self.address
            ) from error
        with self._validated("/jars"):
            return {text(each["id"]): text(each["name"]) for each in answer["files"]}

    def upload(self, content: Path | bytes, name: str) -> str:
        """Upload a file, or bytes, as a jar of this name (``*.jar``); return its id."""
        try:
            archive = content if isinstance(content, bytes) else content.read_bytes()
        except OSError as error:
            raise Rejected(f"{content!s} cannot be read: {error.strerror}", address=self.address) from error
        part = {"jarfile": (name, archive, "application/java-archive")}
        seconds = self.slow + len(archive) / SLOWEST
        answer = self._ask("POST", "/jars/upload", *encode_multipart_formdata(part), timeout=seconds)
        with self._validated("/jars/upload"):
            return str(answer["filename"]).replace("\\", "/").rpartition("/")[2]

    def delete_jar(self, jar: str) -> None:
        """Delete a jar; Flink answers with an error if there is none."""
        self._ask("DELETE", f"/jars/{jar}")

    def run(self, jar: str, body: Mapping[str, Any]) -> str:
        """Run a jar's main method, which starts one job; return the job's id."""
        answer = self._ask("POST", f"/jars/{jar}/run", *to_json(body), timeout=self.slow)
        with self._validated("/jars/:id/run"):
            return text(answer["jobid"])

    def plan(self, jar: str, body: Mapping[str, Any]) -> None:
        """Run a jar's main method without starting a job."""
        self._ask("POST", f"/jars/{jar}/plan", *to_json(body), timeout=self.slow)

    # -- jobs

    def jobs(self) -> dict[str, JobLine]:
        """All jobs that the cluster knows, by id: one request for any number."""
        with self._validated("/jobs/overview"):
            return {each["jid"]: _line(each) for each in self._get("/jobs/overview")["jobs"]}

    def job_state(self, job: str) -> str | None:
        """The state of one job in Flink's terms; ``None`` if the cluster does not know it."""
        answer = self._get_of_job(job, "/status")
        if answer is None:
            return None
        with self._validated("/jobs/:id/status"):
            return text(answer["status"])

    def job_parameters(self, job: str) -> dict[str, str]:
        """The global parameters of a job; empty if the cluster does not know it."""
        answer = self._get_of_job(job, "/config") or {}
        with self._validated("/jobs/:id/config"):
            return validation.parameters(answer)

    def job_details(self, job: str) -> dict[str, Any] | None:
        """The job with its vertices and its plan; up to some seconds old."""
        answer = self._get_of_job(job, "")
        with self._validated("/jobs/:id"):
            return None if answer is None else validation.details(answer)

    def checkpoints(self, job: str) -> dict[str, Any] | None:
        """The statistics of a job's checkpoints and savepoints, as old as :meth:`refresh_interval`."""
        answer = self._get_of_job(job, "/checkpoints")
        with self._validated("/jobs/:id/checkpoints"):
            return None if answer is None else validation.statistics(answer)

    def accumulators(self, job: str) -> dict[str, str]:
        """The results that the tasks of a job have reported, as text, by name."""
        answer = self._get_of_job(job, "/accumulators") or {}
        with self._validated("/jobs/:id/accumulators"):
            return {text(each["name"]): text(each["value"]) for each in answer["user-task-accumulators"]}

    def root_exception(self, job: str) -> str:
        """The stack trace of the job's last failure; empty if there was none."""
        with self._validated("/jobs/:id/exceptions"):
            answer = self._get_of_job(job, "/exceptions?maxExceptions=1") or {}
            entries = validation.failures(answer)
            return str(entries[0]["stacktrace"]) if entries else str(answer.get("root-exception") or "")

    def failures(self, job: str, limit: int) -> list[dict[str, Any]]:
        """The last failures of a job, newest first (``timestamp``, ms; ``stacktrace``, ``taskName``)."""
        with self._validated("/jobs/:id/exceptions"):
            answer = self._get_of_job(job, f"/exceptions?maxExceptions={limit}") or {}
            return validation.failures(answer)

    def task_managers_of(self, job: str, vertex: str) -> set[str]:
        """The ids of the TaskManagers that run a vertex, or ran it last."""
        answer = self._get_of_job(job, f"/vertices/{vertex}") or {}
        with self._validated("/jobs/:id/vertices/:id"):
            ids = {str(each.get("taskmanager-id", "")) for each in answer.get("subtasks", [])}
            return ids - {"", "(unassigned)"}

    def log_end(self, path: str) -> str:
        """The end of a log file, up to ``MAX_LOG`` bytes; Flink answers with an error if there is none.

        Flink sends the whole file; the download of one of more than ``MAX_DOWNLOAD`` bytes is aborted.
        """
        try:
            answer = self._connections.request("GET", path, self.slow, most=MAX_DOWNLOAD, tail=MAX_LOG)
        except TooLarge as error:
            raise Rejected(f"{self.address}{path} is too large", address=self.address) from error
        except FAILURE as error:
            raise self._unanswered(error, self.slow) from error
        if not _is_ok(answer) or "json" in answer.headers.get("Content-Type", ""):
            self._read(answer)
            raise self._unexpected(path)
        return answer.text

    def vertex_values(self, job: str, vertex: str, names: str) -> dict[str, Aggregate]:
        """Metrics (names with commas) over a vertex's subtasks, as far as they are known yet."""
        answer = self._get(f"/jobs/{job}/vertices/{vertex}/subtasks/metrics?get={names}&agg=sum,min,max")
        with self._validated("/subtasks/metrics"):
            return validation.aggregates(answer)

    def vertex_metrics(self, job: str, vertex: str) -> list[str]:
        """The names of a vertex's metrics."""
        with self._validated("/subtasks/metrics"):
            metrics = self._get(f"/jobs/{job}/vertices/{vertex}/subtasks/metrics")
            return [text(each["id"]) for each in metrics]

    def first_value(self, job: str, vertex: str, name: str) -> str:
        """The value of a metric of a vertex's first subtask, as text; empty while it is not known."""
        answer = self._get(f"/jobs/{job}/vertices/{vertex}/metrics?get=0.{name}")
        with self._validated("/vertices/:id/metrics"):
            return next((text(each["value"]) for each in answer if each["value"] is not None), "")

    def cancel(self, job: str) -> None:
        """Request the cancellation of a job."""
        self._ask("PATCH", f"/jobs/{job}?mode=cancel")

    def stop(self, job: str, directory: str, trigger: str) -> None:
        """Request a savepoint and the end of a job; idempotent in the trigger id."""
        body = {
            "targetDirectory": directory,
            "drain": False,
            "formatType": "CANONICAL",
            "triggerId": trigger,
        }
        self._ask("POST", f"/jobs/{job}/stop", *to_json(body))

    def savepoint(self, job: str, trigger: str) -> dict[str, Any] | None:
        """The outcome of :meth:`stop`: ``location`` or ``failure-cause``; ``None`` while in progress."""
        answer = self._get(f"/jobs/{job}/savepoints/{trigger}")
        with self._validated("/jobs/:id/savepoints/:trigger"):
            return dict(answer["operation"]) if answer["status"]["id"] == "COMPLETED" else None

    def trigger_checkpoint(self, job: str, trigger: str) -> None:
        """Request a checkpoint of a job, of its configured kind; idempotent in the trigger id."""
        body = {"checkpointType": "CONFIGURED", "triggerId": trigger}
        self._ask("POST", f"/jobs/{job}/checkpoints", *to_json(body))

    def triggered_checkpoint(self, job: str, trigger: str) -> bool | None:
        """True if the requested checkpoint is complete, false if it failed; ``None`` while in progress."""
        answer = self._get(f"/jobs/{job}/checkpoints/{trigger}")
        with self._validated("/jobs/:id/checkpoints/:trigger"):
            if answer["status"]["id"] != "COMPLETED":
                return None
            return answer["operation"].get("checkpointId") is not None

    def dispose(self, location: str) -> str:
        """Request the deletion of a savepoint or checkpoint; return the request's id."""
        answer = self._ask("POST", "/savepoint-disposal", *to_json({"savepoint-path": location}))
        with self._validated("/savepoint-disposal"):
            return str(answer["request-id"])

    def disposal(self, request: str) -> str | None:
        """The failure of :meth:`dispose` (a stack trace, or empty); ``None`` while in progress."""
        answer = self._get(f"/savepoint-disposal/{request}")
        with self._validated("/savepoint-disposal/:request"):
            if answer["status"]["id"] != "COMPLETED":
                return None
            return str((answer["operation"].get("failure-cause") or {}).get("stack-trace", ""))

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    # -- requests and errors

    def _get(self, path: str) -> Any:
        try:
            return self._ask("GET", path)
        except OutcomeUnknown as error:
            if not isinstance(error.__cause__, CUT):
                raise
            # A pooled connection may have been closed in the meantime; a GET is safe to repeat.
            return self._ask("GET", path)

    def _get_of_job(self, job: str, path: str) -> dict[str, Any] | None:
        try:
            answer = self._get(f"/jobs/{job}{path}")
        except FlinkRefused as error:
            if error.of_unknown_job:
                return None
            if error.of_initializing_job:
                raise NotReady(f"{error} (try again)", address=self.address) from error
            raise
        if not isinstance(answer, dict):
            raise self._unexpected(f"/jobs/:id{path}")
        return answer

    def _ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = "", timeout: float | None = None
    ) -> Any:
        timeout = self.quick if timeout is None else timeout
        try:
            response = self._connections.request(method, path, timeout, body, kind)
        except FAILURE as error:
            raise self._unanswered(error, timeout) from error
        return self._read(response)

    def _read(self, response: Answer) -> Any:
        try:
            body = json.loads(response.body)
        except (ValueError, RecursionError) as error:
            body = None
            cause: Exception | None = error
        else:
            cause = None
        if _is_ok(response) and cause is None:
            self._answered = True
            return body
        if response.status in (401, 403):
            raise Rejected(
                f"{self.address} rejects the login (HTTP {response.status}; expected engine_login "
                "of the site with a username and password, or a token, that are valid there)",
                address=self.address,
            )
        errors = body.get("errors") if isinstance(body, dict) else None
        if not isinstance(errors, list) or response.status in (502, 503, 504):
            if 300 <= response.status < 500 and response.status not in _UNDECIDED:
                raise self._foreign_refusal(response) from cause
            raise self._unexpected(f"HTTP {response.status}") from cause
        trace = "\n".join(str(each) for each in errors)
        raise FlinkRefused(
            f"{self.address}: {root_cause(trace)}",
            address=self.address,
            status=response.status,
            trace=trace,
        )

    @contextmanager
    def _validated(self, what: str) -> Iterator[None]:
        try:
            yield
        except validation.MALFORMED as error:
            raise self._unexpected(what) from error

    def _foreign_refusal(self, response: Answer) -> Rejected:
        """The refusal of a proxy, or of another program, which has passed nothing on to a Flink."""
        status, location = response.status, response.headers.get("Location", "")
        secrets = self._connections.secrets()
        said = "" if any(each in response.text for each in secrets) else one_line(response.text)
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            expected = (
                "a larger client_max_body_size of the proxy, or rest.server.max-content-length of Flink"
            )
        elif status < HTTPStatus.BAD_REQUEST and location:
            expected = f"the address that it redirects to, {one_line(location)}, if that is a Flink"
        else:
            expected = "a JobManager's REST address"
        text = f"HTTP {status}{f': {said}' if said else ''}"
        message = f"{self.address} refuses the request ({text}; expected {expected})"
        return Rejected(message, address=self.address)

    def _unexpected(self, what: str) -> OutcomeUnknown:
        message = f"{self.address} gave an answer that is not Flink's ({what}; {_HINT})"
        return OutcomeUnknown(message, address=self.address)

    def _unanswered(self, error: Exception, timeout: float) -> BinderError:
        why = _innermost(error)
        fault = find_tls_error(error)
        if fault is not None:
            host = urlsplit(self.address).hostname or ""
            reason = explain_tls_error(fault, host, self._login)
            return Unreachable(f"{self.address}: no TLS connection: {reason}", address=self.address)
        if isinstance(error, TLS):
            return Unreachable(f"{self.address}: no TLS connection: {why}", address=self.address)
        if isinstance(error, NEVER_SENT):
            return Unreachable(f"{self.address} cannot be reached: {why}", address=self.address)
        hint = "" if self._answered else f" ({_HINT})"
        if isinstance(error, TooLarge):
            return OutcomeUnknown(f"{self.address}: {error}{hint}", address=self.address)
        if isinstance(error, LATE):
            return OutcomeUnknown(
                f"{self.address} did not answer in {timeout:g} s{hint}", address=self.address
            )
        return OutcomeUnknown(f"{self.address}: the connection broke: {why}{hint}", address=self.address)


def _line(job: Mapping[str, Any]) -> JobLine:
    tasks = {state: validation.whole(count) for state, count in job["tasks"].items()}
    name, state = text(job["name"]), text(job["state"])
    return JobLine(text(job["jid"]), name, state, validation.number(job["duration"]) / 1000, tasks)


def _is_ok(response: Answer) -> bool:
    return response.status < 400


def _innermost(error: BaseException) -> str:
    """The message of the innermost error, in one line."""
    while True:
        inner = error.__cause__ or error.__context__
        if inner is None:
            break
        error = inner
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    return one_line(str(error)) or type(error).__name__  # it may quote arbitrary bytes of another program
