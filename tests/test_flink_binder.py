"""The Flink binder against a real cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.binder_contract import EngineContract
from tests.flink_bench import FlinkBench
from tests.flink_server import FlinkServer


@pytest.fixture(name="flink_bench", scope="module")
def flink_bench_fixture(flink_server: FlinkServer, flink_jobs: Path) -> Iterator[FlinkBench]:
    bench = FlinkBench(flink_server, flink_jobs)
    yield bench
    bench.close()


@pytest.fixture(name="job_name")
def job_name_fixture(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:90]


class TestContract(EngineContract):
    """The contract that all engines keep."""

    @pytest.fixture
    def bench(self, flink_bench: FlinkBench) -> FlinkBench:
        return flink_bench
