"""The triggers of decisions: links, rates, conditions that last, and backlogs."""

from __future__ import annotations

from typing import Any

import pytest

from speck.core.adaptation import Trigger
from speck.placement.adaptation import triggers
from speck.placement.profile import Known, LinkProfile, Value
from tests.placement.situations import NOW


def link(bandwidth: float | None, trip: float | None, *, at_least: bool = False) -> dict[Any, LinkProfile]:
    def measured(value: float | None) -> Value | None:
        return None if value is None else Value(value, Known.MEASURED)

    profile = LinkProfile(
        source="A",
        target="D",
        bandwidth=measured(bandwidth),
        round_trip=measured(trip),
        at_least=at_least,
    )
    return {("A", "D"): profile}


@pytest.mark.parametrize(
    ("now", "fires"),
    [
        (link(49.0, 0.1), True),
        (link(51.0, 0.1), False),
        (link(49.0, 0.1, at_least=True), False),
        (link(100.0, 0.31), True),
        (link(100.0, 0.29), False),
        (link(None, None), False),
        ({}, False),
    ],
)
def test_links(now: dict[Any, LinkProfile], fires: bool) -> None:
    found = list(triggers.links(link(100.0, 0.1), now))
    assert found == ([(Trigger.LINK, "A-D")] if fires else [])


def test_rates() -> None:
    before = {"big": 100.0, "small": 1.0, "gone": 5.0}
    assert list(triggers.rates(before, {"big": 121.0, "small": 1.9, "new": 9.0})) == [(Trigger.RATES, "big")]
    assert not list(triggers.rates(before, {"big": 119.0}))


def test_a_condition_is_reported_once_when_it_has_lasted() -> None:
    watch, reported = triggers.Watch(), []
    condition = (Trigger.CORES, "A")
    for second in range(0, 100, 10):
        watch, due = watch.with_next([condition], NOW + second)
        reported += [second] * len(due)
    assert reported == [30]
    watch, due = watch.with_next([], NOW + 100)
    assert due == []
    for second in range(110, 150, 10):
        watch, due = watch.with_next([condition], NOW + second)
        reported += [second] * len(due)
    assert reported == [30, 140]


@pytest.mark.parametrize(
    ("counts", "lags"),
    [
        ([0, 400, 900, 1600], True),
        ([0, 400, 390, 1600], False),  # it does not grow all the time
        ([0, 10, 20, 30], False),  # less than 10 s of input
        ([1600, 1600, 1600, 1600], False),
        ([0, 1600], False),  # too short a time
    ],
)
def test_lag(counts: list[int], lags: bool) -> None:
    samples = [(NOW + 20.0 * number, count) for number, count in enumerate(counts)]
    assert triggers.lagging({"clean": samples}, {"clean": 100.0}) == (["clean"] if lags else [])


@pytest.mark.parametrize(
    ("counts", "drains"),
    [
        ([6000, 4000, 2000], True),
        ([6000, 4000, 4000, 2000], True),
        ([6000, 4000, 5900], False),  # a full buffer
        ([6000, 6000], False),
        ([6000, 4000, 900], False),  # less than 10 s of input is left
        ([2000, 4000, 6000], False),
        ([2000], False),
    ],
)
def test_draining(counts: list[int], drains: bool) -> None:
    samples = [(NOW + 10.0 * number, count) for number, count in enumerate(counts)]
    assert triggers.draining({"clean": samples}, {"clean": 100.0}) == (["clean"] if drains else [])
