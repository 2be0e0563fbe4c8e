"""Simulator (b) against runs of real engines.

A run is one line of JSON, as ``benchmarks.placement gates`` writes it, with the two members that
``speck_baselines.learned.records.described`` makes of the problem and the placement: ``problem`` and
``placed``.  Its ``measured`` has ``rate``, the messages/s that the last jobs take in, ``wan`` (bytes/s),
``p95`` (s, of the slowest sink) and ``cores``, the share of each site's cores in use, by name.  A figure that
was not measured is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.simulate.intervals import q_error, summary
from speck.placement.problem import Placement, Problem
from speck_baselines.learned.records import problem_of
from testbed.simulate.observed import Observed
from testbed.simulate.runs import by_messages

AIMS = {"rate": 1.2, "wan": 1.2, "p95": 1.5, "utilisation": 1.25}
BUSY = 0.1  # share of a site's cores, below which it is not judged
UNPROVEN = (
    "Simulator (b) was not held against real runs here: nothing may be claimed from the figures above about "
    "real engines, only about the simulators and the cost model."
)


def read(path: Path) -> list[dict[str, Any]]:
    """The runs of a file of JSON lines; lines without a problem and a placement are passed over."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return [line for line in lines if {"problem", "placed", "measured"} <= line.keys()]


def compare(runs: Sequence[Mapping[str, Any]], seed: int = 0) -> dict[str, Any]:
    """The q-errors of (b) against the measured figures; ``proven`` if all are within their aims."""
    errors: dict[str, list[float]] = {}
    for run in runs:
        for name, error in _errors(run, seed):
            errors.setdefault(name, []).append(error)
    found = {name: summary(each) for name, each in errors.items()}
    proven = {"rate", "wan"} <= found.keys() and all(
        found[name]["median"]["value"] <= aim for name, aim in AIMS.items() if name in found
    )
    return {"runs": len(runs), "proven": proven, "aims": AIMS, **found}


def _errors(run: Mapping[str, Any], seed: int) -> Iterator[tuple[str, float]]:
    problem = problem_of(run["problem"])
    placement = Placement(tuple(run["placed"]["sites"]), tuple(run["placed"]["homes"]))
    simulated, measured = by_messages(problem, placement, seed), run["measured"]
    if "rate" in measured:
        yield "rate", q_error(_taken(problem, simulated), measured["rate"])
    if "wan" in measured:
        yield "wan", q_error(simulated.wan, measured["wan"])
    if "p95" in measured and simulated.p95:
        yield "p95", q_error(max(simulated.p95.values()), measured["p95"])
    for index, site in enumerate(problem.sites):
        share = measured.get("cores", {}).get(site.name)
        if share and share >= BUSY:
            yield "utilisation", q_error(simulated.cores[index], share)


def _taken(problem: Problem, simulated: Observed) -> float:
    """The messages/s that the last jobs take in."""
    into = 0.0
    for job in problem.jobs:
        if job.output is None:
            into += simulated.delivered.get(job.name, 0.0)
        elif not problem.readers[job.output] and job.selectivity:
            writers = len(problem.writers[job.output])
            name = problem.channels[job.output].name
            into += simulated.delivered.get(name, 0.0) / job.selectivity / writers
    return into
