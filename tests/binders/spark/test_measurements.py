"""The measurements of a link and of a core, on a real Spark Connect server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from binders.spark.connect.engine import ConnectEngine
from speck.core.inventory import Inventory
from speck.errors import NoCapacity, Rejected
from testbed.benches.examples import one_site
from testbed.benches.spark import SparkBench
from testbed.doubles.measured_links import check_core, check_links
from testbed.servers.base import REFUSING_PORT
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer

pytestmark = pytest.mark.engine


@pytest.fixture(name="bench")
def bench_fixture(
    spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path
) -> Iterator[SparkBench]:
    bench = SparkBench(spark_server, mosquitto, tmp_path)
    yield bench
    bench.close()


def test_a_link_and_one_that_is_farther(bench: SparkBench, mosquitto: MosquittoServer) -> None:
    check_links(bench.binder(), mosquitto)


def test_a_core(bench: SparkBench) -> None:
    check_core(bench.binder())


def test_a_broker_is_reached_by_the_address_for_jobs(
    spark_server: SparkServer, mosquitto: MosquittoServer
) -> None:
    site = one_site("A", spark_server.address, "tcp://elsewhere:1883")
    inventory = Inventory({"A": replace(site, job_broker_address=mosquitto.address)})
    with closing(ConnectEngine(spark_server.address, inventory)) as engine:
        assert 0 < engine.reach("tcp://elsewhere:1883") < 5


def test_a_broker_out_of_reach_is_named(bench: SparkBench) -> None:
    """Also if it is reached by an address for jobs; both at once, as the server tries for 10 s."""
    broker = f"tcp://127.0.0.1:{REFUSING_PORT}"
    site = one_site("A", bench.server.address, "tcp://elsewhere:1883")
    nowhere = Inventory({"A": replace(site, job_broker_address=broker)})
    with closing(ConnectEngine(bench.server.address, nowhere)) as engine, ThreadPoolExecutor(2) as pool:
        reached = pool.submit(engine.reach, "tcp://elsewhere:1883")
        measured = pool.submit(bench.binder().probe_link, broker)
        with pytest.raises(Rejected, match=f"cannot (reach|write to) broker {re.escape(broker)}"):
            reached.result()
        with pytest.raises(Rejected, match=f"cannot write to broker {re.escape(broker)}"):
            measured.result()


def test_a_server_without_a_free_slot_runs_no_probe(
    spark_server: SparkServer, mosquitto: MosquittoServer
) -> None:
    site = one_site("A", spark_server.address, mosquitto.address, slots=0)
    engine = ConnectEngine(spark_server.address, Inventory({"A": site}))
    with closing(engine), pytest.raises(NoCapacity, match="no room for a probe: 0 slots in use"):
        engine.probe_core()
