"""The wide area rig: its links delay, bound, lose and count, and leave nothing behind.  Needs root."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from speck.local.wan import EmulatedLink, Network
from speck.local.wan.cgroup import CpuQuota
from testbed import ROOT
from testbed.wan.endpoint import round_trip as round_trip_from_here
from testbed.wan.measure import PORT, bandwidth, endpoint, round_trip

_TRIP = 0.16  # s
_BANDWIDTH = 2e6  # bit/s
_BURN = """
import os, time
end = time.monotonic() + 2
while time.monotonic() < end:
    pass
print(os.times().user)
"""

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("needs_network")]


@pytest.fixture(name="network", scope="module")
def network_fixture(needs_network: None) -> Iterator[Network]:
    link = EmulatedLink.of(_BANDWIDTH, _TRIP)
    with Network({"A": link, "B": link, "C": EmulatedLink()}) as network, endpoint(network, "B"):
        yield network


def test_a_round_trip_takes_the_delay_of_both_links(network: Network) -> None:
    assert round_trip(network, "A", "B", 3) >= _TRIP
    assert round_trip(network, "C", "B", 3) >= _TRIP / 2


def test_this_machine_reaches_a_site_at_the_same_address_without_the_delay(network: Network) -> None:
    assert round_trip_from_here(network.address("B"), PORT, 5) < _TRIP / 2


def test_no_more_passes_than_the_bandwidth(network: Network) -> None:
    assert 0.5 * _BANDWIDTH < bandwidth(network, "A", "B", 2.0) < _BANDWIDTH


def test_bytes_are_counted_by_sender_and_receiver(network: Network) -> None:
    before = network.bytes_between()
    round_trip(network, "C", "B", 10)
    after = network.bytes_between()
    grown = {pair for pair, count in after.items() if count > before.get(pair, 0)}
    assert {("C", "B"), ("B", "C")} <= grown
    assert not {("C", "A"), ("A", "C")} & grown


def test_nothing_passes_during_an_outage(network: Network) -> None:
    network.cut("B")
    before = network.bytes_between()
    with pytest.raises(RuntimeError, match="rtt from A to B"):
        round_trip(network, "A", "B", 1)
    assert network.bytes_between() == before
    network.cut("B", out=False)
    assert round_trip(network, "A", "B", 1) >= _TRIP


def test_a_link_that_gets_narrower_passes_what_waits_already() -> None:
    """A transfer that begins has large packets in the queue; the change comes at once after it."""
    wide, narrow = EmulatedLink.of(25e6, 0.08), EmulatedLink.of(12.5e6, 0.08)
    with Network({"A": wide, "B": wide}) as network, endpoint(network, "B"):
        for _ in range(4):
            network.set_link("A", wide)
            bandwidth(network, "A", "B", 0.5)
            network.set_link("A", narrow)
            assert round_trip(network, "A", "B", 1) > 0


def test_processes_use_no_more_cores_than_their_quota() -> None:
    with CpuQuota(f"speck-test-{os.getpid()}", 0.25) as quota:
        command = quota.command([sys.executable, "-c", _BURN])
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert float(done.stdout) < 0.9  # s of 2; 0.5 and one period more


def test_it_leaves_nothing_behind() -> None:
    with Network({"A": EmulatedLink(up=1e6), "B": EmulatedLink()}) as network:
        names = {network.namespace("A"), network.namespace("B")}
        relay = network.relay_pid
        assert names <= _namespaces()
    assert not names & _namespaces()
    with pytest.raises(ProcessLookupError):
        os.kill(relay, 0)


def _namespaces() -> set[str]:
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in done.stdout.splitlines() if line}
