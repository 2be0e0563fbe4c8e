"""``python -m benchmarks.nexmark --sql``: queries as SQL jobs beside the Java programs, over the rig.

A query runs in several ways: ``cloud``, all parts of the Java program in the cloud; ``hand``, those that
gather at the edges; ``uncut``, the SQL job with all operators in the cloud, which reads the brokers of the
edges over the links; ``cut``, the SQL job as shipped, with the cut that SpecK chooses.  ``early`` is the same
with ``frame: 40 ms``, for queries whose rows wait for others of their frame alone (q1, q3).  ``columns``,
``filter``, ``rows`` and ``partials`` are cuts by hand.

A cell is a query in one way.  At the events' own pace, over the links of a profile, its traffic, the age of
the results and the processor time are measured, and a checksum of the results is kept by 10 s of event time;
then, over the slowest links, the sustained multiple of the rate.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from benchmarks.nexmark.cells import CLOUD, EDGES, PIPELINES, RATE, SLOWEST, Bench, Row
from benchmarks.placement.gates import places
from speck.core.job import Composition
from speck.sql.program import Program

QUERIES = ("q1", "q2", "q3", "q5", "q7", "q8", "q11")
WAYS = ("cloud", "hand", "uncut", "cut")
CUTS = ("columns", "filter", "rows", "partials")
EARLY, EARLY_FRAME = "early", "40 ms"
# Sites with the engine of the cloud and the broker of an edge, where an input job reads over the link.
REMOTE = {f"C{edge}": (CLOUD, edge) for edge in EDGES}
BIDS = RATE * 46 / 50  # /s
_OPEN = 2  # spans of 10 s at the end, of which results may be missing

# The greatest WAN traffic of ``cut`` as a share of that of ``cloud``, and the least ratio of sustained rates.
MOST_WAN = {"q1": 0.7, "q2": 0.01, "q3": 0.04, "q5": 0.03, "q7": 0.01, "q8": 0.08, "q11": 0.03}
LEAST_GAIN = {"q2": 4.0, "q3": 4.0, "q5": 4.0, "q7": 4.0, "q8": 4.0}
_IDLE = 100.0  # bytes/s, by which the keep-alives of two runs may differ
MOST_AGE, MOST_COST = 1.1, 1.5  # of ``cut``, relative to ``hand``


def rows(bench: Bench, cells: Sequence[tuple[str, str, str]]) -> Iterator[Row]:
    """A row for each cell: query, way and profile of the links."""
    for query, way, profile in cells:
        composition = _composition(bench, query, way)
        bench.set_links(profile)
        figures, sums = bench.measured(query, composition)
        bench.set_links(SLOWEST)
        figures["alpha"] = bench.sustained(query, composition)
        print(f"{query} {way} {profile}: {figures}", file=sys.stderr, flush=True)
        cell = {"query": query, "way": way, "profile": profile, "cuts": _cuts(bench, composition)}
        yield cell | {"measured": figures, "rows": sums}


def _composition(bench: Bench, query: str, way: str) -> Composition:
    """The jobs of a query at the sites that a way has for them."""
    if way in ("cloud", "hand"):
        text = (PIPELINES / f"{query}.yaml").read_text(encoding="utf-8")
        composition = bench.platform.composition(text, query)
        sites = {name: _site(name) if way == "hand" else CLOUD for name in composition.jobs}
        return bench.platform.placed(composition, sites).composition
    data = yaml.safe_load((PIPELINES / "sql" / f"{query}.yaml").read_text(encoding="utf-8"))
    (job,) = data["jobs"]
    if way == "uncut":
        for topic in data["topics"].values():
            topic["at"] = list(REMOTE)
    if way == EARLY:
        job["frame"] = EARLY_FRAME
    elif way != "cut" and "cut" in job:
        job["cut"] = "columns" if way == "uncut" else way
    return bench.platform.composition(yaml.safe_dump(data, sort_keys=False), query)


def _site(job: str) -> str:
    """The edge that the name of a part ends with, or the cloud."""
    return next((edge for edge in EDGES if job.endswith(f"-{edge.lower()}")), CLOUD)


def _cuts(bench: Bench, composition: Composition) -> dict[str, str]:
    """The cut of each input job, as SpecK chooses it now."""
    chosen, _ = bench.platform.services.coordinator.changes.cuts.chosen(composition)
    programs = {name: job.query.get("program") for name, job in chosen.jobs.items()}
    sends = {name: Program.from_json(str(text)).sends for name, text in programs.items() if text}
    return {name: each.cut for name, each in sends.items() if each is not None}


# --- judging


def summary(found: Sequence[Row]) -> dict[str, Any]:
    """The figures by key, and the names of those beyond their bounds; without a cell they are missing."""
    figures: dict[str, Any] = {"cells": [_cell(row) for row in found]}
    failed = []
    for row in found:
        query, profile, way = (row[name] for name in ("query", "profile", "way"))
        others = {each["way"]: each for each in found if (each["query"], each["profile"]) == (query, profile)}
        if way == next(iter(others)) and len(others) > 1:
            same, spans = _equal([each["rows"] for each in others.values()])
            figures |= {f"{query} {profile}: rows_equal": same, f"{query} {profile}: spans": spans}
            failed += [] if same else [f"{query} {profile}: rows_equal"]
        if way in ("cut", EARLY):
            label = f"{query} {profile}" + (f" {EARLY}" if way == EARLY else "")
            for name, value, right in _ratios(row, others):
                figures[f"{label}: {name}"] = value
                failed += [] if right else [f"{label}: {name}"]
    return figures | {"failed": failed}


def _cell(row: Row) -> dict[str, Any]:
    found = row["measured"]
    return {name: row[name] for name in ("query", "way", "profile", "cuts")} | {
        "wan": found["wan"],
        "p95": found["p95"],
        "alpha": found["alpha"],
        "cost": cost(found),
    }


def cost(figures: Mapping[str, Any]) -> float:
    """The processor time of the engines beyond that of idle ones, s a bid."""
    cores = sum(share * places()[site].cores for site, share in figures["cores"].items())
    others = sum(figures["brokers"].values()) + sum(figures["idle"].values())
    return float(cores - others) / BIDS


def _ratios(row: Row, others: Mapping[str, Row]) -> Iterator[tuple[str, float, bool]]:
    """The figures of a cut relative to other ways, each with true if it is within its bound."""
    own = row["measured"]
    if (cloud := others.get("cloud")) is not None:
        wan = own["wan"] / cloud["measured"]["wan"]
        yield "wan_to_cloud", wan, wan <= MOST_WAN[row["query"]]
        gain = own["alpha"] / cloud["measured"]["alpha"] if cloud["measured"]["alpha"] else math.inf
        yield "gain_to_cloud", gain, gain >= LEAST_GAIN.get(row["query"], 0.0)
    if (hand := others.get("hand")) is not None:
        wan = own["wan"] / hand["measured"]["wan"]
        yield "wan_to_hand", wan, own["wan"] <= hand["measured"]["wan"] + _IDLE
        age = own["p95"] / hand["measured"]["p95"]
        yield "age_to_hand", age, age <= MOST_AGE
        spent = cost(own) / cost(hand["measured"])
        yield "cost_to_hand", spent, spent <= MOST_COST


def _equal(found: Sequence[Mapping[str, float]]) -> tuple[bool, int]:
    """True if the results of all runs are equal in the spans that all have, and the number of these."""
    complete = min((max(map(int, each), default=0) for each in found), default=0) - _OPEN
    spans = [{span: value for span, value in each.items() if int(span) <= complete} for each in found]
    return all(each == spans[0] for each in spans) and complete >= 0, max(0, complete + 1)


def print_figures(found: Mapping[str, Any]) -> None:
    """Print the figures as a table, and the ratios."""
    print("query  way       links            WAN kB/s   p95 s   us a bid  alpha (slowest links)  cuts")
    for cell in found["cells"]:
        print(
            f"{cell['query']:<6} {cell['way']:<9} {cell['profile']:<15} {cell['wan'] / 1000:9.2f}"
            f" {cell['p95']:7.2f} {1e6 * cell['cost']:10.1f} {cell['alpha']:22.2f}"
            f"  {', '.join(sorted(set(cell['cuts'].values())))}"
        )
    for name, value in found.items():
        if name != "cells":
            print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
