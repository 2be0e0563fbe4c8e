"""Learned policies: errors of their predictors on unseen placements, and their placements as simulated.

Unseen are problems of seeds that no training data have, with one random placement each, so that they are
independent.  The simulator (a) of ``benchmarks.simulate`` measures them; ``model`` is the cost model of the
policy ``speck``, which the simulators share no formula with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.simulate.intervals import interval, q_error
from speck.placement.cost import evaluate
from speck.placement.policies import Budget, place, policy
from speck.placement.problem import Placement, Problem
from speck_baselines.learned.candidates import candidates
from speck_baselines.learned.predictor import predictors
from speck_baselines.learned.records import Record
from speck_baselines.learned.targets import PRESSED, offered
from testbed.placement.random_problems import make
from testbed.placement.training_data import SECONDS, UNSEEN, WARM, simulated, world
from testbed.simulate.observed import mean_age, objective
from testbed.simulate.runs import by_fluid
from testbed.simulate.worlds import scattered

LARGER = 17  # jobs, more than in any training data
MODEL = "model"

Guess = Callable[[Problem, Placement], tuple[float, float]]  # the age, s, and the rate, messages/s


@dataclass(frozen=True, slots=True)
class _Case:
    """A unseen placement with its measured figures; ``sustained`` if its queues did not grow."""

    record: Record
    sustained: bool


def check(names: Sequence[str]) -> None:
    """Raise :class:`~speck.errors.InvalidInput` for a policy that is not installed, or misses a package."""
    for name in names:
        policy(name)
        if name in predictors():
            predictors()[name].check()


def measure(seeds: int, names: Sequence[str], placements: int) -> dict[str, Any]:
    """The q-errors of each predictor among the names, and of the cost model; the policies as simulated."""
    guesses = {MODEL: _by_model} | {name: _by(name) for name in names if name in predictors()}
    sets = {"as_trained": _unseen(world, placements), f"jobs_{LARGER}": _unseen(_larger, placements)}
    return {
        "placements": placements,
        "q_errors": {
            name: {label: _errors(guess, cases) for label, cases in sets.items()}
            for name, guess in guesses.items()
        },
        "simulated": _simulated(seeds, names),
    }


def _larger(seed: int) -> Problem:
    return make(seed, jobs=LARGER, load=(0.3, 1.0)[seed % 2])


def _unseen(problems: Callable[[int], Problem], count: int) -> list[_Case]:
    found = []
    for seed in range(UNSEEN, UNSEEN + count):
        problem = problems(seed)
        without_ping_pong = next(candidates(problem, seed, 1), None) if seed % 2 else None
        record = simulated(problem, without_ping_pong or scattered(problem, seed))
        if record is None:
            continue
        born = sum(channel.rate for channel in problem.channels)
        found.append(_Case(record, record.measured["growth"] <= PRESSED * born))
    return found


def _by(name: str) -> Guess:
    def guess(problem: Problem, placement: Placement) -> tuple[float, float]:
        prediction = predictors()[name].predict(problem, [placement])[0]
        return prediction.age, prediction.rate

    return guess


def _by_model(problem: Problem, placement: Placement) -> tuple[float, float]:
    figures = evaluate(problem, placement)
    return figures.age, sum(offered(problem).values()) * min(1.0, figures.multiplier)


def _errors(guess: Guess, cases: Sequence[_Case]) -> dict[str, Any]:
    errors: dict[str, list[float]] = {}
    for name, error in _each_error(guess, cases):
        errors.setdefault(name, []).append(error)
    return {
        name: {"median": interval(values), "p95": interval(values, 0.95)} for name, values in errors.items()
    }


def _each_error(guess: Guess, cases: Sequence[_Case]) -> Iterator[tuple[str, float]]:
    for each in cases:
        age, rate = guess(each.record.problem, each.record.placement)
        measured = each.record.measured
        for name, predicted in (("age", age), ("rate", rate)):
            if name in measured:
                error = q_error(predicted, measured[name])
                yield name, error
                if each.sustained:
                    yield f"{name}_sustained", error


def _simulated(seeds: int, names: Sequence[str]) -> dict[str, Any]:
    """The excess of simulated objective and age over the best of these policies, by policy."""
    rows: list[Mapping[str, tuple[float, float]]] = []
    for seed in range(seeds):
        problem = make(seed, jobs=6 + seed % 3)
        rows.append({name: _observed(problem, name) for name in names})
    found: dict[str, Any] = {}
    for name in names:
        found[name] = {
            label: interval([each[name][at] / min(other[at] for other in each.values()) - 1 for each in rows])
            for at, label in enumerate(("objective", "age"))
        }
    return found


def _observed(problem: Problem, name: str) -> tuple[float, float]:
    placement = place(problem, problem.all_in_cloud, policy(name), Budget())
    observed = by_fluid(problem, placement, WARM, SECONDS)
    return objective(problem, placement, observed), sum(mean_age(problem, observed).values())


def report(result: Mapping[str, Any]) -> None:
    """Print the tables."""
    print("q-errors (median; p95), with 95% intervals")
    for name, sets in result["q_errors"].items():
        for label, errors in sets.items():
            for quantity, found in errors.items():
                print(
                    f"{name:<10} {label:<12} {quantity:<15} {_text(found['median'])}; {_text(found['p95'])}"
                )
    print("excess over the best of these policies, simulated (median)")
    for name, found in result["simulated"].items():
        print(f"{name:<10} objective {_text(found['objective'])}, age {_text(found['age'])}")


def _text(found: Mapping[str, float]) -> str:
    return f"{found['value']:.3g} ({found['low']:.3g} to {found['high']:.3g})"
