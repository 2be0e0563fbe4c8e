"""The plain reference of the hot towns, and what the program beside it says of results."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from jars_and_apps.road_traffic import watch_towns as watch

TOWNS = "Tilst: 7; Aarhus: *"
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
RIGHT = {"vehicles": 5, "p10": 40.0, "p50": 50.0, "p90": 60.0}


def reading(time: str, vehicles: int, speed: float = 50, segment: int = 8) -> bytes:
    return f"OK,10,{speed},3,10,2026-03-02T{time},{vehicles},1,{segment}".encode()


def result(town: str = "Aarhus", start: str = "2026-03-02T12:00:00Z", **fields: Any) -> bytes:
    return json.dumps({"key": town, "start": start, "end": "", **RIGHT, **fields}).encode()


def test_a_reading_counts_in_the_three_windows_over_it_once_a_vehicle() -> None:
    found = watch.reference([reading("12:10:30", 3, 48), reading("12:14:59", 2, 61)], TOWNS)
    minutes = {(start - NOON).total_seconds() / 60: dict(speeds) for (_, start), speeds in found.items()}
    assert minutes == {minute: {48.0: 3, 61.0: 2} for minute in (0, 5, 10)}


def test_segments_that_no_town_names_are_of_the_hot_one() -> None:
    found = watch.reference([reading("12:00:00", 1, segment=7), reading("12:00:00", 1)], TOWNS)
    assert {town for town, _ in found} == {"Tilst", "Aarhus"}


@pytest.mark.parametrize("line", [reading("12:00:00", 0), reading("12:00:00", 10_001)])
def test_readings_that_are_no_row_of_a_split_do_not_count(line: bytes) -> None:
    assert watch.reference([line], TOWNS) == {}


def test_two_thirds_of_the_segments_are_of_one_town() -> None:
    lines = [reading("12:00:00", 1, segment=segment) for segment in range(150_000, 151_000)]
    named = watch.towns_of(watch.towns_among(lines))
    assert named["*"] == "Aarhus"
    assert 600 < 1000 - (len(named) - 1) < 730
    assert len(set(named.values())) == 10


def test_the_closing_reading_is_an_hour_after_the_last() -> None:
    found = watch.closing_line([reading("12:10:00", 4), reading("12:30:00", 9), reading("12:20:00", 1)])
    assert found.encode() == reading("13:30:00", 1)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, None),
        ({"p10": 42.5}, None),  # between two vehicles of five
        ({"p50": 49.6}, None),  # speeds are whole km/h
        ({"p50": 49.4}, "p50 is 49.4 km/h (of the vehicles 0.200 are slower)"),
        ({"vehicles": 4}, "4 vehicles (expected 5)"),
        ({"p50": 61.0}, "p50 is 61 km/h (of the vehicles 1.000 are slower)"),
        ({"p90": 39.0}, "p90 is 39 km/h (of the vehicles 0.000 are slower)"),
    ],
)
def test_a_result_is_right_by_its_vehicles_and_ranks(fields: dict[str, float], fault: str | None) -> None:
    assert watch.fault_of(RIGHT | fields, {40.0: 1, 50.0: 3, 60.0: 1}) == fault


def account_of(*results: bytes) -> dict[str, Any]:
    account = watch.Account({("Aarhus", NOON): {40.0: 1, 50.0: 3, 60.0: 1}, ("Tilst", NOON): {50.0: 1}})
    for each in results:
        account.add("hot-towns", each)
    found: dict[str, Any] = account.report()
    return {name: found[name] for name in ("awaited", "windows", "wrong", "twice")}


def test_a_window_that_comes_once_and_is_right() -> None:
    assert account_of(result()) == {"awaited": 2, "windows": 1, "wrong": 0, "twice": 0}


def test_windows_that_come_twice_or_are_wrong_are_counted() -> None:
    found = account_of(result(), result(), result("Tilst"), result("Viby"), b"no result")
    assert found == {"awaited": 2, "windows": 3, "wrong": 3, "twice": 1}


def test_the_rows_of_the_combiners_are_added_up() -> None:
    account = watch.Account({})
    report = {"rows": 6, "faults": {"late": 1}}
    for loads in ({}, {"loads": [5, 1]}, {"loads": [0, 2]}):
        account.add("report", b"\xff" + json.dumps(report | loads).encode())
    found = account.report()
    assert (found["loads"], found["recent"], found["batches"], found["dropped"]) == (
        [5, 3],
        [5, 3],
        2,
        {"late": 1},
    )
    assert found["wrong"] == 0
