"""The network over graphs of placed jobs: what a prediction depends on, its file, its training by torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speck.errors import InvalidInput
from speck_baselines.learned import network_training, train
from speck_baselines.learned.graphs import JOB_WIDTH, SITE_WIDTH, batch_of, graph_of
from speck_baselines.learned.network import SHAPES, Numpy, Weights, forward
from speck_baselines.learned.network_predictor import MODELS, NetworkPredictor, save
from speck_baselines.learned.targets import TARGETS
from testbed.placement.random_problems import make
from testbed.placement.training_data import main as write_data
from testbed.placement.training_data import world
from testbed.simulate.worlds import scattered
from tests.baselines.learned.test_features import line

SHIPPED = NetworkPredictor("costream")


@pytest.fixture(name="weights", scope="module")
def weights_fixture() -> Weights:
    """Random weights."""
    chance = np.random.default_rng(7)
    found = {name: chance.normal(0, 0.1, shape).astype(np.float32) for name, shape in SHAPES.items()}
    scales = {"scale_jobs": JOB_WIDTH, "scale_sites": SITE_WIDTH}
    return found | {
        name: np.stack([np.zeros(n), np.ones(n)]).astype(np.float32) for name, n in scales.items()
    }


def test_a_graph_has_the_jobs_their_sites_and_the_topics_between_them() -> None:
    problem = line()
    found = graph_of(problem, problem.placement((0, 1)))
    assert found.edges.tolist() == [[0], [1]]
    assert found.levels.tolist() == [0, 1]
    assert found.places.tolist() == [0, 1]
    assert found.sinks.tolist() == [1]
    assert found.weights.tolist() == [1.0]
    assert found.jobs.shape == (2, JOB_WIDTH)
    assert found.sites.shape == (len(problem.sites), SITE_WIDTH)


def test_a_prediction_does_not_depend_on_the_others_of_its_batch(weights: Weights) -> None:
    graphs = [
        graph_of(problem, scattered(problem, seed))
        for seed in range(6)
        for problem in (make(seed, jobs=3 + seed),)
    ]
    together = forward(Numpy(), weights, batch_of(graphs))
    for number, each in enumerate(graphs):
        alone = forward(Numpy(), weights, batch_of([each]))
        for target in TARGETS:
            assert alone[target][0] == pytest.approx(together[target][number], rel=1e-4, abs=1e-5)


def test_a_prediction_does_not_depend_on_the_order_of_sites(weights: Weights) -> None:
    problem = line()
    order = [1, 0, *range(2, len(problem.sites))]
    place = {site: number for number, site in enumerate(order)}
    turned = replace(
        problem,
        sites=[problem.sites[each] for each in order],
        jobs=[replace(job, allowed=tuple(place[each] for each in job.allowed)) for job in problem.jobs],
        channels=[
            replace(each, homes=tuple(place[home] for home in each.homes)) for each in problem.channels
        ],
    )
    placement = problem.placement((0, 1))
    other = replace(
        placement,
        sites=tuple(place[each] for each in placement.sites),
        homes=tuple(place[each] for each in placement.homes),
    )
    one, two = (
        forward(Numpy(), weights, batch_of([graph_of(*each)]))
        for each in ((problem, placement), (turned, other))
    )
    for target in TARGETS:
        assert one[target] == pytest.approx(two[target], rel=1e-4, abs=1e-5)


def test_messages_reach_the_sink_from_the_source(weights: Weights) -> None:
    graph = graph_of(make(3, jobs=6), make(3, jobs=6).all_in_cloud)
    source = int(np.flatnonzero(graph.levels == 0)[0])
    jobs = graph.jobs.copy()
    jobs[source] += 1.0
    elsewhere = np.arange(len(jobs)) + len(graph.sites)  # no job is told of another through its site
    sites = np.vstack([graph.sites, np.repeat(graph.sites[:1], len(jobs), axis=0)])
    one, two = (
        forward(Numpy(), weights, batch_of([replace(graph, jobs=each, places=elsewhere, sites=sites)]))
        for each in (graph.jobs, jobs)
    )
    assert one["age"] != pytest.approx(two["age"])
    apart = replace(graph, edges=graph.edges[:, :0], places=elsewhere, sites=sites)
    one, two = (
        forward(Numpy(), weights, batch_of([replace(apart, jobs=each)])) for each in (graph.jobs, jobs)
    )
    assert source not in graph.sinks
    assert one["age"] == pytest.approx(two["age"])


def test_weights_of_other_shapes_and_damaged_files_are_refused(weights: Weights, tmp_path: Path) -> None:
    other = NetworkPredictor("costream", tmp_path)
    save(weights, other.path)
    assert other.predict(line(), [line().all_in_cloud])
    problem = line()
    for damaged, message in (
        (dict(weights) | {"heads": weights["heads"][:, :2]}, "has weights of other shapes: heads"),
        (
            {name: each for name, each in weights.items() if name != "flow"},
            "has weights of other shapes: flow",
        ),
    ):
        save(damaged, other.path)
        with pytest.raises(InvalidInput, match=message):
            NetworkPredictor("costream", tmp_path).predict(problem, [problem.all_in_cloud])
    for content in (b"no weights", b""):
        other.path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"costream.npz' cannot be loaded"):
            NetworkPredictor("costream", tmp_path).predict(problem, [problem.all_in_cloud])


def test_the_shipped_network_has_a_manifest_with_its_data() -> None:
    manifest = json.loads((MODELS / "network.json").read_text())
    trees = json.loads((MODELS / "manifest.json").read_text())
    assert manifest["command"] == "python -m speck_baselines.learned.train --network placements.jsonl"
    assert manifest["data"] == trees["data"]
    assert set(manifest["scores"]["costream"]) == set(TARGETS)


def test_training_without_torch_answers_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("speck_baselines.learned.extra.import_module", lacking)
    (tmp_path / "data.jsonl").write_text("")
    assert train.main([str(tmp_path / "data.jsonl"), "--network", "--out", str(tmp_path)]) == 1
    assert "pip install 'speck[gnn]'" in capsys.readouterr().err
    assert not (tmp_path / "network.json").exists()


# --- with torch, which no other test needs


def test_torch_and_numpy_compute_the_same(weights: Weights) -> None:
    torch = pytest.importorskip("torch")
    batch = batch_of(graph_of(world(seed), scattered(world(seed), seed)) for seed in range(8))
    by_torch = forward(
        network_training.Torch(torch), {name: torch.from_numpy(each) for name, each in weights.items()}, batch
    )
    by_numpy = forward(Numpy(), weights, batch)
    for target in TARGETS:
        assert by_torch[target].numpy() == pytest.approx(by_numpy[target], rel=1e-4, abs=1e-4)


def test_the_same_data_make_the_same_network_which_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    data = tmp_path / "placements.jsonl"
    write_data(["-o", str(data), "--problems", "10", "--each", "4"])
    records = list(train.read(data))
    scores = {}
    for name, epochs in (("none", 0), ("one", 30), ("two", 30)):
        scores[name] = train.train_network(records, tmp_path / name, epochs)["scores"]["costream"]
    assert (tmp_path / "one/costream.npz").read_bytes() == (tmp_path / "two/costream.npz").read_bytes()
    assert scores["one"]["age"]["median"] < scores["none"]["age"]["median"]
