"""``python -m benchmarks.adapt [--real] [--seeds N] [--json]``: the adaptation loop under change.

Without ``--real``: engines in memory and a clock that runs fast; ages are those of the cost model.  With it,
besides: two real Flink clusters and brokers, over which a step is made while the server is killed at random
moments, and one to a site that is slower than it says, which is taken back (as root), with the account of all
messages (12 minutes).
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from typing import Any

import yaml

from benchmarks.adapt import accelerated, back, kills
from testbed.results import add_output_options, published
from testbed.termination import run


def main() -> int:
    """Measure, and print YAML or JSON; 1 if messages were lost or doubled, or the loop made no step."""
    parser = argparse.ArgumentParser(prog="benchmarks.adapt", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="runs of scenarios with noise (default: 10)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=accelerated.SCENARIOS,
        default=accelerated.SCENARIOS,
        help="scenarios (all)",
    )
    parser.add_argument("--real", action="store_true", help="run over real engines, too")
    parser.add_argument("--kills", type=int, default=50, help="kills of the server with --real (default: 50)")
    add_output_options(parser)
    arguments = parser.parse_args()
    logging.getLogger("speck").setLevel(logging.CRITICAL)
    result: dict[str, Any] = {"in_memory": accelerated.measure(arguments.seeds, arguments.only)}
    if arguments.real:
        result["real_engines"] = kills.measure(kills.Options(kills=arguments.kills))
        result["slow_site"] = back.measure()
    if not published(arguments, "adapt", result):
        print(yaml.safe_dump(result, sort_keys=False))
    real = [result.get(name, {}) for name in ("real_engines", "slow_site")]
    wrong = any(each.get("lost") or each.get("doubled") for each in real)
    return 1 if wrong or without_step(result["in_memory"]) else 0


def without_step(found: Mapping[str, Any]) -> list[str]:
    """The scenarios that need a step of the loop and had none, so that they show nothing."""
    steps = {"steady": "steps", "lied_about_speed": "backs", "kills": "stepped"}
    return [name for name, count in steps.items() if name in found and not found[name][count]]


if __name__ == "__main__":
    run(main)
