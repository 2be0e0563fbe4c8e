"""The benchmark of Nexmark: its events, the times of its results, and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.nexmark.__main__ import FASTEST, SLOWEST, summary
from benchmarks.nexmark.cells import scored
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
    results = Results("q7")
    results.take("results/q7", "W,20000")
    assert results.taken()["q7"]["messages"] == 0
    results.take("results/q7", "B,19999,1,2,3,x")
    found = results.taken()["q7"]
    assert (found["messages"], found["until"]) == (1, 20)
    assert found["mean"] == found["p95"] > 0


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
