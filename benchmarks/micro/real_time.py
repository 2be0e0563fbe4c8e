"""A hop in real time beside one in micro-batches: ``python -m benchmarks.real_time [--seconds 600]``.

The forwarding job of Spark, started by SpecK's binder on a Connect server of its own: first in real time,
then with Spark's own trigger.  At 1,000 messages/s, after 5 s to warm up, the percentiles of the latency over
all messages of the time, and the processor time of the server.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.load.generator import generator
from benchmarks.load.hops import HEAP, PROGRAMS, engine_up
from benchmarks.load.processes import server
from benchmarks.micro.hop import LATENCY_WARMUP, RATE, Bench
from binders.mqtt.local import MOSQUITTO
from testbed.results import add_output_options, published
from testbed.termination import run

TRIGGERS = {"real_time": "real-time", "micro_batches": None}


def measure(seconds: Mapping[str, int], directory: Path) -> dict[str, float]:
    """The figures of both, by name, and the ratio of their processor times."""
    figures: dict[str, float] = {}
    with server("mosquitto", MOSQUITTO, directory / "broker", HEAP) as (broker, ports):
        (port,) = ports
        with generator(port, directory) as load:
            bench = Bench(broker, load)
            for name, trigger in TRIGGERS.items():
                address = MOSQUITTO.address(ports)
                found = dict(_paced(bench, directory / name, address, trigger, seconds[name]))
                figures |= {f"{name}_{key}": value for key, value in found.items()}
    used = [figures[f"{name}_cores"] for name in TRIGGERS]
    return figures | {"processor_time_ratio": round(used[0] / used[1], 3)}


def _paced(
    bench: Bench, directory: Path, broker: str, trigger: str | None, seconds: int
) -> Iterator[tuple[str, float]]:
    program = replace(PROGRAMS["spark"], trigger=trigger)
    with engine_up(program, directory, broker) as engine:
        hop, handle = engine.start("hop")
        bench.touch(hop)
        before = engine.process.cpu_seconds()
        latency = bench.paced(hop, seconds)
        used = engine.process.cpu_seconds() - before
        engine.stop("hop", handle)
    yield from ((key, value) for key, value in latency.items() if key.endswith("_ms"))
    yield "cores", round(used / (seconds + min(seconds, LATENCY_WARMUP)), 4)


def _table(figures: dict[str, float]) -> Table:
    shown = Table("figure", "value", title=f"A hop of Spark, {RATE:,} messages/s")
    for name, value in figures.items():
        shown.add_row(name, f"{value:g}")
    return shown


def main() -> None:
    """Measure, and show the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_time", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="in real time (default: 600)")
    parser.add_argument("--compared", type=int, default=120, help="s in micro-batches (default: 120)")
    add_output_options(parser)
    options = parser.parse_args()
    seconds = dict(zip(TRIGGERS, (options.seconds, options.compared), strict=True))
    with tempfile.TemporaryDirectory(prefix="speck-real-time-") as directory:
        found = measure(seconds, Path(directory))
    result: dict[str, Any] = {"seconds": seconds, **found}
    if not published(options, "real-time", result):
        Console().print(_table(found))


if __name__ == "__main__":
    run(main)
