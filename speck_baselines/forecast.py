"""Placement for the rates of the near future: Holt's linear trend of each source, then a short descent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from speck.placement.problem import Placement, Problem
from speck.placement.search import EPSILON
from speck.placement.state import SearchState

LEVEL, TREND = 0.5, 0.1  # smoothing factors
AHEAD = 600.0  # s
STEPS = 3


def holt(rates: Sequence[float], ahead: float) -> float:
    """The rate ``ahead`` steps after the last one; never below 0.

    Double exponential smoothing (Holt 1957, reprinted in Int. J. Forecasting 20 (2004), pages 5-10).
    """
    level, trend = rates[0], 0.0
    for rate in rates[1:]:
        before = level
        level = LEVEL * rate + (1 - LEVEL) * (level + trend)
        trend = TREND * (level - before) + (1 - TREND) * trend
    return max(0.0, level + ahead * trend)


def forecast(problem: Problem) -> Problem:
    """The problem with the born rates that are expected after :data:`AHEAD` seconds.

    A channel without a history keeps its rate.
    """
    if not problem.history:
        return problem
    ahead = AHEAD / problem.history_step
    channels = [
        replace(channel, rate=holt(rates, ahead)) if rates else channel
        for channel, rates in zip(problem.channels, problem.history, strict=True)
    ]
    return replace(problem, channels=channels)


def forecast_greedy(problem: Problem, incumbent: Placement) -> Placement:
    """The incumbent (or all in the cloud, if it is not allowed) after the steepest moves of single units."""
    expected = forecast(problem)
    start = problem.all_in_cloud if problem.faults(incumbent.sites) else incumbent
    state = SearchState(expected, start.sites)
    for _ in range(STEPS):
        if not _steepest(state):
            break
    return problem.placement(state.sites)


def _steepest(state: SearchState) -> bool:
    """Take the move of one unit that lowers the objective most; false if none does."""
    best, step = state.objective - EPSILON, None
    for unit in range(len(state.problem.units)):
        here = state.site_of(unit)
        for site in state.permitted(unit):
            if site == here:
                continue
            state.move(unit, site)
            if state.objective < best:
                best, step = state.objective, (unit, site)
        if state.site_of(unit) != here:
            state.move(unit, here)
    if step is not None:
        state.move(*step)
    return step is not None
