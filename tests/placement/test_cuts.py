"""The choice of the cuts of a query, against all vectors that could be chosen by hand."""

from __future__ import annotations

import random
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from speck.placement.cuts import Vector, best, choose
from speck.sql.types import CUTS
from tests.support.properties import tries

LEAST = 0.15
OPTIONS = st.lists(st.sampled_from([CUTS[:1], CUTS[:2], CUTS[:3], CUTS]), min_size=1, max_size=5)


class Objective:
    """An objective without any structure: a random number for each vector."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, vector: Vector) -> float:
        return random.Random(f"{self._seed} {vector}").uniform(0.5, 2)


@tries(100)
@given(options=OPTIONS, seed=st.integers(0, 2**32))
def test_a_new_query_gets_the_best_cuts(options: list[tuple[str, ...]], seed: int) -> None:
    objective = Objective(seed)
    found = choose(options, [None] * len(options), objective, LEAST)
    vectors = list(product(*options))
    if len(vectors) <= 64:
        assert objective(found) == min(map(objective, vectors))
    uniform = [vector for vector in vectors if len(set(vector)) == 1]
    assert all(objective(found) <= objective(each) for each in uniform)
    for place, each in enumerate(options):  # nor is it better to change one
        others = [(*found[:place], name, *found[place + 1 :]) for name in each]
        assert objective(found) <= min(map(objective, others)) + 1e-6


@tries(100)
@given(options=OPTIONS, seed=st.integers(0, 2**32))
def test_a_query_that_runs_is_changed_for_a_gain_alone(options: list[tuple[str, ...]], seed: int) -> None:
    objective, dice = Objective(seed), random.Random(seed)
    present = tuple(map(dice.choice, options))
    found = choose(options, present, objective, LEAST)
    assert found == present or objective(found) < objective(present) * (1 - LEAST)
    if found == present:
        assert objective(best(options, objective, present)) >= objective(present) * (1 - LEAST) - 1e-6
    assert choose(options, found, objective, LEAST) == found


def test_the_earlier_of_equal_cuts_is_taken() -> None:
    assert choose([CUTS, CUTS], [None, None], lambda vector: 1.0, LEAST) == (CUTS[0], CUTS[0])
