"""One placement of a problem, observed in each simulator under steady conditions."""

from __future__ import annotations

from speck.placement.problem import Placement, Problem
from testbed.simulate.conditions import steady
from testbed.simulate.fluid import Fluid
from testbed.simulate.messages import Messages
from testbed.simulate.observed import Observed

WARM, SECONDS = 10.0, 20.0


def by_fluid(
    problem: Problem, placement: Placement, warm: float = WARM, seconds: float = SECONDS
) -> Observed:
    """Figures by simulator (a)."""
    fluid, scenario = Fluid(problem, placement), steady(problem)
    fluid.run(warm, scenario)
    fluid.reset()
    fluid.run(seconds, scenario)
    return fluid.observed()


def by_messages(
    problem: Problem, placement: Placement, seed: int, warm: float = WARM, seconds: float = SECONDS
) -> Observed:
    """Figures by simulator (b)."""
    return Messages(problem, placement, seed=seed).observe(warm, seconds)
