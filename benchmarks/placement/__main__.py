"""``python -m benchmarks.placement [--seeds N] [--policies NAMES] [--json]``: policies against the optimum.

``gates`` as the first argument has the cost model held against real runs: :mod:`benchmarks.placement.gates`;
``data`` writes training data: :mod:`testbed.placement.training_data`.

Small cases: 6 to 8 jobs at 4 sites, one seed each; the excess of the objective over the optimum.  Then 17
jobs at 4 sites, and 1,003 at 50.  With ``--policies``, the small cases of these and the default policy alone,
and the errors of predictors: :mod:`benchmarks.placement.learned`.  Times are processor seconds of one thread.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from speck.core.profile import EVENT_LOOP
from speck.errors import SpeckError
from speck.placement.cost import Figures, evaluate
from speck.placement.policies import Budget, place, policies, policy, solver_available
from speck.placement.problem import Problem
from speck_baselines.learned.predictor import predictors
from testbed.placement.random_problems import make
from testbed.results import add_output_options, published
from testbed.termination import run

REGRET_IS_EXACT = 1e-6


def main() -> int:
    """Measure, and print a table or JSON."""
    if sys.argv[1:2] == ["gates"]:
        from benchmarks.placement import gates  # which needs the engines' binders

        return gates.main(sys.argv[2:])
    if sys.argv[1:2] == ["data"]:
        from testbed.placement import training_data

        return training_data.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="benchmarks.placement", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="number of small cases (default: 100)")
    parser.add_argument("--policies", type=_names, help="names, with commas (default: the built-in ones)")
    parser.add_argument(
        "--placements", type=int, default=200, help="to be predicted, with --policies (default: 200)"
    )
    add_output_options(parser)
    arguments = parser.parse_args()
    try:
        result = measure(arguments.seeds, arguments.policies, arguments.placements)
    except SpeckError as error:
        print(error, file=sys.stderr)
        return 1
    if not published(arguments, "placement", result):
        _print(result)
    return 0


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def measure(seeds: int, names: Sequence[str] | None = None, placements: int = 200) -> dict[str, Any]:
    """All figures, by key; those of ``names`` and the default policy alone, if some are named.

    ``placements`` are those to be predicted by the named ones.

    Raises :class:`~speck.errors.InvalidInput` for a name that is not installed, or that misses a package.
    """
    default = "speck" if solver_available() else "search"
    if names is not None:
        from benchmarks.placement import learned  # which needs the simulators

        chosen_names = list(dict.fromkeys([default, *names]))
        learned.check(chosen_names)
        return {
            "seeds": seeds,
            "policies": _small(seeds, chosen_names),
            **learned.measure(seeds, chosen_names, placements),
        }
    blocks = _small(seeds, [name for name in policies() if name not in {"exhaustive", *predictors()}])
    chosen = blocks[default]
    return {
        "seeds": seeds,
        "policies": blocks,
        "regret_median": chosen["regret_median"],
        "regret_p90": chosen["regret_p90"],
        "exact_share": chosen["exact_share"],
        "avoidable_overloads": chosen["avoidable_overloads"],
        **_demo_size(default),
        **_large(default),
    }


def _small(seeds: int, names: Sequence[str]) -> dict[str, dict[str, float]]:
    regrets: dict[str, list[float]] = {name: [] for name in names}
    overloads, seconds = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    for seed in range(seeds):
        problem = make(seed, jobs=6 + seed % 3, event_loop=EVENT_LOOP)
        best, _ = _placed(problem, "exhaustive")
        for name in names:
            figures, took = _placed(problem, name)
            regrets[name].append(max(0.0, figures.objective / best.objective - 1))
            overloads[name] += figures.over > 1e-9 >= best.over
            seconds[name] += took
    return {
        name: {
            "regret_median": statistics.median(values),
            "regret_p90": _percentile(values, 0.9),
            "regret_worst": max(values),
            "exact_share": sum(each <= REGRET_IS_EXACT for each in values) / len(values),
            "avoidable_overloads": overloads[name],
            "seconds": seconds[name] / seeds,
        }
        for name, values in regrets.items()
    }


def _placed(problem: Problem, name: str) -> tuple[Figures, float]:
    began = time.process_time()
    placement = place(problem, problem.all_in_cloud, policy(name), Budget())
    return evaluate(problem, placement), time.process_time() - began


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _demo_size(name: str) -> dict[str, float]:
    seconds = [_placed(make(seed, jobs=17, load=4.0, event_loop=EVENT_LOOP), name)[1] for seed in range(10)]
    return {"solve_seconds_17x4": statistics.median(seconds), "solve_seconds_17x4_worst": max(seconds)}


def _large(name: str) -> dict[str, float]:
    """1,003 jobs of 59 compositions at 50 sites, against the sum of each one's own optimum.

    The problem is without event loops: compositions share one, so that the sum is no bound then.
    """
    problem = make(7, jobs=1003, sites=50, load=0.1, compositions=59)
    figures, seconds = _placed(problem, name)
    bound = _alone(problem)
    return {
        "solve_seconds_1000x50": seconds,
        "gap_1000x50": figures.objective / bound - 1,
        "over_1000x50": figures.over,
    }


def _alone(problem: Problem) -> float:
    """A lower bound: each composition placed as if it had all sites to itself."""
    from speck.placement import milp  # HiGHS is needed for the bound alone
    from speck.placement.parts import parts_of

    total, sites = 0.0, problem.all_in_cloud.sites
    for units in parts_of(problem).values():
        candidates = {unit: problem.allowed(problem.units[unit]) for unit in units}
        found = milp.solve(problem, sites, candidates, 60.0, 0)
        if found is None or found.bound is None:
            raise RuntimeError("HiGHS found no placement of one composition alone")
        total += found.bound
    return total


def _print(result: dict[str, Any]) -> None:
    print(f"{'policy':<14} median    p90     worst   exact  avoidable overloads  s")
    for name, block in result["policies"].items():
        print(
            f"{name:<14} {block['regret_median']:7.1%} {block['regret_p90']:7.1%}"
            f" {block['regret_worst']:8.0%} {block['exact_share']:6.0%}"
            f" {block['avoidable_overloads']:10} {block['seconds']:14.3f}"
        )
    for key, value in result.items():
        if isinstance(value, float):
            print(f"{key}: {value:.4g}")
    if "q_errors" in result:
        from benchmarks.placement import learned

        learned.report(result)


if __name__ == "__main__":
    run(main)
