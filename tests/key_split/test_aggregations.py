"""The aggregations that come with SpecK: merges in any grouping give what one ``add`` gives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binders.common.aggregation import aggregation_faults
from binders.common.signature import parameters_of
from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.aggregations import CountSumMinMax, Percentiles, WordCount
from jars_and_apps.road_traffic.hot_towns import SpeedPercentiles, towns_of
from testbed import ROOT
from tests.support.docs_blocks import blocks
from tests.support.properties import property_test

SHIPPED = {
    "jars_and_apps/key_split/aggregations.py": ["WordCount", "CountSumMinMax", "Percentiles"],
    "jars_and_apps/road_traffic/hot_towns.py": ["SpeedPercentiles"],
}

# Whole numbers: their sums are exact in any order.
groups = st.lists(st.lists(st.integers(-1000, 1000), min_size=1, max_size=20), min_size=1, max_size=8)


def columns(values: list[Any]) -> dict[str, Any]:
    return {"value": np.array(values, float), "time": np.arange(len(values))}


def folded(aggregation: Aggregation, parts: list[list[Any]], forwards: bool) -> dict[str, Any]:
    """The result of partial states, each encoded on its way, merged from one end."""
    states = [aggregation.add_all(columns(part), np.array([0]))[0] for part in parts]
    states = [aggregation.decode(aggregation.encode(each)) for each in states]
    merge: Callable[[Any, Any], Any] = aggregation.merge
    if forwards:
        return dict(aggregation.finish(functools.reduce(merge, states)))
    return dict(aggregation.finish(functools.reduce(lambda one, other: merge(other, one), reversed(states))))


@pytest.mark.parametrize("made", [WordCount, CountSumMinMax])
def test_merges_in_any_grouping_are_one_add(made: Callable[[], Any]) -> None:
    aggregation = Aggregation(made())

    @property_test
    @given(groups)
    def check(parts: list[list[Any]]) -> None:
        whole = folded(aggregation, [[value for part in parts for value in part]], forwards=True)
        assert folded(aggregation, parts, forwards=True) == whole
        assert folded(aggregation, parts, forwards=False) == whole

    check()


def test_count_sum_and_extremes() -> None:
    found = folded(Aggregation(CountSumMinMax(workload=3)), [[3, -1], [2]], forwards=True)
    assert found == {"count": 3, "sum": 4, "min": -1, "max": 3}
    assert folded(Aggregation(WordCount()), [[0, 0], [0]], forwards=True) == {"count": 3}


@pytest.mark.parametrize(("made", "column"), [(Percentiles, "value"), (SpeedPercentiles, "speed")])
@pytest.mark.parametrize("parts", [1, 2, 50])
def test_percentiles_are_within_their_rank(made: Callable[[], Any], column: str, parts: int) -> None:
    pytest.importorskip("fastdigest", reason="needs the extra `digest`")
    values = np.random.default_rng(7).lognormal(3.5, 0.6, 60_000)
    user = made()
    aggregation = Aggregation(user)
    states = [user.add({column: part}) for part in np.array_split(values, parts)]
    for turned in (states, states[::-1]):
        state = functools.reduce(
            aggregation.merge, [aggregation.decode(aggregation.encode(each)) for each in turned]
        )
        found = aggregation.finish(state)
        assert found.get("count", found.get("vehicles")) == len(values)
        for name, share in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9)):
            rank = np.mean(values <= found[name])
            assert abs(rank - share) <= 0.002, (name, rank)


def test_a_digest_of_the_same_rows_has_the_same_bytes() -> None:
    pytest.importorskip("fastdigest", reason="needs the extra `digest`")
    user = Percentiles()
    values = np.random.default_rng(1).normal(size=5000)
    one, other = (user.add({"value": part}) for part in np.array_split(values, 2))
    again, more = (user.add({"value": part}) for part in np.array_split(values, 2))
    assert user.encode(user.merge(one, other)) == user.encode(user.merge(again, more))
    assert user.encode(one) == user.encode(again)  # a merge changes neither


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, names in SHIPPED.items() for name in names]
)
def test_what_ships_is_an_aggregation(path: str, name: str) -> None:
    source = (ROOT / path).read_bytes()
    assert aggregation_faults(source, name) == ()
    assert {each.name for each in parameters_of(source, name) or ()} >= {"workload"}


def test_towns_of_segments() -> None:
    assert towns_of("Risskov: 1 2; Tilst: 3;; Aarhus: * ") == {
        "1": "Risskov",
        "2": "Risskov",
        "3": "Tilst",
        "*": "Aarhus",
    }
    assert towns_of("") == {}
    with pytest.raises(ValueError, match="towns: 'Risskov 1' names no segments"):
        towns_of("Risskov 1")


class ReturnsBytes(CountSumMinMax):
    def finish(self, state: list[float]) -> dict[str, Any]:
        return {"raw": b"x"}


class HasSet(CountSumMinMax):
    def add(self, columns: Any) -> Any:
        return {1, 2}


def test_a_state_that_is_not_json_and_a_class_without_encode() -> None:
    aggregation = Aggregation(HasSet())
    (state,) = aggregation.add_all(columns([1]), np.array([0]))
    with pytest.raises(TypeError, match="set is not JSON"):
        aggregation.encode(state)


# --- the check of a user's class


def faults(body: str, name: str = "Mine") -> tuple[str, ...]:
    return aggregation_faults(body.encode(), name)


GOOD = """
class Mine:
    def rows(self, messages): ...
    def add(self, columns): ...
    def merge(self, one, other): ...
    def finish(self, state): ...
"""


@pytest.mark.parametrize(
    "body",
    [
        GOOD,
        GOOD + "    def encode(self, state): ...\n    def decode(self, data): ...\n",
        GOOD + "    def add_all(self, columns, starts): ...\n",
        GOOD.replace("def merge(self, one, other)", "@staticmethod\n    def merge(one, other)"),
        GOOD.replace("(self, columns)", "(self, columns, fast=True, *, exact=False)"),
        GOOD.replace("(self, columns)", "(self, *columns)"),
        GOOD.replace("(self, columns)", "(self, /, columns)"),
        GOOD.replace("    def merge(self, one, other): ...", "    merge = max"),
        "class Mine(Base):\n    def add(self, columns): ...\n",
        "from elsewhere import Mine\n",
    ],
)
def test_classes_that_pass(body: str) -> None:
    assert faults(body) == ()


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (GOOD.replace("merge", "merged"), "class 'Mine' has no method 'merge' (expected merge(one, other))"),
        (
            GOOD.replace("(self, one, other)", "(self, one)"),
            "method 'merge' of class 'Mine' takes 1 argument (expected merge(one, other))",
        ),
        (
            GOOD.replace("(self, state)", "(self, state, more)"),
            "method 'finish' of class 'Mine' takes 2 arguments (expected finish(state))",
        ),
        (
            GOOD.replace("def add", "async def add"),
            "method 'add' of class 'Mine' is a coroutine (expected add(columns))",
        ),
        (
            GOOD + "    def decode(self, data): ...\n",
            "class 'Mine' has 'decode' without 'encode' (expected encode(state) as well: it is the inverse)",
        ),
        ("class Mine(Base):\n    def add(self): ...\n", "method 'add' of class 'Mine' takes 0 arguments"),
        (
            "def Mine(messages): ...\n",
            "entry_class 'Mine' is a function (expected a class with the methods rows(messages), "
            "add(columns), merge(one, other) and finish(state))",
        ),
    ],
)
def test_classes_with_a_fault(body: str, fault: str) -> None:
    (found,) = faults(body)
    assert found.startswith(fault)


def test_the_class_of_the_documentation_is_an_aggregation() -> None:
    (block,) = (each for each in blocks(ROOT / "docs" / "key-splitting.md") if each.language == "python")
    assert faults(block.text, "MeanSpeed") == ()


def test_a_file_is_checked_without_running_it(tmp_path: Path) -> None:
    assert faults(GOOD + "raise SystemExit\n") == ()
