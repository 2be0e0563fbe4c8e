"""The programs that measure a link and a core, on a real cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from binders.flink.probes import core_probe, link_probe
from speck.core.inventory import Inventory
from speck.core.profile import CoreProbe, LinkProbe
from speck.errors import Rejected
from testbed.benches.examples import one_site
from testbed.benches.flink import FlinkBench
from testbed.doubles.measured_links import check_core, check_links
from testbed.servers.base import REFUSING_PORT
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer


@pytest.fixture(name="bench", scope="module")
def bench_fixture(flink_server: FlinkServer, flink_jobs: Path) -> Iterator[FlinkBench]:
    bench = FlinkBench(flink_server, flink_jobs)
    yield bench
    bench.close()


def test_a_link_and_one_that_is_farther(bench: FlinkBench, mosquitto: MosquittoServer) -> None:
    check_links(bench.binder(), mosquitto)
    assert {line.name for line in bench.rest.jobs().values() if not line.ended} == set()
    assert not [name for name in bench.rest.jars().values() if "flink-mqtt" in name]


def test_a_core(bench: FlinkBench) -> None:
    check_core(bench.binder())


def test_a_broker_is_reached_by_the_address_for_jobs(bench: FlinkBench, mosquitto: MosquittoServer) -> None:
    site = one_site("A", bench.server.address, "tcp://elsewhere:1883")
    inventory = Inventory({"A": replace(site, job_broker_address=mosquitto.address)})
    assert 0 < bench.binder(inventory).reach("tcp://elsewhere:1883") < 5


def test_a_broker_out_of_reach_is_named(bench: FlinkBench) -> None:
    """Also if it is reached by an address for jobs; both at once, as the programs try for 10 s."""
    broker = f"tcp://127.0.0.1:{REFUSING_PORT}"
    site = one_site("A", bench.server.address, "tcp://elsewhere:1883")
    nowhere = Inventory({"A": replace(site, job_broker_address=broker)})
    with ThreadPoolExecutor(2) as pool:
        reached = pool.submit(bench.binder(nowhere).reach, "tcp://elsewhere:1883")
        measured = pool.submit(bench.binder().probe_link, broker)
        with pytest.raises(Rejected, match=f"cannot (reach|write to) broker {re.escape(broker)}"):
            reached.result()
        with pytest.raises(Rejected, match=f"127.0.0.1:{REFUSING_PORT}"):
            measured.result()


def test_results() -> None:
    found = {"rttMillis": "12.5", "bytesPerSecond": "1.5E6", "probeBytes": "4096"}
    assert link_probe(found) == LinkProbe(rtt=0.0125, bandwidth=1.5e6, bytes_sent=4096)
    assert core_probe({"statelessPerSecond": "5.0", "keyedPerSecond": "4.0"}) == CoreProbe(
        stateless=5, keyed=4
    )
