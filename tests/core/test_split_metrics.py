"""The figures of windows of measured work."""

from __future__ import annotations

import pytest

from speck.core.split.metrics import Work, WorkWindow, imbalance, observation, reward, transition


def test_imbalance() -> None:
    assert imbalance([1, 1, 1]) == 0.0
    assert imbalance([3, 1, 2]) == 0.5
    assert imbalance([2, 1], [2, 1]) == 0.0
    assert imbalance([2, 1, 9], [2, 1, 0]) == 0.0
    assert imbalance([0, 0]) is None


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        ([1, 1, 1, 1], 3.0),  # p = 0, f = 1
        ([1.5, 0.5], 0.0),  # p = (0.5 + 0.5)/2
        ([2.0, 0.0], -3.0),  # p = (1 + 1)/2, f = -1
        ([0.0, 0.0], 0.0),
    ],
)
def test_the_reward_is_that_of_the_design(busy: list[float], expected: float) -> None:
    assert reward(busy) == pytest.approx(expected)


def window(end: float, *workers: Work | None, weights: tuple[float, ...] = ()) -> dict[str, object]:
    return WorkWindow(end, 10.0, workers, weights).data()


def test_observations_are_shares_of_rows_and_busy_shares() -> None:
    found = observation(window(1.0, Work(30, 5.0, 6.0), Work(10, 1.0, 2.0)))
    assert found == [1.5, 0.5, 0.5, 0.1]
    assert observation(window(1.0, Work(90), None, None)) == [2.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert observation(window(1.0, None, None)) == [0.0] * 4


def test_a_step_is_of_two_windows() -> None:
    before = window(1.0, Work(30, 5.0), Work(10, 1.0))
    after = window(2.0, Work(20, 3.0), Work(20, 3.0), weights=(0.4, 0.6))
    assert transition(before, after) == {
        "obs": [1.5, 0.5, 0.5, 0.1],
        "action": [0.4, 0.6],
        "reward": 3.0,
        "next_obs": [1.0, 1.0, 0.3, 0.3],
    }
    assert transition(after, before)["action"] == [0.75, 0.25]
