"""The rates of the last hour, a point a minute."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from speck.observe.curves import FIELDS, POINTS, Curves
from speck.observe.rates import Rates
from tests.support.properties import tries


def rates(number: float) -> Rates:
    return Rates(0.0, number, None, int(number), 0.25)


def test_the_last_values_of_each_minute_are_its_point() -> None:
    now = 0.0
    curves = Curves(lambda: now)
    for at, number in ((6000.0, 1), (6030.0, 2), (6061.0, 3), (6240.0, 4.12345)):
        now = at
        curves.add("a", rates(number))
    found = curves.of_job("a")
    assert (found["until"], found["interval"]) == (6240, 60)
    assert found["input_rate"] == [None] * (POINTS - 5) + [2.0, 3.0, None, None, 4.123]
    assert found["output_rate"] == [None] * POINTS
    assert found["waiting"][-1] == 4.0
    assert found["work_seconds"][-5:] == [0.25, 0.25, None, None, 0.25]
    now = 6240.0 + 3600
    assert curves.of_job("a")["input_rate"] == [None] * POINTS
    assert curves.of_job("unknown")["input_rate"] == [None] * POINTS


def test_jobs_that_are_gone_are_forgotten_and_each_takes_a_kilobyte() -> None:
    curves = Curves(lambda: 0.0)
    for name in "abc":
        curves.add(name, rates(1))
    curves.forget_others({"b"})
    assert list(curves._rings) == ["b"]
    values = curves._rings["b"].values
    assert isinstance(values, array) and len(values) * values.itemsize == POINTS * len(FIELDS) * 4 == 960


@tries(100)
@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 9)), max_size=40))
def test_any_history_is_that_of_a_plain_list(steps: list[tuple[int, int]]) -> None:
    now, expected = 0.0, dict[int, float]()
    curves = Curves(lambda: now)
    for minutes, number in steps:
        now += 60.0 * minutes
        curves.add("a", rates(number))
        expected[int(now // 60)] = float(number)
    last = int(now // 60)
    assert curves.of_job("a")["input_rate"] == [
        expected.get(minute) for minute in range(last - POINTS + 1, last + 1)
    ]


def test_a_clock_that_is_set_back_leaves_the_points_before_it() -> None:
    now = 600_000.0
    curves = Curves(lambda: now)
    for at, number in ((600_000.0, 1), (600_060.0, 2), (600_120.0, 3), (600_060.0, 4)):
        now = at
        curves.add("a", rates(number))
    assert curves.of_job("a")["input_rate"][-3:] == [None, 1.0, 4.0]
    now = 6000.0  # by a week: none of the points is of the last hour
    curves.add("a", rates(5))
    assert curves.of_job("a")["input_rate"] == [None] * (POINTS - 1) + [5.0]
    now = 6060.0
    curves.add("a", rates(6))
    assert curves.of_job("a")["input_rate"][-3:] == [None, 5.0, 6.0]
