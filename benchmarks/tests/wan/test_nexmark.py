"""The benchmark of Nexmark: its events, the times of its results, and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.nexmark import sql
from benchmarks.nexmark.__main__ import summary
from benchmarks.nexmark.cells import FASTEST, SLOWEST, Row, scored
from benchmarks.nexmark.traffic import Results, events, shifted, time_of


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("B,40,1000,1001,99,x", "B,1040,1000,1001,99,x"),
        ("P,0,1000,Kate Smith,k@x.com,12,Boise,ID,x", "P,1000,1000,Kate Smith,k@x.com,12,Boise,ID,x"),
        ("A,10,1002,item,text,1,2,500,1000,10,x", "A,1010,1002,item,text,1,2,1500,1000,10,x"),
    ],
)
def test_events_are_moved_with_the_time_at_which_an_auction_expires(line: str, expected: str) -> None:
    assert shifted(line, 1000) == expected


def test_marks_of_the_end_are_not_sent(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text("nexmark/bid/a B,40,1,2,3,x\nnexmark/bid/a W,9223372036854775807\n")
    assert list(events(file)) == [(40, "nexmark/bid/a", "B,40,1,2,3,x")]


def test_a_highest_bid_is_known_when_its_window_ends() -> None:
    assert time_of("q7", "B,19999,1,2,3,x") == 20_000
    assert time_of("q5", "R,11999,1,2") == 11_999


def test_a_reader_gives_no_ages_for_marks_of_progress() -> None:
    results = Results("q7", 0)
    results.take("results/q7", "W,20000")
    assert results.taken()["q7"]["messages"] == 0
    results.take("results/q7", "B,19999,1,2,3,x")
    found = results.taken()["q7"]
    assert (found["messages"], found["until"]) == (1, 20)
    assert found["mean"] == found["p95"] > 0


def sums(query: str, start: int, *lines: str) -> dict[str, float]:
    results = Results(query, start)
    for each in lines:
        results.take(f"results/{query}", each)
    return results.taken()["rows"]


def test_checksums_depend_on_the_rows_alone_and_not_on_order_or_begin() -> None:
    found = sums("q5", 0, "R,1999,7,3", "R,3999,7,2", "R,10999,8,1")
    assert list(found) == ["0", "1"]
    assert found == sums("q5", 20_000, "R,30999,8,1", "R,23999,7,2", "R,21999,7,3")
    assert found != sums("q5", 0, "R,1999,7,3", "R,3999,7,2", "R,10999,8,2")
    assert found != sums("q5", 0, "R,1999,7,3", "R,1999,7,3", "R,3999,7,2", "R,10999,8,1")


@pytest.mark.parametrize(
    ("query", "row", "later", "other"),
    [
        ("q8", "R,9999,7,Kate,0", "R,29999,7,Kate,20000", "R,29999,7,Kate,10000"),
        ("q11", "R,9999,7,2,0,10000", "R,29999,7,2,20000,30000", "R,29999,7,2,20000,30001"),
    ],
)
def test_checksums_do_not_depend_on_the_begin_of_windows(
    query: str, row: str, later: str, other: str
) -> None:
    assert sums(query, 0, row) == sums(query, 20_000, later) != sums(query, 20_000, other)


def run(*policies: str, age: float, wan: float, alpha: float, predicted: float) -> dict[str, Any]:
    cores = {"A": 0.2, "B": 0.2, "D": 0.2}
    idle = {"A": 0.02, "B": 0.02, "D": 0.02}
    quiet = {"A": 0.0, "B": 0.0, "D": 0.0}
    measured = {"age": age, "p95": age, "wan": wan, "alpha": alpha, "cores": cores, "idle": idle}
    return {
        "policies": list(policies),
        "profile": SLOWEST,
        "predicted": {"age": predicted, "wan": 1.0, "priced": 1.0, "over": 0.0},
        "measured": measured | {"up": quiet, "down": quiet},
    }


def row(profile: str, *runs: dict[str, Any]) -> dict[str, Any]:
    return scored({"query": "q2", "profile": profile, "advice_keeps_cloud": False, "runs": list(runs)})


def test_figures_compare_speck_with_the_best_and_with_the_cloud() -> None:
    cloud = run("cloud", age=2.0, wan=1000.0, alpha=0.5, predicted=1.0)
    edges = run("speck", "search", age=1.0, wan=10.0, alpha=2.0, predicted=0.4)
    better = run("source", age=0.5, wan=10.0, alpha=2.0, predicted=0.5)
    found = summary([row(SLOWEST, cloud, edges), row(FASTEST, cloud, edges, better)])
    assert [cell["speck_to_best"] for cell in found["cells"]] == [1.0, pytest.approx(0.354 / 0.229)]
    assert found["best_share"] == 0.5
    assert found["cloud_worst"] == pytest.approx(0.354)
    assert found["wan_ratio_q2"] == pytest.approx(0.01)
    assert found["alpha_ratio_q2"] == pytest.approx(4)


def test_there_are_no_figures_without_cells() -> None:
    assert summary([]) == {"cells": []}
    assert sql.summary([]) == {"cells": [], "failed": []}


# --- SQL jobs beside the programs


SUMS = {"0": 5.0, "1": 6.0, "2": 7.0, "3": 8.0}


def cell(way: str, *, wan: float, alpha: float, p95: float = 1.0, used: float = 0.2, **rows: float) -> Row:
    cores = {"A": used, "B": used, "D": used}
    nothing = dict.fromkeys("ABD", 0.0)
    figures = {"wan": wan, "alpha": alpha, "p95": p95, "cores": cores, "idle": nothing, "brokers": nothing}
    return {
        "query": "q5",
        "way": way,
        "profile": FASTEST,
        "cuts": {},
        "measured": figures,
        "rows": SUMS | rows,
    }


def failures(*cells: Row) -> set[str]:
    return {each.partition(": ")[2] for each in sql.summary(cells)["failed"]}


def test_a_cut_is_compared_with_the_cloud_and_with_the_parts_by_hand() -> None:
    cloud, hand = cell("cloud", wan=1000, alpha=0.5), cell("hand", wan=50, alpha=2)
    right = cell("cut", wan=20, alpha=2, p95=1.1, used=0.3)
    found = sql.summary([cloud, hand, right])
    assert found["failed"] == []
    assert found[f"q5 {FASTEST}: wan_to_cloud"] == pytest.approx(0.02)
    assert found[f"q5 {FASTEST}: gain_to_cloud"] == found[f"q5 {FASTEST}: spans"] * 2 == 4
    assert failures(cell("hand", wan=50, alpha=2), cell("cut", wan=149, alpha=1)) == set()
    assert failures(cloud, hand, cell("cut", wan=151, alpha=1.9)) == {
        "wan_to_cloud",
        "gain_to_cloud",
        "wan_to_hand",
    }
    assert failures(cloud, hand, cell("cut", wan=20, alpha=2, p95=1.2, used=0.31)) == {
        "age_to_hand",
        "cost_to_hand",
    }


def test_rows_that_differ_are_seen_unless_their_windows_may_be_open() -> None:
    hand = cell("hand", wan=50, alpha=2)
    assert failures(hand, cell("uncut", wan=50, alpha=2, **{"1": 9.0})) == {"rows_equal"}
    assert failures(hand, cell("uncut", wan=50, alpha=2, **{"3": 9.0})) == set()
    assert failures(hand, cell("uncut", wan=50, alpha=2) | {"rows": {"0": 5.0}}) == {"rows_equal"}
