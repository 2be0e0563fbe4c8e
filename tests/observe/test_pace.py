"""The interval of measurements follows their cost, and no figure becomes stale by that."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.profile import JobSample
from speck.observe.pace import LEAST, LONGEST, SHARE, Pace, fresh_for
from speck.observe.profile.estimates import estimate
from speck.observe.profile.screening import Series
from tests.support.properties import tries

ENGINE = ("flink", "http://a:8081/")


def adapted(pace: Pace, now: float, costs: Sequence[float], engine: object = ENGINE) -> float:
    """Spend the costs of some rounds of an engine, each at the interval of the one before; the time then."""
    for cost in costs:
        pace.spend(engine, cost)
        now += pace.interval
        pace.adapt(now)
    return now


@pytest.mark.parametrize(
    ("cost", "interval"),
    [(0.0, 10), (0.1, 10), (0.11, 15), (0.2, 20), (0.6, 60), (2.9, 290), (3.0, 300), (30.0, LONGEST)],
)
def test_the_interval_is_that_at_which_the_budget_suffices(cost: float, interval: float) -> None:
    pace = Pace(0.01)
    adapted(pace, 0, [0, *[cost] * 6])
    assert pace.interval == interval
    assert (pace.used <= 0.01) == (cost <= 3.0)


def test_the_first_round_of_an_engine_does_not_count() -> None:
    pace = Pace()
    adapted(pace, 0, [5.0])
    assert (pace.interval, pace.used) == (LEAST, 0)


def test_the_budget_is_that_of_all_engines_and_of_the_store() -> None:
    pace = Pace(0.02)
    now = adapted(pace, 0, [0, 0.3], "a")
    now = adapted(pace, now, [0, 0.2], "b")
    assert (pace.interval, pace.used) == (25, 0.5 / 25)
    pace.spend_every("store", 60, 0.6)
    pace.adapt(now)
    assert (pace.interval, pace.used) == (50, 0.5 / 50 + 0.01)
    pace.forget_others(["b"])
    pace.adapt(now + 50)
    assert pace.interval == 40  # on the way to 20
    pace.spend_every("store", 60, 60.0)
    pace.adapt(now + 51)
    assert pace.interval == 100  # a tenth of the budget is for samples, whatever else is done


def test_the_budget_is_that_of_the_watch_over_losses_too() -> None:
    pace = Pace(0.01)
    now = adapted(pace, 0, [0, 0.1])
    for seconds in (9.0, 0.15, 0.05):  # the first one looks up what the others need
        pace.spend_watching(ENGINE, 20, seconds)
    pace.adapt(now)
    assert (pace.interval, pace.used) == (20, pytest.approx(0.01))
    pace.forget_others([])
    assert pace.used == 0


def test_the_interval_grows_at_once_and_falls_by_a_fifth_an_interval() -> None:
    pace = Pace()
    now = adapted(pace, 0, [0, *[1.0] * 6])
    assert pace.interval == 100
    found = []
    for _ in range(6):
        pace.forget_others([])
        pace.adapt(now + pace.interval - 1)
        assert pace.interval == (found[-1] if found else 100)  # too early
        now += pace.interval
        pace.adapt(now)
        found.append(pace.interval)
    assert found == [80, 65, 55, 45, 40, 35]


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 8)), min_size=1, max_size=12))
@tries(200)
def test_samples_at_this_pace_are_fresh_after_the_first_three(phases: list[tuple[float, int]]) -> None:
    """With any costs, and up to the moment before the next sample, which may come some seconds late."""
    pace, now, series = Pace(SHARE), 1e6, Series()
    for cost in [each for each, times in phases for _ in range(times)]:
        pace.adapt(now)
        sample = JobSample(engine_id="1", observed=now, messages_in=int(now) * 10)
        series, _ = series.with_next(sample, now)
        pace.spend(ENGINE, cost)
        following = now + pace.interval
        if len(series.samples) >= 4:
            fresh = fresh_for(pace.interval)
            found = estimate(series, following + 4, fresh=fresh).profile.rate_in
            assert found is not None, (pace.interval, [now - each.at for each in series.samples])
            assert found.value == pytest.approx(10, rel=0.05)
        now = following
