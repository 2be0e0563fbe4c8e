"""Measures the quality of a network's paths from within its sites."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from speck.local.wan import Network
from testbed import ROOT

PORT = 7
_MODULE = "testbed.wan.endpoint"


@contextmanager
def endpoint(network: Network, site: str) -> Iterator[None]:
    """While the block runs, the measuring program answers at a site."""
    command = network.command(
        site, [sys.executable, "-m", _MODULE, "serve", network.address(site), str(PORT)]
    )
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            if not server.stdout.readline():
                raise RuntimeError(f"the measuring program does not start at {site}")
            yield
        finally:
            server.kill()


def round_trip(network: Network, source: str, target: str, times: int = 20) -> float:
    """The median round trip time of one byte over TCP, s."""
    return _measured(network, source, "rtt", target, str(times))


def bandwidth(network: Network, source: str, target: str, seconds: float = 4.0) -> float:
    """The payload of one TCP connection, bit/s."""
    return _measured(network, source, "bulk", target, str(seconds))


def _measured(network: Network, source: str, what: str, target: str, argument: str) -> float:
    command = network.command(
        source, [sys.executable, "-m", _MODULE, what, network.address(target), str(PORT), argument]
    )
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{what} from {source} to {target}: {done.stderr.strip()[-500:]}")
    return float(done.stdout)
