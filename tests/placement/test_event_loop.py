"""The event loop that the Flink jobs of a site share: in the profiles, the load, and the limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binders.common.processor import ProcessorShare
from binders.flink.workers import TASK_MANAGERS
from speck.core.profile import EVENT_LOOP, JobSample, event_loop_cores
from speck.observe.profile.estimates import estimate
from speck.placement.cost import BROKER_PASS, broker_load, evaluate, growth_within, load_of
from speck.placement.problem import Channel, EngineModel, Load, PlacedJob, Placement, Problem, SiteModel, Tier
from testbed.doubles.samples import PERIOD, flink_stream, series_of
from testbed.placement.random_problems import make
from tests.support.properties import tries

BUSY_SHARE = 3.0  # processor time of the messages of a job by its busy time, on a quiet machine


@dataclass(frozen=True)
class Burn:
    """A job that takes ``cost`` core-s a message, and halves its messages; ``rate`` is messages/s into it."""

    cost: float
    rate: float

    @property
    def messages(self) -> float:
        return 1.5 * self.rate


BURNS = (Burn(20e-6, 300), Burn(60e-6, 300), Burn(35e-6, 600))


def task_manager(burns: Sequence[Burn], load: float = 1.0) -> float:
    """The cores that a TaskManager with these jobs takes, at a share of their rates."""
    messages = load * sum(each.messages for each in burns)
    work = load * sum(each.rate * each.cost for each in burns)
    return TASK_MANAGERS.process + len(burns) * TASK_MANAGERS.job + event_loop_cores(messages) + work


def profiled(burns: Sequence[Burn]) -> list[PlacedJob]:
    """The jobs as they are measured together in one TaskManager, at half of their rates and at these."""
    loads = [0.5] * 12 + [1.0] * 12
    streams = [
        flink_stream([load * each.rate for load in loads], each.cost / BUSY_SHARE, engine_id=str(number))
        for number, each in enumerate(burns)
    ]
    share, spent = ProcessorShare(0.1), 0.0
    shared: list[list[JobSample]] = [[] for _ in burns]
    for number, load in enumerate([0.0, *loads]):
        spent += PERIOD * task_manager(burns, load) if load else 0.0
        samples = [stream[number] for stream in streams]
        busy = {each.engine_id: sum(vertex.busy for vertex in each.vertices) for each in samples}
        counts = {each.engine_id: (each.messages_in or 0) + (each.messages_out or 0) for each in samples}
        found = share.add(number * PERIOD, spent, busy, counts, TASK_MANAGERS)
        for series, sample in zip(shared, samples, strict=True):
            series.append(replace(sample, processor_share=found))
    jobs = []
    for number, stream in enumerate(shared):
        profile = estimate(series_of(stream), stream[-1].observed).profile
        assert profile.cost is not None
        assert profile.fixed is not None
        jobs.append(
            PlacedJob(
                name=str(number),
                allowed=(0, 1),
                inputs=(number,),
                cost=profile.cost.value,
                fixed=profile.fixed.value,
                selectivity=0.5,
            )
        )
    return jobs


def test_jobs_that_were_measured_in_one_process_are_predicted_for_several() -> None:
    """The shares of a process of three jobs are too low for one of two, which have a loop of their own."""
    jobs = profiled(BURNS)
    manager = 0.01 + 0.004 * 3  # of the JobManagers, which the shares of jobs include
    sites = [SiteModel(name=name, cores=1.0, idle=0.02) for name in "AB"]
    channels = [Channel(name=str(number), homes=(0,), rate=each.rate) for number, each in enumerate(BURNS)]
    problem = Problem(sites=sites, jobs=jobs, channels=channels, broker_cost=0.0, event_loop=EVENT_LOOP)
    for places in ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1)):
        used = evaluate(problem, problem.placement(places)).sites
        real = [
            task_manager([each for each, place in zip(BURNS, places, strict=True) if place == site])
            for site in (0, 1)
        ]
        both = sum(each.cores for each in used)
        assert both == pytest.approx(sum(real) + manager + 0.01, rel=0.03)
        for found, expected in zip(used, real, strict=True):
            assert found.cores == pytest.approx(expected, abs=0.025)


def line(engine: EngineModel = EngineModel.FLINK, **options: float | Load) -> Problem:
    """Two jobs in a row, which take nothing but an event loop."""
    sites = [
        SiteModel(name="edge", cores=1.0, speed=0.5, price=2.0),
        SiteModel(name="cloud", cores=4.0, tier=Tier.CLOUD),
    ]
    channels = [
        Channel(name=name, homes=(0, 1), rate=rate) for name, rate in (("a", 100.0), ("b", 0), ("c", 0))
    ]
    jobs = [
        PlacedJob(
            name=str(number),
            allowed=(0, 1),
            inputs=(number,),
            output=number + 1,
            cost=0.0,
            fixed=0.0,
            engine=engine,
        )
        for number in (0, 1)
    ]
    return Problem(
        sites=sites,
        jobs=jobs,
        channels=channels,
        broker_cost=0.0,
        **{"event_loop": 0.01, **options},  # type: ignore[arg-type]
    )


def test_a_second_job_at_a_site_takes_less_than_the_first() -> None:
    problem = line()
    together, apart = (evaluate(problem, problem.placement(sites)) for sites in ((0, 0), (0, 1)))
    assert together.sites[0].cores == pytest.approx(0.01 * math.sqrt(400) / 0.5)
    assert [each.cores for each in apart.sites] == pytest.approx(
        [0.01 * math.sqrt(200) / 0.5, 0.01 * math.sqrt(200) / 4]
    )
    assert together.cores == pytest.approx(2.0 * 0.01 * math.sqrt(400))  # at its price


def test_jobs_on_spark_have_no_event_loop() -> None:
    problem = line(EngineModel.SPARK)
    assert evaluate(problem, problem.placement((0, 0))).sites[0].cores == 0


def test_jobs_of_other_compositions_share_the_event_loop() -> None:
    none = Load.none(2)
    problem = line(background=replace(none, messages=[500.0, 0.0]))
    placement = problem.placement((0, 0))
    found = evaluate(problem, placement)
    assert found.sites[0].cores == pytest.approx(0.01 * math.sqrt(900) / 0.5)
    assert found.cores == pytest.approx(2.0 * 0.01 * (math.sqrt(900) - math.sqrt(500)))
    own = load_of(problem, placement) - problem.others
    alone = load_of(line(), placement)
    assert own.messages == pytest.approx(alone.messages)
    assert own.cores == pytest.approx(alone.cores)


@tries(25)
@given(
    st.builds(
        make, st.integers(0, 10_000), jobs=st.integers(2, 5), event_loop=st.sampled_from((EVENT_LOOP, 0.05))
    )
)
def test_a_site_is_full_at_its_multiplier(problem: Problem) -> None:
    problem = replace(problem, broker_cost=BROKER_PASS)  # that of a busy broker, which grows with the rates
    placement = problem.all_in_cloud
    found = evaluate(problem, placement)
    room, fixed = problem.sites[problem.cloud].cores, sum(job.fixed for job in problem.jobs)
    loads = load_of(problem, placement)
    linear, messages = loads.cores[problem.cloud] - fixed, loads.messages[problem.cloud]
    grown = growth_within(room - fixed, linear, messages, 0.0, problem.event_loop)
    assert found.multiplier <= grown * (1 + 1e-9)
    more = [replace(each, rate=each.rate * grown) for each in problem.channels]
    full = evaluate(replace(problem, channels=more), Placement(placement.sites, placement.homes))
    assert full.sites[problem.cloud].cores == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("rate", "readers", "microseconds"),
    [(100, 1, 40), (400, 1, 40), (1_600, 1, 25), (800, 2, 25), (40_000, 1, 13)],
)
def test_a_broker_takes_less_for_a_message_where_it_finds_several(
    rate: float, readers: int, microseconds: float
) -> None:
    sites = [SiteModel(name="a", cores=1.0, speed=0.5)]
    jobs = [PlacedJob(name=str(each), allowed=(0,), inputs=(0,)) for each in range(readers)]
    problem = Problem(sites=sites, jobs=jobs, channels=[Channel(name="t", homes=(0,), rate=rate)])
    passed = rate * readers
    assert broker_load(problem, 0, 0) == pytest.approx(passed * microseconds * 1e-6 / 0.5)
    assert broker_load(replace(problem, broker_cost=0.0), 0, 0) == 0


@tries(25)
@given(st.builds(make, st.integers(0, 10_000), jobs=st.integers(2, 5)), st.floats(1, 8))
def test_a_site_has_room_for_its_multiplier(problem: Problem, load: float) -> None:
    problem = replace(problem, channels=[replace(each, rate=each.rate * load) for each in problem.channels])
    placement = problem.all_in_cloud
    found = evaluate(problem, placement).multiplier
    more = [replace(each, rate=each.rate * found) for each in problem.channels]
    sites = evaluate(replace(problem, channels=more), placement).sites
    assert max(each.cores for each in sites) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("room", "linear", "messages", "steady", "constant", "factor"),
    [
        (1.0, 0.5, 0.0, 0.0, 0.0, 2.0),
        (1.0, 0.0, 0.0, 0.0, 0.01, math.inf),
        (1.0, 0.0, 100.0, 0.0, 0.01, 100.0),
        (1.0, 0.0, 100.0, 400.0, 0.01, 96.0),
        (1.2, 0.5, 0.0, 400.0, 0.01, 2.0),
        (-0.1, 0.5, 100.0, 0.0, 0.01, 0.0),
        (0.1, 0.5, 100.0, 400.0, 0.01, 0.0),  # what does not grow takes more than there is
        (0.5, 0.3, 100.0, 300.0, 0.01, 1.0),
    ],
)
def test_the_growth_of_rates_within_the_room_of_a_site(
    room: float, linear: float, messages: float, steady: float, constant: float, factor: float
) -> None:
    assert growth_within(room, linear, messages, steady, constant) == pytest.approx(factor)
