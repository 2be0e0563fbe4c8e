"""The command of the benchmark of placements refuses policies that it cannot measure."""

from __future__ import annotations

import pytest

from benchmarks.placement import __main__ as benchmark


@pytest.mark.usefixtures("without_lightgbm")
def test_without_the_extra_the_benchmark_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks.placement", "--policies", "flatvec"])
    assert benchmark.main() == 1
    assert "pip install 'speck[baselines]'" in capsys.readouterr().err


def test_the_benchmark_names_an_unknown_policy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks.placement", "--policies", "costeam"])
    assert benchmark.main() == 1
    assert "did you mean 'costream" in capsys.readouterr().err
