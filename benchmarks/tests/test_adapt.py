"""The benchmark of the adaptation loop."""

from __future__ import annotations

from benchmarks.adapt.__main__ import without_step


def test_a_scenario_without_its_step_shows_nothing() -> None:
    found = {
        "steady": {"steps": 0},
        "outage": {"moves": 0},
        "lied_about_speed": {"backs": 1},
        "kills": {"stepped": 0},
    }
    assert without_step(found) == ["steady", "kills"]
    assert without_step({"noise": {"steps": 0}}) == []
