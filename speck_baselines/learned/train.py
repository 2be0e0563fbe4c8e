"""``python -m speck_baselines.learned.train FILE [...] [--network] [--out DIRECTORY]``: trains predictors.

Those by trees, or (``--network``) the network of ``costream``, which needs torch, the extra ``speck[gnn]``.

The files are training data, JSON lines as :mod:`speck_baselines.learned.records` has them.  Each fifth
problem is held out, and judged by the models that the others train.  Models are written with a manifest,
which has the command, the checksum of the data, and the scores.  The same command makes the same models
again, with the same release of LightGBM, on the same kind of processor.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from speck.errors import SpeckError
from speck_baselines.learned.extra import library, torch_library
from speck_baselines.learned.features import Floats
from speck_baselines.learned.graphs import graph_of
from speck_baselines.learned.network_predictor import MODELS, NetworkPredictor, save
from speck_baselines.learned.network_training import PARAMETERS as PARAMETERS_OF_NETWORK
from speck_baselines.learned.network_training import fit
from speck_baselines.learned.predictor import Predictor, trees
from speck_baselines.learned.records import Record, described, read
from speck_baselines.learned.targets import CLASSES, MAGNITUDES, TARGETS, labels

FOLDS = 5
# Trees of a model; the flat features have few values, and more trees learn them by heart.
ROUNDS: Mapping[str, int] = {"flatvec": 40, "costream-trees": 200}
LEAST = 20  # records of a target; fewer train nothing
PARAMETERS: Mapping[str, Any] = {
    "learning_rate": 0.06,
    "num_leaves": 15,
    "min_data_in_leaf": 10,
    "feature_fraction": 0.5,
    "lambda_l2": 1.0,
    "seed": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and write models; the exit code is 1 for data that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m speck_baselines.learned.train", description=__doc__)
    parser.add_argument("data", type=Path, nargs="+", metavar="FILE", help="training data, JSON lines")
    parser.add_argument("--network", action="store_true", help="the network, in place of the trees")
    parser.add_argument("--out", type=Path, default=MODELS, help="directory of the models")
    parser.add_argument("--made-by", default="", metavar="COMMAND", help="of the data, for the manifest")
    options = parser.parse_args(arguments)
    try:
        records = [record for path in options.data for record in read(path)]
        manifest = (train_network if options.network else train)(records, options.out)
    except SpeckError as error:
        print(error, file=sys.stderr)
        return 1
    names = [path.name for path in options.data]
    manifest["data"] = {
        "command": options.made_by,
        "files": names,
        "sha256": hashlib.sha256(b"".join(path.read_bytes() for path in options.data)).hexdigest(),
        "records": len(records),
    }
    network = ["--network"] if options.network else []
    manifest["command"] = " ".join(["python -m speck_baselines.learned.train", *network, *names])
    text = json.dumps(manifest, indent=1) + "\n"
    (options.out / ("network.json" if options.network else "manifest.json")).write_text(
        text, encoding="utf-8"
    )
    print(json.dumps(manifest["scores"]))
    return 0


def train(records: Sequence[Record], out: Path, rounds: Mapping[str, int] = ROUNDS) -> dict[str, Any]:
    """Write the models of the predictors by trees, and return the manifest with their scores.

    Raises :class:`~speck.errors.InvalidInput` without LightGBM, and :class:`~speck.errors.SpeckError` for too
    few records of a target.
    """
    lightgbm = library("costream-trees")
    folds = _folds(records)
    out.mkdir(parents=True, exist_ok=True)
    scores: dict[str, dict[str, Any]] = {}
    for name, predictor in trees().items():
        rows = np.array([predictor.extract(each.problem, each.placement) for each in records])
        found = [labels(each, predictor.relative) for each in records]
        scores[name] = {
            target: _model(lightgbm, predictor, target, rows, found, folds, out, rounds[name])
            for target in TARGETS
        }
    return {"lightgbm": lightgbm.__version__, "parameters": dict(PARAMETERS), "scores": scores}


def train_network(
    records: Sequence[Record], out: Path, epochs: int = PARAMETERS_OF_NETWORK["epochs"]
) -> dict[str, Any]:
    """Write the network, and return the manifest with its scores.

    Raises :class:`~speck.errors.InvalidInput` without torch, and :class:`~speck.errors.SpeckError` for too
    few records of a target.
    """
    torch = torch_library("costream")
    folds = _folds(records)
    found = [labels(each, relative=True) for each in records]
    for target in TARGETS:
        _split(target, found, folds)
    trained, apart = (
        [index for index, fold in enumerate(folds) if (fold == FOLDS - 1) == judged]
        for judged in (False, True)
    )
    graphs = [graph_of(each.problem, each.placement) for each in records]
    weights = fit(torch, [graphs[each] for each in trained], [found[each] for each in trained], epochs)
    out.mkdir(parents=True, exist_ok=True)
    network = NetworkPredictor("costream", out)
    save(weights, network.path)
    answers = network.answers([graphs[each] for each in apart])
    scores = {}
    for target in TARGETS:
        known = [number for number, index in enumerate(apart) if target in found[index]]
        values = np.array([found[apart[number]][target] for number in known])
        scores[target] = scored(target, answers[target][known], values)
    parameters = dict(PARAMETERS_OF_NETWORK) | {"epochs": epochs}
    return {"torch": torch.__version__, "parameters": parameters, "scores": {"costream": scores}}


def _split(
    target: str, found: Sequence[Mapping[str, float]], folds: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The records with a target to train on, and to judge by.  Raises :class:`SpeckError` for too few."""
    known = [index for index, each in enumerate(found) if target in each]
    trained = [index for index in known if folds[index] != FOLDS - 1]
    apart = [index for index in known if folds[index] == FOLDS - 1]
    if len(trained) < LEAST or not apart:
        raise SpeckError(
            f"training data: {len(trained)} records with {target!r} to train on, and {len(apart)} of other "
            f"problems to judge by (expected at least {LEAST}, and 1 of {FOLDS} problems or more)"
        )
    return trained, apart


def _folds(records: Iterable[Record]) -> list[int]:
    """The fold of each record; all records of a problem are in one."""
    seen: dict[str, int] = {}
    found = []
    for each in records:
        key = json.dumps(described(each.problem, each.placement)["problem"], sort_keys=True)
        found.append(seen.setdefault(key, len(seen)) % FOLDS)
    return found


def _model(
    lightgbm: Any,
    predictor: Predictor,
    target: str,
    rows: Floats,
    found: Sequence[Mapping[str, float]],
    folds: Sequence[int],
    out: Path,
    rounds: int,
) -> dict[str, float]:
    """Train and write one model; its scores on the problems that were held out."""
    trained, apart = _split(target, found, folds)
    known = sorted([*trained, *apart])
    values = np.array([found[index][target] for index in known])
    at = {index: number for number, index in enumerate(known)}
    of = [at[index] for index in trained]
    objective = "binary" if target in CLASSES else "regression"
    data = lightgbm.Dataset(rows[trained], label=values[of], feature_name=list(predictor.names))
    booster = lightgbm.train(dict(PARAMETERS) | {"objective": objective}, data, num_boost_round=rounds)
    (out / f"{predictor.name}-{target}.txt").write_text(booster.model_to_string(), encoding="utf-8")
    answer = np.asarray(booster.predict(rows[apart], num_threads=1))
    return scored(target, answer, values[[at[index] for index in apart]])


def scored(target: str, predicted: Floats, measured: Floats) -> dict[str, float]:
    """The q-errors of a magnitude (of logarithms), or the accuracy of a class by each of its values."""
    if target in MAGNITUDES:
        errors = 10.0 ** np.abs(predicted - measured)
        median, high = np.quantile(errors, (0.5, 0.95), method="higher")
        return {"median": round(float(median), 4), "p95": round(float(high), 4), "records": len(errors)}
    right = (predicted >= 0.5) == (measured >= 0.5)
    parts = {"true": measured >= 0.5, "false": measured < 0.5}
    found = {f"accuracy_{name}": float(right[each].mean()) for name, each in parts.items() if each.any()}
    return {name: round(value, 4) for name, value in found.items()} | {"records": len(right)}


if __name__ == "__main__":
    raise SystemExit(main())
