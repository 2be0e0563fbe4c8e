"""Agreement of the simulators with each other, and of the cost model with them.

Each of ``seeds`` random problems is simulated with the same random placement by both.  Then the objective of
several placements of a problem is compared by its order.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.simulate.intervals import interval, q_error, spearman, summary
from speck.placement.cost import evaluate
from testbed.simulate.observed import mean_age, objective
from testbed.simulate.runs import by_fluid, by_messages
from testbed.simulate.worlds import scattered, small

AIM = 1.2


def compare(seeds: int) -> dict[str, Any]:
    """The q-errors of (a) against (b), and of the model against (b) where it predicts no overload."""
    errors: dict[str, list[float]] = {"rate": [], "wan": [], "age": [], "age_sustained": []}
    model: dict[str, list[float]] = {"wan": [], "age": [], "p95": []}
    saturated, used = 0, 0.0
    for seed in range(seeds):
        problem = small(seed)
        placement = scattered(problem, seed)
        began = time.process_time()
        one, other = by_fluid(problem, placement), by_messages(problem, placement, seed)
        used += time.process_time() - began
        figures = evaluate(problem, placement)
        ages = [sum(mean_age(problem, each).values()) for each in (one, other)]
        errors["rate"].append(q_error(one.rate, other.rate))
        errors["wan"].append(q_error(one.wan, other.wan))
        errors["age"].append(q_error(*ages))
        if figures.multiplier < 1:
            saturated += 1
            continue
        errors["age_sustained"].append(q_error(*ages))
        model["wan"].append(q_error(figures.wan, other.wan))
        model["age"].append(q_error(figures.age, ages[1]))
        model["p95"].append(q_error(figures.age_p95, max(other.p95.values())))
    return {
        "seeds": seeds,
        "saturated": saturated,
        "seconds_each": used / seeds,
        "fluid_to_messages": {name: summary(each) for name, each in errors.items()},
        "model_to_messages": {name: summary(each) for name, each in model.items() if each},
        "agrees": max(summary(errors[name])["median"]["value"] for name in ("rate", "wan")) <= AIM,
    }


def order(seeds: int, placements: int = 6) -> dict[str, Any]:
    """The rank correlations of the objective over several placements of a problem, by seed."""
    found: dict[str, list[float]] = {"model_fluid": [], "model_messages": [], "fluid_messages": []}
    losses: list[float] = []
    worst = (1.0, -1)
    for seed in range(seeds):
        problem = small(seed)
        tried = [scattered(problem, 1000 * seed + each) for each in range(placements)]
        model = [evaluate(problem, each).objective for each in tried]
        fluid = [objective(problem, each, by_fluid(problem, each)) for each in tried]
        messages = [objective(problem, each, by_messages(problem, each, seed)) for each in tried]
        found["model_fluid"].append(spearman(model, fluid))
        found["model_messages"].append(spearman(model, messages))
        found["fluid_messages"].append(spearman(fluid, messages))
        losses.append(messages[model.index(min(model))] / min(messages) - 1)
        worst = min(worst, (found["model_messages"][-1], seed))
    return {
        "seeds": seeds,
        "placements": placements,
        **{name: {"median": interval(each), "worst": min(each)} for name, each in found.items()},
        "top1_loss": summary(losses),
        "worst_seed": worst[1],
    }
