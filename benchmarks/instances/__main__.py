"""``python -m benchmarks.instances [--messages N] [--trials NAME ...] [--json]``: a shared subscription.

Two readers of one shared subscription at a real Mosquitto, in the configuration that SpecK ships.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.instances.trials import TRIALS
from testbed.results import add_output_options, published
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.termination import run


def main() -> int:
    """Run the trials, each at a broker of its own, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="benchmarks.instances", description=__doc__)
    parser.add_argument("--messages", type=int, default=1000, help="messages of a trial (default: 1000)")
    parser.add_argument("--trials", nargs="+", choices=TRIALS, default=list(TRIALS), metavar="NAME")
    add_output_options(parser)
    options = parser.parse_args()
    if PROGRAM is None:
        print("mosquitto is not installed (apt-get install mosquitto)", file=sys.stderr)
        return 1
    found = {}
    for name in options.trials:
        with tempfile.TemporaryDirectory() as directory, MosquittoServer(Path(directory)) as broker:
            found[name] = TRIALS[name](broker, options.messages)
    if not published(options, "instances", {"messages": options.messages, "trials": found}):
        for name, values in found.items():
            print(f"{name}: {', '.join(f'{key} {value:.4g}' for key, value in values.items())}")
    return 0


if __name__ == "__main__":
    run(main)
