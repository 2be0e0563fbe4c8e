"""The engines of one pool: the cores of code, from the profiles of jobs and the time of the engines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from speck.controller.workers.loads import JobLoad, job_load, loop_shares
from speck.controller.workers.pool import EnginePool
from speck.core.inventory import Engine, Pool
from speck.core.profile import event_loop_cores
from speck.core.runtime import Worker
from speck.observe.measures import JobMeasure
from speck.observe.profile.estimates import Estimate
from speck.placement.profile import JobProfile, Known, Value
from testbed.benches.jobs_by_hand import make_job

FIRST, SECOND = ADDRESSES = [f"http://e{number}:8081/" for number in (1, 2)]


def pool() -> EnginePool:
    engines = tuple(Engine(spe_address=each, cores=2.0, slots=8, pool="small") for each in ADDRESSES)
    return EnginePool(Pool("A", "small", engines))


def load(number: int, cores: float | None, at: float = 1.0, **fields: Any) -> JobLoad:
    job = make_job(f"job-{number}", spe_address=fields.pop("spe_address", FIRST), **fields)
    return JobLoad(job, cores=cores, measured=at)


def run(
    found: EnginePool, begin: int, seconds: int, cores: float, *, free: bool, address: str = FIRST
) -> None:
    """Let an engine take so many cores for some seconds, from its processor time ``100 * begin`` on."""
    for at in range(begin, begin + seconds + 1, 2):
        processor = 100.0 * begin + (at - begin) * cores
        found.observe(address, [Worker(id="w", free=free, slots=8, slots_free=4, processor=processor)], at)


def test_profiles_alone_where_the_engine_reports_no_processor_time() -> None:
    found, (first, second) = pool(), (load(1, 0.2), load(2, 0.4))
    found.learn([first, second])
    assert found.cores_of(first.job) == pytest.approx(0.3)
    assert found.cores_of(load(3, None, code_hash="another").job) is None


def test_profiles_are_scaled_to_the_time_of_the_engine_without_that_of_an_idle_one() -> None:
    found, (first, second) = pool(), (load(1, 0.2), load(2, 0.2))
    run(found, 0, 60, 0.1, free=True)
    found._seen[FIRST].processor = None  # the next reading is the first of a new series
    found.learn([replace(first, cores=None), replace(second, cores=None)])
    run(found, 100, 6, 0.3, free=False)
    found.learn([first, second])
    assert found.cores_of(first.job) is None  # too few readings with these jobs
    run(found, 106, 60, 0.3, free=False)
    found.learn([first, second])
    assert found.cores_of(first.job) == pytest.approx(0.1)  # (0.3 - 0.1) of two


def test_one_that_has_no_profile_yet_counts_as_the_others_of_its_code() -> None:
    found, new = pool(), load(3, None)
    found.learn([load(1, None), load(2, None), new])
    run(found, 0, 60, 0.3, free=False)
    found.learn([load(1, 0.2), load(2, 0.2), new])
    assert found.cores_of(new.job) == pytest.approx(0.1)
    found = pool()
    run(found, 0, 60, 0.3, free=False)
    other = load(3, None, code_hash="another")  # of unknown cost: the rest cannot be told apart
    found.learn([load(1, 0.2), other])
    assert found.cores_of(load(1, None).job) == pytest.approx(0.2)


def test_each_engine_has_a_time_of_its_own() -> None:
    found = pool()
    found.learn([load(1, None), load(2, None, spe_address=SECOND)])
    run(found, 0, 60, 0.4, free=False)
    run(found, 0, 60, 0.1, free=False, address=SECOND)
    slow, quick = load(1, 0.2), load(2, 0.2, spe_address=SECOND, code_hash="another")
    found.learn([slow, quick])
    assert (found.cores_of(slow.job), found.cores_of(quick.job)) == (pytest.approx(0.4), pytest.approx(0.1))


def test_an_engine_that_was_started_anew_counts_from_there() -> None:
    found = pool()
    found.learn([load(1, None)])
    run(found, 10, 20, 0.3, free=False)
    found.observe(FIRST, [Worker(id="w", free=False, processor=1.0)], 40)
    found.learn([load(1, 0.2)])
    assert found.cores_of(load(1, None).job) == pytest.approx(0.3)


def test_a_silent_engine_is_named_with_its_reason() -> None:
    found = pool()
    run(found, 0, 4, 0.1, free=True)
    found.fail(SECOND, "cannot be reached", 5.0)
    data = found.data(10.0)
    assert (data["state"], data["present"]) == ("short", 1)
    assert data["message"] == f"{SECOND}: cannot be reached"
    found.fail(FIRST, "cannot be reached", 5.0)
    assert found.data(10.0)["state"] == "silent"


def test_the_cores_of_former_code_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.controller.workers.pool.MOST_CODES", 2)
    found = pool()
    loads = [load(number, 0.2, at=number, code_hash=code) for number, code in enumerate("abac")]
    for each in loads:
        found.learn([each])
    assert [found.cores_of(each.job) is not None for each in loads] == [True, False, True, True]


def measure(rate_in: float, rate_out: float, *, fresh: bool = True, **more: float) -> JobMeasure:
    """A job that takes nothing but its part of an event loop."""
    found = {"rate_in": rate_in, "rate_out": rate_out, "cost": 0.0, "fixed": 0.0, **more}
    values = {name: Value(value, Known.MEASURED, 5.0, 3) for name, value in found.items()}
    return JobMeasure(Estimate(JobProfile(**values)), fresh=fresh)


def test_the_flink_jobs_of_an_engine_divide_its_event_loop_by_their_messages() -> None:
    jobs = {
        name: make_job(name, spe_address=address, engine=engine)
        for name, address, engine in (
            ("a", FIRST, "flink"),
            ("b", FIRST, "flink"),
            ("old", FIRST, "flink"),
            ("c", SECOND, "spark"),
        )
    }
    found = {
        "a": measure(300, 100),
        "b": measure(500, 0),
        "old": measure(9, 9, fresh=False),
        "c": measure(7, 7),
    }
    loops = loop_shares(jobs, found)
    assert loops.keys() == {FIRST}
    loads = [job_load(jobs[name], found[name], 0.5, loops[FIRST]).cores for name in "ab"]
    assert loads == pytest.approx([event_loop_cores(900) / 0.5 * share for share in (4 / 9, 5 / 9)])
    assert job_load(jobs["c"], found["c"], 1.0).cores == 0


def test_the_event_loop_of_an_engine_is_counted_as_it_is_measured_there() -> None:
    jobs = {"a": make_job("a", spe_address=FIRST, engine="flink")}
    jobs["b"] = make_job("b", spe_address=SECOND, engine="flink")
    found = {"a": measure(450, 450, event_loop=0.0011), "b": measure(450, 450)}
    loops = loop_shares(jobs, found)
    assert loops == pytest.approx({FIRST: 0.0011 / 30, SECOND: event_loop_cores(900) / 900})
