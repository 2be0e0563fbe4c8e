"""``python -m benchmarks.instances [--messages N] [--trials NAME ...] [--json]``: a shared subscription.

Two readers of one shared subscription at a real Mosquitto, in the configuration that SpecK ships.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.instances.trials import TRIALS
from testbed.servers.mosquitto import PROGRAM, MosquittoServer


def main() -> int:
    """Run the trials, each at a broker of its own, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="benchmarks.instances", description=__doc__)
    parser.add_argument("--messages", type=int, default=1000, help="messages of a trial (default: 1000)")
    parser.add_argument("--trials", nargs="+", choices=TRIALS, default=list(TRIALS), metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if PROGRAM is None:
        print("mosquitto is not installed (apt-get install mosquitto)", file=sys.stderr)
        return 1
    found = {}
    for name in options.trials:
        with tempfile.TemporaryDirectory() as directory, MosquittoServer(Path(directory)) as broker:
            found[name] = TRIALS[name](broker, options.messages)
        if not options.json:
            figures = (f"{key} {value:.4g}" for key, value in found[name].items())
            print(f"{name}: {', '.join(figures)}", flush=True)
    if options.json:
        print(json.dumps({"messages": options.messages, "trials": found}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
