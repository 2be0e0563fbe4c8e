"""``python -m benchmarks.wan [--json]``: the rig's round trips and bandwidths against what was asked for.

Each profile joins two sites.  ``rtt_error`` and ``bandwidth_error`` are the largest relative errors over all
profiles, of medians of ``--runs``; a TCP payload is at most 0.965 of a link's bandwidth.  ``relay_cores``
is the processor time of the relay, in cores, at the bandwidth of each profile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from speck.local.wan import EmulatedLink, Network, unavailable
from testbed.results import add_output_options, published
from testbed.termination import run
from testbed.wan.measure import bandwidth, endpoint, round_trip

MBIT = 1e6
# Bandwidth (bit/s) and round trip (s) of each profile.
PROFILES: dict[str, tuple[float | None, float]] = {
    "2 Mbit/160 ms": (2 * MBIT, 0.160),
    "25 Mbit/80 ms": (25 * MBIT, 0.080),
    "100 Mbit/20 ms": (100 * MBIT, 0.020),
    "unbounded/18.6 ms": (None, 0.0186),
}
_OUTAGE = 2.0  # s


def main() -> int:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="benchmarks.wan", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each profile (default: 3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of a transfer, s (default: 4)")
    add_output_options(parser)
    arguments = parser.parse_args()
    if reason := unavailable():
        print(json.dumps({"skipped": reason}) if arguments.json else f"skipped: {reason}")
        return 0
    result = measure(arguments.runs, arguments.seconds)
    if not published(arguments, "wan", result):
        _print(result)
    return 0


def measure(runs: int, seconds: float) -> dict[str, Any]:
    """All figures, by key."""
    rows = {name: profile(*each, runs, seconds) for name, each in PROFILES.items()}
    rows["halving"] = halving(runs, seconds)
    return {
        "profiles": rows,
        "rtt_error": max(row["rtt_error"] for row in rows.values() if "rtt_error" in row),
        "bandwidth_error": max(row["bandwidth_error"] for row in rows.values() if "bandwidth_error" in row),
        "outage": outage(),
    }


def profile(asked: float | None, trip: float, runs: int, seconds: float) -> dict[str, float]:
    """The measured figures of one profile."""
    link = EmulatedLink.of(asked, trip)
    with Network({"A": link, "B": link}) as network, endpoint(network, "B"):
        trips = [round_trip(network, "A", "B") for _ in range(runs)]
        used, begun = processor_seconds(network.relay_pid), time.monotonic()
        rates = [bandwidth(network, "A", "B", seconds) for _ in range(runs)]
        cores = (processor_seconds(network.relay_pid) - used) / (time.monotonic() - begun)
    row = {"rtt": statistics.median(trips), "bandwidth": statistics.median(rates), "relay_cores": cores}
    row["rtt_error"] = abs(row["rtt"] / trip - 1)
    return row if asked is None else row | {"bandwidth_error": abs(row["bandwidth"] / asked - 1)}


def halving(runs: int, seconds: float) -> dict[str, float]:
    """A link of 25 Mbit/s that is halved while it is up."""
    link, half = EmulatedLink.of(25 * MBIT, 0.08), EmulatedLink.of(12.5 * MBIT, 0.08)
    with Network({"A": link, "B": link}) as network, endpoint(network, "B"):
        before = bandwidth(network, "A", "B", seconds)
        network.set_link("A", half)
        after = statistics.median(bandwidth(network, "A", "B", seconds) for _ in range(runs))
    return {"before": before, "bandwidth": after, "bandwidth_error": abs(after / (12.5 * MBIT) - 1)}


def outage() -> dict[str, float]:
    """The bytes of a transfer that pass a link before, during and after its outage, each within 2 s."""
    link = EmulatedLink.of(25 * MBIT, 0.04)
    with Network({"A": link, "B": link}) as network, endpoint(network, "B"), ThreadPoolExecutor(1) as threads:
        transfer = threads.submit(bandwidth, network, "A", "B", 6 * _OUTAGE)
        time.sleep(1)
        found: dict[str, float] = {"before": passed(network)}
        network.cut("A")
        found["during"] = passed(network)
        network.cut("A", out=False)
        time.sleep(_OUTAGE)  # until TCP tries again
        found["after"] = passed(network)
        transfer.result()
    return found


def passed(network: Network) -> int:
    """The bytes that pass the relay within 2 s."""
    before = sum(network.bytes_between().values())
    time.sleep(_OUTAGE)
    return sum(network.bytes_between().values()) - before


def processor_seconds(pid: int) -> float:
    """The processor time of a process, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _print(result: dict[str, Any]) -> None:
    for name, row in result["profiles"].items():
        figures = ", ".join(f"{key} {value:.3g}" for key, value in row.items())
        print(f"{name}: {figures}")
    print(f"outage: {result['outage']}")
    print(f"rtt_error {result['rtt_error']:.3f}, bandwidth_error {result['bandwidth_error']:.3f}")


if __name__ == "__main__":
    run(main)
