"""Steps, costs of moves and reasons: properties over random problems, and small cases by hand."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.placement.cost import evaluate, load_of
from speck.placement.explain import busiest, verdicts
from speck.placement.groups import groups, steps
from speck.placement.move import REWIRING, ROUND_TRIPS, STANDSTILL, START, MoveCost, break_even, move_cost
from speck.placement.policies import Budget, place, policies, policy
from speck.placement.problem import Channel, EngineModel, PlacedJob, Placement, Problem, SiteModel, Tier
from speck.placement.search import LARGEST_GROUP, neighbours
from speck.placement.state import SearchState
from testbed.placement.random_problems import make
from tests.support.properties import tries

problems = st.builds(
    make,
    st.integers(0, 10_000),
    jobs=st.integers(2, 9),
    sites=st.integers(2, 4),
    load=st.sampled_from((0.5, 1.0, 4.0)),
)


def line(**job: float) -> Problem:
    """Two jobs in a row from an edge to the cloud: 1,000 messages/s, of which a tenth goes on."""
    sites = [
        SiteModel(name="edge", cores=2.0, up=250e3, down=250e3, latency=0.04),
        SiteModel(name="cloud", cores=16.0, tier=Tier.CLOUD, up=125e6, down=125e6, latency=0.002),
    ]
    channels = [
        Channel(name="born", homes=(0,), rate=1000.0),
        Channel(name="clean", homes=(0, 1)),
        Channel(name="result", homes=(1,)),
    ]
    jobs = [
        PlacedJob(name="clean", allowed=(0, 1), inputs=(0,), output=1, selectivity=0.1, **job),  # type: ignore[arg-type]
        PlacedJob(name="count", allowed=(0, 1), inputs=(1,), output=2, selectivity=0.01),
    ]
    constants = {"overhead": 95.0, "stamp": 0.0, "acknowledgement": 0.0, "broker_cost": 10e-6}
    return Problem(sites=sites, jobs=jobs, channels=channels, **constants)  # type: ignore[arg-type]


def _random_placement(problem: Problem, seed: int) -> Placement:
    chance, state = random.Random(seed), SearchState(problem, problem.all_in_cloud.sites)
    for unit in range(len(problem.units)):
        state.move(unit, chance.choice(state.permitted(unit)))
    return state.placement()


# --- steps


@tries(40)
@given(problems, st.integers(0, 1000), st.integers(0, 1000))
def test_steps_lead_from_one_placement_to_the_other(problem: Problem, one: int, other: int) -> None:
    before, after = _random_placement(problem, one), _random_placement(problem, other)
    way = steps(problem, before, after)
    moved = [job for step in way for job in step.jobs]
    assert sorted(moved) == [job for job in range(len(problem.jobs)) if before.sites[job] != after.sites[job]]
    if way:
        assert (way[-1].after.sites, way[-1].after.homes) == (after.sites, after.homes)
    fall = evaluate(problem, before).objective - evaluate(problem, after).objective
    assert sum(step.gain for step in way) == pytest.approx(fall, abs=1e-9)


@tries(40)
@given(problems, st.integers(0, 1000), st.integers(0, 1000))
def test_steps_move_connected_groups_of_bounded_size(problem: Problem, one: int, other: int) -> None:
    before, after = _random_placement(problem, one), _random_placement(problem, other)
    beside = neighbours(problem)
    for group in groups(problem, before, after, LARGEST_GROUP):
        assert len(group) <= LARGEST_GROUP
        assert len({(before.sites[job], after.sites[job]) for job in group}) == 1
        reached, waiting = set(group[:1]), [group[0]]
        while waiting:
            near = [each for each in beside[waiting.pop()] if each in group and each not in reached]
            reached.update(near)
            waiting.extend(near)
        assert reached == set(group)


def test_same_placement_needs_no_step() -> None:
    problem = make(5, jobs=6)
    assert steps(problem, problem.all_in_cloud, problem.all_in_cloud) == []


def test_many_groups_are_ordered_too() -> None:
    problem = make(8, jobs=60, sites=6, load=1.0, compositions=30)
    before, after = _random_placement(problem, 1), _random_placement(problem, 2)
    way = steps(problem, before, after)
    assert len(way) > 24
    assert way[-1].after.sites == after.sites


# --- the cost of a move


def test_standstill_and_catch_up_by_hand() -> None:
    problem = line(cost=100e-6)
    cloud, edge = Placement((1, 1), (0, 1, 1)), Placement((0, 1), (0, 1, 1))
    figures = evaluate(problem, edge)
    cost = move_cost(problem, cloud, edge, figures)
    standstill = STANDSTILL[EngineModel.FLINK]
    spare = min(figures.multiplier, 1 / (1000 * 100e-6)) - 1
    assert (cost.jobs, cost.state) == (1, 0.0)
    assert cost.standstill == standstill
    assert cost.catch_up == pytest.approx(standstill / spare)


def test_late_results_are_those_of_a_queue_that_fills_and_drains() -> None:
    rate, service, standstill = 1000.0, 5000.0, 0.3
    problem = line(cost=1 / service)
    before, after = Placement((1, 1), (0, 1, 1)), Placement((0, 1), (0, 1, 1))
    figures = evaluate(problem, after)
    assert figures.multiplier == pytest.approx(service / rate)
    cost = move_cost(problem, before, after, figures)
    queue, area, step = 0.0, 0.0, 1e-5
    for tick in range(int(2 / step)):
        queue = max(0.0, queue + rate * step - (service * step if tick * step >= standstill else 0.0))
        area += queue / rate * step  # Little's law: the additional age
    assert cost.late == pytest.approx(area, rel=1e-3)


def test_reader_of_a_topic_with_another_home_stands_still_too() -> None:
    problem = line()
    before = Placement((1, 1), (0, 1, 1))
    after = Placement((1, 1), (0, 0, 1))
    cost = move_cost(problem, before, after, evaluate(problem, after))
    there = 2 * (problem.sites[0].latency + problem.sites[1].latency)  # from the reader to its new home
    waiting = REWIRING + ROUND_TRIPS * there
    assert cost.jobs == 1
    assert cost.standstill == pytest.approx(STANDSTILL[EngineModel.FLINK] + waiting)


@pytest.mark.parametrize("cores", [0.05, 0.1, 0.3, 10.0])
def test_jobs_start_while_they_wait_for_their_topics(cores: float) -> None:
    """Two at a site of few cores: the longer of both is the standstill, not their sum."""
    problem = line()
    sites = [replace(problem.sites[0], cores=cores, speed=1.0), problem.sites[1]]
    problem = replace(problem, sites=sites)
    before, after = Placement((1, 1), (0, 1, 1)), Placement((0, 0), (0, 0, 1))
    cost = move_cost(problem, before, after, evaluate(problem, after))
    there = 2 * (sites[0].latency + sites[1].latency)
    longest = max(START * max(0.0, 2 / cores - 1), REWIRING + ROUND_TRIPS * there)
    assert cost.standstill == pytest.approx(STANDSTILL[EngineModel.FLINK] + longest)


def test_state_is_carried_over_both_links_unless_both_sites_see_it() -> None:
    problem = line(state=1e6)
    problem = replace(problem, jobs=[replace(problem.jobs[0], stateful=True), problem.jobs[1]])
    before = problem.all_in_cloud
    after = Placement((0, 1), before.homes)
    figures = evaluate(problem, after)
    carried = move_cost(problem, before, after, figures)
    assert carried.state == 1e6
    assert carried.standstill == pytest.approx(STANDSTILL[EngineModel.FLINK] + 1e6 / 125e6 + 1e6 / 250e3)
    assert move_cost(problem, before, after, figures, shared=[0]).state == 0.0


def test_move_to_a_site_that_cannot_keep_up_never_pays() -> None:
    problem = line(cost=3e-3)
    after = problem.placement((0, 1))
    cost = move_cost(problem, problem.all_in_cloud, after, evaluate(problem, after))
    assert math.isinf(cost.catch_up)
    assert math.isinf(break_even(problem, cost, 1.0))


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_break_even_falls_with_the_gain_and_grows_with_the_cost(late: float, gain: float) -> None:
    problem = line()
    once = break_even(problem, MoveCost(jobs=1, late=late), gain)
    assert break_even(problem, MoveCost(jobs=1, late=2 * late), gain) == pytest.approx(2 * once)
    assert break_even(problem, MoveCost(jobs=1, late=late), 2 * gain) == pytest.approx(once / 2)
    assert break_even(problem, MoveCost(), gain) == 0.0


# --- other load


@tries(25)
@given(problems, problems, st.integers(0, 1000))
def test_objective_with_other_load_is_kept_over_moves(problem: Problem, other: Problem, seed: int) -> None:
    other = replace(other, sites=problem.sites, jobs=[], channels=[])
    noise = random.Random(seed)
    load = load_of(problem, _random_placement(problem, seed))
    scaled = replace(load, cores=[each * noise.random() for each in load.cores])
    crowded = replace(problem, background=scaled, max_wan=1e5)
    state = SearchState(crowded, crowded.all_in_cloud.sites)
    for _ in range(20):
        unit = noise.randrange(len(problem.units))
        state.move(unit, noise.choice(state.permitted(unit)))
    figures = evaluate(crowded, state.placement())
    assert state.objective == pytest.approx(figures.objective, rel=1e-9)


@tries(15)
@given(problems)
def test_other_load_never_makes_a_placement_better(problem: Problem) -> None:
    crowded = replace(problem, background=load_of(problem, problem.all_in_cloud))
    for name in ("cloud", "amnis", "speck"):
        placement = place(problem, problem.all_in_cloud, policy(name), Budget())
        alone, beside = evaluate(problem, placement), evaluate(crowded, placement)
        assert beside.over >= alone.over - 1e-9
        assert beside.multiplier <= alone.multiplier * (1 + 1e-9)
        assert (beside.wan, beside.cores) == pytest.approx((alone.wan, alone.cores))


@pytest.mark.slow("every placement of each problem")
@tries(5)
@given(problems)
def test_bound_holds_beside_other_load(problem: Problem) -> None:
    crowded = replace(problem, background=load_of(problem, problem.all_in_cloud), max_wan=2e5)
    found = place(crowded, crowded.all_in_cloud, policy("speck"), Budget())
    for name in policies():
        if name != "exhaustive":
            other = place(crowded, crowded.all_in_cloud, policy(name), Budget())
            assert found.bound is None or evaluate(crowded, other).objective >= found.bound * (1 - 1e-6)


# --- reasons


def test_reasons_of_a_small_placement() -> None:
    problem = line()
    before, after = problem.all_in_cloud, problem.placement((0, 1))
    moved, _ = verdicts(problem, before, after, {})
    assert (moved.before, moved.after) == (1, 0)
    assert moved.why == "edge would be 1.02 times its target (link, up) otherwise"
    fixed = verdicts(problem, before, after, {1: "it is pinned"})[1]
    assert fixed.why == "it is pinned"
    now = busiest(problem, evaluate(problem, before), "link")
    assert (now.site, now.resource, now.share > now.target) == ("edge", "up", True)


def test_job_that_does_not_fit_elsewhere_says_where_and_by_how_much() -> None:
    problem = line(cost=2e-3)
    first, _ = verdicts(problem, None, problem.all_in_cloud, {})
    assert first.why == "edge would be 1.44 times its target (cores)"


def test_better_site_that_a_policy_does_not_regard_is_said() -> None:
    slow = SiteModel(name="cloud", cores=16.0, tier=Tier.CLOUD, up=125e6, down=125e6, latency=0.002)
    problem = replace(line(), sites=[replace(line().sites[0], up=2.5e6), slow])
    clean, _ = verdicts(problem, None, problem.all_in_cloud, {})
    assert clean.why == "at edge: -184 kB/s of WAN traffic, which this policy does not regard"


@tries(15)
@given(problems)
def test_every_job_has_a_reason(problem: Problem) -> None:
    before = problem.all_in_cloud
    after = place(problem, before, policy("speck"), Budget())
    found = verdicts(problem, before, after, {})
    assert [each.job for each in found] == list(range(len(problem.jobs)))
    assert all(each.why for each in found)
