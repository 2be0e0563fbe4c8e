"""``python -m benchmarks.fog [--figure 8|10] [--json]``: Figures 8 and 10 of the paper over the rig.

Rows (:mod:`benchmarks.fog.figure8`, :mod:`benchmarks.fog.figure10`) are appended to ``--out`` as JSON lines.
``fig8_ratio`` has the ratios by curve and interval, ``fig10_d3`` and ``fig10_d4`` those by profile and rate;
``better_chosen`` is the share of cells of Figure 10 in which the cost model chooses the better of fog and
cloud, as measured in most runs.  ``--draw`` writes fog-8.svg and fog-10.svg into a directory.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.fog import figure8, figure10
from benchmarks.placement.gates import PREDICTED_PROFILES, load
from speck.local.wan.network import unavailable
from testbed.results import add_output_options, published
from testbed.termination import run


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="benchmarks.fog", description=__doc__)
    parser.add_argument("--figure", type=int, choices=(8, 10), action="append", help="one figure (both)")
    parser.add_argument(
        "--interval", type=float, choices=figure8.INTERVALS, action="append", help="ms, Figure 8 (all)"
    )
    parser.add_argument("--rate", type=float, action="append", help="messages/s a site, Figure 10 (all)")
    parser.add_argument(
        "--profile", choices=PREDICTED_PROFILES, action="append", help="of links, Figure 10 (all)"
    )
    parser.add_argument("--runs", type=int, default=3, help="of each cell (default: 3)")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a run, s (default: 15)")
    parser.add_argument("--out", type=Path, default=Path("fog.jsonl"), help="file of rows (fog.jsonl)")
    parser.add_argument("--draw", type=Path, help="directory of the plots")
    parser.add_argument("--judge", action="store_true", help="use the rows in the file; run nothing")
    add_output_options(parser)
    options = parser.parse_args()
    if not options.judge:
        if reason := unavailable():
            print(json.dumps({"skipped": reason}) if options.json else f"skipped: {reason}")
            return 0
        for row in _rows(options):
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            line = {key: value for key, value in row.items() if key != "runs"}
            print(json.dumps(line), file=sys.stderr, flush=True)
    rows = load(options.out)
    if options.draw is not None:
        from benchmarks.fog.picture import draw_figure8, draw_figure10  # which needs matplotlib

        draw_figure8(rows, options.draw / "fog-8.svg")
        draw_figure10(rows, options.draw / "fog-10.svg")
    found = summary(rows)
    if not published(options, "fog", found):
        for name, value in found.items():
            print(f"{name}: {value}")
    return 0


def _rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    chosen = options.figure or (8, 10)
    if 8 in chosen:
        yield from figure8.measure(options.runs, options.seconds, options.interval or figure8.INTERVALS)
    if 10 in chosen:
        rates, profiles = options.rate or figure10.RATES, options.profile or PREDICTED_PROFILES
        yield from figure10.measure(options.runs, options.seconds, rates, profiles)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures by key; of several rows of one cell, the last."""
    found: dict[str, Any] = {"fig8_ratio": {}, "fig8_age_ratio": {}, "fig10_d3": {}, "fig10_d4": {}}
    right = {}
    for row in rows:
        if row["figure"] == 8:
            name = f"{row['curve']} {row['interval_ms']} ms"
            found["fig8_ratio"][name] = _spread(row, "ratio")
            found["fig8_age_ratio"][name] = _spread(row, "age_ratio")
        else:
            name = f"{row['profile']} {row['rate']}/s"
            found["fig10_d3"][name] = _spread(row, "d3")
            found["fig10_d4"][name] = _spread(row, "d4")
            right[name] = 2 * row["better"].count(row["chosen"]) > len(row["better"])
    share = sum(right.values()) / len(right) if right else None
    return found | {
        "better_chosen": share,
        "wrongly_chosen": [name for name, is_right in right.items() if not is_right],
    }


def _spread(row: dict[str, Any], name: str) -> list[float]:
    """Median, least and greatest."""
    return [row[name], row[f"{name}_min"], row[f"{name}_max"]]


if __name__ == "__main__":
    run(main)
