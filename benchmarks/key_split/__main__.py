"""``python -m benchmarks.key_split simulate [--json] [--seeds N]``: the partitioners in a simulation."""

from __future__ import annotations

import sys

from benchmarks.key_split import simulate


def main() -> int:
    """Run the measurement that the first argument names."""
    if sys.argv[1:2] != ["simulate"]:
        print("usage: python -m benchmarks.key_split simulate [--json] [--seeds N]", file=sys.stderr)
        return 2
    return simulate.main(sys.argv[2:])


if __name__ == "__main__":
    raise SystemExit(main())
