"""Programs that measure a link or a core at a cluster, and report by accumulators.

They are in the connector's jar, which an installed SpecK has.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from binders.common.probe_topic import probe_topic
from binders.flink.rest.client import FlinkRest
from binders.flink.rest.overviews import ENDED
from binders.flink.rest.stack_trace import root_cause
from speck.core.job import Job
from speck.core.profile import CoreProbe, LinkProbe
from speck.core.runtime import Attempt
from speck.errors import OutcomeUnknown, Rejected

JAR = Path(str(files("binders"))) / "jars" / "flink-mqtt.jar"
PATIENCE = 90.0  # s, for a program to end, on a slow link too

_NO_BROKER = "tcp://127.0.0.1:1"  # of programs that use none
_POLL = 0.2  # s
_PACKAGE = "io.speck.flink.mqtt"


def link_job(engine: str, broker: str) -> Job:
    """The program that measures the link to a broker; its topic has no reader."""
    return _job(engine, broker, f"{_PACKAGE}.LinkProbe")


def reach_job(engine: str, broker: str) -> Job:
    """The program that tries to reach a broker; its topic has no reader."""
    return replace(link_job(engine, broker), arguments={"reach": "true"})


def core_job(engine: str) -> Job:
    """The program that measures a core."""
    return _job(engine, _NO_BROKER, f"{_PACKAGE}.Calibrate")


def attempt_of(job: Job) -> Attempt:
    """The one attempt at a program."""
    return Attempt(id=uuid.uuid4().hex, job_name=job.job_name, number=1, session=job.job_name)


def results(rest: FlinkRest, job: Job, engine_id: str) -> Mapping[str, str]:
    """The results of a program once it has ended.  Raises a :class:`~speck.errors.BinderError`."""
    deadline, what = time.monotonic() + PATIENCE, job.entry_class.rpartition(".")[2]
    if job.sink_broker != _NO_BROKER:
        what += f" to {job.sink_broker}"
    while (state := rest.job_state(engine_id)) not in ENDED:
        if time.monotonic() > deadline:
            message = f"{rest.address}: {what} did not end within {PATIENCE:g} s"
            raise OutcomeUnknown(message, address=rest.address)
        time.sleep(_POLL)
    if state != "FINISHED":
        cause = root_cause(rest.root_exception(engine_id)) or str(state).lower()
        raise Rejected(f"{rest.address}: {what} has failed: {cause}", address=rest.address)
    return rest.accumulators(engine_id)


def link_probe(found: Mapping[str, str]) -> LinkProbe:
    """The results of the program of :func:`link_job`.  Raises :class:`KeyError`, :class:`ValueError`."""
    return LinkProbe(
        rtt=float(found["rttMillis"]) / 1000,
        bandwidth=float(found["bytesPerSecond"]),
        bytes_sent=int(found["probeBytes"]),
    )


def core_probe(found: Mapping[str, str]) -> CoreProbe:
    """The results of the program of :func:`core_job`.  Raises :class:`KeyError`, :class:`ValueError`."""
    return CoreProbe(stateless=float(found["statelessPerSecond"]), keyed=float(found["keyedPerSecond"]))


def _job(engine: str, broker: str, program: str) -> Job:
    name = f"speck-probe-{uuid.uuid4().hex[:8]}"
    topic = probe_topic(broker)
    return Job(
        job_name=name,
        spe_address=engine,
        source_broker=broker,
        source_topic=topic,
        sink_broker=broker,
        sink_topic=topic,
        entry_class=program,
        job_path=str(JAR),
        engine="flink",
        upgrade="stateless",
    )
