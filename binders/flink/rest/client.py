"""Client of Flink's REST interface, one method a request."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from urllib3 import encode_multipart_formdata

from binders.flink.rest import validation
from binders.flink.rest.connections import to_json
from binders.flink.rest.overviews import JobLine, Overview
from binders.flink.rest.requests import FlinkRefused, FlinkRequests
from binders.flink.rest.validation import Aggregate, text
from speck.errors import Rejected

SLOWEST = 128 << 10  # bytes/s; the slowest link over which a jar is uploaded

MAX_LOG = 4 << 20  # bytes of a log's end that are retained
MAX_DOWNLOAD = 256 << 20  # bytes

_AVAILABILITY = ("high-availability.type", "high-availability")


class FlinkRest(FlinkRequests):
    """The REST interface at an address such as ``http://HOST:8081/``; thread-safe.

    Raises as :class:`~binders.flink.rest.requests.FlinkRequests`.
    """

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
            reason = "web.submit.enable is false, or it is not a session cluster"
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
        return self._text(path, most=MAX_DOWNLOAD, tail=MAX_LOG)

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


def _line(job: Mapping[str, Any]) -> JobLine:
    tasks = {state: validation.whole(count) for state, count in job["tasks"].items()}
    name, state = text(job["name"]), text(job["state"])
    return JobLine(text(job["jid"]), name, state, validation.number(job["duration"]) / 1000, tasks)
