"""Hops: the forwarding job of an engine, started by the engine's binder, and a relay in Python."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks.load.processes import Running, running, server
from benchmarks.load.settings import Changed, optimised
from binders.flink import FLINK
from binders.spark import CONNECT
from speck.binder import EngineBinder, EngineKind, LocalServer, installed
from speck.core.inventory import Engine as EngineOfSite
from speck.core.inventory import Inventory, Site
from speck.core.job import Job, client_id
from speck.core.runtime import Attempt, Handle
from testbed import ROOT

HEAP = "600m"  # of the engine's server


@dataclass(frozen=True)
class Hop:
    """A way from topic ``out`` to topic ``back``, and the process that does it (none: the broker alone)."""

    name: str
    out: str
    back: str
    process: Running | None


@dataclass(frozen=True)
class Program:
    """The forwarding job on one kind of engine: its entry, and the file that contains it."""

    kind: EngineKind
    entry_class: str
    job_path: Path
    trigger: str | None = None  # of Spark's jobs
    arguments: Mapping[str, str] = field(default_factory=dict)
    optimised: bool = False  # the engine has Java's optimising compiler
    form: str = ""  # the engine's further form, such as "flink-small"

    @property
    def local(self) -> LocalServer:
        """The engine's server."""
        local = self.kind.forms[self.form] if self.form else self.kind.local
        assert local is not None
        return cast(LocalServer, Changed(local, optimised)) if self.optimised else local

    @property
    def engine(self) -> str:
        """The engine, as a job names it."""
        return self.kind.engine

    @property
    def name(self) -> str:
        """The name of its hop."""
        return self.form or self.engine


_FLINK_JOBS = ROOT / "jars_and_apps" / "flink" / "speck-flink-jobs.jar"
PROGRAMS = {
    "spark": Program(CONNECT, "pass_through", Path(__file__).with_name("pass_through.py")),
    "flink": Program(FLINK, "io.speck.flink.jobs.Forward", _FLINK_JOBS),
    "flink-small": Program(FLINK, "io.speck.flink.jobs.Forward", _FLINK_JOBS, form="flink-small"),
}


class Engine:
    """A server of the engine and the binder to it, as a coordinator uses it."""

    def __init__(
        self, program: Program, process: Running, binder: EngineBinder, address: str, broker: str
    ) -> None:
        """The engine at an address, with its jobs reading and writing at one broker."""
        self._program = program
        self.process = process
        self._binder = binder
        self._address = address
        self._broker = broker
        kind = installed().broker_kind(broker)
        assert kind is not None
        self._sessions = kind.connect(broker, Inventory())
        self._join = "/" if kind.topic_fault is None else "."

    def beside(self, program: Program, broker: str) -> Engine:
        """The same engine, for a program at a broker."""
        return Engine(program, self.process, self._binder, self._address, broker)

    def start(self, name: str) -> tuple[Hop, Handle]:
        """A new job that passes messages on, through a session and with a fence like any other's."""
        session = client_id(name)
        out, back = f"{name}{self._join}in", f"{name}{self._join}out"
        hop = Hop(self._program.name, out, back, self.process)
        # A job of an earlier round left a tombstone, which ends attempts that do not come after it.
        number = self._sessions.fenced(session) + 1
        attempt = Attempt(id=uuid.uuid4().hex, job_name=name, number=number, session=session)
        self._sessions.ensure_session(session, hop.out)
        self._sessions.ensure_topic(hop.back)
        self._sessions.fence(session, attempt.number)
        return hop, self._binder.submit(self._job(name, hop), attempt)

    def stop(self, name: str, handle: Handle) -> None:
        """End a job and its session."""
        self._binder.stop(handle, False)
        self._sessions.delete_session(client_id(name))

    def progress(self, handle: Handle) -> dict[str, Any]:
        """The last report of the job: the batch's number, its rows, and how long its parts took (ms)."""
        metrics = self._binder.metrics(handle)
        return {"batch": metrics.batch_id, **metrics.details}

    def _job(self, name: str, hop: Hop) -> Job:
        return Job(
            job_name=name,
            spe_address=self._address,
            source_broker=self._broker,
            source_topic=hop.out,
            sink_broker=self._broker,
            sink_topic=hop.back,
            entry_class=self._program.entry_class,
            job_path=str(self._program.job_path),
            engine=self._program.engine,
            trigger=self._program.trigger,
            arguments=self._program.arguments,
            code_hash=hashlib.sha256(self._program.job_path.read_bytes()).hexdigest(),
        )


@contextlib.contextmanager
def engine_up(program: Program, directory: Path, broker: str) -> Iterator[Engine]:
    """An engine as ``speck local`` starts it."""
    local = program.local
    with server(program.engine, local, directory, HEAP) as (process, ports):
        address = local.address(ports)
        known = EngineOfSite(spe_address=address, **local.inventory(ports, directory, HEAP))
        site = Site(name="site", engines=(known,), broker_address=broker)
        binder = program.kind.connect(address, Inventory({"site": site}))
        try:
            yield Engine(program, process, binder, address, broker)
        finally:
            binder.close()


def make_topics(broker: str, *topics: str) -> None:
    """Make topics of one partition at a broker that needs them made."""
    kind = installed().broker_kind(broker)
    assert kind is not None
    binder = kind.connect(broker, Inventory())
    try:
        for topic in topics:
            binder.ensure_topic(topic)
    finally:
        binder.close()


@contextlib.contextmanager
def relay(directory: Path, port: int, connections: int = 2) -> Iterator[Hop]:
    """A paho relay, subscribed: the sound one on two connections, or the plainest one on one."""
    name = "relay" if connections == 2 else "plain_relay"
    hop = Hop(name, f"{name}/in", f"{name}/out", None)
    command = [sys.executable, "-m", "benchmarks.micro.paho_relay", str(port), hop.out, hop.back]
    command += ["--connections", str(connections)]
    with running(name, command, directory, {**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        assert process.process.stdout is not None
        if process.process.stdout.readline().strip() != "ready":
            log = (directory / f"{name}.log").read_text(errors="replace")
            raise RuntimeError(f"the relay does not come up:\n{log[-2000:]}")
        yield Hop(hop.name, hop.out, hop.back, process)
