"""First-fit of jobs over the engines of a pool."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.inventory import Engine, Pool
from speck.core.job import Job
from speck.placement.packing import strict_fit
from speck.placement.pools import choose_engines, filled
from testbed.benches.jobs_by_hand import make_job

ADDRESSES = [f"http://e{number}/" for number in range(4)]


def pool(cores: float = 0.4, slots: int | None = 8) -> Pool:
    engines = (Engine(spe_address=each, cores=cores, slots=slots, pool="small") for each in ADDRESSES)
    return Pool("A", "small", tuple(engines))


def jobs(number: int, **fields: Any) -> list[Job]:
    return [make_job(f"job-{index:02}", **fields) for index in range(number)]


def unmeasured(job: Job) -> None:
    return None


def numbers(found: dict[str, str]) -> list[int]:
    return [list(found.values()).count(each) for each in ADDRESSES]


def chosen(new: list[Job], present: list[Job] | None = None, **options: Any) -> list[int]:
    found = choose_engines(
        options.pop("pool", pool()), present or [], new, options.pop("cores", unmeasured), **options
    )
    return numbers(dict(found))


def test_an_engine_is_full_before_the_next_gets_its_first_job() -> None:
    assert chosen(jobs(30)) == [8, 8, 8, 6]
    assert chosen(jobs(30), fit=strict_fit) == [8, 8, 7, 7]  # 7 fit, the others go where the load is least


def test_measured_cores_stand_before_the_default() -> None:
    assert chosen(jobs(5), cores=lambda job: 0.2) == [2, 2, 1, 0]  # of 0.4
    assert chosen(jobs(2), cores=lambda job: 0.9) == [1, 1, 0, 0]  # larger than an engine


def test_instances_and_slots_count() -> None:
    assert chosen(jobs(3, parallelism=4)) == [2, 1, 0, 0]
    assert chosen(jobs(5), pool=pool(slots=2), cores=lambda job: 0.0) == [2, 2, 1, 0]
    assert chosen(jobs(5), pool=pool(slots=None), cores=lambda job: 0.0) == [5, 0, 0, 0]
    assert chosen(jobs(9), pool=pool(slots=1)) == [3, 2, 2, 2]  # none is free: where the load is least


def test_a_hole_is_filled_first() -> None:
    there = [make_job(f"old-{index}", spe_address=ADDRESSES[index // 8]) for index in range(16)]
    del there[3]
    assert chosen(jobs(2), there) == [1, 0, 1, 0]


def test_jobs_elsewhere_do_not_count() -> None:
    assert [each.slots for each in filled(pool(), jobs(3, spe_address="http://other/"), unmeasured)] == [
        0
    ] * 4


@given(st.lists(st.floats(0.001, 0.4), min_size=1, max_size=25))
def test_no_engine_is_overfull_while_another_is_empty(cores: list[float]) -> None:
    new = jobs(len(cores))
    by_name = dict(zip((each.job_name for each in new), cores, strict=True))
    found = choose_engines(pool(slots=None), [], new, lambda job: by_name[job.job_name])
    loads = [sum(by_name[name] / 0.4 for name, at in found.items() if at == each) for each in ADDRESSES]
    if min(loads) == 0:
        assert max(loads) <= 1.0 + 0.02 + 1e-9
    assert sum(loads) == pytest.approx(sum(cores) / 0.4)
