"""Training: repeatable, judged by problems that were held out, and refused for too few data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from speck_baselines.learned import train
from speck_baselines.learned.network_predictor import MODELS
from speck_baselines.learned.predictor import trees
from speck_baselines.learned.records import Record, read
from speck_baselines.learned.targets import TARGETS
from speck_baselines.learned.train import FOLDS, main, scored
from testbed.placement.training_data import main as write_data
from tests.baselines.learned.test_features import line


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "placements.jsonl"
    assert write_data(["-o", str(path), "--problems", "7", "--each", "4"]) == 0
    return path


@pytest.mark.slow("trains models")
def test_the_same_data_make_the_same_models_byte_for_byte(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train, "ROUNDS", {"flatvec": 3, "costream-trees": 3})
    for name in ("one", "two"):
        assert main([str(data), "--out", str(tmp_path / name), "--made-by", "a command"]) == 0
    files = sorted(each.name for each in (tmp_path / "one").iterdir())
    assert files == sorted(
        ["manifest.json", *(f"{name}-{target}.txt" for name in trees() for target in TARGETS)]
    )
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    manifest = json.loads((tmp_path / "one" / "manifest.json").read_text())
    assert manifest["data"]["records"] == len(list(read(data)))
    assert manifest["data"]["command"] == "a command"
    assert manifest["command"] == "python -m speck_baselines.learned.train placements.jsonl"
    assert manifest["scores"] == json.loads(capsys.readouterr().out.splitlines()[0])


def test_the_shipped_models_have_a_manifest_and_no_path_of_a_machine() -> None:
    manifest = json.loads((MODELS / "manifest.json").read_text())
    assert manifest["data"]["command"].startswith("python -m benchmarks.placement data")
    for name, predictor in trees().items():
        assert set(manifest["scores"][name]) == set(TARGETS)
        for target in TARGETS:
            assert "/" not in predictor.path(target).read_text().partition("Tree=0")[0]
    assert sum(each.stat().st_size for each in MODELS.iterdir()) < 2_200_000


@pytest.mark.slow("imports the libraries of the models")
def test_too_few_data_are_refused_and_nothing_is_written(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join(data.read_text().splitlines(keepends=True)[:4]))
    assert main([str(few), "--out", str(tmp_path / "models")]) == 1
    assert "4 records with 'age' to train on, and 0 of other problems" in capsys.readouterr().err
    assert not list((tmp_path / "models").glob("*.txt"))
    few.write_text("")
    assert main([str(few), "--out", str(tmp_path / "models")]) == 1
    assert "0 records" in capsys.readouterr().err


def test_records_of_a_problem_are_in_one_fold() -> None:
    born, *others = line().channels
    problems = [
        replace(line(), channels=(replace(born, rate=100.0 + each), *others)) for each in range(FOLDS + 2)
    ]
    found = train._folds(
        Record(origin="simulator", problem=each, placement=each.placement(sites), measured={})
        for each in problems
        for sites in ((0, 0), (0, 1), (1, 0), (1, 1))
    )
    assert set(found) == set(range(FOLDS))
    assert all(len(set(found[at : at + 4])) == 1 for at in range(0, len(found), 4))


def test_scores() -> None:
    found = scored("age", np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0]))
    assert found == {"median": 1.0, "p95": 10.0, "records": 3}
    found = scored("failed", np.array([0.9, 0.2, 0.8]), np.array([1.0, 0.0, 0.0]))
    assert found == {"accuracy_true": 1.0, "accuracy_false": 0.5, "records": 3}
