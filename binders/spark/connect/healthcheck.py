"""Health of a Connect server: version, limits, clock, and faults that keep jobs from working there."""

from __future__ import annotations

import time
from collections.abc import Iterator

from binders.spark.connect.grpc_client import ConnectClient
from binders.spark.connect.probe import ServerProbe
from binders.spark.query.spec import TIMEZONE_SETTING
from binders.spark.query.version_check import other_version, rejections
from speck.core.runtime import Checkup, Complaint
from speck.core.timezone import is_utc

_SESSION_TIMEOUT = "spark.connect.session.manager.defaultSessionTimeout"
_FOR_EVER = "-1"


def connect_checkup(client: ConnectClient, probe: ServerProbe) -> Checkup:
    """A Connect server: its version, connector, session timeout, Python, and clock."""
    version = probe.ask(client.spark_version)
    timeout = probe.setting(_SESSION_TIMEOUT) or "60m"
    zone = probe.setting(TIMEZONE_SETTING) or "unknown"
    probe.now()  # the first plan of a session takes seconds, which would count as uncertainty
    before = time.time()
    theirs = probe.now()
    return Checkup(
        version=f"Spark {version}",
        limits={"session_timeout": "none" if timeout == _FOR_EVER else timeout, "time_zone": zone},
        clock=(theirs - time.time(), theirs - before),
        complaints=(*_connect_complaints(probe, version, timeout), *_timezone_remark(zone)),
    )


def _timezone_remark(zone: str) -> Iterator[Complaint]:
    if not is_utc(zone):
        yield Complaint(
            f"its time zone is {zone}: jobs have that of their field timezone (UTC by default), but a Python "
            "function of a job gets a TIMESTAMP as the server's local time",
            "start it with TZ=UTC, or use Spark's own functions for local times",
            remark=True,
        )


def _connect_complaints(probe: ServerProbe, version: str, timeout: str) -> Iterator[Complaint]:
    yield from other_version(version)
    if timeout != _FOR_EVER:
        yield Complaint(
            f"it closes a session after {timeout} without requests, and stops the job in it",
            f"start it with --conf {_SESSION_TIMEOUT}={_FOR_EVER}",
        )
    yield from rejections(lambda: probe.check_source("tcp://127.0.0.1:1883", "speck-check"))
    if (fault := probe.python_fault()) is not None:
        yield Complaint(
            f"jobs with Python functions are rejected: {fault}",
            "start it with PYSPARK_PYTHON set to a Python of the version that SpecK runs on",
        )
