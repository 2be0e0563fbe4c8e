"""Rules for comparison: the forecast, and the exhaustive search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.errors import InvalidInput
from speck_baselines.exhaustive import exhaustive, gray_code
from speck_baselines.forecast import AHEAD, forecast, forecast_greedy, holt
from testbed.placement.random_problems import make
from tests.placement.test_advice import line


@given(st.floats(0, 1e5), st.integers(1, 60), st.floats(0, 100))
def test_forecast_of_a_constant_rate_is_the_rate(rate: float, count: int, ahead: float) -> None:
    assert holt([rate] * count, ahead) == pytest.approx(rate)


def test_forecast_follows_a_trend() -> None:
    rising = [100.0 + 2 * tick for tick in range(300)]
    assert holt(rising, 60) == pytest.approx(rising[-1] + 120, rel=0.01)
    assert holt(rising[::-1], 1000) == 0.0


def test_forecast_greedy_moves_before_the_rate_has_risen() -> None:
    rising = [20.0 + tick for tick in range(60)]
    problem = replace(line(), channels=[replace(line().channels[0], rate=rising[-1]), *line().channels[1:]])
    heavy = replace(problem, sites=[replace(problem.sites[0], up=30e3, latency=0.0005), problem.sites[1]])
    expected = forecast(replace(heavy, history=[rising, (), ()]))
    assert expected.channels[0].rate == pytest.approx(rising[-1] + AHEAD / 10, rel=0.1)
    assert forecast(heavy).channels[0].rate == rising[-1]
    found = forecast_greedy(replace(heavy, history=[rising, (), ()]), heavy.all_in_cloud)
    assert found.sites[0] == 0


def test_exhaustive_refuses_too_many_placements() -> None:
    problem = make(1, jobs=12)
    with pytest.raises(InvalidInput, match="16,777,216 placements"):
        exhaustive(problem)


def test_gray_code_visits_every_number_once_and_changes_one_digit() -> None:
    bases, seen, digits = [3, 1, 2, 4], set(), [0, 0, 0, 0]
    for position, digit in gray_code(bases):
        if position >= 0:
            assert abs(digits[position] - digit) == 1
            digits[position] = digit
        seen.add(tuple(digits))
    assert len(seen) == 24
