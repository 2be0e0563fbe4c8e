"""The Spark standalone binder against a real cluster, a real artifact server and a real broker."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from speck.model import JobState
from tests.binder_contract import EngineContract
from tests.mosquitto_server import MosquittoServer
from tests.rest_server import rest_server
from tests.standalone_bench import StandaloneBench
from tests.standalone_server import StandaloneServer


@pytest.fixture(name="bench", scope="module")
def bench_fixture(
    standalone_server: StandaloneServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandaloneBench]:
    directory = tmp_path_factory.mktemp("bench")
    # The API wants a token, and the artifacts have their own.
    with (
        MosquittoServer(directory / "mosquitto") as broker,
        rest_server(directory / "coordinator", token="of-the-api") as rest,
    ):
        assert rest.coordinator.files is not None
        bench = StandaloneBench(standalone_server, broker, rest.coordinator.files)
        yield bench
        bench.close()


@pytest.fixture(name="job_name")
def job_name_fixture(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:90]


class TestContract(EngineContract):
    """The contract that all engines keep."""

    @pytest.fixture
    def bench(self, bench: StandaloneBench) -> StandaloneBench:
        return bench
