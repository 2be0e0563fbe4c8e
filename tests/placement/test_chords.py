"""Chords of the event loop: never above it, exact at the ends, and near it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.placement.chords import MOST, chord, chords
from speck.placement.problem import Problem, SiteModel
from tests.support.properties import tries

PROBLEM = Problem(sites=[SiteModel(name="a", cores=1.0, speed=0.5)], jobs=[], channels=[], event_loop=0.01)
amounts = st.lists(st.floats(1.0, 1e4), min_size=1, max_size=6)


@tries(50)
@given(st.floats(0, 1e4), amounts, st.floats(0, 1))
def test_no_chord_is_above_the_loop_and_all_are_near_it(
    present: float, possible: list[float], share: float
) -> None:
    pieces = chords(PROBLEM, 0, present, possible)
    total, base = sum(possible), PROBLEM.loop_cores(0, present)
    messages = min(possible) + share * (total - min(possible))
    piece = next(each for each in pieces if messages <= each.upper * (1 + 1e-9))
    found, exact = piece.fixed + piece.slope * messages, PROBLEM.loop_cores(0, present + messages) - base
    assert found <= exact * (1 + 1e-9)
    if (present + total) / max(present, min(possible)) <= 2**MOST:
        assert found >= exact - 0.016 * (base + exact)
    assert pieces[0].lower == pieces[0].fixed == 0
    assert pieces[-1].upper == pytest.approx(total)
    for before, after in pairwise(pieces):
        ends = [each.fixed + each.slope * before.upper for each in (before, after)]
        assert before.upper == after.lower
        assert ends[0] == pytest.approx(ends[1])


def test_sites_without_a_loop_or_without_messages_have_no_chords() -> None:
    assert chords(PROBLEM, 0, 100.0, []) == chords(PROBLEM, 0, 100.0, [0.0, 0.0]) == []
    spark = Problem(sites=PROBLEM.sites, jobs=[], channels=[])
    assert chords(spark, 0, 0.0, [5.0]) == []
    assert len(chords(PROBLEM, 0, 0.0, [5.0])) == 1
    assert chord(PROBLEM, 0, 9.0, 0.0, 0.0).slope == 0.0
