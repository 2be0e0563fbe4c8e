"""The product's loop over a simulated world."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.simulate.adapt import TRIALS, begin, run
from benchmarks.simulate.driving import INTERVAL, World, observe, steps_of
from speck.core.adaptation import Decision

pytestmark = pytest.mark.slow("an hour of simulated time")


def _world(trial: str, seed: int) -> World:
    return begin(TRIALS[trial], seed, jobs=7, sites=4, load=0.3, step=0.5)[0]


def _pass(world: World, times: int) -> World:
    for _ in range(times):
        world.pass_time(INTERVAL)
        for driven in world.compositions:
            observe(world, driven)
    return world


def test_loop_moves_jobs_out_of_an_overloaded_cloud_and_keeps_the_step() -> None:
    world = _pass(_world("from-cloud", 1), 30)
    (driven,) = world.compositions
    assert steps_of(driven) == {"kept": 1, "back": 0, "pending": 0, "failed": 0}
    assert world.placement.sites != world.problem.all_in_cloud.sites
    assert {Decision.HOLD, Decision.STEP} <= {each.decision for each in driven.memory.entries}


def test_step_to_a_site_that_is_slower_than_declared_is_taken_back_and_banned() -> None:
    world = _pass(_world("liar", 1), 40)
    (driven,) = world.compositions
    assert steps_of(driven)["back"] == 1
    assert world.placement.sites == world.problem.all_in_cloud.sites
    (ban,) = driven.memory.bans
    declared = next(site.speed for site in world.problem.sites if site.name == ban.target)
    assert world.speeds[ban.target] < 0.6 * declared


def test_noise_and_an_outage_make_no_step() -> None:
    for trial, rounds in (("noise", 60), ("outage", 90)):
        world = _pass(_world(trial, 3), rounds)
        assert [sum(steps_of(each).values()) for each in world.compositions] == [0]


def test_variants_meet_the_same_conditions_and_are_repeatable() -> None:
    trial = replace(TRIALS["day"], hours=0.1)
    one, other = (run(trial, "never", 2, jobs=7, sites=4, load=0.3, step=1.0) for _ in range(2))
    assert list(one.objectives) == list(other.objectives)
    assert one.steps == [0]
