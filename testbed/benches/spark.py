"""A real Spark Connect server and a real broker as the bench of the contract, and of tests of the binder."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from binders.mqtt import MqttBroker
from binders.spark.connect import grpc_client
from binders.spark.connect.engine import ConnectEngine
from binders.spark.connect.grpc_client import ConnectClient, endpoint_of
from binders.spark.connect.probe import ServerProbe
from speck.binder import EngineBinder
from speck.core.inventory import Inventory
from speck.core.job import Job, Scalar, client_id
from speck.core.runtime import Handle
from speck.testing.wire_trouble import BrokenServer, Relay, Trouble
from testbed import ROOT
from testbed.benches.examples import one_site
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.base import REFUSING_PORT
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer

JOBS = ROOT / "testbed" / "programs" / "spark"

# The names of the contract's behaviours in testbed/programs/spark/simple.py.
BEHAVIOURS = {"good": "count", "missing": "count_nothing"}


class SparkJobs:
    """The jobs of testbed/programs/spark at an engine of Spark, which read and write by one broker."""

    def __init__(self, address: str, broker: MosquittoServer, inventory: Inventory, directory: Path) -> None:
        self.broker, self.inventory = broker, inventory
        self.mqtt = MqttClient(broker.port)
        self._address, self._directory = address, directory
        self._broker = MqttBroker(broker.address, inventory)

    def close(self) -> None:
        self._broker.close()
        self.mqtt.close()

    def job(
        self, name: str, behaviour: str = "good", path: Path = JOBS / "simple.py", /, **arguments: Scalar
    ) -> Job:
        self._broker.ensure_session(client_id(name), f"in/{name}")
        if behaviour == "corrupt":
            path = self._corrupt_archive()
        return Job(
            job_name=name,
            spe_address=self._address,
            source_broker=self.broker.address,
            source_topic=f"in/{name}",
            sink_broker=self.broker.address,
            sink_topic=f"out/{name}",
            entry_class=BEHAVIOURS.get(behaviour, behaviour),
            job_path=str(path),
            engine="spark",
            arguments=arguments,
        )

    def passing_job(self, name: str) -> Job:
        return self.job(name, "passed", JOBS / "multiplied.py")

    def feed(self, job: Job) -> None:
        self.send(job, ["a"])

    def send(self, job: Job, texts: Sequence[str]) -> None:
        self.mqtt.send(job.source_topic, list(texts))

    @contextmanager
    def without_state(self, handle: Handle) -> Iterator[Handle]:
        with place_emptied(handle.details["checkpoint"]):
            yield handle

    def fault_place(self) -> str:
        """The file and line at which ``fails_at_build`` raises."""
        source = (JOBS / "simple.py").read_text(encoding="utf-8").splitlines()
        line = next(number for number, text in enumerate(source, 1) if '"no such street")' in text)
        return f"simple.py, line {line}"

    def _corrupt_archive(self) -> Path:
        """An archive that was cut off in the middle."""
        path = self._directory / "corrupt.zip"
        path.write_bytes(b"PK\x03\x04 and no more")
        return path


class SparkBench(SparkJobs):
    """One site: a server, a broker, and the directory of its checkpoints."""

    def __init__(self, server: SparkServer, broker: MosquittoServer, directory: Path) -> None:
        self.server, self._checkpoints = server, str(directory / "checkpoints")
        super().__init__(server.address, broker, self._inventory(server.address, broker, 40), directory)
        self._engines: list[ConnectEngine] = []
        self._client = ConnectClient(server.address, endpoint_of(server.address))

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
        self._client.close()
        super().close()

    def binder(self) -> ConnectEngine:
        return self._binder(self.server.address)

    def at(self, address: str) -> ConnectEngine:
        """A binder of the server under another of its addresses."""
        return self._binder(address)

    def dead_binder(self) -> ConnectEngine:
        return self._binder(f"sc://127.0.0.1:{REFUSING_PORT}")

    @contextmanager
    def troubled_binder(self, trouble: Trouble) -> Iterator[EngineBinder]:
        with (
            BrokenServer(trouble) as server,
            patch.object(grpc_client, "QUICK", 0.2),
            patch.object(grpc_client, "SLOW", 0.2),
        ):
            engine = self._binder(f"sc://127.0.0.1:{server.port}")
            engine.build_timeout = 10.0
            yield engine

    @contextmanager
    def slow_binder(self) -> Iterator[EngineBinder]:
        with Relay(self.server.port, delay=0.1) as relay:
            yield self._binder(f"sc://127.0.0.1:{relay.port}")

    @contextmanager
    def losing_binder(self, job: Job) -> Iterator[EngineBinder]:
        # Only the request that starts the query contains the topic.
        with Relay(self.server.port, lose_answer_to=job.sink_topic.encode()) as relay:
            yield self._binder(f"sc://127.0.0.1:{relay.port}")

    @contextmanager
    def room_for_one(self) -> Iterator[EngineBinder]:
        running = ServerProbe(self.server.address, self._client).running()
        assert running is not None
        yield self._binder(self.server.address, slots=len(running) + 1)

    def ensure_session(self, job: Job) -> None:
        """Make the session of a job, so that its messages wait for it."""
        self._broker.ensure_session(client_id(job.job_name), job.source_topic)

    def running(self, job_name: str) -> int:
        running = ServerProbe(self.server.address, self._client).running()
        assert running is not None
        return [query.name for query in running].count(job_name)

    def forgotten(self, handle: Handle) -> Handle:
        return handle  # a session that was released is not known

    def log_words(self) -> tuple[str, ...]:
        return ("ended: ", "Traceback (most recent call last)")

    def session_exists(self, attempt_id: str) -> bool:
        return self._client.session_exists(str(uuid.UUID(attempt_id)))

    def _inventory(self, address: str, broker: MosquittoServer, slots: int) -> Inventory:
        site = one_site("A", address, broker.address, slots=slots, checkpoint_dir=self._checkpoints)
        return Inventory({"A": site})

    def _binder(self, address: str, slots: int = 40) -> ConnectEngine:
        engine = ConnectEngine(address, self._inventory(address, self.broker, slots))
        self._engines.append(engine)
        return engine


@contextmanager
def place_emptied(place: str) -> Iterator[None]:
    """While the block runs, a directory is not there."""
    path = Path(place.removeprefix("file:"))
    away = path.rename(path.with_name(f"{path.name}.away"))
    try:
        yield
    finally:
        away.rename(path)


def gone(pid: int, patience: float = 30.0) -> bool:
    """True if a process ends within ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
