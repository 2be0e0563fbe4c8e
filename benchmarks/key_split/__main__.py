"""``python -m benchmarks.key_split MEASUREMENT [...]``: see each one's ``--help``."""

from __future__ import annotations

import sys

from benchmarks.key_split import hot_towns, simulate, spark, train
from testbed.termination import run

MEASUREMENTS = {
    "simulate": simulate.main,
    "spark": spark.main,
    "hot-towns": hot_towns.main,
    "steps": train.write_steps,
    "train": train.main,
}


def main() -> int:
    """Run the measurement that the first argument names."""
    if sys.argv[1:2] == [] or sys.argv[1] not in MEASUREMENTS:
        names = " | ".join(MEASUREMENTS)
        print(f"usage: python -m benchmarks.key_split {names} [--help]", file=sys.stderr)
        return 2
    return MEASUREMENTS[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    run(main)
