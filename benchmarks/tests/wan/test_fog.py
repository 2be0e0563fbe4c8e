"""The figures of fog and cloud, computed from runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.fog.__main__ import summary
from benchmarks.fog.figure8 import expected
from benchmarks.fog.figure10 import better, difference


@pytest.mark.parametrize(("interval", "ratio"), [(10, 1.0), (2, 1.0), (1, 0.5376)])
def test_a_window_lets_as_much_through_as_it_holds_in_a_round_trip(interval: float, ratio: float) -> None:
    assert expected(interval) == pytest.approx(ratio, rel=1e-3)


def test_the_difference_is_in_percent_of_the_fog() -> None:
    assert difference(200, 150) == 25
    assert difference(100, 102) == -2


def _run(rate: float, age: float) -> dict[str, Any]:
    return {"measured": {"rate": rate, "age": age}}


def test_the_better_one_counts_more_or_is_younger() -> None:
    assert better(_run(100, 1.0), _run(50, 0.1)) == "fog"
    assert better(_run(100, 1.0), _run(99, 0.1)) == "cloud"
    assert better(_run(90, 0.1), _run(100, 1.0)) == "cloud"


def _rows() -> list[dict[str, Any]]:
    def spread(name: str, value: float) -> dict[str, float]:
        return {name: value, f"{name}_min": value - 1, f"{name}_max": value + 1}

    eight = {"figure": 8, "curve": "speck", "interval_ms": 1, **spread("ratio", 1), **spread("age_ratio", 5)}
    ten = {"figure": 10, "profile": "slow", **spread("d3", 30), **spread("d4", 2), "chosen": "fog"}
    return [
        eight,
        ten | {"rate": 100, "better": ["cloud", "cloud", "fog"]},
        ten | {"rate": 500, "better": ["fog", "cloud", "fog"]},
    ]


def test_a_choice_is_right_if_it_was_the_better_one_in_most_runs() -> None:
    found = summary(_rows())
    assert found["fig8_ratio"] == {"speck 1 ms": [1, 0, 2]}
    assert found["fig10_d3"]["slow 500/s"] == [30, 29, 31]
    assert (found["better_chosen"], found["wrongly_chosen"]) == (0.5, ["slow 100/s"])


@pytest.mark.slow("draws by Matplotlib")
def test_the_figures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    from benchmarks.fog.picture import draw_figure8, draw_figure10

    draw_figure8(_rows(), tmp_path / "8.svg")
    draw_figure10(_rows(), tmp_path / "10.svg")
    assert all("</svg>" in path.read_text(encoding="utf-8") for path in tmp_path.glob("*.svg"))
    assert len(list(tmp_path.iterdir())) == 2
