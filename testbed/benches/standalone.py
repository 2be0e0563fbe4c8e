"""A real Spark standalone cluster, an artifact server and a broker as the bench of the contract."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from binders.spark.standalone import master
from binders.spark.standalone.engine import StandaloneEngine
from binders.spark.standalone.master import Master
from speck.core.inventory import Inventory
from speck.core.job import Job, client_id
from speck.core.runtime import Handle
from speck.store.served_files import ServedFiles
from speck.testing.wire_trouble import BrokenServer, Relay, Trouble
from testbed.benches.examples import one_site
from testbed.benches.spark import SparkJobs
from testbed.servers.base import free_port
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.standalone import StandaloneServer


class StandaloneBench(SparkJobs):
    """One site: a cluster, a broker, and the server of its files."""

    def __init__(self, server: StandaloneServer, broker: MosquittoServer, files: ServedFiles) -> None:
        inventory = Inventory({"A": one_site("A", server.address, broker.address, **server.engine)})
        super().__init__(server.address, broker, inventory, server.directory)
        self.server, self.files = server, files
        self.master = Master(server.address, self.inventory.engine(server.address))
        self._engines: list[StandaloneEngine] = []

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
        self.master.close()
        super().close()

    def binder(self) -> StandaloneEngine:
        return self._binder(self.server.address, self.inventory)

    def dead_binder(self) -> StandaloneEngine:
        ports = [free_port() for _ in range(3)]
        return self.at(ports[0], rest_port=ports[1], ui_port=ports[2])

    @contextmanager
    def troubled_binder(self, trouble: Trouble) -> Iterator[StandaloneEngine]:
        with BrokenServer(trouble) as server, patch.object(master, "ANSWER_TIMEOUT", 0.2):
            yield self.at(server.port, rest_port=server.port, ui_port=server.port)

    @contextmanager
    def slow_binder(self) -> Iterator[StandaloneEngine]:
        _, rest, ui, *_ = self.server.ports
        with Relay(rest, delay=0.1) as slow_rest, Relay(ui, delay=0.1) as slow_ui:
            yield self.at(self.server.ports[0], rest_port=slow_rest.port, ui_port=slow_ui.port)

    @contextmanager
    def losing_binder(self, job: Job) -> Iterator[StandaloneEngine]:
        with Relay(self.server.ports[1], lose_answer_to=b"CreateSubmissionRequest") as relay:
            yield self.at(self.server.ports[0], rest_port=relay.port)

    @contextmanager
    def room_for_one(self) -> Iterator[StandaloneEngine]:
        running = sum(driver.active for driver in self.master.cluster().drivers)
        yield self.at(self.server.ports[0], slots=running + 1)

    def fence(self, job: Job, attempt: int) -> None:
        """Allow only this attempt at a job, or a newer one, to read."""
        self._broker.fence(client_id(job.job_name), attempt)

    def running(self, job_name: str) -> int:
        """The number of the job's applications that have executors or wait for them, as the master counts."""
        return sum(name.startswith(f"speck {job_name} ") for name in self.master.cluster().applications)

    def forgotten(self, handle: Handle) -> Handle:
        return replace(handle, engine_id=uuid.uuid4().hex)

    def log_words(self) -> tuple[str, ...]:
        return ("ERROR MicroBatchExecution",)

    def at(self, port: int, **known: int) -> StandaloneEngine:
        """A binder of a master at another port, or with other fields in the inventory."""
        address = f"spark://127.0.0.1:{port}"
        site = one_site("A", address, self.broker.address, **{**self.server.engine, **known})
        return self._binder(address, Inventory({"A": site}))

    def _binder(self, address: str, inventory: Inventory) -> StandaloneEngine:
        engine = StandaloneEngine(address, inventory)
        engine.take_artifacts(self.files)
        self._engines.append(engine)
        return engine
