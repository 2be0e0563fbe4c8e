"""The coordinator killed at every point of every kind of change: does it end in what was asked for?"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from testbed.faults.compositions import FIRST, FLINK, SPARK
from testbed.faults.sites import flink_places, spark_places
from testbed.faults.trial import Outcome, Trial
from testbed.results import add_output_options, published

# Each kind of change, and the one that leads back (by a rollback, where it is to another version).
Pair = tuple[str, str | None]
PAIRS: Sequence[Pair] = ((FIRST, None), ("updated", FIRST), ("moved", FIRST), ("rewired", FIRST))

ENGINES = {"flink": (flink_places, FLINK), "spark": (spark_places, SPARK)}

Choice = Callable[[Sequence[str]], Sequence[int]]
Points = dict[str, list[str]]  # the names of the points of each change


def all_points(names: Sequence[str]) -> list[int]:
    """The numbers of all points, from 1."""
    return list(range(1, len(names) + 1))


_EFFECT = re.compile(r"within |before (store|file|mqtt|POST|PUT|PATCH|DELETE) ")


def effects(names: Sequence[str]) -> list[int]:
    """The numbers of the points that differ in what they leave behind.

    Between two effects (a write, a request that changes something) nothing happens that a crash could leave
    half done: of the points there, the last one stands for all.
    """
    return [number for number, name in enumerate(names, 1) if _EFFECT.match(name) or number == len(names)]


def at_points(
    trial: Trial, pairs: Iterable[Pair], choose: Callable[[Sequence[str]], Sequence[int]]
) -> Points:
    """Kill at each point that is chosen of the names of all points of a change; answers what was found."""
    found: Points = {}
    for there, back in pairs:
        trial.come_to(back)
        chosen = {}
        for target in (there, back):
            change = trial.round(target, 0).change
            found[change] = trial.points()
            chosen[target] = choose(found[change])
        for numbers in zip_longest(chosen[there], chosen[back], fillvalue=0):
            for target, number in zip((there, back), numbers, strict=True):
                trial.round(target, number)
    return found


def at_some_points(trial: Trial, pairs: Iterable[Pair], kills: int) -> Points:
    """Kill at this number of random points of each change."""

    def some(names: Sequence[str]) -> list[int]:
        numbers = effects(names)
        return sorted(trial.random.sample(numbers, min(kills, len(numbers))))

    return at_points(trial, pairs, some)


def at_random(trial: Trial, rounds: int) -> None:
    """Kill at random moments of random changes, and the server that recovers now and then as well."""
    for _ in range(rounds):
        choice = trial.random.choice([name for name in (*trial.versions, None) if name != trial.state])
        moments = [trial.random.uniform(0, 2.5)]
        while trial.random.random() < 0.4:
            moments.append(trial.random.uniform(0, 2.0))
        trial.timed_round(choice, moments)


def figures(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Counts of ``rounds``, of ``kills`` among them, and of those ``wrong_after_restart``."""
    found = list(outcomes)
    return {
        "rounds": len(found),
        "kills": sum(each.killed for each in found),
        "wrong_after_restart": sum(bool(each.wrong) for each in found),
    }


def report(outcome: Outcome) -> None:
    """Say on standard error how a round went."""
    what = outcome.wrong or ("right" if outcome.killed else "right, not killed")
    where = f" {outcome.point} ({outcome.number})" if outcome.point else ""
    print(f"{outcome.change}{where}: {what} [{outcome.seconds:.1f} s]", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Kill at every point, and at random moments; the result is 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises kills", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="flink")
    parser.add_argument("--all", action="store_true", help="the points between two effects as well")
    parser.add_argument("--every", type=int, default=1, help="only every Nth point (default 1)", metavar="N")
    parser.add_argument("--random", type=int, default=100, help="kills at random moments (default 100)")
    parser.add_argument("--seed", type=int, default=1)
    add_output_options(parser)
    options = parser.parse_args(arguments)
    found = all_points if options.all else effects
    print(f"seed {options.seed}", file=sys.stderr)
    with TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        places, programs = ENGINES[options.engine]
        with Trial(places(stack, directory), programs, directory / "trial", options.seed, report) as trial:
            first = options.seed % options.every
            points = at_points(trial, PAIRS, lambda names: found(names)[first :: options.every])
            at_random(trial, options.random)
            outcomes = trial.outcomes
        by_change = {
            change: {"points": len(names)} | figures(each for each in outcomes if each.change == change)
            for change, names in points.items()
        }
        result = figures(outcomes) | {"seed": options.seed, "changes": by_change}
    if not published(options, "promises-kills", result):
        print(yaml.safe_dump(result, sort_keys=False))
    return 1 if result["wrong_after_restart"] else 0
