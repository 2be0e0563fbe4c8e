"""Decisions where not all rates are fresh: the jobs that they concern, the bounds, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.draft import Draft
from speck.placement.adaptation.candidates import candidates, relative_gain
from speck.placement.adaptation.knowledge import (
    OLDEST,
    WIDEST,
    bound,
    idle,
    undecidable,
    unknown_loads,
    within_bounds,
)
from speck.placement.adaptation.situation import Candidate
from speck.placement.cost import evaluate
from speck.placement.model import Model, Surroundings, model_of
from speck.placement.problem import Placement, Weights
from speck.placement.profile import Inputs, Known
from speck.placement.sites import site_table
from testbed.benches.examples import REGISTRY
from testbed.benches.placement import Profiler, inventory, road_traffic
from tests.support.properties import tries

JOBS = frozenset(road_traffic().jobs)
A, CLOUD = 0, 3  # the indices of sites


def inputs(**ages: float) -> Inputs:
    """The profiles of road traffic; the jobs named here (dashes as underscores) were measured long ago."""
    old = {name.replace("_", "-"): age for name, age in ages.items()}
    known = {name: age for name, age in old.items() if math.isfinite(age)}
    return replace(Profiler(rate=900)(), fresh=JOBS - old.keys(), ages=known)


def model(found: Inputs) -> Model:
    """Road traffic whose jobs all run in the cloud."""
    known = inventory()
    draft = Draft.of(road_traffic(), known, REGISTRY)
    table = site_table(known, found, draft.jobs.values())
    return model_of(draft, Surroundings(table=table, inputs=found))


def at(problem_model: Model, where: dict[str, int]) -> Placement:
    """The placement with these jobs at these sites, and all others in the cloud.

    So are all free topics but the one between the jobs of A, which is at A.
    """
    homes = tuple(
        each.homes[0] if len(each.homes) == 1 else A if each.name == "free clean/a" else CLOUD
        for each in problem_model.problem.channels
    )
    return Placement(tuple(where.get(name, CLOUD) for name in problem_model.jobs), homes)


def step_of(found: Inputs, jobs: Iterable[str] = ("clean-a", "local-a")) -> Candidate:
    """The step of jobs from the cloud to A."""
    known = model(found)
    before = at(known, {})
    running = replace(known, sites_now=before.sites, homes_now=before.homes)
    [step] = candidates(running, at(known, dict.fromkeys(jobs, A)), found)
    return step


def test_a_job_is_decided_on_where_it_and_those_beside_it_are_fresh() -> None:
    assert undecidable(model(inputs()), inputs()) == {}
    found = inputs(local_b=100)
    assert undecidable(model(found), found) == dict.fromkeys(("local-b", "clean-b", "global"), "local-b")
    found = inputs(clean_b=100, clean_c=math.inf)
    assert undecidable(model(found), found) == dict.fromkeys(
        ("clean-b", "local-b"), "clean-b"
    ) | dict.fromkeys(("clean-c", "local-c"), "clean-c")


def test_a_job_is_idle_while_nothing_arrives_and_nothing_waits() -> None:
    assert idle({"idle": 0.0, "stuck": 0.0, "busy": 5.0}, {"stuck": 3, "idle": 0}) == ["idle"]


def test_bounds_widen_with_the_age_of_a_rate_and_no_further() -> None:
    assert bound(0) == 1
    assert bound(OLDEST / 2) == pytest.approx((1 + WIDEST) / 2)
    assert bound(OLDEST) == bound(math.inf) == WIDEST


def test_a_step_records_measured_costs_alone() -> None:
    found = inputs()
    cost = found.jobs["local-a"].cost
    assert step_of(found).costs.keys() == {"clean-a", "local-a"}
    assert cost is not None
    assumed = replace(found.jobs["local-a"], cost=replace(cost, known=Known.ASSUMED))
    assert step_of(replace(found, jobs={**found.jobs, "local-a": assumed})).costs.keys() == {"clean-a"}


def test_fresh_rates_have_no_bounds() -> None:
    known = model(inputs())
    assert within_bounds(known, inputs()) == [known.problem]


def test_the_rate_of_a_source_is_within_its_bounds_and_so_is_all_behind_it() -> None:
    found = inputs(clean_b=OLDEST)
    known = model(found)
    last, upper, lower = (
        dict(zip(known.jobs, each.rates.into, strict=True)) for each in within_bounds(known, found)
    )
    for name in ("clean-b", "local-b"):
        assert (upper[name], lower[name]) == (pytest.approx(2 * last[name]), pytest.approx(last[name] / 2))
    for name in ("clean-a", "local-a"):
        assert upper[name] == lower[name] == last[name]


def test_a_job_behind_a_fresh_one_has_bounds_of_its_output_alone() -> None:
    found = inputs(local_b=OLDEST)
    known = model(found)
    problems = within_bounds(known, found)
    [index] = [number for number, name in enumerate(known.jobs) if name == "local-b"]
    assert len({each.rates.into[index] for each in problems}) == 1
    out = [each.rates.out[index] for each in problems]
    assert out == [out[0], pytest.approx(2 * out[0]), pytest.approx(out[0] / 2)]


def test_a_step_has_the_worst_figures_within_the_bounds() -> None:
    plain, bounded = step_of(inputs()), step_of(inputs(local_b=OLDEST, clean_b=OLDEST))
    assert bounded.gain < plain.gain
    assert bounded.multiplier <= plain.multiplier
    assert bounded.pays_after >= plain.pays_after
    assert (bounded.objective, bounded.age_p95) == (plain.objective, plain.age_p95)


@tries(20)
@given(
    st.dictionaries(st.sampled_from(sorted(JOBS - {"clean-a", "local-a"})), st.floats(0, 2000), max_size=5)
)
def test_no_figure_of_a_step_gets_better_by_a_rate_that_is_not_fresh(ages: dict[str, float]) -> None:
    plain = step_of(inputs())
    found = step_of(inputs(**{name.replace("-", "_"): age for name, age in ages.items()}))
    assert found.gain <= plain.gain
    assert found.multiplier <= plain.multiplier
    assert found.utilisation >= plain.utilisation
    assert found.pays_after >= plain.pays_after


def test_no_step_leads_to_a_site_whose_load_is_not_known() -> None:
    assert step_of(inputs(local_b=OLDEST)).refused == ""
    for age in (OLDEST + 1, math.inf, math.nan):
        found = inputs(local_b=age)
        known = model(found)
        assert unknown_loads(known, found, at(known, {})) == {CLOUD: "local-b"}
        assert unknown_loads(known, found, at(known, {"local-b": A})) == {A: "local-b", CLOUD: "local-b"}
        assert step_of(found).refused == ""  # the step leads to A


def test_the_gain_of_advice_is_relative_to_what_runs() -> None:
    problem = model(inputs()).problem
    cloud, moved = at(model(inputs()), {}), at(model(inputs()), {"clean-a": A, "local-a": A})
    assert relative_gain(problem, cloud, cloud) == 0
    assert relative_gain(problem, cloud, moved) == pytest.approx(step_of(inputs()).gain)
    assert relative_gain(problem, cloud, moved) > 0.1 > 0 > relative_gain(problem, moved, cloud)


def test_nothing_gains_where_the_objective_is_zero() -> None:
    """With weights of WAN traffic alone, and all jobs where their data are."""
    cloud = model(Profiler()())
    problem = replace(cloud.problem, weights=Weights(latency=0, wan=1, cores=0))
    channels = [replace(each, homes=(CLOUD,)) for each in problem.channels]
    problem = replace(problem, channels=channels)
    here = problem.all_in_cloud
    assert evaluate(problem, here).objective == 0
    assert relative_gain(problem, here, here) == 0
    running = replace(cloud, problem=problem, sites_now=here.sites, homes_now=here.homes)
    (step,) = candidates(running, problem.placement([A, *here.sites[1:]]), Profiler()())
    assert step.gain == 0
