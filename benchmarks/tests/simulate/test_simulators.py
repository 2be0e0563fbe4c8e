"""The two simulators: against laws of queues, against each other, and their repeatability."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulate import real
from benchmarks.simulate.agreement import AIM
from benchmarks.simulate.intervals import interval, q_error, spearman
from speck.placement.cost import evaluate
from speck.placement.problem import Channel, EngineModel, PlacedJob, Placement, Problem, SiteModel
from speck_baselines.learned.records import described, problem_of
from testbed.simulate import engines
from testbed.simulate.conditions import changing, steady
from testbed.simulate.fluid import Fluid
from testbed.simulate.messages import Messages
from testbed.simulate.observed import Observed, objective
from testbed.simulate.queues import divided
from testbed.simulate.runs import by_fluid, by_messages
from testbed.simulate.worlds import large, scattered, small
from tests.support.properties import tries

RATE, SIZE, OVERHEAD = 400.0, 155.0, 95.0  # 250 bytes on the wire


def _line(
    *, rate: float = RATE, up: float = 1e9, latency: float = 0.04, engine: EngineModel = EngineModel.FLINK
) -> tuple[Problem, Placement]:
    """A job in the cloud that reads a topic at an edge, and writes one in the cloud."""
    sites = [
        SiteModel(name="edge", cores=2.0, up=up, latency=latency),
        SiteModel(name="cloud", cores=8.0, down=1e9, latency=0.01),
    ]
    channels = [Channel(name="born", homes=(0,), rate=rate, size=SIZE), Channel(name="end", homes=(1,))]
    job = PlacedJob(name="job", allowed=(0, 1), inputs=(0,), output=1, engine=engine, cost=20e-6)
    problem = Problem(sites=sites, jobs=[job], channels=channels, overhead=OVERHEAD, broker_cost=10e-6)
    return problem, Placement((1,), (0, 1))


def _both(problem: Problem, placement: Placement) -> tuple[Observed, Observed]:
    return by_fluid(problem, placement, 5.0, 10.0), by_messages(problem, placement, 1, 5.0, 10.0)


@given(
    needs=st.lists(st.tuples(st.floats(0, 100), st.integers(0, 2)), min_size=1, max_size=12),
    capacity=st.lists(st.floats(0, 100), min_size=3, max_size=3),
)
@tries(100)
def test_shares_are_max_min_fair(needs: list[tuple[float, int]], capacity: list[float]) -> None:
    need, owner = np.array([each for each, _ in needs]), np.array([each for _, each in needs])
    granted, level = divided(need, owner, np.array(capacity))
    for site, most in enumerate(capacity):
        at = owner == site
        assert granted[at].sum() == pytest.approx(min(need[at].sum(), most), abs=1e-6)
        assert np.allclose(granted[at], np.minimum(need[at], level[site]))


def test_crossing_has_the_delay_of_the_link_and_the_bytes_of_its_messages() -> None:
    for found in _both(*_line(up=25e6)):
        assert found.rate == pytest.approx(RATE, rel=0.05)
        assert found.wan == pytest.approx(RATE * (SIZE + OVERHEAD), rel=0.05)
        assert found.age["end"] == pytest.approx(0.05 + engines.FLINK_DELAY, rel=0.02)
        assert found.up[0] == pytest.approx(found.wan / 25e6)


def test_full_link_passes_its_bandwidth_and_the_rest_waits() -> None:
    for found in _both(*_line(up=0.5 * RATE * (SIZE + OVERHEAD))):
        assert found.rate == pytest.approx(0.5 * RATE, rel=0.02)
        assert found.waiting == pytest.approx(0.5 * RATE * found.seconds, rel=0.1)


@pytest.mark.slow("simulates runs message by message")
def test_window_lets_a_thousand_messages_pass_in_a_round_trip() -> None:
    """A job at the edge writes to the cloud over 3 s there and back, more than its window allows."""
    problem, _ = _line(latency=1.5)
    sites = [replace(problem.sites[0], latency=1.49), problem.sites[1]]
    slow = replace(problem, sites=sites)
    for found in _both(slow, Placement((0,), (0, 1))):
        assert found.rate == pytest.approx(engines.WINDOW / 3.0, rel=0.05)
    free = Messages(slow, Placement((0,), (0, 1)), seed=1, qos=0).observe(5.0, 10.0)
    assert free.rate == pytest.approx(RATE, rel=0.05)


def test_batches_of_spark_are_as_measured() -> None:
    """1,000 messages/s: 0.52 and 0.53 of the p50 (77 ms) and p99 (145 ms) of before (benchmarks/micro)."""
    problem, placement = _line(rate=1000.0, latency=0.0, engine=EngineModel.SPARK)
    near = replace(problem, sites=[problem.sites[0], replace(problem.sites[1], latency=0.0)])
    local = Placement((0,), (0, 0))
    at_edge = replace(near, channels=[problem.channels[0], Channel(name="end", homes=(0,))])
    assert placement.sites == (1,)
    fluid, messages = _both(at_edge, local)
    assert messages.age["end"] == pytest.approx(0.044, rel=0.1)
    assert fluid.age["end"] == pytest.approx(messages.age["end"], rel=0.05)
    assert messages.p95["end"] == pytest.approx(0.058, rel=0.2)


@pytest.mark.slow("simulates runs message by message")
@pytest.mark.parametrize("seed", [0, 3, 4, 10])
def test_simulators_agree_on_random_compositions(seed: int) -> None:
    """Rate and WAN traffic, overloaded (3, 4) or not; scattered placements."""
    problem = small(seed)
    placement = scattered(problem, seed)
    fluid, messages = (
        by_fluid(problem, placement, 5.0, 10.0),
        by_messages(problem, placement, seed, 5.0, 10.0),
    )
    assert q_error(fluid.rate, messages.rate) <= AIM
    assert q_error(fluid.wan, messages.wan) <= AIM


@pytest.mark.parametrize(("cores", "idle", "rate"), [(8.0, 9.0, 0.0), (8.0, 9.0, RATE), (1e-306, 0.0, 1e10)])
def test_a_job_without_processor_time_lets_all_wait(cores: float, idle: float, rate: float) -> None:
    """Warnings of numpy (0 / 0, and times beyond all numbers) are errors here."""
    problem, placement = _line(rate=rate, engine=EngineModel.SPARK, latency=0.001)
    edge, cloud = problem.sites
    jobs = [replace(problem.jobs[0], fixed=idle)]
    problem = replace(problem, sites=[edge, replace(cloud, cores=cores)], jobs=jobs, broker_cost=0.0)
    simulated = Fluid(problem, placement)
    simulated.run(5.0, steady(problem))
    assert simulated.observed().delivered == {}
    assert np.isfinite(simulated.waiting).all()


def test_same_seed_gives_the_same_figures() -> None:
    problem, placement = _line()
    one, other, third = (Messages(problem, placement, seed=seed).observe(1.0, 2.0) for seed in (1, 1, 2))
    assert one == other != third


def test_nothing_is_lost_while_a_job_stands_still_and_what_waits_is_late() -> None:
    problem, placement = _line()
    fluid, scenario = Fluid(problem, placement), steady(problem)
    fluid.run(5.0, scenario)
    fluid.reset()
    fluid.place(placement, {0: 2.0})
    fluid.run(1.0, scenario)
    assert fluid.observed().rate < 0.3 * RATE
    assert fluid.observed().waiting == pytest.approx(RATE, rel=0.3)
    fluid.run(9.0, scenario)
    found = fluid.observed()
    assert found.rate == pytest.approx(RATE, rel=0.01)
    assert found.waiting == pytest.approx(0.0, abs=1.0)
    # 2 s of 10 s are late by 1 s on average.
    assert found.age["end"] == pytest.approx(0.05 + 0.2, rel=0.2)


def test_conditions_change_the_load_and_the_speed() -> None:
    problem, placement = _line()
    fluid = Fluid(problem, placement)
    fluid.run(20.0, changing(problem, amplitude=0.5, period=20.0, speeds={1: 0.5}))
    found = fluid.observed()
    assert found.rate == pytest.approx(RATE, rel=0.02)  # over a whole period
    assert found.cores[1] * 8 == pytest.approx(RATE * 20e-6 / 1.0 + 0.009 + RATE * 10e-6, rel=0.1)


def test_length_of_a_step_does_not_change_the_figures() -> None:
    problem = small(10)
    placement = scattered(problem, 10)
    found = []
    for step in (0.1, 0.5):
        fluid = Fluid(problem, placement, step=step)
        fluid.run(10.0, steady(problem))
        fluid.reset()
        fluid.run(20.0, steady(problem))
        found.append(objective(problem, placement, fluid.observed()))
    assert found[0] == pytest.approx(found[1], rel=0.03)


def test_objective_of_observed_figures_is_that_of_the_model_where_queues_are_short() -> None:
    problem, placement = _line(up=25e6)
    predicted = evaluate(problem, placement).objective
    for found in _both(problem, placement):
        assert objective(problem, placement, found) == pytest.approx(predicted, rel=0.05)


def test_large_problems_permit_only_sites_near_their_compositions() -> None:
    problem = large(1, 170, 50)
    assert max(len(job.allowed) for job in problem.jobs) < 20
    assert not problem.faults(scattered(problem, 1).sites)


@pytest.mark.slow("simulates runs message by message")
def test_runs_are_read_as_they_are_described(tmp_path: Path) -> None:
    problem, placement = _line()
    found = by_messages(problem, placement, 0)
    line = {
        "graph": "line",
        **described(problem, placement),
        "measured": {"rate": found.rate, "wan": 2 * found.wan, "p95": found.p95["end"]},
    }
    path = tmp_path / "gates.jsonl"
    path.write_text(json.dumps(line) + "\n" + json.dumps({"graph": "without a problem"}) + "\n")
    (run,) = real.read(path)
    assert problem_of(run["problem"]) == problem
    result = real.compare([run])
    assert result["rate"]["median"]["value"] == pytest.approx(1.0)
    assert result["wan"]["median"]["value"] == pytest.approx(2.0)
    assert not result["proven"]


def test_statistics() -> None:
    found = interval([1.0, 2.0, 3.0, 4.0, 100.0])
    assert found["low"] <= found["value"] == 3.0 <= found["high"]
    assert q_error(2.0, 1.0) == q_error(1.0, 2.0) == 2.0
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1.0)
    assert spearman([1, 2, 2], [3, 2, 2]) == pytest.approx(-1.0)
