"""Submits drivers: the request to the master, which contains a submission for the driver alone.

The submission (the specification of the query, with the brokers' passwords, and the URLs of the files) is
passed in an environment variable: the command line of a driver is readable by all users, in its log and in
the list of processes.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark

from binders.spark.local.commands import CONNECTOR
from binders.spark.query.marks import Marks
from binders.spark.query.options import checkpoint_of, spec_of
from binders.spark.query.spec import FILE_MANAGER, FILE_MANAGER_SETTING, QuerySpec
from binders.spark.standalone.capacity import DRIVER_CORES, DRIVER_MEMORY, EXECUTOR_MEMORY
from binders.spark.standalone.driver_bootstrap import VARIABLE
from binders.spark.standalone.driver_bundle import BUNDLE_NAME, SCRIPT_NAME, bundle, script
from binders.spark.standalone.driver_marks import properties_of
from binders.spark.standalone.master import Master
from speck.binder import Artifact, ArtifactServer
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Attempt
from speck.errors import Rejected

MAIN_CLASS = "org.apache.spark.deploy.SparkSubmit"

_IN_ITSELF = "local[1]"  # the master of a driver that runs its tasks itself

_MEGABYTE = 1 << 20
_MAX_SUBMISSION = 120_000  # bytes; Linux accepts no variable of more than 128 KiB

_JVM_OPTIONS = "-XX:+UseSerialGC -XX:ReservedCodeCacheSize=64m -XX:MaxMetaspaceSize=256m -XX:-UsePerfData"

_PROPERTIES = {
    "spark.submit.deployMode": "client",  # of the driver's own spark-submit: it is the driver
    "spark.driver.cores": str(DRIVER_CORES),
    "spark.driver.memory": f"{DRIVER_MEMORY // _MEGABYTE}m",
    "spark.executor.memory": f"{EXECUTOR_MEMORY // _MEGABYTE}m",
    "spark.driver.defaultJavaOptions": _JVM_OPTIONS,
    "spark.executor.defaultJavaOptions": _JVM_OPTIONS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    FILE_MANAGER_SETTING: FILE_MANAGER,
    # Otherwise some thirty lines a micro-batch, in logs that a worker never deletes.
    "spark.log.level": "WARN",
    "spark.executor.syncLogLevel.enabled": "true",
    "spark.executor.logs.rolling.strategy": "size",
    "spark.executor.logs.rolling.maxSize": str(4 * _MEGABYTE),
    "spark.executor.logs.rolling.maxRetainedFiles": "2",
}


class Submitter:
    """Submits drivers to one master; ``server`` serves their files."""

    def __init__(self, address: str, master: Master, inventory: Inventory) -> None:
        self.address = address
        self.server: ArtifactServer | None = None
        self._master, self._inventory = master, inventory
        self._known = inventory.engine(address)

    def check(self) -> None:
        """Raise :class:`~speck.errors.Rejected` if a prerequisite of submitting a driver is missing here."""
        self._served()
        if self._known.checkpoint_dir is None:
            raise Rejected(
                f"{self.address}: the inventory has no checkpoint_dir of this engine "
                "(expected a directory or URL that is visible to all of its workers)",
                address=self.address,
            )
        if not CONNECTOR.exists():
            message = f"{CONNECTOR.name} is not built (make, or mvn package in jars_and_apps/connectors)"
            raise Rejected(message, address=self.address)

    def submit(self, job: Job, attempt: Attempt, stop_grace: float) -> str:
        """Submit a driver for the attempt; returns its id."""
        self.check()
        submission = self._bounded(job, self._submission(job, attempt, stop_grace))
        return self._create(submission, self._properties(job, attempt))

    def submit_rehearsal(self, name: str, job: Job) -> str:
        """Submit a driver that builds a job in its own process, and starts nothing; returns its id.

        ``name`` is that of its application, which the master does not list.
        """
        self.check()
        attempt = Attempt(id=uuid.uuid4().hex, job_name=job.job_name, number=0, session="speck-rehearsal")
        spec = replace(self._query_spec(job, attempt), rehearsal=True)
        content = {"artifacts": self._offered(self._files_of(job)), "query": spec.to_dict()}
        properties = self._base_properties(f"speck {name}", supervise=False)
        return self._create(self._bounded(job, content), properties, _IN_ITSELF)

    def _bounded(self, job: Job, content: Mapping[str, Any]) -> str:
        submission = _encoded(content)
        if len(submission) > _MAX_SUBMISSION:
            size = f"{len(submission)} bytes with the rest, expected at most {_MAX_SUBMISSION}"
            message = f"job {job.job_name!r}: its arguments are too long ({size})"
            raise Rejected(message, address=self.address)
        return submission

    def submit_probe(self, name: str, options: Mapping[str, str]) -> str:
        """Submit a driver that measures (``options`` of the data source ``mqtt-probe``); returns its id.

        ``name`` is that of its application.
        """
        self.check()
        content = {"artifacts": self._offered(self._files()), "probe": dict(options)}
        return self._create(_encoded(content), self._base_properties(f"speck {name}", supervise=False))

    def _create(self, submission: str, properties: Mapping[str, str], master: str = "") -> str:
        """Submit a driver whose Spark has this master, or by default the cluster's."""
        return self._master.create(
            {
                "action": "CreateSubmissionRequest",
                "clientSparkVersion": pyspark.__version__,
                "appResource": self._served().offer(SCRIPT_NAME, script()).url,
                "mainClass": MAIN_CLASS,
                "appArgs": ["--master", master or self._master.url, SCRIPT_NAME],
                "environmentVariables": {VARIABLE: submission},
                "sparkProperties": dict(properties),
            }
        )

    def stop_token(self, attempt: str) -> str:
        """The token with which a driver accepts a request to stop."""
        return self._served().token(f"stop:{attempt}")

    def _served(self) -> ArtifactServer:
        if self.server is None:
            raise Rejected(
                f"{self.address} fetches files from the coordinator, which serves none "
                "(speck serve does; its --advertise names the URL)",
                address=self.address,
            )
        return self.server

    def _properties(self, job: Job, attempt: Attempt) -> dict[str, str]:
        name, supervise = f"speck {job.job_name} {attempt.id}", job.restart == "always"
        base = self._base_properties(name, supervise, tasks=job.parallelism or 1)
        base["spark.executorEnv.TZ"] = job.timezone  # of Python functions, which convert timestamps by it
        return base | properties_of(self.marks(job, attempt))

    def marks(self, job: Job, attempt: Attempt) -> Marks:
        """The marks of the driver of an attempt, which are read from the head of its log."""
        return Marks.of(job, attempt, checkpoint_of(attempt, self._known))

    def _base_properties(self, name: str, supervise: bool, tasks: int = 1) -> dict[str, str]:
        return _PROPERTIES | {
            "spark.app.name": name,
            "spark.master": self._master.url,
            "spark.driver.supervise": "true" if supervise else "false",
            "spark.cores.max": str(tasks),
            "spark.sql.shuffle.partitions": str(tasks),
        }

    def _files(self) -> dict[str, tuple[str, bytes]]:
        """The files of any driver.  Raises :class:`OSError`."""
        return {"bundle": (BUNDLE_NAME, bundle()), "connector": (CONNECTOR.name, CONNECTOR.read_bytes())}

    def _files_of(self, job: Job) -> dict[str, tuple[str, bytes]]:
        """The files of a job's driver.  Raises :class:`~speck.errors.Rejected` for code that is not there."""
        code = Path(job.job_path)
        try:
            return self._files() | {"job": (code.name, code.read_bytes())}
        except OSError as error:
            message = f"job {job.job_name!r}: {error.filename!r} cannot be read: {error.strerror}"
            raise Rejected(message, address=self.address) from error

    def _offered(self, files: Mapping[str, tuple[str, bytes]]) -> dict[str, dict[str, str]]:
        server = self._served()
        return {key: _plain(server.offer(*file)) for key, file in files.items()}

    def _submission(self, job: Job, attempt: Attempt, stop_grace: float) -> dict[str, Any]:
        return {
            "artifacts": self._offered(self._files_of(job)),
            "query": self._query_spec(job, attempt).to_dict(),
            "attempt": attempt.id,
            "has_state": attempt.state is not None,
            "rest": self._master.rest,
            "rest_token": self._master.token,
            "stop_token": self.stop_token(attempt.id),
            "stop_grace": stop_grace,
        }

    def _query_spec(self, job: Job, attempt: Attempt) -> QuerySpec:
        return spec_of(job, attempt, self._known, self._inventory, path="")  # the driver sets the path


def _encoded(content: Mapping[str, Any]) -> str:
    return base64.b64encode(json.dumps(content).encode()).decode()


def _plain(artifact: Artifact) -> dict[str, str]:
    return {"name": artifact.name, "sha256": artifact.sha256, "url": artifact.url}
