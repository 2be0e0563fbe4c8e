"""The contract of engines, and the slots and processes of a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from binders.flink import FLINK
from binders.mqtt import MQTT
from speck.binder import EngineBinder, Registry
from speck.core.inventory import Engine, Inventory
from speck.core.job import Job
from speck.errors import NoCapacity, OutcomeUnknown
from speck.testing import EngineContract, attempt_of
from speck.testing.engines import SharedJobs
from speck.testing.wire_trouble import Trouble
from testbed.benches.agents import LinkBench
from testbed.benches.flink import FlinkBench
from testbed.servers.flink import SMALL, FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from tests.support.skips import skip_without_flink
from tests.support.trials import trial

pytestmark = pytest.mark.engine


@pytest.fixture(name="flink_server", scope="module")
def flink_server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkServer]:
    """A cluster of two processes, as sites have it."""
    skip_without_flink()
    with FlinkServer(tmp_path_factory.mktemp("flink")) as server:
        yield server


class TestContract(EngineContract):
    """The contract that all engines keep."""

    @pytest.fixture
    def bench(self, flink_bench: FlinkBench) -> FlinkBench:
        return flink_bench


class LinkedFlinkBench(FlinkBench):
    """The bench, whose cluster is reached through an agent."""

    def __init__(self, server: FlinkServer, jar: Path, broker: MosquittoServer, directory: Path) -> None:
        super().__init__(server, jar, broker)
        engines = [Engine(spe_address=server.address)]
        self.link = LinkBench(directory, Registry.of([FLINK, MQTT]), engines, broker.address)
        self.link.await_contact()

    def binder(self, inventory: Inventory | None = None) -> Any:
        return self.link.engine(self.server.address)

    def dead_binder(self) -> Any:
        return self._served(super().dead_binder())

    @contextmanager
    def troubled_binder(self, trouble: Trouble) -> Iterator[EngineBinder]:
        with super().troubled_binder(trouble) as engine:
            yield self._served(engine)

    @contextmanager
    def slow_binder(self) -> Iterator[EngineBinder]:
        with super().slow_binder() as engine:
            yield self._served(engine)

    @contextmanager
    def losing_binder(self, job: Job) -> Iterator[EngineBinder]:
        with super().losing_binder(job) as engine:
            yield self._served(engine)

    def _served(self, engine: Any) -> EngineBinder:
        return self.link.serve(engine, engine.address)


@trial("tests/promises/test_autonomy.py")
class TestContractThroughAnAgent(EngineContract):
    """The same contract, by calls over an agent's connection."""

    @pytest.fixture(scope="class")
    @classmethod
    def linked(
        cls,
        flink_server: FlinkServer,
        flink_jobs: Path,
        site_brokers: Mapping[str, MosquittoServer],
        tmp_path_factory: pytest.TempPathFactory,
    ) -> Iterator[LinkedFlinkBench]:
        bench = LinkedFlinkBench(flink_server, flink_jobs, site_brokers["A"], tmp_path_factory.mktemp("link"))
        yield bench
        bench.close()
        bench.link.close()

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, linked: LinkedFlinkBench) -> Iterator[SharedJobs]:
        with ExitStack() as ends:  # before the link is closed
            yield SharedJobs(ends)

    @pytest.fixture
    def bench(self, linked: LinkedFlinkBench) -> LinkedFlinkBench:
        return linked


def test_capacity(flink_bench: FlinkBench) -> None:
    capacity = flink_bench.binder().capacity()
    assert capacity.slots == 32
    assert capacity.cores == os.cpu_count()
    assert capacity.memory is not None
    assert 400 << 20 < capacity.memory < 2 << 30


def test_room_is_promised_once(flink_bench: FlinkBench, job_name: str) -> None:
    jobs = [flink_bench.job(f"{job_name}-{number}") for number in range(6)]

    def check(job: Job) -> bool:
        try:
            flink_bench.binder().check(job, None)
        except NoCapacity:
            return False
        return True

    with flink_bench.room_for_one() as engine, ThreadPoolExecutor(len(jobs)) as pool:
        passed = [job for job, fits in zip(jobs, pool.map(check, jobs), strict=True) if fits]
        assert len(passed) == 1
        engine.stop(engine.submit(passed[0], attempt_of(passed[0])), keep_state=False)
        assert check(jobs[-1])


@pytest.mark.skipif(SMALL, reason="a cluster of one process has no TaskManager that is killed alone")
def test_a_main_method_ends_with_its_job_manager(flink_bench: FlinkBench, job_name: str) -> None:
    engine = flink_bench.binder()
    job = flink_bench.job(job_name, "streets.Counting$Slow", seconds=60)
    attempt = attempt_of(job)
    engine.rest.slow = 0.5
    with pytest.raises(OutcomeUnknown):
        engine.submit(job, attempt)
    with pytest.raises(OutcomeUnknown, match="may still start it"):
        engine.find(attempt)
    flink_bench.server.kill_task_manager()  # this is the same JobManager
    with pytest.raises(OutcomeUnknown, match="may still start it"):
        engine.find(attempt)
    flink_bench.server.kill_job_manager()
    assert engine.find(attempt) is None
