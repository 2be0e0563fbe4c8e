"""Features of placements, by problems made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from speck.placement.problem import Channel, EngineModel, PlacedJob, Problem, SiteModel, Tier
from speck_baselines.learned.features import FLAT, GRAPH, JOB, JobClass, flat, graph, job_class, nodes
from testbed.placement.random_problems import make

EDGE, CLOUD = 0, 1


def line() -> Problem:
    """Clean at the edge's data, average what is left, for a sink in the cloud."""
    sites = [
        SiteModel(name="edge", cores=2.0, speed=0.5, up=1000.0, down=4000.0, latency=0.04),
        SiteModel(name="cloud", cores=10.0, tier=Tier.CLOUD, up=1e6, down=1e6, latency=0.01),
    ]
    channels = [
        Channel(name="born", homes=(EDGE,), rate=100.0, size=50.0),
        Channel(name="clean", homes=(EDGE, CLOUD), size=20.0),
        Channel(name="mean", homes=(CLOUD,), size=10.0),
    ]
    jobs = [
        PlacedJob(name="clean", allowed=(0, 1), inputs=(0,), output=1, selectivity=0.5, cost=1e-3, fixed=0.0),
        PlacedJob(
            name="average",
            allowed=(0, 1),
            inputs=(1,),
            output=2,
            selectivity=0.1,
            stateful=True,
            cost=2e-3,
            fixed=0.0,
            engine=EngineModel.SPARK,
        ),
    ]
    return Problem(sites=sites, jobs=jobs, channels=channels, overhead=0.0, stamp=0.0, acknowledgement=0.0)


def test_flat_features_count_classes_and_average_selectivities() -> None:
    problem = line()
    found = dict(zip(FLAT, flat(problem, problem.placement((EDGE, CLOUD))), strict=True))
    assert found == {
        "hosts": 2,
        "sources": 1,
        "filters": 1,
        "filter_selectivity": 0.5,
        "aggregations": 0,
        "aggregation_selectivity": 0,
        "windowed_aggregations": 1,
        "windowed_aggregation_selectivity": 0.1,
        "joins": 0,
        "join_selectivity": 0,
        "sinks": 1,
    }


def test_flat_features_of_placements_on_equally_many_hosts_tie() -> None:
    problem = line()
    one, other = (flat(problem, problem.placement(sites)) for sites in ((EDGE, EDGE), (CLOUD, CLOUD)))
    assert one.tolist() == other.tolist()
    assert one.tolist() != flat(problem, problem.placement((EDGE, CLOUD))).tolist()


def test_class_of_a_job() -> None:
    problem = line()
    running = replace(problem.jobs[1], selectivity=0.9)
    assert job_class(problem, 0) is JobClass.FILTER
    assert job_class(replace(problem, jobs=[problem.jobs[0], running]), 1) is JobClass.AGGREGATION
    joined = replace(problem.jobs[1], inputs=(0, 1))
    assert job_class(replace(problem, jobs=[problem.jobs[0], joined]), 1) is JobClass.JOIN


def test_features_of_a_placed_job() -> None:
    problem = line()
    rows = nodes(problem, problem.placement((EDGE, CLOUD)))
    clean, average = (dict(zip(JOB, row, strict=True)) for row in rows)
    assert clean["rate_in"] == pytest.approx(2.0)  # of base 10, as all magnitudes
    assert 10 ** clean["rate_out"] == pytest.approx(50.0)
    assert 10 ** clean["bytes_in"] == pytest.approx(50.0)
    assert 10 ** clean["bytes_out"] == pytest.approx(20.0)
    assert 10 ** clean["need"] == pytest.approx(0.1)
    assert (clean["site_jobs"], clean["site_tier"], clean["site_speed"]) == (1, 0, 0.5)
    assert clean["site_load"] == pytest.approx(0.1)  # 0.1 of 2 cores of half the speed
    assert (clean["stateful"], average["stateful"], average["spark"]) == (0, 1, 1)
    assert average["site_load"] == pytest.approx(0.01)  # 0.1 of 10 cores
    assert clean["latency_in"] == 0.0
    assert clean["latency_out"] == pytest.approx(0.0 if _home(problem) == EDGE else 0.05)
    crossing = average if _home(problem) == EDGE else clean
    way = "in" if crossing is average else "out"
    assert 10 ** crossing[f"bandwidth_{way}"] == pytest.approx(1000.0)
    assert crossing[f"link_load_{way}"] == pytest.approx(1.0)  # 50 messages of 20 bytes over 1,000 bytes/s


def _home(problem: Problem) -> int:
    return problem.placement((EDGE, CLOUD)).homes[1]


def test_messages_reach_a_job_from_its_writers_writers() -> None:
    problem = line()
    found = dict(zip(GRAPH, graph(problem, problem.placement((EDGE, CLOUD))), strict=True))
    assert found["max.max_max_rate_in"] == pytest.approx(2.0)
    assert found["mean.rate_in"] == pytest.approx((2.0 + np.log10(50.0)) / 2)
    rows = nodes(problem, problem.placement((EDGE, CLOUD)))
    assert found["sum.site_load"] == pytest.approx(
        rows[:, JOB.index("site_load")].sum()
    )  # one result, one path


def test_graph_features_tell_placements_on_equally_many_hosts_apart() -> None:
    problem = line()
    one, other = (graph(problem, problem.placement(sites)) for sites in ((EDGE, EDGE), (CLOUD, CLOUD)))
    assert len(one) == len(GRAPH) == len(set(GRAPH))
    assert not np.allclose(one, other)


@pytest.mark.parametrize("seed", range(5))
def test_all_features_are_finite_and_the_order_of_jobs_does_not_matter(seed: int) -> None:
    problem = make(seed, jobs=6)
    sites = [index % len(problem.sites) for index in range(len(problem.jobs))]
    found = graph(problem, problem.placement(sites))
    assert np.isfinite(found).all()
    turned = replace(problem, jobs=list(reversed(problem.jobs)))
    # Homes are those of the first order: on a tie, the first writer decides.
    same = replace(problem.placement(sites), sites=tuple(reversed(sites)))
    assert np.allclose(graph(turned, same), found)
    assert np.isfinite(flat(problem, problem.placement(sites))).all()
