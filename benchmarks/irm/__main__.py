"""``python -m benchmarks.irm [--json]``: a day of a fleet of workers, simulated, under three rules.

``speck`` fits an instance into the free share of a worker, ``published`` into that less 5 % of the worker,
as HarmonicIO does, and ``even`` spreads over a fixed fleet, as large as ``speck`` has at most.  Medians over
seeds.  ``--real``: the same rules over a pool of small Flink clusters (:mod:`benchmarks.irm.real`);
``--microscopy``: the analysis of images on Spark standalone (:mod:`benchmarks.irm.microscopy`).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.irm.account import ARRIVALS, RULES, Series, figures
from benchmarks.irm.fleet import simulate
from testbed.results import add_output_options, published
from testbed.termination import run

COLUMNS = (
    *("fill_before_next", "bins_over_least", "bins_over_least_day", "cpu_error"),
    *("workers_most", "worker_hours", "overloaded_share", "waited_seconds_p99"),
)


def main() -> int:
    """Simulate, and print a table or JSON."""
    options = _parser().parse_args()
    if options.microscopy:
        return _microscopy(options)
    if options.real or options.judge:
        return _real(options)
    result = measure(options.instances or 8000, options.noise, options.seeds)
    if not published(options, "irm", result):
        _print(result)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.irm", description=__doc__)
    parser.add_argument("--instances", type=int, help="of a day (8000); real ones (10)")
    noise = "deviation of the shares of instances (default: 0.02 and 0.2)"
    parser.add_argument("--noise", type=float, nargs="+", default=[0.02, 0.2], help=noise)
    parser.add_argument("--seeds", type=int, default=5, help="days of each (default: 5)")
    parser.add_argument("--real", action="store_true", help="measure real processes; simulate nothing")
    parser.add_argument("--engines", type=int, default=3, help="real ones (default: 3)")
    parser.add_argument("--rule", action="append", choices=RULES, help="one rule, with --real (all)")
    parser.add_argument("--arrivals", action="append", choices=ARRIVALS, help="with --real (both)")
    parser.add_argument("--idle", action="store_true", help="with --real: only the time until one is gone")
    parser.add_argument("--microscopy", action="store_true", help="analyse images; simulate nothing")
    parser.add_argument("--images", type=int, default=60, help="of a plate, with --microscopy (60)")
    parser.add_argument("--runs", type=int, default=1, help="of each, with --microscopy (default: 1)")
    parser.add_argument("--rows", type=Path, default=Path("irm.jsonl"), help="file of real runs (irm.jsonl)")
    parser.add_argument("--judge", action="store_true", help="use the real runs in the file; run nothing")
    parser.add_argument("--picture", type=Path, help="SVG of the real runs in the file")
    add_output_options(parser)
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


def _real(options: argparse.Namespace) -> int:
    """Append real runs to the file, and print the figures of all that are in it."""
    if not options.judge:
        from benchmarks.irm import real  # which needs the engines

        with options.rows.open("a", encoding="utf-8") as file:
            if options.idle:
                print(json.dumps(real.idle_gone()), file=file)
            else:
                found = real.measure(
                    options.instances or 10,
                    options.engines,
                    options.rule or RULES,
                    options.arrivals or ARRIVALS,
                )
                for series, numbers in found:
                    print(json.dumps(numbers), file=sys.stderr, flush=True)
                    print(json.dumps(series.to_dict()), file=file, flush=True)
    rows = [json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    runs = [Series.from_dict(each) for each in rows if "samples" in each]
    result: dict[str, Any] = {f"real_{each.rule}_{each.arrivals}": figures(each) for each in runs}
    result |= {key: value for each in rows if "samples" not in each for key, value in each.items()}
    if options.picture is not None:
        from benchmarks.irm.picture import draw  # which needs matplotlib

        draw(runs, options.picture)
    if not published(options, "irm", result):
        print(json.dumps(result, indent=1))
    return 0


def _microscopy(options: argparse.Namespace) -> int:
    """Append runs of the microscopes to the file, and print the medians of all that are in it."""
    from benchmarks.irm import microscopy  # which needs scikit-image

    if not options.judge:
        with options.rows.open("a", encoding="utf-8") as file:
            for rule in list(microscopy.BOUNDS) * options.runs:
                course = microscopy.run(rule, options.images, len(microscopy.LOADED))
                print(rule, json.dumps(course.figures()), file=sys.stderr, flush=True)
                print(json.dumps(course.to_dict()), file=file, flush=True)
    rows = [json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    courses = [microscopy.Course.from_dict(each) for each in rows]
    result = {
        rule: dict(microscopy.medians([each.figures() for each in courses if each.rule == rule]))
        for rule in microscopy.BOUNDS
    }
    if options.picture is not None:
        from benchmarks.irm.picture import draw_courses  # which needs matplotlib

        draw_courses(courses, options.picture)
    if not published(options, "microscopy", result):
        print(json.dumps(result, indent=1))
    return 0


def _print(result: dict[str, Any]) -> None:
    for part, rules in result.items():
        if not isinstance(rules, dict):
            continue
        print(f"{part}, {result['instances']:,} instances, median of {result['seeds']} days")
        for rule, numbers in rules.items():
            print(f"  {rule:10}", "  ".join(f"{key} {numbers[key]:.3f}" for key in COLUMNS))


if __name__ == "__main__":
    run(main)
