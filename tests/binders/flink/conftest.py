"""The bench of the tests on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testbed.benches.flink import FlinkBench
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer


@pytest.fixture(name="flink_bench", scope="module")
def flink_bench_fixture(
    flink_server: FlinkServer, flink_jobs: Path, site_brokers: Mapping[str, MosquittoServer]
) -> Iterator[FlinkBench]:
    """The cluster of the session, or that of a module with a fixture ``flink_server`` of its own."""
    bench = FlinkBench(flink_server, flink_jobs, site_brokers["A"])
    yield bench
    bench.close()
