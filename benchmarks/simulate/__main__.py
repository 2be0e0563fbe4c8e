"""``python -m benchmarks.simulate [PART ...] [--json]``: policies and the loop, simulated.

The parts: ``agreement`` of the simulators with each other and of the cost model with them; ``real``, of
simulator (b) with runs of real engines, from ``--runs FILE``; ``regret`` of the policies; ``adapt``, the loop
over hours of changing conditions.  Intervals are of 95% over seeds, by the bootstrap.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.simulate import adapt, agreement, real, regret
from testbed.results import add_output_options, published
from testbed.termination import run

PARTS = ("agreement", "real", "regret", "adapt")


def main() -> int:
    """Simulate, and print tables or JSON."""
    options = _parser().parse_args()
    result = measure(options)
    if not published(options, "simulate", result):
        _print(result)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.simulate", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=[[], *PARTS], metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument("--seeds", type=int, default=20, help="random problems (default: 20)")
    parser.add_argument("--jobs", type=int, default=17, help="jobs of a problem (default: 17)")
    parser.add_argument("--sites", type=int, default=4, help="sites of a problem (default: 4)")
    parser.add_argument("--load", type=float, default=1.0, help="factor of the sources' rates (default: 1)")
    parser.add_argument("--policies", nargs="+", help="of regret (default: all, of 1,000 jobs on only some)")
    parser.add_argument("--budget", type=float, default=10.0, help="time of a policy, s (default: 10)")
    parser.add_argument("--trials", nargs="+", choices=adapt.TRIALS, help="of adapt (default: all)")
    parser.add_argument(
        "--compare", nargs="+", choices=adapt.VARIANTS, default=adapt.VARIANTS, help="variants of adapt (all)"
    )
    parser.add_argument("--step", type=float, default=0.1, help="step of adapt, s (default: 0.1)")
    parser.add_argument("--runs", type=Path, help="JSON lines of real runs, by benchmarks.placement gates")
    add_output_options(parser)
    return parser


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All figures of the parts, by key."""
    parts = options.parts or PARTS
    result: dict[str, Any] = {}
    if "agreement" in parts:
        result["agreement"] = agreement.compare(options.seeds)
        result["order"] = agreement.order(max(1, options.seeds // 2))
    if "regret" in parts:
        names = options.policies or (regret.LARGE if options.jobs >= 1000 else regret.SMALL)
        result["regret"] = regret.measure(
            options.seeds, options.jobs, options.sites, names, options.load, options.budget
        )
    if "adapt" in parts:
        result["adapt"] = adapt.measure(
            options.trials or list(adapt.TRIALS),
            options.compare,
            options.seeds,
            options.jobs,
            options.sites,
            options.load,
            options.step,
        )
    result["real"] = real.compare(real.read(options.runs)) if options.runs else {"runs": 0, "proven": False}
    if not result["real"]["proven"]:
        result["claims"] = real.UNPROVEN
    return result


def _print(result: dict[str, Any]) -> None:
    for part in ("agreement", "order", "real"):
        for name, value in _flat(result.get(part, {}), part):
            print(f"{name}: {value}")
    if "regret" in result:
        _print_regret(result["regret"]["policies"])
    if "adapt" in result:
        _print_adapt(result["adapt"])
    if "claims" in result:
        print(result["claims"])


def _print_regret(policies: dict[str, Any]) -> None:
    row = "{:<16} {:>24} {:>10} {:>8} {:>11} {:>20} {:>8}".format
    print(row("policy", "regret, median", "p90", "worst", "overloaded", "predicted/simulated", "s"))
    for name, each in policies.items():
        found = each["regret"]
        print(
            row(
                name,
                _percent(found["median"]),
                f"{found['p90']['value']:.1%}",
                f"{found['worst']:.0%}",
                each["overloaded"],
                f"{each['predicted_over_simulated']['value']:.3f}",
                f"{each['seconds']['value']:.2f}",
            )
        )


def _print_adapt(trials: dict[str, Any]) -> None:
    row = "{:<12} {:<11} {:>28} {:>9} {:>9} {:>24} {:>5} {:>6} {:>9}".format
    heads = ("excess, median", "mean", "p95", "steps a composition", "most", "backs", "returned")
    print(row("trial", "variant", *heads))
    for trial in (each for each in adapt.TRIALS if each in trials):
        for variant, each in trials[trial].items():
            print(
                row(
                    trial,
                    variant,
                    _percent(each["excess"]),
                    f"{each['excess_mean']['value']:.1%}",
                    f"{each['excess_p95']['value']:.1%}",
                    "{value:.2f} ({low:.2f} to {high:.2f})".format(**each["steps"]),
                    each["steps_most"],
                    each["backs"],
                    each["returned"],
                )
            )


def _percent(found: dict[str, Any]) -> str:
    return f"{found['value']:.1%} ({found['low']:.1%} to {found['high']:.1%})"


def _flat(value: Any, name: str) -> list[tuple[str, str]]:
    if not isinstance(value, dict):
        return [(name, f"{value:.4g}" if isinstance(value, float) else str(value))]
    if value.keys() >= {"value", "low", "high"}:
        return [(name, "{value:.4g} ({low:.4g} to {high:.4g}, {seeds} seeds)".format(**value))]
    return [pair for key, each in value.items() for pair in _flat(each, f"{name}.{key}")]


if __name__ == "__main__":
    run(main)
