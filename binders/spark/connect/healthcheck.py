"""What Spark tells of itself: versions, limits, the clock, and what would keep jobs from working there."""

from __future__ import annotations

import time
from collections.abc import Iterator

from binders.spark.connect.grpc_client import ConnectClient
from binders.spark.connect.probe import ServerProbe
from binders.spark.query.version_check import other_version, refusals
from speck.core.runtime import Checkup, Complaint

_SESSION_TIMEOUT = "spark.connect.session.manager.defaultSessionTimeout"
_FOR_EVER = "-1"


def connect_checkup(client: ConnectClient, probe: ServerProbe) -> Checkup:
    """A Connect server: its version, its connector, how long it keeps sessions, its Python, its clock."""
    version = probe.ask(client.spark_version)
    kept = probe.setting(_SESSION_TIMEOUT) or "60m"
    probe.now()  # the first plan of a session takes seconds, which would count as inexactness
    before = time.time()
    theirs = probe.now()
    return Checkup(
        version=f"Spark {version}",
        limits={"session_timeout": "none" if kept == _FOR_EVER else kept},
        clock=(theirs - time.time(), theirs - before),
        complaints=tuple(_connect_complaints(probe, version, kept)),
    )


def _connect_complaints(probe: ServerProbe, version: str, kept: str) -> Iterator[Complaint]:
    yield from other_version(version)
    if kept != _FOR_EVER:
        yield Complaint(
            f"it closes a session that nobody asks for {kept}, and stops the job in it",
            f"start it with --conf {_SESSION_TIMEOUT}={_FOR_EVER}",
        )
    yield from refusals(lambda: probe.check_source("tcp://127.0.0.1:1883", "speck-check"))
    if (fault := probe.python_fault()) is not None:
        yield Complaint(
            f"jobs with Python functions are refused: {fault}",
            "start it with PYSPARK_PYTHON set to a Python of the version that SpecK runs on",
        )
