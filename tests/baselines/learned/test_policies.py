"""The policies ``flatvec`` and ``costream``: their candidates, their choice, and a missing extra."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.errors import InvalidInput
from speck.placement.cost import evaluate
from speck.placement.policies import Budget, place, policies, policy
from speck.placement.problem import Channel, PlacedJob, Problem, SiteModel
from speck_baselines.learned.candidates import COUNT, candidates, returns
from speck_baselines.learned.features import FLAT, flat
from speck_baselines.learned.network_predictor import NetworkPredictor
from speck_baselines.learned.policies import COSTREAM, FLATVEC, TREES, LearnedPolicy, choose
from speck_baselines.learned.predictor import Predictor, predictors, trees
from speck_baselines.learned.targets import Prediction
from testbed.placement.random_problems import make
from testbed.placement.training_data import UNSEEN, offered, simulated, world
from tests.baselines.learned.test_features import line
from tests.support.properties import tries

problems = st.builds(
    make,
    st.integers(0, 10_000),
    jobs=st.integers(2, 8),
    sites=st.integers(2, 5),
    load=st.sampled_from((0.3, 4.0)),
)


# --- candidates


@tries(25)
@given(problems, st.integers(0, 1000))
def test_candidates_are_permitted_and_never_return(problem: Problem, seed: int) -> None:
    pinned = [replace(job, allowed=(1,)) if index == 0 else job for index, job in enumerate(problem.jobs)]
    problem = replace(problem, jobs=pinned)
    found = list(candidates(problem, seed))
    assert len(found) == COUNT
    for each in found:
        assert not problem.faults(each.sites)
        assert each == problem.placement(each.sites)
        sites = dict(enumerate(each.sites))
        for job in range(len(sites)):
            assert not returns(problem, sites, job, sites[job])
    assert found == list(candidates(problem, seed))


def test_groups_and_opponents_are_kept_by_candidates() -> None:
    problem = replace(make(11, jobs=5), together=[(0, 1)], apart=[(3, 4)])
    found = list(candidates(problem, 1))
    assert found
    assert not [fault for each in found for fault in problem.faults(each.sites)]


def _chain(allowed: Sequence[tuple[int, ...]]) -> Problem:
    count = len(allowed)
    return Problem(
        sites=[SiteModel(name=name, cores=1.0) for name in "ABC"],
        channels=[
            Channel(name=str(index), homes=(0, 1, 2), rate=0.0 if index else 10.0)
            for index in range(count + 1)
        ],
        jobs=[
            PlacedJob(name=str(index), allowed=sites, inputs=(index,), output=index + 1)
            for index, sites in enumerate(allowed)
        ],
    )


def test_data_that_return_to_a_site_are_seen() -> None:
    problem = _chain([(0, 1, 2)] * 3)
    assert returns(problem, {0: 0, 1: 1}, 2, 0)
    assert not returns(problem, {0: 0, 1: 1}, 2, 1)
    assert not returns(problem, {0: 0, 1: 0}, 2, 0)


def test_a_problem_that_forces_a_return_has_candidates_all_the_same() -> None:
    problem = _chain([(0,), (1,), (0,)])
    assert {each.sites for each in candidates(problem, 0)} == {(0, 1, 0)}


def test_a_problem_without_any_permitted_placement_has_no_candidates() -> None:
    problem = replace(_chain([(0,), (0,)]), apart=[(0, 1)])
    assert list(candidates(problem, 0)) == []
    assert COSTREAM.place(problem, problem.all_in_cloud, Budget()) == problem.all_in_cloud


# --- the choice


def _predictions(*ages: float, failed: Sequence[int] = (), pressed: Sequence[int] = ()) -> list[Prediction]:
    return [
        Prediction(age, 1.0, float(index in failed), float(index in pressed))
        for index, age in enumerate(ages)
    ]


def _tried(count: int) -> Any:
    return [f"placement {index}" for index in range(count)]


def test_the_tenth_percentile_is_taken() -> None:
    ages = [float(each) for each in range(20, 0, -1)]
    assert choose(_tried(20), _predictions(*ages), incumbent=False) == "placement 17"  # the third best
    assert choose(_tried(1), _predictions(1.0), incumbent=False) == "placement 0"


def test_placements_that_fail_or_are_pressed_are_dropped() -> None:
    predictions = _predictions(1.0, 2.0, 3.0, failed=[0], pressed=[1])
    assert choose(_tried(3), predictions, incumbent=False) == "placement 2"


def test_the_incumbent_wins_ties_and_stays_if_all_others_are_dropped() -> None:
    assert choose(_tried(2), _predictions(1.0, 1.0), incumbent=True) == "placement 0"
    assert choose(_tried(2), _predictions(1.0, 0.9), incumbent=True) == "placement 1"
    assert choose(_tried(2), _predictions(9.0, 1.0, failed=[1]), incumbent=True) == "placement 0"
    assert choose(_tried(2), _predictions(0.1, 1.0, pressed=[0]), incumbent=True) == "placement 1"


def test_without_incumbent_the_least_age_is_taken_if_all_are_dropped() -> None:
    assert choose(_tried(2), _predictions(9.0, 1.0, failed=[0, 1]), incumbent=False) == "placement 1"


# --- the policies


@pytest.mark.parametrize("name", ["flatvec", "costream-trees", "costream"])
@tries(10)
@given(problem=problems, seed=st.integers(0, 100))
def test_answers_are_allowed_and_repeatable(name: str, problem: Problem, seed: int) -> None:
    pinned = [replace(job, allowed=(1,)) if index == 1 else job for index, job in enumerate(problem.jobs)]
    problem = replace(problem, jobs=pinned)
    found = place(problem, problem.all_in_cloud, policy(name), Budget(seed=seed))
    assert not problem.faults(found.sites)
    assert found == place(problem, problem.all_in_cloud, policy(name), Budget(seed=seed))


def test_an_incumbent_that_is_forbidden_is_left() -> None:
    problem = line()
    forbidden = replace(problem, jobs=[replace(problem.jobs[0], allowed=(0,)), problem.jobs[1]])
    found = COSTREAM.place(forbidden, problem.placement((1, 1)), Budget())
    assert found.sites[0] == 0


def test_the_budget_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def predict(_: NetworkPredictor, __: Problem, tried: Sequence[object]) -> list[Prediction]:
        seen.append(len(tried))
        return _predictions(*[1.0] * len(tried))

    monkeypatch.setattr(NetworkPredictor, "predict", predict)
    ticks = iter(range(100))
    problem = make(3, jobs=4)
    COSTREAM.place(problem, problem.all_in_cloud, Budget(2.0, clock=lambda: float(next(ticks))))
    assert seen == [4]  # the incumbent, and three that were drawn in time


def test_policies_are_found_by_their_entry_points() -> None:
    found = policies()
    assert isinstance(found["flatvec"], LearnedPolicy)
    assert found["costream"] is COSTREAM
    assert found["costream-trees"] is TREES
    assert not [name for name in ("costream", "costream-trees") if "install" in found[name].about]


def test_the_names_of_policies_load_neither_numpy_nor_a_model() -> None:
    code = "import sys, speck_baselines.learned.policies as found; found.COSTREAM.about; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "lightgbm", "marshmallow"} & set(done.stdout.split())


# --- predictors


@pytest.mark.slow("simulates placements")
def test_costream_predicts_better_than_counts_and_flat_features_cannot_rank() -> None:
    """The q-error of the age over 15 problems that no model was trained on."""
    errors: dict[str, list[float]] = {"flatvec": [], "costream-trees": [], "costream": []}
    for seed in range(UNSEEN, UNSEEN + 15):
        problem = world(seed)
        record = simulated(problem, next(candidates(problem, seed)))
        if record is None or not record.measured.get("age"):
            continue
        for name, found in errors.items():
            age = predictors()[name].predict(problem, [record.placement])[0].age
            found.append(max(age / record.measured["age"], record.measured["age"] / age))
    medians = {name: sorted(found)[len(found) // 2] for name, found in errors.items()}
    for name in ("costream-trees", "costream"):
        assert medians[name] < 1.5
        assert medians["flatvec"] > 2 * medians[name]


@pytest.mark.parametrize("name", ["costream-trees", "costream"])
def test_rates_are_of_the_problem(name: str) -> None:
    problem = line()
    found = predictors()[name].predict(problem, [problem.placement((0, 0))])[0]
    assert found.rate == pytest.approx(sum(offered(problem).values()), rel=0.2)
    assert evaluate(problem, problem.placement((0, 0))).feasible == found.sustained
    assert predictors()[name].predict(problem, []) == []


def test_a_model_of_other_features_is_refused(tmp_path: Path) -> None:
    shipped = trees()["flatvec"]
    other = Predictor("flatvec", (*FLAT, "price"), flat, relative=False, models=shipped.path("age").parent)
    with pytest.raises(InvalidInput, match=r"flatvec-age.txt' has 11 features, and 'flatvec' extracts 12"):
        other.predict(line(), [line().all_in_cloud])
    (tmp_path / "flatvec-age.txt").write_text("no tree", encoding="utf-8")
    broken = Predictor("flatvec", FLAT, flat, relative=False, models=tmp_path)
    with pytest.raises(InvalidInput, match=r"flatvec-age.txt' cannot be loaded"):
        broken.predict(line(), [line().all_in_cloud])


# --- without the extra


@pytest.mark.usefixtures("without_lightgbm")
def test_without_the_extra_the_answer_is_the_command_that_installs_it() -> None:
    problem = line()
    with pytest.raises(InvalidInput, match=r"policy 'flatvec' needs .*pip install 'speck\[baselines\]'"):
        place(problem, problem.all_in_cloud, FLATVEC, Budget())
    assert FLATVEC.about.endswith("needs pip install 'speck[baselines]'")
    assert TREES.about.endswith("needs pip install 'speck[baselines]'")


@pytest.mark.usefixtures("without_lightgbm")
def test_the_network_predicts_without_any_extra() -> None:
    problem = line()
    assert "pip" not in COSTREAM.about
    assert not problem.faults(place(problem, problem.all_in_cloud, COSTREAM, Budget()).sites)
