"""The scores of the cost model against real runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.placement.gates import Run, failed, judge, load, objective
from benchmarks.placement.graphs import GRAPHS, SITES
from benchmarks.placement.scores import q_error, quantile, spearman, top_loss


@pytest.mark.parametrize(
    ("predicted", "measured", "error"),
    [(2.0, 1.0, 2.0), (1.0, 2.0, 2.0), (3.0, 3.0, 1.0), (0.0, 0.0, 1.0), (0.0, 1.0, math.inf)],
)
def test_a_q_error_is_the_factor_between_two_values(predicted: float, measured: float, error: float) -> None:
    assert q_error(predicted, measured) == error


def test_a_quantile_is_the_nearest_rank() -> None:
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile(range(1, 11), 0.9) == 9
    assert quantile([7], 0.9) == 7


def test_the_correlation_of_ranks_is_of_the_order_alone() -> None:
    assert spearman([1, 2, 3], [1, 10, 100]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 1], [1, 2, 3]) == 0
    # W. J. Conover, "Practical Nonparametric Statistics": equal values have the mean of their ranks.
    assert spearman([1, 2, 2, 4], [1, 2, 3, 4]) == pytest.approx(0.9486833)


def test_the_loss_is_that_of_the_choice_by_prediction() -> None:
    assert top_loss({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 2.0}) == pytest.approx(0.5)
    assert top_loss({"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 3.0}) == 0


def _run(placement: str, objective: float, **measured: Any) -> Run:
    used = dict.fromkeys(SITES, 0.2)
    figures = {"rate": 100.0, "wan": 10_000.0, "age": 0.1, "p95": 0.2, "cores": used, "gap": 0.5}
    ends = {"up": dict.fromkeys(SITES, 0.0), "down": dict.fromkeys(SITES, 0.0)}
    return {
        "graph": "chain",
        "profile": "25 Mbit/80 ms",
        "placement": placement,
        "moved": 1,
        # A prediction of this objective relative to one of 1, by its age: 0.5 age + 0.4 + 0.1.
        "predicted": figures | {"age": 0.2 * objective - 0.1, "priced": 0.3, "over": 0.0},
        "measured": figures | ends | {"idle": dict.fromkeys(SITES, 0.01)} | measured,
    }


def test_runs_as_predicted_pass_all_gates() -> None:
    runs = [_run("DDD", 3.0, age=0.3), _run("ADD", 1.0), _run("DAD", 2.0, age=0.2)]
    scores = judge(runs)
    assert scores["failed"] == []
    assert scores["qerror_rate"] == scores["qerror_gap_p90"] == 1.0
    assert (scores["spearman"], scores["top1_loss"]) == (pytest.approx(1), 0)


def test_each_gate_fails_by_itself() -> None:
    runs = [_run("DDD", 3.0, age=0.3, gap=2.0, rate=50.0), _run("ADD", 1.0, gap=2.0, rate=50.0)]
    assert judge(runs)["failed"] == ["qerror_rate", "qerror_gap", "qerror_rate_p90"]
    assert "spearman" in judge([_run("DDD", 1.0, age=0.3), _run("ADD", 3.0)])["failed"]


def test_what_runs_of_this_size_cannot_show_is_not_judged() -> None:
    alone = judge([_run("DDD", 1.0, rate=50.0) | {"moved": 0}])
    assert alone["failed"] == ["qerror_rate", "qerror_rate_p90"]
    assert alone["not_judged"] == ["qerror_gap", "spearman", "top1_loss"]
    short = judge([_run("DDD", 1.0, rate=50.0) | {"seconds": 2.0}, _run("ADD", 1.0) | {"seconds": 2.0}])
    assert short["failed"] == []
    assert {*short["not_judged"]} == {*judge([])["failed"]}
    assert short["qerror_rate"] == 1.0
    assert judge([_run("DDD", 1.0), _run("ADD", 1.0)])["not_judged"] == []


def test_a_score_without_runs_fails() -> None:
    assert failed(judge([])) == judge([])["failed"] != []


def test_idle_sites_and_unmoved_jobs_are_not_judged() -> None:
    idle = _run("DDD", 1.0, cores=dict.fromkeys(SITES, 0.05), gap=9.0) | {"moved": 0}
    scores = judge([idle])
    assert scores["qerror_utilisation"] is None
    assert scores["qerror_gap"] is None


def test_the_measured_objective_is_relative_and_counts_excess() -> None:
    reference = _run("DDD", 1.0)
    assert objective(reference, reference) == pytest.approx(1)
    assert objective(_run("ADD", 1.0, age=0.2), reference) == pytest.approx(1.5)
    busy = {"A": 0.77, "B": 0.2, "D": 0.2}
    assert objective(_run("ADD", 1.0, cores=busy), reference) > 2
    full = {"A": 25e6 / 8, "B": 0.0, "D": 0.0}
    assert objective(_run("ADD", 1.0, up=full), reference) == pytest.approx(1 + 10 * 0.25)


def test_runs_are_read_from_lines(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert load(path) == []
    path.write_text("".join(json.dumps({"run": number}) + "\n" for number in range(2)))
    assert load(path) == [{"run": 0}, {"run": 1}]


@pytest.mark.parametrize("name", GRAPHS)
def test_each_placement_names_a_site_for_each_job(name: str) -> None:
    graph = GRAPHS[name]
    assert all(len(each) == len(graph.jobs) and set(each) <= set(SITES) for each in graph.placements)
    assert set(graph.placements[0]) == {"D"}
    assert len(set(graph.placements)) >= 6
