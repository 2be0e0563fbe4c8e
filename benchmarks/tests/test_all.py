"""All benchmarks: the table has each, some run at their smallest size, results are recorded."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.__main__ import main as run_all
from benchmarks.promises.__main__ import sections
from testbed import ROOT, results
from tests.support.requirements import needs

MICRO = ROOT / "benchmarks" / "micro"


def test_the_table_has_each_benchmark() -> None:
    runnable = {path.stem for path in MICRO.glob("*.py") if "add_output_options" in path.read_text()}
    runnable |= {path.parent.name for path in ROOT.glob("benchmarks/*/__main__.py")} - {"promises"}
    named = {each.module.split()[0].removeprefix("benchmarks.") for each in BENCHMARKS.values()}
    assert named - {"promises"} == runnable
    parts = {name.removeprefix("promises-") for name in BENCHMARKS if name.startswith("promises-")}
    assert parts == {*sections()} - {"whole"}  # which runs the others


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_takes_the_common_options(name: str) -> None:
    module, *section = BENCHMARKS[name].module.split()
    package = ROOT / "benchmarks" / module.partition(".")[2]
    places = [MICRO / f"{package.name}.py", package / "__main__.py"]
    places += [package / f"{each.replace('-', '_')}.py" for each in section]
    places += [ROOT / "testbed" / "faults" / f"{each}.py" for each in section]
    assert any("add_output_options(" in path.read_text() for path in places if path.exists())


@pytest.mark.slow("runs whole benchmarks")
@pytest.mark.parametrize("name", [name for name, each in BENCHMARKS.items() if each.tested])
def test_it_runs_at_its_smallest_size(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.engine
@needs()
@pytest.mark.skipif(not os.environ.get("SPECK_TRIALS"), reason="a trial of two minutes (SPECK_TRIALS)")
def test_a_hop_has_two_rounds_of_idle_jobs(tmp_path: Path) -> None:
    """The second starts jobs of the same names."""
    found = check("hop-flink", tmp_path)
    assert found["runs"] == 2
    assert found["throughput_ratio"] > 0


def check(name: str, folder: Path) -> dict[str, float]:
    """Run a benchmark at its smallest size; its figures."""
    command = [*BENCHMARKS[name].command(quick=True, folder=str(folder)), "--json"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, float] = json.loads(ended.stdout)
    assert found
    return found


def test_an_unknown_name_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "plam"])
    with pytest.raises(SystemExit) as ended:
        run_all()
    assert ended.value.code == 2
    assert "there is no benchmark 'plam' (expected one of plan, " in capsys.readouterr().err


def test_figures_of_the_smallest_size_do_not_replace_recorded_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", "--record", "plan"])
    with pytest.raises(SystemExit) as ended:
        run_all()
    assert ended.value.code == 2
    assert "--record keeps figures, and those of --quick say nothing" in capsys.readouterr().err


@pytest.mark.parametrize("as_json", [True, False])
def test_a_result_is_recorded_with_its_circumstances(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["plan", "--json", "--jobs", "10", "--record"])
    parser = argparse.ArgumentParser()
    results.add_output_options(parser)
    options = parser.parse_args(["--record", *(["--json"] if as_json else [])])
    assert results.published(options, "plan", {"seconds": 1.5}) is as_json
    assert capsys.readouterr().out == ('{"seconds": 1.5}\n' if as_json else "")
    found = json.loads((tmp_path / "plan.json").read_text())
    assert found["figures"] == {"seconds": 1.5}
    assert found["arguments"] == ["--jobs", "10"]
    assert found["machine"]["cores"] >= 1
    assert len(found["load"]["before"]) == len(found["load"]["after"]) == 3
    assert found["date"] > "2026"


def test_nothing_is_recorded_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    parser = argparse.ArgumentParser()
    results.add_output_options(parser)
    assert not results.published(parser.parse_args([]), "plan", {"seconds": 1.5})
    assert list(tmp_path.iterdir()) == []
