"""The account of runs over real engines, from series that are made up."""

from __future__ import annotations

import json

import pytest

from benchmarks.irm.account import Sample, Series, figures

CORES, SHARE = 0.4, 0.125


def series(
    counts: list[tuple[int, ...]], allocated: float = 0.05, taken: float = 0.05, steady: int = 30
) -> Series:
    """A sample a second: instances by engine, each of which takes ``taken`` cores; 0.1 are the baseline."""
    samples, used = [], [0.0] * len(counts[0])
    for at, instances in enumerate([*counts, *[counts[-1]] * steady]):
        used = [each + 0.1 + count * taken for each, count in zip(used, instances, strict=True)]
        counted = tuple(count * allocated for count in instances)
        samples.append(Sample(float(at), tuple(used), instances, counted))
    return Series("speck", "singly", CORES, SHARE, (0.1,) * len(counts[0]), tuple(samples))


def one_by_one(full: int, number: int) -> list[tuple[int, ...]]:
    return [(min(count, full), max(0, count - full)) for count in range(number + 1)]


def test_full_engines() -> None:
    found = figures(series(one_by_one(8, 10)))
    assert found["reserved_before_next"] == found["bins_over_least"] == 1.0
    assert found["fill_before_next"] == pytest.approx(1.0)
    assert found["cpu_error"] == pytest.approx(0.0, abs=1e-9)
    assert found["cores"] == pytest.approx(found["cores_asked"]) == pytest.approx(0.5)


def test_engines_that_are_left_half_empty_and_wrong_shares() -> None:
    found = figures(series(one_by_one(4, 8), allocated=0.075))
    assert found["reserved_before_next"] == 0.5
    assert found["fill_before_next"] == pytest.approx(0.5)
    assert found["bins_over_least"] == 2.0
    assert found["cpu_error"] == pytest.approx(0.5)


def test_instances_that_get_less_than_they_ask_for() -> None:
    found = figures(series(one_by_one(8, 10), taken=0.04))
    assert found["reserved_before_next"] == 1.0
    assert found["fill_before_next"] == pytest.approx(0.8)
    assert found["cores"] < found["cores_asked"]


def test_engines_that_instances_need_which_take_more_than_they_ask_for() -> None:
    assert figures(series(one_by_one(4, 8), taken=0.07))["bins_over_least"] == 1.0


def test_a_burst_that_fills_one_engine_and_opens_the_next() -> None:
    assert figures(series([(4, 0), (8, 2)]))["reserved_before_next"] == 1.0


def test_series_as_json_and_their_shares_by_time() -> None:
    made = series(one_by_one(8, 10))
    assert Series.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    at, share = made.shares(0)[-1]
    assert at == made.samples[-1].at
    assert share == pytest.approx(1.0)
