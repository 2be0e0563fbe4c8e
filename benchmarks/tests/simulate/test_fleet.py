"""The simulated fleet of workers: its accounts, and what each rule of fit does to them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.irm.fleet import DAY, RULES, Fleet, Instance, simulate, workload
from speck.placement.packing import loose_fit

HOUR = 3600.0


def test_instances_of_a_quarter_fill_a_worker_before_the_next_gets_one() -> None:
    day = [Instance(0, 0.25, HOUR + 60 * number, 10 * HOUR) for number in range(12)]
    figures = Fleet(loose_fit, 0.0, 1).run(day)
    assert figures["fill_before_next"] == 1.0
    assert figures["workers_most"] == 3
    assert figures["bins_over_least"] == 1.0
    assert figures["cpu_error"] == pytest.approx(0.0, abs=0.01)


def test_the_published_rule_leaves_a_quarter_empty_where_all_are_quarters() -> None:
    day = [Instance(0, 0.25, HOUR + 60 * number, 10 * HOUR) for number in range(12)]
    strict = Fleet(dict(RULES)["published"], 0.0, 1).run(day)
    assert strict["fill_before_next"] == 0.75
    assert strict["workers_most"] == 4


def test_idle_workers_leave_and_all_hours_are_accounted() -> None:
    (only,) = [Instance(0, 1.0, 0.0, 2 * HOUR)]
    figures = Fleet(loose_fit, 0.0, 1).run([only])
    # The worker of the job and a spare one, from their start on; then both go after a minute.
    assert 4 * HOUR < figures["worker_hours"] * HOUR < 4 * HOUR + 180
    assert figures["waited_seconds_p99"] == pytest.approx(10.0)  # the start of the first worker


def test_spreading_has_all_workers_all_day_and_none_of_them_full() -> None:
    found = simulate(400, 0.02, 1)
    last = max(each.end for each in workload(400, 0.02, 1))
    assert found["even"]["worker_hours"] == pytest.approx(
        found["even"]["workers_most"] * last / HOUR, rel=0.02
    )
    assert found["even"]["fill_before_next"] < 0.3 < 0.9 < found["speck"]["fill_before_next"]
    assert found["speck"]["bins_over_least"] <= 1.1 <= 1.1 * found["published"]["bins_over_least"]
    assert found["speck"]["worker_hours"] < found["published"]["worker_hours"] < found["even"]["worker_hours"]


def test_a_day_has_all_instances_in_order_and_the_same_ones_for_a_seed() -> None:
    day = workload(500, 0.1, 3)
    assert day == workload(500, 0.1, 3) != workload(500, 0.1, 4)
    assert len(day) == 500
    assert all(one.begin <= other.begin for one, other in pairwise(day))
    assert all(0 <= each.begin <= DAY and each.share > 0 for each in day)
