"""A real Flink cluster as the bench of the contract, and of tests of the binder."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from binders.flink.engine import FlinkEngine, connect_engine
from binders.flink.rest.client import FlinkRest
from binders.mqtt import MqttBroker
from speck.binder import EngineBinder
from speck.core.inventory import Inventory
from speck.core.job import Job, Scalar, client_id
from speck.core.runtime import Handle, JobState
from speck.testing.waiting import attempt_of, await_state, eventually
from speck.testing.wire_trouble import BrokenServer, Relay, Trouble
from testbed import ROOT
from testbed.benches.examples import one_site
from testbed.benches.job_text import FLINK_CODE
from testbed.benches.mqtt_client import MqttClient
from testbed.benches.spark import place_emptied
from testbed.servers.base import REFUSING_PORT
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer

BROKER = "tcp://127.0.0.1:1883"  # the test programs read no broker

# The names of the contract's behaviours in testbed/programs/flink.
BEHAVIOURS = {
    "good": "streets.Counting",
    "fails_at_build": "streets.Counting$FailsAtBuild",
    "fails_at_run": "streets.Counting$FailsAtRun",
    "missing": "streets.Nowhere",
}


FORWARD = ROOT / FLINK_CODE, "io.speck.flink.jobs.Forward"


class FlinkBench:
    """One cluster, and the jar of the test programs; with a broker, also jobs that pass messages on."""

    def __init__(self, server: FlinkServer, jar: Path, broker: MosquittoServer | None = None) -> None:
        self.server, self.jar, self.broker = server, jar, broker
        self.inventory = Inventory(
            {"A": one_site("A", server.address, broker.address if broker is not None else BROKER)}
        )
        self.rest = FlinkRest(server.address)
        self._engines: list[FlinkEngine] = []

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
        self.rest.close()

    def binder(self, inventory: Inventory | None = None) -> FlinkEngine:
        return self._binder(self.server.address, inventory)

    def at(self, address: str) -> FlinkEngine:
        """A binder of the cluster under another of its addresses."""
        return self._binder(address)

    def dead_binder(self) -> FlinkEngine:
        return self._binder(f"http://127.0.0.1:{REFUSING_PORT}")

    @contextmanager
    def troubled_binder(self, trouble: Trouble) -> Iterator[EngineBinder]:
        with BrokenServer(trouble) as server:
            engine = self._binder(f"http://127.0.0.1:{server.port}")
            engine.rest.quick = engine.rest.slow = 0.2
            yield engine

    @contextmanager
    def slow_binder(self) -> Iterator[EngineBinder]:
        with Relay(self.server.ports[0], delay=0.1) as relay:
            yield self._binder(f"http://127.0.0.1:{relay.port}")

    @contextmanager
    def losing_binder(self, job: Job) -> Iterator[EngineBinder]:
        with Relay(self.server.ports[0], lose_answer_to=b"/run HTTP/1.1") as relay:
            yield self._binder(f"http://127.0.0.1:{relay.port}")

    @contextmanager
    def room_for_one(self) -> Iterator[EngineBinder]:
        engine = self.binder()
        free = engine.capacity().slots_free
        assert free is not None
        filler = replace(self.job(f"filler-{uuid.uuid4().hex[:8]}"), parallelism=free - 1)
        handle = engine.submit(filler, attempt_of(filler))
        await_state(engine, handle, JobState.RUNNING)
        try:
            yield engine
        finally:
            engine.stop(handle, keep_state=False)
            eventually(lambda: engine.capacity().slots_free, lambda now: now == free)

    def job(self, name: str, behaviour: str = "good", /, **arguments: Scalar) -> Job:
        path = self.jar if behaviour != "corrupt" else self.corrupt_jar
        return Job(
            job_name=name,
            spe_address=self.server.address,
            source_broker=BROKER,
            source_topic=f"in/{name}",
            sink_broker=BROKER,
            sink_topic=f"out/{name}",
            entry_class=BEHAVIOURS.get(behaviour, behaviour),
            job_path=str(path),
            engine="flink",
            arguments=arguments,
        )

    def passing_job(self, name: str) -> Job:
        assert self.broker is not None
        address, (jar, program) = self.broker.address, FORWARD
        job = self.job(name, program)
        broker = MqttBroker(address, self.inventory)
        broker.ensure_session(client_id(name), job.source_topic)
        broker.close()
        return replace(job, job_path=str(jar), source_broker=address, sink_broker=address)

    def send(self, job: Job, texts: Sequence[str]) -> None:
        assert self.broker is not None
        mqtt_client = MqttClient(self.broker.port)
        mqtt_client.send(job.source_topic, list(texts))
        mqtt_client.close()

    def feed(self, job: Job) -> None:
        """Does nothing: the test programs generate their input."""

    def running(self, job_name: str) -> int:
        return sum(line.name == job_name and not line.ended for line in self.rest.jobs().values())

    def forgotten(self, handle: Handle) -> Handle:
        return replace(handle, engine_id=uuid.uuid4().hex)

    @contextmanager
    def without_state(self, handle: Handle) -> Iterator[Handle]:
        """As after another JobManager has come up in the place of one that lost its disk."""
        with place_emptied(handle.details["savepoints"]):
            yield self.forgotten(handle)

    def log_words(self) -> tuple[str, ...]:
        return ("switched from RUNNING to FAILED",)  # of the TaskManager

    def fault_place(self) -> str:
        source = next(self.source.glob("Counting.java")).read_text(encoding="utf-8").splitlines()
        start = next(number for number, text in enumerate(source) if "class FailsAtBuild" in text)
        line = next(number for number, text in enumerate(source, 1) if number > start and "throw new" in text)
        return f"Counting.java, line {line}"

    @property
    def corrupt_jar(self) -> Path:
        """A jar that was cut off in the middle."""
        path = self.jar.with_name("corrupt.jar")
        whole = self.jar.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        return path

    @property
    def source(self) -> Path:
        return ROOT / "testbed" / "programs" / "flink"

    def _binder(self, address: str, inventory: Inventory | None = None) -> FlinkEngine:
        engine = connect_engine(address, inventory or self.inventory)
        self._engines.append(engine)
        return engine
