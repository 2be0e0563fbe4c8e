"""``python -m benchmarks.placement data -o FILE [--problems N] [--first SEED] [--each N]``: training data.

Random problems, each with placements of its own: all in the cloud, all at the sources, and random ones, with
and without ping-pong.  Each is simulated (simulator (a), ``benchmarks.simulate``), and is a line of JSON as
:mod:`speck_baselines.learned.records` has it.  The same command writes the same file.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from speck.placement.problem import Placement, Problem
from speck.placement.starts import at_source
from speck_baselines.learned.candidates import candidates
from speck_baselines.learned.records import Record
from speck_baselines.learned.targets import offered
from testbed.placement.random_problems import make
from testbed.simulate.observed import Observed, mean_age
from testbed.simulate.runs import by_fluid
from testbed.simulate.worlds import scattered

FIRST = 1_000_000  # the seeds below are those of the benchmarks
UNSEEN = 2_000_000  # the first seed of problems that no model is trained on
LOADS = (0.1, 0.3, 0.3, 1.0, 4.0)
STARVED = 0.1  # a sink with less than this share of its results counts as failed
WARM, SECONDS = 10.0, 20.0


def main(arguments: list[str]) -> int:
    """Write the lines of some problems."""
    parser = argparse.ArgumentParser(prog="benchmarks.placement data", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the file, JSON lines")
    parser.add_argument("--problems", type=int, default=1000, help="random problems (default: 1000)")
    parser.add_argument("--first", type=int, default=FIRST, help=f"the first seed (default: {FIRST})")
    parser.add_argument("--each", type=int, default=8, help="placements of a problem (default: 8)")
    options = parser.parse_args(arguments)
    with options.output.open("w", encoding="utf-8") as file:
        for seed in range(options.first, options.first + options.problems):
            for record in records(world(seed), seed, options.each):
                file.write(record.line + "\n")
    return 0


def world(seed: int) -> Problem:
    """A random problem of 3 to 12 jobs at 3 to 6 sites, of which some links and processors are scarce."""
    chance = random.Random(seed)
    problem = make(seed, jobs=chance.randint(3, 12), sites=chance.randint(3, 6), load=chance.choice(LOADS))
    places = []
    for site in problem.sites:
        link, cores = chance.choice((1.0, 1.0, 0.3)), chance.choice((1.0, 1.0, 0.3, 0.1))
        places.append(replace(site, up=site.up * link, down=site.down * link, cores=site.cores * cores))
    return replace(problem, sites=places)


def records(problem: Problem, seed: int, each: int) -> Iterator[Record]:
    """The records of ``each`` placements of a problem."""
    for placement in _placements(problem, seed, each):
        if (found := simulated(problem, placement)) is not None:
            yield found


def simulated(problem: Problem, placement: Placement) -> Record | None:
    """The record of a placement; ``None`` if a figure overflows, as queues beyond all bounds can."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = measured(problem, by_fluid(problem, placement, WARM, SECONDS))
    if not all(map(math.isfinite, found.values())):
        return None
    return Record(origin="simulator", problem=problem, placement=placement, measured=found)


def _placements(problem: Problem, seed: int, each: int) -> Iterator[Placement]:
    found = [problem.all_in_cloud, at_source(problem)]
    found += candidates(problem, seed, each // 2)
    found += [scattered(problem, seed + 1_000_003 * number) for number in range(each)]
    yield from found[:each]


def measured(problem: Problem, observed: Observed) -> dict[str, float]:
    """The figures of a line, of those that a simulator observes."""
    ages, rates = mean_age(problem, observed), offered(problem)
    found: dict[str, float] = {
        "rate": math.fsum(observed.delivered.get(name, 0.0) for name in rates),
        "wan": observed.wan,
        "growth": observed.waiting / observed.seconds,
        "failed": any(observed.delivered.get(name, 0.0) < STARVED * rate for name, rate in rates.items()),
    }
    return found | ({"age": sum(ages.values()) / len(ages)} if ages else {})
