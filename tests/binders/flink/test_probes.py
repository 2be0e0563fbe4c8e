"""The programs that measure a link and a core, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binders.flink.probes import core_probe, link_probe
from speck.binder import Probes
from speck.core.profile import CoreProbe, LinkProbe
from speck.errors import Rejected
from tests.support.flink_bench import FlinkBench
from tests.support.flink_server import FlinkServer
from tests.support.mosquitto_server import MosquittoServer
from tests.support.real_server import free_port
from tests.support.spark_bench import MqttFriend
from tests.support.wire_trouble import Relay


@pytest.fixture(name="bench", scope="module")
def bench_fixture(flink_server: FlinkServer, flink_jobs: Path) -> Iterator[FlinkBench]:
    bench = FlinkBench(flink_server, flink_jobs)
    yield bench
    bench.close()


def test_a_link_and_one_that_is_farther(bench: FlinkBench, mosquitto: MosquittoServer) -> None:
    engine, friend = bench.binder(), MqttFriend(mosquitto.port, "speck/probe/#")
    assert isinstance(engine, Probes)
    near = engine.probe_link(mosquitto.address)
    with Relay(mosquitto.port, delay=0.05) as relay:
        far = engine.probe_link(f"tcp://127.0.0.1:{relay.port}")
    assert 0 < near.rtt < far.rtt
    assert far.rtt >= 0.05
    assert near.bandwidth > far.bandwidth > 0
    for probe in (near, far):
        assert 0 < probe.bytes_sent <= 4 << 20
    sizes = [len(payload) for _, payload in friend.received]
    friend.close()
    assert sizes.count(1) == 2 * 21
    assert sum(size for size in sizes if size > 1) == near.bytes_sent + far.bytes_sent
    assert {line.name for line in bench.rest.jobs().values() if not line.ended} == set()
    assert not [name for name in bench.rest.jars().values() if "flink-mqtt" in name]


def test_a_core(bench: FlinkBench) -> None:
    probe = bench.binder().probe_core()
    assert 1e4 < probe.keyed < 1e9  # readings/s: from a slow core to an impossible one
    assert 1e4 < probe.stateless < 1e9


def test_a_broker_out_of_reach_is_named(bench: FlinkBench) -> None:
    port = free_port()
    with pytest.raises(Rejected, match=f"127.0.0.1:{port}"):
        bench.binder().probe_link(f"tcp://127.0.0.1:{port}")


def test_results() -> None:
    found = {"rttMillis": "12.5", "bytesPerSecond": "1.5E6", "probeBytes": "4096"}
    assert link_probe(found) == LinkProbe(rtt=0.0125, bandwidth=1.5e6, bytes_sent=4096)
    assert core_probe({"statelessPerSecond": "5.0", "keyedPerSecond": "4.0"}) == CoreProbe(
        stateless=5, keyed=4
    )
