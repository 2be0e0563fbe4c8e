"""A real Spark standalone cluster, an artifact server and a broker as the bench of the contract."""

from __future__ import annotations

from pathlib import Path

from binders.mqtt import MqttBroker
from binders.spark.master import Master
from binders.spark.standalone import StandaloneEngine
from speck.binder import ArtifactServer
from speck.model import Engine, Inventory, Job, Scalar, client_id
from tests.examples import one_site
from tests.mosquitto_server import MosquittoServer, free_port
from tests.spark_bench import BEHAVIOURS, JOBS, MqttFriend, place_of_fault
from tests.standalone_server import StandaloneServer


class StandaloneBench:
    """One site: a cluster, a broker, and who serves files to it."""

    def __init__(self, server: StandaloneServer, broker: MosquittoServer, files: ArtifactServer) -> None:
        self.server, self.broker, self.files = server, broker, files
        self.inventory = Inventory({"A": one_site("A", server.address, broker.address, **server.engine)})
        self.master = Master(server.address, self.inventory.engine(server.address))
        self._engines: list[StandaloneEngine] = []
        self._broker = MqttBroker(broker.address, self.inventory)
        self.mqtt = MqttFriend(broker.port)

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
        self.master.close()
        self._broker.close()
        self.mqtt.close()

    def binder(self) -> StandaloneEngine:
        return self._binder(self.server.address, self.inventory)

    def dead_binder(self) -> StandaloneEngine:
        address = f"spark://127.0.0.1:{free_port()}"
        ports = {"rest_port": free_port(), "ui_port": free_port()}
        engine = one_site("A", address, self.broker.address, checkpoint_dir="/nowhere", **ports)
        return self._binder(address, Inventory({"A": engine}))

    def job(
        self, name: str, behaviour: str = "good", path: Path = JOBS / "simple.py", /, **arguments: Scalar
    ) -> Job:
        self._broker.ensure_session(client_id(name), f"in/{name}")
        return Job(
            job_name=name,
            spe_address=self.server.address,
            source_broker=self.broker.address,
            source_topic=f"in/{name}",
            sink_broker=self.broker.address,
            sink_topic=f"out/{name}",
            entry_class=BEHAVIOURS.get(behaviour, behaviour),
            job_path=str(path),
            engine="spark",
            arguments=arguments,
        )

    def feed(self, job: Job) -> None:
        self.mqtt.send(job.source_topic, ["a"])

    def fence(self, job: Job, attempt: int) -> None:
        """Let only this attempt at a job, or a newer one, read."""
        self._broker.fence(client_id(job.job_name), attempt)

    def running(self, job_name: str) -> int:
        """How many applications of the job have executors, or wait for them, by the master's own count."""
        told = self.master._json("GET", f"{self.master.ui}/json/", "web interface")
        return sum(each["name"].startswith(f"speck {job_name} ") for each in told["activeapps"])

    def fault_place(self) -> str:
        return place_of_fault()

    def _binder(self, address: str, inventory: Inventory) -> StandaloneEngine:
        engine = StandaloneEngine(address, inventory)
        engine.take_artifacts(self.files)
        self._engines.append(engine)
        return engine


def engine_of(server: StandaloneServer) -> Engine:
    """The cluster as an inventory has it."""
    return Engine(spe_address=server.address, **server.engine)
