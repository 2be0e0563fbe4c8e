"""The measurements of a link and of a core, on a real Spark Connect server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from binders.spark.connect.engine import ConnectEngine
from speck.binder import Probes
from speck.core.inventory import Inventory
from speck.errors import NoCapacity, Rejected
from tests.support.examples import one_site
from tests.support.mosquitto_server import MosquittoServer
from tests.support.real_server import free_port
from tests.support.spark_bench import MqttFriend, SparkBench
from tests.support.spark_server import SparkServer
from tests.support.wire_trouble import Relay


@pytest.fixture(name="bench")
def bench_fixture(
    spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path
) -> Iterator[SparkBench]:
    bench = SparkBench(spark_server, mosquitto, tmp_path)
    yield bench
    bench.close()


def test_a_link_and_one_that_is_farther(bench: SparkBench, mosquitto: MosquittoServer) -> None:
    engine, friend = bench.binder(), MqttFriend(mosquitto.port, "speck/probe/#")
    assert isinstance(engine, Probes)
    near = engine.probe_link(mosquitto.address)
    with Relay(mosquitto.port, delay=0.05) as relay:
        far = engine.probe_link(f"tcp://127.0.0.1:{relay.port}")
    assert 0 < near.rtt < far.rtt
    assert far.rtt >= 0.05
    assert near.bandwidth > far.bandwidth > 0
    sizes = [len(payload) for _, payload in friend.received]
    friend.close()
    assert sizes.count(1) == 2 * 21
    assert sum(size for size in sizes if size > 1) == near.bytes_sent + far.bytes_sent <= 2 * (4 << 20)


def test_a_core(bench: SparkBench) -> None:
    probe = bench.binder().probe_core()
    assert 1e4 < probe.keyed < 1e9  # readings/s: from a slow core to an impossible one
    assert 1e4 < probe.stateless < 1e9


def test_a_broker_out_of_reach_is_named(bench: SparkBench) -> None:
    port = free_port()
    with pytest.raises(Rejected, match=f"cannot write to broker tcp://127.0.0.1:{port}"):
        bench.binder().probe_link(f"tcp://127.0.0.1:{port}")


def test_a_server_without_a_free_slot_runs_no_probe(
    spark_server: SparkServer, mosquitto: MosquittoServer
) -> None:
    site = one_site("A", spark_server.address, mosquitto.address, slots=0)
    engine = ConnectEngine(spark_server.address, Inventory({"A": site}))
    with closing(engine), pytest.raises(NoCapacity, match="no room for a probe: 0 slots in use"):
        engine.probe_core()
