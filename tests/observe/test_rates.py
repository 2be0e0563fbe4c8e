"""The rates of a job, from its engine's counts at several moments."""

from __future__ import annotations

from functools import reduce

import pytest

from speck.core.runtime import JobMetrics
from speck.observe.rates import Rates, Track, rates_of


def counted(
    at: float, rows: int | None, counted_at: float | None = None, rate: float | None = 7.0, **more: object
) -> JobMetrics:
    """The metrics of an engine at ``at``: the rows until ``counted_at`` by its own clock."""
    return JobMetrics(at, input_rate=rate, input_rows=rows, counted_at=counted_at, **more)  # type: ignore[arg-type]


def track(*reported: JobMetrics) -> Track:
    return reduce(Track.with_next, reported[1:], Track.of("engine's id", reported[0]))


CASES = {
    "told once": ([counted(0, 0, 0)], 7.0),
    "a count that grows is divided by the engine's own time": (
        [counted(0, 0, 1000), counted(5, 480, 1004.8)],
        100.0,
    ),
    "a batch that is not over yet": ([counted(0, 50, 1000), counted(5, 50, 1000)], 7.0),
    "nothing counted for long": ([counted(0, 50, 0), counted(5, 50, 0), counted(10, 50, 0)], 0.0),
    "a batch that takes long": (
        [counted(0, 50, 0, batch_duration_ms=8000), counted(10, 50, 0, batch_duration_ms=8000)],
        7.0,
    ),
    "after a pause, the pause does not count": ([counted(60, 50, 0), counted(65, 550, 64)], 100.0),
    "an engine without a clock of its own": ([counted(0, 50), counted(20, 50)], 7.0),
    "an engine that does not count": ([counted(0, None, rate=None), counted(5, None, rate=None)], None),
    "counting began anew": ([counted(0, 900, 0), counted(5, 10, 5)], 7.0),
    "idle after the clock of its site was set back": (
        [counted(4000, 0, 4000), counted(4005, 50, 4004), counted(405, 50, 404), counted(415, 50, 404)],
        0.0,
    ),
    "at work after the clock of its engine was set back": (
        [counted(0, 0, 5000), counted(5, 500, 4000), counted(10, 1000, 4005)],
        100.0,
    ),
    "the clock was set back": (
        [counted(3600, 0, 0), counted(3605, 1000, 5), counted(5, 1010, 10), counted(10, 1020, 15)],
        2.0,
    ),
    "what is long ago does not count": (
        [counted(0, 0, 0), counted(10, 10, 10), counted(20, 1010, 20)],
        100.0,
    ),
}


@pytest.mark.parametrize(("reported", "rate"), CASES.values(), ids=CASES.keys())
def test_input_rate(reported: list[JobMetrics], rate: float | None) -> None:
    assert rates_of(track(*reported)).input_rate == (None if rate is None else pytest.approx(rate))


def test_output_rate_is_of_all_batches_that_were_seen() -> None:
    reported = [
        counted(0, 10, 0, batch_id=1, output_rate=30.0),
        counted(5, 10, 0, batch_id=1, output_rate=30.0),
        counted(10, 90, 9, batch_id=2, output_rate=0.0),
    ]
    assert rates_of(track(*reported)).output_rate == pytest.approx(15.0)


def test_an_idle_job_sends_nothing() -> None:
    reported = [counted(at, 10, 0, batch_id=1, output_rate=30.0) for at in (0, 5, 10)]
    found = rates_of(track(*reported))
    assert (found.input_rate, found.output_rate) == (0.0, 0.0)


def test_an_idle_job_whose_last_batch_was_empty_sends_nothing() -> None:
    reported = [
        counted(0, 10, 0, batch_id=1, output_rate=30.0),
        *(counted(at, 10, 1, rate=0.0, batch_id=2) for at in (10, 20, 30, 40)),
    ]
    assert rates_of(track(*reported)).output_rate == 0.0
    assert rates_of(track(*reported[1:])).output_rate is None  # it was never told


def test_what_is_not_told_is_not_made_up() -> None:
    assert rates_of(track(JobMetrics(3.0))) == Rates(3.0, None, None, None, None)


def test_work_is_told_in_seconds() -> None:
    assert rates_of(track(JobMetrics(3.0, batch_duration_ms=250.0, waiting=4))) == Rates(
        3.0, waiting=4, work_seconds=0.25
    )
