"""The account of the trial with a real day: it sees each window that is not as it should be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.key_split.day import READINGS, SENSORS, Account, Day

LINES = [
    f"OK,1,{speed},1,1,2014-08-18T{minute // 60:02}:{minute % 60:02}:00,{vehicles},1,{segment}"
    for minute, speed, vehicles, segment in (
        *((0, 50, 2, "1"), (0, 70, 1, "2"), (5, 60, 3, "1"), (5, 80, 0, "3")),
        *((20, 40, 1, "3"), (40, 30, 1, "1")),
    )
]


@pytest.fixture(name="day")
def day_fixture(tmp_path: Path) -> Day:
    (tmp_path / READINGS).write_bytes(gzip.compress("\n".join(["status", *LINES]).encode()))
    sensors = "REPORT_ID,city\n1,Aarhus\n2,Tilst\n3,Risskov\n"
    (tmp_path / SENSORS).write_text(sensors, encoding="utf-8")
    return Day.read(tmp_path)


def results(day: Day) -> list[dict[str, Any]]:
    """Right results of all windows."""
    found = []
    for (key, end), speeds in day.speeds.items():
        minute = end * 5 % (24 * 60)
        moment = f"2014-08-18T{minute // 60:02}:{minute % 60:02}:00Z"
        middle = {f"p{each}": speeds[len(speeds) * each // 100] for each in (10, 50, 90)}
        found.append({"key": key, "end": moment, "vehicles": len(speeds), **middle})
    return found


def account(day: Day, found: list[dict[str, Any]]) -> Account:
    counts = {place: len(speeds) for place, speeds in day.speeds.items()}
    return Account.of(day.speeds, counts, map(json.dumps, found))


def test_a_row_stands_for_each_vehicle(day: Day) -> None:
    assert day.rows() == 8
    assert day.argument() == "Tilst: 2; Risskov: 3; Aarhus: *"
    first = min(day.speeds)
    assert day.speeds[first] == [50, 50]
    assert day.speeds["Aarhus", first[1] + 1] == [50, 50, 60, 60, 60]


def test_windows_as_they_should_be(day: Day) -> None:
    assert account(day, results(day)).faults() == 0


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"vehicles": 3}, "wrong"),
        ({"p50": 20.0}, "wrong"),
        ({"p90": 99.0}, "wrong"),
        ({"vehicles": 3}, "unlike_spark"),
        ({"key": "Ega"}, "unexpected"),
        ({"key": "Ega"}, "missing"),
    ],
)
def test_a_window_that_is_not_as_it_should_be(day: Day, change: dict[str, Any], fault: str) -> None:
    first, *others = results(day)
    assert getattr(account(day, [first | change, *others]), fault) == 1


def test_a_window_that_comes_again(day: Day) -> None:
    found = results(day)
    assert account(day, [*found, found[0]]).doubled == 1
