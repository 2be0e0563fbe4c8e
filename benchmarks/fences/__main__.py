"""``python -m benchmarks.fences [--json] [--only core] [--fences 1000,10000,100000]``: figures of geofencing.

``core`` measures the functions of the jobs alone, in processor time (:mod:`benchmarks.fences.core`), for
some numbers of fences, of cells and circles, and of cells alone.  ``engines`` runs the composition on two
edges and the cloud, each a Spark Connect server and a broker on this machine
(:mod:`benchmarks.fences.engines`): the time from a position to its event, and the bytes that cross between
the sites, with the jobs at the edges and with all of them in the cloud.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import yaml

from benchmarks.fences import core, engines
from testbed.results import add_output_options, published
from testbed.termination import run


def _numbers(text: str) -> list[int]:
    found = [int(each) for each in text.split(",")]
    if not all(10 <= each <= 1_000_000 for each in found):
        raise argparse.ArgumentTypeError(f"{text!r} is out of range (expected 10 to 1000000, with commas)")
    return found


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fences", description=__doc__)
    add = parser.add_argument
    add("--only", choices=["core", "engines"], help="one of the two parts")
    add("--fences", type=_numbers, default=[1_000, 10_000, 100_000], help="for core")
    add("--positions", type=int, default=50_000, help="for core (default 50000)")
    add("--runs", type=int, default=5, help="for core (default 5)")
    add("--movers", type=int, default=1_000, help="for engines, each with a position in 10 s (default 1000)")
    add("--seconds", type=float, default=60.0, help="for engines (default 60)")
    add_output_options(parser)
    options = parser.parse_args()
    result: dict[str, Any] = {}
    if options.only != "engines":
        result["core"] = []
        for fences in options.fences:
            for circles in (True, False):
                kinds = "cells and circles" if circles else "cells"
                print(f"core: {fences:,} fences, {kinds}", file=sys.stderr, flush=True)
                result["core"].append(core.measure(fences, options.positions, options.runs, circles))
    if options.only != "core":
        result["engines"] = engines.measure(options.movers, options.seconds)
    if not published(options, "fences", result):
        print(yaml.safe_dump(result, sort_keys=False))


if __name__ == "__main__":
    run(main)
