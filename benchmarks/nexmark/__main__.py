"""``python -m benchmarks.nexmark [--json]``: the policies' placements of the Nexmark queries over the rig.

A cell is a query over a profile of links; its runs are the different placements of all policies
(:mod:`benchmarks.nexmark.cells`).  Cells are appended to ``--out`` as JSON lines; those that stand there are
not repeated.  ``best_share`` is the share of cells in which the objective of ``speck``, as measured, is at
most 1.05 of the least; ``cloud_worst`` is the greatest ratio of its objective to that of ``cloud``.  For each
query, ``wan_ratio_*`` is its WAN traffic against that of ``cloud`` over the fastest links, and
``alpha_ratio_*`` its sustained rate against that of ``cloud`` over the slowest.

``--sql`` runs queries as SQL jobs beside the programs (:mod:`benchmarks.nexmark.sql`).
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.nexmark import sql
from benchmarks.nexmark.cells import FASTEST, JAR, QUERIES, SLOWEST, Lengths, Row, bench, run_of
from benchmarks.placement.gates import PREDICTED_PROFILES, load
from benchmarks.placement.scores import spearman
from speck.local.wan.network import unavailable
from testbed.results import add_output_options, published
from testbed.termination import run

BEST = 1.05
_LENGTHS = {
    "warm": "s before each measurement",
    "measured": "s of each measurement",
    "flooded": "s with more events, over the slowest links",
    "profiled": "s for which SpecK measures the jobs",
    "flood": "multiple of the rate in that time",
}


def main() -> int:
    """Measure, and print the figures."""
    options = _parser().parse_args()
    if options.out is None:
        options.out = Path("nexmark-sql.jsonl" if options.sql else "nexmark.jsonl")
    reason = "" if options.judge else _missing()
    if reason:
        print(json.dumps({"skipped": reason}) if options.json else f"skipped: {reason}")
        return 0
    if not options.judge:
        (_run_sql if options.sql else _run)(options)
    cells = load(options.out)
    found = sql.summary(cells) if options.sql else summary(cells)
    if not published(options, "nexmark-sql" if options.sql else "nexmark", found):
        (sql.print_figures if options.sql else _print)(found)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.nexmark", description=__doc__)
    parser.add_argument("--query", choices=QUERIES, action="append", help="a query (all that there are)")
    parser.add_argument(
        "--profile", choices=PREDICTED_PROFILES, action="append", help="a profile of links (all three)"
    )
    lengths = Lengths()
    for name, about in _LENGTHS.items():
        default = getattr(lengths, name)
        parser.add_argument(f"--{name}", type=float, default=default, help=f"{about} (default: {default:g})")
    parser.add_argument(
        "--out", type=Path, help="file of cells (nexmark.jsonl, with --sql nexmark-sql.jsonl)"
    )
    parser.add_argument("--judge", action="store_true", help="use the cells in the file; run nothing")
    parser.add_argument("--sql", action="store_true", help="SQL jobs beside the programs")
    parser.add_argument(
        "--way",
        choices=(*sql.WAYS, sql.EARLY, *sql.CUTS),
        action="append",
        help=f"with --sql, a way to run a query ({', '.join(sql.WAYS)})",
    )
    parser.add_argument("--most", type=int, help="with --sql, the number of cells to run (all)")
    add_output_options(parser)
    return parser


def _missing() -> str:
    """The reason why nothing can be measured here; empty if it can."""
    return unavailable() or ("" if JAR.exists() else f"{JAR} is missing (make jars)")


def _lengths(options: argparse.Namespace) -> Lengths:
    return Lengths(**{name: getattr(options, name) for name in _LENGTHS})


def _run_sql(options: argparse.Namespace) -> None:
    """Run the cells that are not in the file; over the fastest links, unless others are given."""
    done = {tuple(row[name] for name in ("query", "way", "profile")) for row in load(options.out)}
    queries = [each for each in options.query or sql.QUERIES if each in sql.QUERIES]
    cells = product(queries, options.way or sql.WAYS, options.profile or [FASTEST])
    remaining = [each for each in cells if each not in done][: options.most]
    if remaining:
        with (
            tempfile.TemporaryDirectory(prefix="speck-nexmark-") as folder,
            bench(Path(folder), _lengths(options), sql.REMOTE) as running,
        ):
            _append(options.out, sql.rows(running, remaining))


def _append(path: Path, rows: Iterable[Row]) -> None:
    """Write each row as soon as it is there."""
    for row in rows:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _run(options: argparse.Namespace) -> None:
    done = {(row["query"], row["profile"]) for row in load(options.out)}
    profiles = options.profile or PREDICTED_PROFILES
    remaining = {
        query: undone
        for query in options.query or QUERIES
        if (undone := [each for each in profiles if (query, each) not in done])
    }
    if not remaining:
        return
    with (
        tempfile.TemporaryDirectory(prefix="speck-nexmark-") as folder,
        bench(Path(folder), _lengths(options)) as running,
    ):
        for query, undone in remaining.items():
            _append(options.out, running.rows(query, undone))


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures by key; ratios that no run decides are missing."""
    cells = [_cell(row) for row in rows]
    found: dict[str, Any] = {"cells": cells}
    if cells:
        found["best_share"] = sum(cell["speck_to_best"] <= BEST for cell in cells) / len(cells)
        found["cloud_worst"] = max(cell["speck_to_cloud"] for cell in cells)
        found["spearman"] = statistics.median(cell["spearman"] for cell in cells)
    for row in rows:
        speck, cloud = (run_of(row, name)["measured"] for name in ("speck", "cloud"))
        if row["profile"] == FASTEST and cloud["wan"]:
            found[f"wan_ratio_{row['query']}"] = speck["wan"] / cloud["wan"]
        if row["profile"] == SLOWEST and cloud["alpha"]:
            found[f"alpha_ratio_{row['query']}"] = speck["alpha"] / cloud["alpha"]
    return found


def _cell(row: Row) -> dict[str, Any]:
    real = {", ".join(run["policies"]): run["objective"] for run in row["runs"]}
    model = [run["expected"] for run in row["runs"]]
    own = run_of(row, "speck")
    return {
        "query": row["query"],
        "profile": row["profile"],
        "advice_keeps_cloud": row["advice_keeps_cloud"],
        "objectives": real,
        "speck_to_best": own["objective"] / min(real.values()),
        "speck_to_cloud": own["objective"] / run_of(row, "cloud")["objective"],
        "spearman": spearman(model, list(real.values())) if len(real) > 1 else 1.0,
        "speck": own["measured"],
        "cloud": run_of(row, "cloud")["measured"],
    }


def _print(found: dict[str, Any]) -> None:
    print("query  links           speck/best speck/cloud p95 s (cloud)    WAN kB/s (cloud)")
    for cell in found["cells"]:
        one, other = cell["speck"], cell["cloud"]
        print(
            f"{cell['query']:<6} {cell['profile']:<15}"
            f" {cell['speck_to_best']:10.3f} {cell['speck_to_cloud']:11.3f}"
            f" {one['p95']:6.2f} ({other['p95']:6.2f})"
            f" {one['wan'] / 1000:8.1f} ({other['wan'] / 1000:7.1f})"
        )
    for name, value in found.items():
        if isinstance(value, float):
            print(f"{name}: {value:.4g}")


if __name__ == "__main__":
    run(main)
