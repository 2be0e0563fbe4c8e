"""SpecK beside light pipelines: what each loses and repeats while it is killed, and the memory of a site.

``python -m benchmarks.rivals [--json] [--only NAME ...] [--kills N] [--messages N] [--jobs N]``.  Each
passes the messages of one topic on to another at the same kind of broker, at 200 messages/s, and is killed
again and again meanwhile (:mod:`testbed.rivals`).  One that cannot be installed is left out with the reason.
Bento is not among them: the Go module proxy does not serve its module.
``--tools`` is the folder to which Node-RED is installed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from testbed.results import add_output_options, published
from testbed.rivals.pipelines import NodeRed, PahoRelay, SpeckJobs, install_node_red
from testbed.rivals.trial import Kills, tried
from testbed.servers.base import NotInstalled, RealServer
from testbed.servers.mosquitto import MosquittoServer

Making = Callable[[Path, MosquittoServer, int], RealServer]
_REST = 10.0  # s before the memory is read


def pipelines(tools: Path) -> dict[str, Making]:
    """The functions that make each pipeline: in a folder, at a broker, with a number of hops."""

    def node_red(best: bool) -> Making:
        return lambda folder, broker, jobs: NodeRed(folder, broker, install_node_red(tools), jobs, best=best)

    return {
        "speck": SpeckJobs,
        "paho relay": PahoRelay,
        "node-red": node_red(False),
        "node-red, best": node_red(True),
    }


def measure(make: Making, kills: int, messages: int, jobs: int) -> dict[str, Any]:
    """A row: counts of the trial, and the memory of the processes with 1 job and with more, in MB."""
    found: dict[str, Any] = {}
    try:
        for number in sorted({1, jobs}):
            with tempfile.TemporaryDirectory(prefix="speck-rivals-") as directory:
                folder = Path(directory)
                with (
                    MosquittoServer(folder / "broker") as broker,
                    make(folder / "pipeline", broker, number) as pipeline,
                ):
                    counts = tried(broker, pipeline, Kills(kills if number == 1 else 0), messages=messages)
                    if number == 1:
                        found |= counts
                    time.sleep(_REST)
                    found[f"memory_mb_{number}_jobs"] = round(_memory(pipeline) / 1e6, 1)
    except NotInstalled as error:
        return {"skipped": str(error)}
    return found


def _memory(pipeline: RealServer) -> int:
    """Proportional memory (proc(5), smaps_rollup: Pss) of all processes, in bytes."""
    processes = [psutil.Process(pid) for pid in pipeline.pids]
    everyone = {each for top in processes for each in (top, *top.children(recursive=True))}
    return sum(each.memory_full_info().pss for each in everyone)


def main() -> None:
    """Measure, and print lines or one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_output_options(parser)
    parser.add_argument("--only", action="append", metavar="NAME", help="by default each")
    parser.add_argument("--kills", type=int, default=50, metavar="N")
    parser.add_argument("--messages", type=int, default=5000, metavar="N", help="at least")
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="of the second look at memory")
    parser.add_argument("--tools", type=Path, default=Path(tempfile.gettempdir()) / "speck-rivals-tools")
    given = parser.parse_args()
    known = pipelines(given.tools)
    if unknown := sorted({*(given.only or ())} - {*known}):
        parser.error(f"--only {unknown[0]!r} is no pipeline (expected one of {', '.join(known)})")
    rows: dict[str, dict[str, Any]] = {}
    for name in given.only or known:
        print(name, file=sys.stderr)
        rows[name] = measure(known[name], given.kills, given.messages, given.jobs)
    if published(given, "rivals", {"pipelines": rows}):
        return
    for name, row in rows.items():
        print(f"{name}: {', '.join(f'{key} {value}' for key, value in row.items())}")


if __name__ == "__main__":
    main()
