"""Estimates of jobs' profiles from their samples: known values are found again, odd ones do no harm."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.placement import Expects
from speck.core.profile import JobSample, VertexSample
from speck.observe.profile.estimates import Estimate, estimate, rate_history
from speck.observe.profile.fits import least_squares, theil_sen
from speck.observe.profile.screening import LENGTH, Oddity, Series
from speck.placement.profile import (
    FIXED,
    JobProfile,
    Known,
    Value,
    assumed_cost,
    assumed_profile,
    combined,
    with_expected,
)
from testbed.doubles.samples import BEGIN, PERIOD, flink_stream, odd_stream, series_of, spark_stream
from tests.support.properties import property_test
from tests.support.trials import trials_run


def estimated(samples: list[JobSample], **options: Any) -> JobProfile:
    """The estimate as of the last sample."""
    return estimate(series_of(samples), samples[-1].observed, **options).profile


def value_of(value: Value | None) -> float:
    assert value is not None
    assert value.known is Known.MEASURED
    return value.value


# --- Flink


@property_test
@given(st.floats(1e-5, 1e-3), st.floats(0, 0.05), st.floats(20, 200), st.floats(1.6, 4), st.floats(0.5, 2))
def test_cost_and_fixed_share_of_a_flink_job(
    cost: float, fixed: float, rate: float, factor: float, speed: float
) -> None:
    rates = [rate] * 6 + [rate * factor] * 6
    profile = estimated(flink_stream(rates, cost, fixed), speed=speed)
    assert value_of(profile.cost) == pytest.approx(cost * speed, rel=0.05)
    assert value_of(profile.fixed) == pytest.approx(FIXED + fixed * speed, abs=2e-3)


def test_one_rate_leaves_the_fixed_share_assumed() -> None:
    profile = estimated(flink_stream([100] * 10, 1e-3))
    assert value_of(profile.cost) == pytest.approx(1e-3, rel=0.01)
    assert profile.fixed == Value(FIXED, Known.ASSUMED)


def test_the_fixed_share_that_was_measured_before_goes_on() -> None:
    former = JobProfile(fixed=Value(FIXED + 0.05, Known.MEASURED, BEGIN, 9))
    profile = estimated(flink_stream([100] * 10, 1e-3, 0.05), former=former)
    assert profile.fixed == former.fixed
    assert value_of(profile.cost) == pytest.approx(1e-3, rel=0.01)


def test_rates_sizes_selectivity_and_state() -> None:
    profile = estimated(flink_stream([200] * 8, 1e-4, selectivity=0.25))
    found = {name: each.value for name, each in profile.values().items()}
    assert found["rate_in"] == pytest.approx(200)
    assert found["rate_out"] == pytest.approx(50)
    assert found["bytes_in"] == pytest.approx(100)
    assert found["bytes_out"] == pytest.approx(60)
    assert found["selectivity"] == pytest.approx(0.25)
    assert found["state"] == 4096


def test_counts_that_the_first_samples_lack() -> None:
    first, *others = flink_stream([200] * 8, 1e-4, selectivity=0.25)
    idle = replace(first, messages_in=None, messages_out=None, bytes_in=None, bytes_out=None)
    profile = estimated([idle, *others])
    assert value_of(profile.rate_in) == pytest.approx(200)
    assert value_of(profile.bytes_out) == pytest.approx(60)
    assert value_of(profile.selectivity) == pytest.approx(0.25)


@pytest.mark.parametrize("subtasks", [1, 4])
def test_both_true_rates_of_each_vertex_and_of_the_job(subtasks: int) -> None:
    samples = flink_stream([100] * 8, 2e-3, subtasks=subtasks, selectivity=0.1)
    found = estimate(series_of(samples), samples[-1].observed)
    source, count = found.vertices
    assert (source.rate_in, source.rate_out) == pytest.approx((100, 100))
    assert source.true_rate_in == pytest.approx(subtasks / 5e-4, rel=0.01)  # a quarter of the cost
    assert count.true_rate_in == pytest.approx(subtasks / 1.5e-3, rel=0.01)
    assert count.true_rate_out == pytest.approx(
        subtasks / 1.5e-3 / 10, rel=0.01
    )  # by its output it looks slow
    assert found.profile.busiest == "count"
    assert value_of(found.profile.true_rate_in) == pytest.approx(subtasks / 1.5e-3, rel=0.01)
    assert value_of(found.profile.true_rate_out) == pytest.approx(subtasks / 1.5e-2, rel=0.01)


def test_a_pressed_source_works_whenever_it_is_not_pressed() -> None:
    """Its busy time is too short by half: 10 messages/s in a fifth of the time are 50/s."""
    samples = [
        JobSample(
            engine_id="p1",
            observed=BEGIN + seconds,
            messages_in=10 * seconds,
            messages_out=10 * seconds,
            vertices=(
                VertexSample(name="all", subtasks=1, busy=0.1 * seconds, back_pressured=0.8 * seconds),
            ),
        )
        for seconds in range(0, 70, 10)
    ]
    assert value_of(estimated(samples).true_rate_in) == pytest.approx(50)


def test_too_little_work_tells_no_cost() -> None:
    profile = estimated(flink_stream([1] * 6, 8e-6))
    assert profile.cost is None
    assert value_of(profile.rate_in) == pytest.approx(1)


def test_busy_time_is_scaled_to_the_time_of_the_processor() -> None:
    samples = [replace(each, processor_share=0.5) for each in flink_stream([100] * 8, 1e-3)]
    assert value_of(estimated(samples).cost) == pytest.approx(5e-4, rel=0.01)


def test_the_event_loop_of_its_process_is_that_of_the_last_sample_at_the_speed_of_the_site() -> None:
    constants = [0.004, 0.003, 0.002, 0.0011, None]
    stream = flink_stream([100] * 4, 1e-3)
    samples = [replace(each, event_loop=loop) for each, loop in zip(stream, constants, strict=True)]
    assert value_of(estimated(samples, speed=0.5).event_loop) == pytest.approx(0.00055)
    assert estimated(flink_stream([100] * 5, 1e-3)).event_loop is None


def test_an_event_loop_that_no_process_can_have_is_left_out() -> None:
    samples = [replace(each, event_loop=math.inf) for each in flink_stream([100] * 5, 1e-3)]
    assert estimated(samples).event_loop is None
    assert value_of(estimated(samples).rate_in) == pytest.approx(100)


def test_counts_that_come_late_are_used() -> None:
    """A sink reports nothing before its first message."""
    samples = flink_stream([100] * 8, 1e-3)
    late = [replace(each, messages_out=None, bytes_out=None) for each in samples[:2]] + samples[2:]
    assert estimated(late).values().keys() == estimated(samples).values().keys()


# --- freshness


def test_a_job_whose_engine_repeats_its_last_report_is_idle() -> None:
    """Spark makes no report while no message arrives."""
    series = series_of(spark_stream([100] * 40, 0.04, 1e-5))
    last = series.samples[-1]
    for seconds in range(10, 90, 10):
        series, oddities = series.with_next(last.sample, last.at + seconds)
        assert not oddities
    profile = estimate(series, last.at + 80).profile
    assert value_of(profile.rate_in) == 0
    assert profile.selectivity is not None
    busy_again = replace(last.sample, observed=last.at + 85, messages_in=(last.sample.messages_in or 0) + 600)
    series, oddities = series.with_next(busy_again, last.at + 90)
    assert not oddities
    assert value_of(estimate(series, last.at + 90).profile.rate_in) > 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_two_samples_or_less_than_30_s_tell_nothing(count: int) -> None:
    assert estimated(flink_stream([100] * count, 1e-3)[:count]) == JobProfile()


def test_old_samples_tell_nothing() -> None:
    samples = flink_stream([100] * 8, 1e-3)
    assert estimate(series_of(samples), samples[-1].observed + 61) == Estimate(JobProfile())
    assert estimate(series_of(samples), samples[-1].observed + 59).profile.rate_in is not None


def test_the_rate_is_that_of_the_last_minute() -> None:
    assert value_of(estimated(flink_stream([100] * 12 + [500] * 6, 1e-4)).rate_in) == pytest.approx(500)


def test_the_series_is_bounded() -> None:
    assert len(series_of(flink_stream([10] * 100, 1e-3)).samples) == LENGTH


# --- Spark


@property_test
@given(st.integers(0, 10_000), st.floats(0.005, 0.5), st.floats(1e-6, 1e-3), st.integers(1, 4))
def test_batches_of_several_sizes_tell_the_cost(
    seed: int, overhead: float, per_row: float, cores: int
) -> None:
    """A fifth of the batches is disturbed: up to 20 times their work."""
    chance = Random(seed)
    rows = [chance.randint(100, 1000) for _ in range(60)]
    stream = spark_stream(
        rows,
        overhead,
        per_row,
        cores=cores,
        disturbed=lambda number, work: work * chance.uniform(2, 20) if number % 5 == 0 else work,
    )
    profile = estimated(stream, speed=0.5)
    assert value_of(profile.cost) == pytest.approx(0.5 * per_row * cores, rel=0.35)
    assert value_of(profile.batch_overhead) == pytest.approx(
        0.5 * overhead, rel=0.35, abs=0.2 * per_row * 1000
    )
    assert value_of(profile.fixed) == pytest.approx(
        value_of(profile.batch_overhead) / 2, rel=0.01
    )  # every 2 s
    assert value_of(profile.true_rate_in) == pytest.approx(1 / per_row, rel=0.55)


@pytest.mark.parametrize("rows", [[100] * 60, [0] * 60, [100, 1000, 500, 300, 200]])
def test_batches_of_one_size_or_few_batches_tell_no_cost(rows: list[int]) -> None:
    profile = estimated([*spark_stream(rows, 0.04, 1e-5)])
    assert profile.cost is None
    assert profile.batch_overhead is None


@pytest.mark.parametrize("share", [0.25, 1.0, 1.5])
def test_work_of_batches_is_scaled_to_the_time_of_the_processor(share: float) -> None:
    """Batches wait for cores that others use, and use several; their duration stays that of results."""
    stream = spark_stream([50 + 13 * (number % 9) for number in range(60)], 0.2, 1e-3, cores=4)
    profile = estimated([replace(each, processor_share=share) for each in stream])
    assert value_of(profile.cost) == pytest.approx(share * 1e-3, rel=0.01)
    assert value_of(profile.fixed) == pytest.approx(share * 0.2 / 2, rel=0.01)  # every 2 s
    assert value_of(profile.batch_overhead) == pytest.approx(0.2, rel=0.01)


def test_all_work_is_known_by_the_time_of_the_processor_where_rows_do_not_explain_it() -> None:
    stream = [replace(each, processor_share=0.5) for each in spark_stream([100] * 60, 0.3, 1e-3)]
    profile = estimated(stream)
    assert profile.cost is None
    messages = value_of(profile.rate_in) * assumed_cost("spark")
    assert value_of(profile.fixed) + messages == pytest.approx(0.5 * 0.4 / 2, rel=0.01)


def test_rows_that_explain_nothing_are_told_from_rows_that_do() -> None:
    chance = Random(1)
    points = [(float(chance.randint(100, 1000)), chance.uniform(0.1, 3.0)) for _ in range(40)]
    noise = theil_sen(points)
    assert noise is not None
    assert noise.low < 0 < noise.high
    real = theil_sen([(x, 0.002 * x + 0.2 * y) for x, y in points])
    assert real is not None
    assert 0.001 < real.low < real.slope < real.high < 0.003


@property_test
@given(
    st.floats(-10, 10),
    st.floats(-10, 10),
    st.lists(st.integers(0, 1000), min_size=20, max_size=40, unique=True),
)
def test_theil_sen_ignores_a_quarter_of_outliers(intercept: float, slope: float, xs: list[int]) -> None:
    """Every fourth point is far above the line."""
    points = [(x, intercept + slope * x + (1e6 if n % 4 == 0 else 0)) for n, x in enumerate(xs)]
    found = theil_sen(points)
    straight = least_squares(points)
    assert found is not None
    assert straight is not None
    assert abs(found.slope - slope) < 1e-6 + 3e6 / (max(xs) - min(xs))
    clean = theil_sen([(x, intercept + slope * x) for x in xs])
    assert clean is not None
    assert (clean.intercept, clean.slope) == pytest.approx((intercept, slope), abs=1e-6)
    assert clean.low - 1e-6 <= slope <= clean.high + 1e-6


def test_theil_sen_is_exact_where_least_squares_is_not() -> None:
    points = [(float(x), 3.0 + 2.0 * x) for x in range(20)]
    points[3], points[11] = (3.0, 500.0), (11.0, -300.0)
    found = theil_sen(points)
    assert found is not None
    assert (found.intercept, found.slope) == pytest.approx((3.0, 2.0))
    assert least_squares(points) != pytest.approx((3.0, 2.0), rel=0.1)


# --- odd metrics


def check_harmless(seed: int) -> Counter[Oddity]:
    """No sample of an odd stream raises or leads to a value that is not a finite number from 0."""
    series, counted = Series(), Counter[Oddity]()
    for at, sample in odd_stream(seed):
        series, oddities = series.with_next(sample, at)
        counted += oddities
        found = estimate(series, at)
        for name, value in found.profile.values().items():
            assert math.isfinite(value.value), (seed, name)
            assert value.value >= 0, (seed, name)
        for vertex in found.vertices:
            numbers = [getattr(vertex, each.name) for each in fields(vertex) if each.name != "name"]
            assert all(each is None or (math.isfinite(each) and each >= 0) for each in numbers), (
                seed,
                vertex,
            )
    return counted


@property_test
@given(st.integers())
def test_odd_metrics_do_no_harm(seed: int) -> None:
    check_harmless(seed)


@pytest.mark.slow("thousands of streams of samples")
def test_thousands_of_odd_streams_do_no_harm() -> None:
    counted = Counter[Oddity]()
    for seed in range(10_000 if trials_run() else 2_000):
        counted += check_harmless(seed)
    assert set(counted) == set(Oddity)  # each kind occurred


def test_each_oddity_is_counted() -> None:
    series = series_of(flink_stream([100] * 4, 1e-3))
    last = series.samples[-1].sample
    later = replace(last, observed=last.observed + 10, messages_in=(last.messages_in or 0) + 1000)
    at = later.observed
    cases = [
        (replace(later, bytes_in=-1), {Oddity.INVALID: 1}),
        (replace(later, bytes_in=float("nan")), {Oddity.INVALID: 1}),
        (replace(later, observed=float("nan")), {Oddity.INVALID: 1}),
        (replace(later, observed=at + 3600), {Oddity.FUTURE: 1}),
        (replace(later, messages_in=10**9), {Oddity.JUMP: 1}),
        (replace(later, messages_in=1), {Oddity.RESTART: 1}),
        (replace(later, vertices=(*last.vertices, last.vertices[0])), {Oddity.RESTART: 1}),
        (later, {}),
        (last, {}),  # the engine repeats its answer
    ]
    assert [dict(series.with_next(sample, at)[1]) for sample, _ in cases] == [counts for _, counts in cases]


def test_a_count_that_falls_begins_anew() -> None:
    series = series_of(flink_stream([100] * 4, 1e-3))
    restarted, _ = series.with_next(
        replace(series.samples[-1].sample, messages_in=1, observed=BEGIN + 50), BEGIN
    )
    assert len(restarted.samples) == 1


def test_busy_time_that_falls_by_some_ms_is_no_restart() -> None:
    """Flink derives it from other times, which are read at other moments."""
    samples = flink_stream([0] * 8, 1e-3)
    for number, each in enumerate(samples):
        (source, count) = each.vertices
        shaken = replace(source, busy=source.busy + 0.05 * (number % 2), idle=source.idle)
        samples[number] = replace(each, vertices=(shaken, count))
    series = series_of(samples)
    assert len(series.samples) == len(samples)
    assert value_of(estimated(samples).rate_in) == 0
    restarted = replace(samples[-1].vertices[0], busy=0.0, idle=3.0)
    later = replace(
        samples[-1], observed=samples[-1].observed + 10, vertices=(restarted, samples[-1].vertices[1])
    )
    assert series.with_next(later, later.observed)[1] == {Oddity.RESTART: 1}


def test_a_single_jump_is_left_out_and_one_that_holds_is_the_new_rate() -> None:
    samples = [JobSample(engine_id="j", observed=BEGIN + 10 * n, messages_in=10 * n) for n in range(6)]
    glitch = replace(samples[3], messages_in=10**9)
    assert len(series_of([*samples[:3], glitch, *samples[4:]]).samples) == 5
    lasting = [replace(each, messages_in=10**9 + 10**6 * n) for n, each in enumerate(samples[3:])]
    series = series_of([*samples[:3], *lasting])
    assert [each.sample for each in series.samples] == lasting


def test_a_jump_that_the_engine_only_repeats_is_not_confirmed() -> None:
    """An engine that counts in batches reports the last one again while no message arrives."""
    samples = [JobSample(engine_id="j", observed=BEGIN + 10 * n, messages_in=n, bytes_in=n) for n in range(4)]
    burst = replace(samples[3], messages_in=10**6)
    series, _ = series_of(samples[:3]).with_next(burst, BEGIN + 30)
    again, oddities = series.with_next(burst, BEGIN + 40)
    assert (again, oddities) == (series, {})
    idle, _ = again.with_next(burst, BEGIN + 50)
    assert [each.sample.messages_in for each in idle.samples] == [10**6, 10**6]
    assert [each.sample.observed for each in idle.samples] == [BEGIN + 30, BEGIN + 50]
    later, _ = idle.with_next(burst, BEGIN + 70)
    assert rate_history(later) == [0.0, 0.0]


def test_a_clock_that_was_set_back_leaves_no_rate_of_before() -> None:
    """By their times, the samples of before would be the newest until the clock is there again."""
    samples = flink_stream([100] * 6, 1e-3)
    before, now = series_of(samples), BEGIN - 3600
    assert estimate(before, now).profile.rate_in is None  # its engine does not answer since
    repeated, oddities = before.with_next(samples[-1], now)
    assert (repeated.samples, dict(oddities)) == ((), {Oddity.RESTART: 1, Oddity.FUTURE: 1})
    series = before
    for each in flink_stream([10] * 6, 1e-3, begin=now):
        series, _ = series.with_next(each, each.observed)
    assert value_of(estimate(series, now + 60).profile.rate_in) == pytest.approx(10)


def test_a_jump_behind_an_odd_value_is_seen() -> None:
    samples = [JobSample(engine_id="j", observed=BEGIN + 10 * n, messages_in=10 * n) for n in range(6)]
    odd = [replace(samples[0], messages_in=-5), *samples[1:3], replace(samples[3], messages_in=10**9)]
    assert len(series_of([*odd, *samples[4:]]).samples) == 5


def test_a_restart_behind_an_odd_value_is_seen() -> None:
    samples = flink_stream([100] * 6, 1e-3)
    hidden = replace(samples[3], messages_in=None, vertices=())
    fallen = replace(samples[4], messages_in=1)
    assert len(series_of([*samples[:3], hidden, fallen]).samples) == 1


# --- combining


def test_the_better_known_value_stands() -> None:
    assumed = assumed_profile("flink")
    assert assumed.cost == Value(8e-6, Known.ASSUMED)
    assert assumed_profile("spark").cost == Value(12e-6, Known.ASSUMED)
    measured = JobProfile(cost=Value(2e-5, Known.MEASURED, BEGIN, 4), busiest="count")
    found = combined(assumed, measured)
    assert (found.cost, found.fixed, found.busiest) == (measured.cost, assumed.fixed, "count")


def test_declared_values_stand_where_none_was_measured() -> None:
    profile = combined(JobProfile(rate_in=Value(5, Known.MEASURED)), assumed_profile("flink"))
    found = with_expected(profile, Expects(rate=500, bytes=110, cost=2e-5, selectivity=0.98, state=0))
    assert {name: (each.value, each.known) for name, each in found.values().items()} == {
        "rate_in": (5, Known.MEASURED),
        "bytes_out": (110, Known.DECLARED),
        "cost": (2e-5, Known.DECLARED),
        "fixed": (FIXED, Known.ASSUMED),
        "selectivity": (0.98, Known.DECLARED),
        "state": (0, Known.DECLARED),
    }
    assert with_expected(profile, None) == profile


def test_samples_come_every_period() -> None:
    assert [each.observed - BEGIN for each in flink_stream([1, 1], 1e-3)] == [0, PERIOD, 2 * PERIOD]
