"""Runs the code of jobs up to their plans, in temporary sessions of a server.

A server keeps a session until it is ended, so one that a killed coordinator has left is ended by the next
rehearsal of the same file: its id is derived, and two rehearsals of a file run one after the other.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import replace

from binders.common.named_locks import NamedLocks
from binders.spark.connect.grpc_client import ConnectClient
from binders.spark.connect.launcher import Launcher
from binders.spark.query.spec import ConnectQuerySpec
from speck.core.job import Job
from speck.core.runtime import Attempt
from speck.errors import BinderError

_log = logging.getLogger(__name__)


class Rehearsals:
    """The rehearsals at one server."""

    def __init__(self, client: ConnectClient, launcher: Launcher) -> None:
        self._client, self._launcher = client, launcher
        self._locks = NamedLocks()  # of sessions

    def run(
        self, job: Job, spec_of: Callable[[Job, Attempt], ConnectQuerySpec], timeout: float
    ) -> dict[str, str]:
        """Run the job's code up to its plan; returns the launcher's answer.

        ``spec_of`` makes the specification of an attempt's query; ``timeout`` is in s.
        """
        # The path is one of the store's, so that stores which share a server have sessions of their own.
        name = f"speck:rehearsal:{job.source_broker}:{job.job_name}:{job.job_path}"
        number = uuid.uuid5(uuid.NAMESPACE_URL, name)
        attempt = Attempt(id=number.hex, job_name=job.job_name, number=0, session="speck-rehearsal")
        spec = replace(spec_of(job, attempt), rehearsal=True)
        with self._locks.of(spec.session):
            self._client.release(spec.session, reusable=True)
            try:
                return self._launcher.launch(spec.to_json(), timeout)
            finally:
                self._release(spec.session)

    def _release(self, session: str) -> None:
        try:
            self._client.release(session, reusable=True)
        except BinderError as error:
            _log.warning("a session of a build stays until its file is built again: %s", error)
