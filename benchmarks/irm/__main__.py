"""``python -m benchmarks.irm [--json]``: a day of a fleet of workers, simulated, under three rules.

``speck`` fits an instance into the free share of a worker, ``published`` into that less 5 % of the worker,
as HarmonicIO does, and ``even`` spreads over a fixed fleet, as large as ``speck`` has at most.  Medians over
seeds.
"""

from __future__ import annotations

import argparse
import json
from statistics import median
from typing import Any

from benchmarks.irm.fleet import simulate

COLUMNS = (
    *("fill_before_next", "bins_over_least", "bins_over_least_day", "cpu_error"),
    *("workers_most", "worker_hours", "overloaded_share", "waited_seconds_p99"),
)


def main() -> int:
    """Simulate, and print a table or JSON."""
    options = _parser().parse_args()
    result = measure(options.instances, options.noise, options.seeds)
    if options.json:
        print(json.dumps(result))
    else:
        _print(result)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.irm", description=__doc__)
    parser.add_argument("--instances", type=int, default=8000, help="instances of a day (default: 8000)")
    noise = "deviation of the shares of instances (default: 0.02 and 0.2)"
    parser.add_argument("--noise", type=float, nargs="+", default=[0.02, 0.2], help=noise)
    parser.add_argument("--seeds", type=int, default=5, help="days of each (default: 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def measure(instances: int, noises: list[float], seeds: int) -> dict[str, Any]:
    """The medians over seeds, by noise and rule."""
    result: dict[str, Any] = {"instances": instances, "seeds": seeds}
    for noise in noises:
        days = [simulate(instances, noise, seed) for seed in range(1, seeds + 1)]
        result[f"simulated_{noise:g}"] = {
            rule: {key: median(day[rule][key] for day in days) for key in COLUMNS} for rule in days[0]
        }
    return result


def _print(result: dict[str, Any]) -> None:
    for part, rules in result.items():
        if not isinstance(rules, dict):
            continue
        print(f"{part}, {result['instances']:,} instances, median of {result['seeds']} days")
        for rule, figures in rules.items():
            print(f"  {rule:10}", "  ".join(f"{key} {figures[key]:.3f}" for key in COLUMNS))


if __name__ == "__main__":
    raise SystemExit(main())
