"""The parts that partitioners share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from jars_and_apps.key_split.baselines.choices import second
from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.hashing import homes, mix64
from jars_and_apps.key_split.partitioners.counts import Counts
from jars_and_apps.key_split.partitioners.fill import deficit, fill
from jars_and_apps.key_split.partitioners.holders import Holders
from jars_and_apps.key_split.partitioners.keytable import KeyTable
from jars_and_apps.key_split.partitioners.protocol import Setting
from jars_and_apps.key_split.partitioners.sketch import Sketch

ROWS = st.lists(st.integers(0, 60), min_size=1, max_size=9)


def keys(*numbers: int) -> NDArray[np.uint64]:
    """Hashes of numbers."""
    return mix64(np.array(numbers, np.uint64))


@given(ROWS, st.integers(0, 300))
def test_fill_is_one_row_at_a_time_to_the_lowest(loads: list[int], rows: int) -> None:
    levels = list(loads)
    for _ in range(rows):
        levels[levels.index(min(levels))] += 1
    given_ = fill(np.array(loads, np.float64), rows)
    assert given_.sum() == rows
    assert sorted(np.array(loads) + given_) == sorted(levels)


@given(ROWS, st.integers(0, 300), st.data())
def test_fill_by_weight_levels_to_within_a_row(loads: list[int], rows: int, data: st.DataObject) -> None:
    shares = np.array([data.draw(st.integers(1, 5)) for _ in loads], np.float64)
    given_ = fill(np.array(loads, np.float64), rows, shares)
    assert given_.sum() == rows
    assert (given_ >= 0).all()
    raised = given_ > 0
    if raised.any():
        level = ((np.array(loads) + given_ - 1)[raised] / shares[raised]).max()
        assert ((np.array(loads) + given_ + 1) / shares >= level - 1e-9).all()


def test_fill_gives_nothing_to_a_share_of_0() -> None:
    assert fill(np.array([0.0, 5.0, 9.0]), 10, np.array([0.0, 1.0, 1.0])).tolist() == [0, 7, 3]


@given(ROWS, st.integers(0, 300), st.data())
def test_deficit_is_one_row_at_a_time_to_the_most_missing(
    counts: list[int], rows: int, data: st.DataObject
) -> None:
    desired = [data.draw(st.integers(0, 4)) for _ in counts]
    shares = np.array(desired if any(desired) else [1] * len(counts), np.float64)
    shares /= shares.sum()
    missing = shares * (sum(counts) + rows) - np.array(counts)
    missing[shares == 0] = -np.inf
    for _ in range(rows):
        missing[int(missing.argmax())] -= 1
    given_ = deficit(shares, np.array(counts), rows)
    assert given_.sum() == rows
    remaining = shares * (sum(counts) + rows) - np.array(counts) - given_
    np.testing.assert_allclose(sorted(remaining[shares > 0]), sorted(missing[shares > 0]), atol=1e-6)
    assert not given_[shares == 0].any()


@given(st.lists(st.tuples(st.lists(st.integers(0, 50), max_size=30), st.booleans()), max_size=12))
def test_key_table_is_a_dictionary_with_dense_numbers(steps: list[tuple[list[int], bool]]) -> None:
    table, expected = KeyTable({"rows": np.int64}), dict[int, int]()
    for numbers, forget in steps:
        desired = np.array(numbers, np.uint64) << np.uint64(13)  # all want the same place in the index
        new = np.unique(desired[table.find(desired) < 0])
        table.add(new)
        expected |= {each: 0 for each in new.tolist() if each not in expected}
        np.add.at(table["rows"], table.find(desired), 1)
        for each in desired.tolist():
            expected[each] += 1
        if forget:
            table.keep(table["rows"] > 2)
            expected = {each: rows for each, rows in expected.items() if rows > 2}
        assert dict(zip(table.hashes.tolist(), table["rows"].tolist(), strict=True)) == expected
        assert table.find(table.hashes).tolist() == list(range(table.size))
        assert (table.find(np.array([2**60 + 1], np.uint64)) == -1).all()


def test_counts_forget_a_key_that_was_silent_for_a_window() -> None:
    counts = Counts(Setting(np.ones(4), 1, slides=2))
    counts.take(keys(1, 1, 2))
    counts.advance(1)
    counts.take(keys(2))
    assert dict(zip(counts.hashes.tolist(), counts.before.tolist(), strict=True)) == {
        keys(1)[0]: 2,
        keys(2)[0]: 1,
    }
    counts.advance(2)
    assert counts.hashes.tolist() == keys(2).tolist()
    counts.advance(1)
    assert counts.hashes.tolist() == []


def test_counts_name_owners_that_the_router_may_have_forgotten() -> None:
    counts = Counts(Setting(np.ones(4), 1, slides=1))
    slot = counts.take(keys(1, 2)).keys[:1]
    home = int(counts.owner[slot[0]])
    counts.owner[slot] = (home + 1) % 4
    moved = counts.hashes[slot].tolist()

    def moves(*numbers: int) -> list[list[int]]:
        counts.take(keys(*numbers))
        return [each.tolist() for each in counts.moves(np.empty(0, np.int64))]

    assert moves(1, 2) == [[], []]
    counts.advance(1)
    assert moves(1, 2) == [moved, [(home + 1) % 4]], "comes again in a new slide"
    assert moves(1, 2) == [[], []]
    counts.advance(3)
    assert moves() == [moved, [home]], "forgotten"
    assert moves(1, 2) == [[], []]


def test_keys_that_a_full_table_has_no_room_for_stay_at_home_until_they_are_hot() -> None:
    setting = Setting(np.ones(4), 3)
    counts = Counts(setting, most=10)
    counts.take(keys(*range(10)), 0.1)
    late = keys(*range(100, 150))
    counted = counts.take(late, 0.1)
    assert counts.table.size == 10
    np.testing.assert_array_equal(counted.others, homes(late, setting.weights, setting.seed))
    counts.take(keys(*[100] * 40), 0.1)
    assert counts.table.size == 11
    assert counts.table.find(keys(100)).tolist() == [10]
    again = Counts.load(setting, counts.dump(), most=10)
    for name, array in counts.dump().items():
        np.testing.assert_array_equal(array, again.dump()[name])


@given(st.lists(st.integers(0, 300), min_size=1, max_size=200))
def test_a_sketch_never_counts_too_few(numbers: list[int]) -> None:
    sketch = Sketch.begin(4)
    distinct, rows = np.unique(keys(*numbers), return_counts=True)
    estimates = sketch.add(distinct, rows)
    assert (estimates >= rows).all()
    assert (estimates <= len(numbers)).all()


def test_loads_are_those_of_the_window() -> None:
    loads = Loads(Setting(np.ones(2), 1, slides=2))
    loads.add(np.array([1, 2]))
    loads.advance(1)
    loads.add(np.array([10, 20]))
    assert loads.rows().tolist() == [11, 22]
    loads.advance(1)
    assert loads.rows().tolist() == [10, 20]
    loads.advance(5)
    assert loads.rows().tolist() == [0, 0]


def test_holders_expire_one_by_one() -> None:
    holders = Holders()
    holders.mark(9, [2, 1], 0)
    holders.mark(9, [1], 3)
    holders.expire(1)
    assert holders.of(9) == [1]
    assert Holders.load(holders.dump()).of(9) == [1]
    holders.expire(4)
    assert len(holders) == 0


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [0.0, 3.0, 1.0, 0.0, 2.0], [1.0] * 30])
def test_the_second_choice_is_another_worker_by_the_weights(weights: list[float]) -> None:
    each = mix64(np.arange(40_000, dtype=np.uint64))
    shares = np.array(weights) / sum(weights)
    first = homes(each, np.array(weights), 5)
    other = second(each, first, np.array(weights), 5)
    if len(weights) == 1:
        assert (other == first).all()
        return
    assert (other != first).all()
    expected = np.zeros((len(weights), len(weights)))
    for worker in np.flatnonzero(shares):
        expected[worker] = shares[worker] * shares / (1 - shares[worker])
        expected[worker, worker] = 0
    found = np.bincount(first * len(weights) + other, minlength=len(weights) ** 2) / len(each)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=0.015)
