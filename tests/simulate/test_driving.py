"""The product's loop over a simulated world."""

from __future__ import annotations

from benchmarks.simulate.adapt import TRIALS, begin, run
from benchmarks.simulate.driving import LOOK, look, steps_of
from speck.core.adaptation import Decision

SMALL = {"jobs": 7, "sites": 4, "load": 1.0, "step": 0.5}


def _looks(trial: str, seed: int, times: int):  # type: ignore[no-untyped-def]
    world, _ = begin(TRIALS[trial], seed, **SMALL)
    for _ in range(times):
        world.pass_time(LOOK)
        for driven in world.compositions:
            look(world, driven)
    return world


def test_loop_moves_jobs_out_of_the_cloud_and_keeps_the_steps() -> None:
    world = _looks("from-cloud", 1, 90)
    (driven,) = world.compositions
    assert world.placement.sites != world.problem.all_in_cloud.sites
    assert steps_of(driven)["kept"] >= 1
    assert steps_of(driven)["back"] == 0
    assert {Decision.HOLD, Decision.STEP} <= {each.decision for each in driven.memory.entries}


def test_noise_alone_makes_no_step() -> None:
    world = _looks("noise", 3, 60)
    assert [steps_of(each)["kept"] for each in world.compositions] == [0]


def test_variants_meet_the_same_conditions_and_are_repeatable() -> None:
    trial = TRIALS["outage"]
    one, other = (run(trial, "never", 2, **SMALL) for _ in range(2))
    assert list(one.objectives) == list(other.objectives)
    assert one.steps == [0]
