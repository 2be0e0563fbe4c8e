"""The number of the next attempt, whatever a fence names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.attempt_number import FURTHEST, HIGHEST, is_believed, known_number, next_number
from speck.errors import Rejected
from tests.support.properties import property_test


def number(known: int, fenced: int) -> int:
    return next_number("a", known, fenced, topic="speck/fence/speck-a", broker="tcp://b1:1883")


@pytest.mark.parametrize(
    ("known", "fenced", "expected"),
    [(0, 0, 1), (4, 4, 5), (4, 5, 5), (4, 6, 7), (4, -1, 5), (4, 4 + FURTHEST, 5 + FURTHEST)],
)
def test_it_is_above_all_known_numbers(known: int, fenced: int, expected: int) -> None:
    assert number(known, fenced) == expected


@property_test
@given(st.integers(0, 2 * HIGHEST), st.integers(-1, 10**30))
def test_it_grows_by_no_more_than_the_bound_or_is_refused(known: int, fenced: int) -> None:
    if known < HIGHEST and is_believed(fenced, known):
        assert known < number(known, fenced) <= min(known + FURTHEST, HIGHEST) + 1
        return
    with pytest.raises(Rejected):
        number(known, fenced)


def test_a_refusal_names_the_topic_and_the_remedy() -> None:
    with pytest.raises(Rejected) as refused:
        number(3, 10**18 - 1)
    for part in (
        "job 'a': the fence at topic 'speck/fence/speck-a' of broker tcp://b1:1883 names attempt",
        "999999999999999999 (expected at most 1000000003)",
        "remove the retained message, and apply again",
    ):
        assert part in str(refused.value)
    with pytest.raises(Rejected, match=r"is 1000000000000000000 .*speck store repair"):
        number(10**18, 0)


@pytest.mark.parametrize(("ended", "expected"), [(0, 4), (7, 7), (4 + FURTHEST, 4 + FURTHEST)])
def test_an_engine_may_have_ended_later_attempts(ended: int, expected: int) -> None:
    assert known_number("a", 4, ended, engine="sc://a:1") == expected


@pytest.mark.parametrize("ended", [5 + FURTHEST, HIGHEST, 10**30])
def test_a_number_of_an_engine_far_above_the_known_ones_is_refused(ended: int) -> None:
    expected = r"engine sc://a:1 names attempt \d+ of it as ended \(expected at most 1000000004\)"
    with pytest.raises(Rejected, match=expected):
        known_number("a", 4, ended, engine="sc://a:1")
