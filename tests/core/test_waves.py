"""The waves of a plan: their sites and jobs, their faults, and their steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from speck.core.job import Job
from speck.core.plan import Deployed, Keep, Plan, make_plan
from speck.core.rewiring import replacements, rewirings
from speck.core.schedule import Step, StepKind, schedule
from speck.core.waves import Wave, refuse_crossed, site_waves, texts_of, waves_data, waves_of
from speck.errors import InvalidInput
from testbed.benches.jobs_by_hand import chain, make_job

SITES = {f"j{number}": f"s{number}" for number in range(1, 6)} | {"outside": ""}
KNOWN = {*SITES.values(), "idle"} - {""}


def updated(*kept: str, names: Sequence[str] = tuple(SITES)) -> Plan:
    """The plan of an update of all jobs but the kept ones."""
    jobs = [make_job(each, f"in-{each}", f"out-{each}") for each in names]
    desired = {
        each.job_name: each if each.job_name in kept else replace(each, trigger="1 second") for each in jobs
    }
    return make_plan("c", 1, desired, {each.job_name: Deployed(each) for each in jobs})


def groups(*texts: str, plan: Plan | None = None) -> list[str]:
    return [" ".join(each.sites) for each in waves_of(texts, plan or updated(), SITES, KNOWN)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), []),
        (("s2",), ["s2", "s1 s3 s4 s5"]),
        (("s2,s4", "s1"), ["s2 s4", "s1", "s3 s5"]),
        ((" s2 , s4 ",), ["s2 s4", "s1 s3 s5"]),
        (("site/s2, s4",), ["s2 s4", "s1 s3 s5"]),
        (("1", "2"), ["s1", "s2 s3", "s4 s5"]),
        (("20%", "50%"), ["s1", "s2 s3 s4", "s5"]),
        (("1%",), ["s1", "s2 s3 s4 s5"]),
        (("s3", "1"), ["s3", "s1", "s2 s4 s5"]),
        (("100%",), ["s1 s2 s3 s4 s5", ""]),
        (("9",), ["s1 s2 s3 s4 s5", ""]),
    ],
)
def test_waves_as_they_are_written(texts: tuple[str, ...], expected: list[str]) -> None:
    """Jobs outside the inventory are in the last one."""
    assert groups(*texts) == expected


def test_a_number_counts_the_sites_with_changes() -> None:
    assert groups("1", plan=updated("j1", "j2")) == ["s3", "s1 s2 s4 s5"]


def test_a_wave_has_all_jobs_of_its_sites_and_one_without_any_is_left_out() -> None:
    plan, sites = updated("b", names=("a", "b", "c")), {"a": "s1", "b": "s1", "c": "s2"}
    found = waves_of(("idle", "s1"), plan, sites, KNOWN)
    assert found == (Wave(("s1",), ("a", "b")), Wave(("s2",), ("c",)))
    assert waves_data(found)[0] == {"number": 1, "sites": ["s1"], "jobs": ["a", "b"]}


def test_the_stored_form_gives_the_same_waves_again() -> None:
    """Also when the first sites are done."""
    found = waves_of(("20%", "50%"), updated(), SITES, KNOWN)
    assert texts_of(found) == ("s1", "s2,s3,s4")
    assert waves_of(texts_of(found), updated("j1", "j2"), SITES, KNOWN) == found


def test_a_resumed_roll_out_keeps_the_number_of_a_wave_whose_jobs_have_gone() -> None:
    plan, sites = updated("b", names=("b", "c")), {"b": "s2", "c": "s3"}
    found = waves_of(("s1", "s2"), plan, sites, KNOWN, resumed=True)
    assert found == (Wave(("s1",), ()), Wave(("s2",), ("b",)), Wave(("s3",), ("c",)))


def test_a_resumed_roll_out_takes_no_name_of_a_site_for_a_number_of_sites() -> None:
    sites, known = {"a": "1", "b": "2", "c": "3"}, ("1", "2", "3")
    names = ("a", "b", "c")
    found = waves_of(("1", "1"), updated(names=names), sites, known)
    assert texts_of(found) == ("1", "2")
    assert waves_of(texts_of(found), updated("a", names=names), sites, known, resumed=True) == found


def test_a_site_whose_name_is_a_number_may_be_a_wave() -> None:
    plan, sites = updated(names=("a", "b", "c")), {"a": "1", "b": "2", "c": "3"}
    waves = waves_of(("site/2",), plan, sites, ("1", "2", "3"))
    assert [each.sites for each in waves] == [("2",), ("1", "3")]
    assert site_waves(("site/2",), ("1", "2", "3"), ("1", "2", "3")) == [("2",), ("1", "3")]


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (("s9",), "names 's9', which is not a site of the inventory"),
        (("s1,",), "names '', which is not a site"),
        (("site/9",), "names '9', which is not a site"),
        (("",), "names '', which is not a site"),
        (("0",), r"wave '0' has no sites \(expected 1 or more, or 1% to 100%\)"),
        (("101%",), "wave '101%' has no sites"),
        (("s1", "s2,s1"), "names site 's1', which an earlier wave has"),
    ],
)
def test_waves_that_are_none_are_refused(texts: tuple[str, ...], fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        groups(*texts)


# --- their order

A, B, C = chain("a", "b", "c")


def steps_of(former: list[Job], desired: list[Job], *waves: str) -> tuple[Step, ...]:
    stored = {each.job_name: Deployed(each) for each in former}
    plan = make_plan("c", 1, {each.job_name: each for each in desired}, stored)
    return schedule(plan, waves=[each.split() for each in waves])


def needs(steps: Sequence[Step], kind: StepKind, subject: str) -> set[str]:
    (found,) = [each for each in steps if each.key == (kind, subject)]
    return {f"{kind} {subject}" for kind, subject in found.needs}


def newer(*jobs: Job) -> list[Job]:
    return [replace(each, trigger="1 second") for each in jobs]


def test_no_job_of_a_wave_is_touched_before_the_one_before_has_settled() -> None:
    steps = steps_of([A, B, C], newer(A, B, C), "c", "a b")
    assert needs(steps, StepKind.SETTLE, "1") == {"await_running c"}
    assert needs(steps, StepKind.ACT, "c") == {"prepare c"}
    assert "settle 1" in needs(steps, StepKind.ACT, "a") & needs(steps, StepKind.ACT, "b")
    assert needs(steps, StepKind.PREPARE, "a") == {f"broker {A.source_broker}"}  # which touches no copy


def test_each_wave_settles_but_the_last() -> None:
    steps = steps_of([A, B, C], newer(A, B, C), "a", "b", "c")
    assert [each.subject for each in steps if each.kind is StepKind.SETTLE] == ["1", "2"]
    assert needs(steps, StepKind.SETTLE, "2") == {"settle 1", "await_running b"}
    assert "settle 2" in needs(steps, StepKind.ACT, "c")


def test_a_wave_whose_jobs_are_done_settles_again() -> None:
    """As after a crash between two waves."""
    steps = steps_of([*newer(A), B], newer(A, B), "a", "b")
    assert needs(steps, StepKind.SETTLE, "1") == set()
    assert "settle 1" in needs(steps, StepKind.ACT, "b")


def test_one_wave_is_as_none() -> None:
    assert steps_of([A, B], newer(A, B), "a b") == steps_of([A, B], newer(A, B))


def test_a_drain_waits_too() -> None:
    moved = [replace(A, sink_topic="x"), replace(B, source_topic="x"), C]
    steps = steps_of([A, B, C], moved, "a c", "b")
    assert needs(steps, StepKind.DRAIN, "b") == {"prepare b", "await_running a", "settle 1"}


class ReadWave(list[str]):
    """The jobs of a wave, which counts how often they are read."""

    reads = 0

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        return super().__iter__()


def test_the_jobs_of_a_wave_are_not_read_for_each_job() -> None:
    """A roll-out of 10,000 jobs would read them 10,000 times."""
    names = [f"j{number}" for number in range(100)]
    waves = [ReadWave(names[:50]), ReadWave(names[50:])]
    schedule(updated(names=names), waves=waves)
    assert max(each.reads for each in waves) <= 3


def test_a_job_that_waits_for_a_later_wave_is_refused() -> None:
    former = {each.job_name: Deployed(each) for each in (A, B)}
    desired = {"a": replace(A, sink_topic="x"), "b": replace(B, source_topic="x")}
    plan = make_plan("c", 1, desired, former)
    actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
    waves = Wave(("s1",), ("b",)), Wave(("s2",), ("a",))
    with pytest.raises(InvalidInput, match=r"leaves its source in wave 1, and its writer 'a' in wave 2"):
        refuse_crossed(waves, rewirings(actions), {})
    refuse_crossed(waves[::-1], rewirings(actions), {})


def test_a_query_does_not_begin_in_its_other_form_before_a_later_wave_ends_the_former_one() -> None:
    whole = make_job("q", query={"program": "q"})
    rest = make_job("q.rest", query={"program": "r", "of": "q", "role": "rest"})
    plan = make_plan("c", 1, {"q.rest": rest}, {"q": Deployed(whole)})
    replaced = replacements({each.job.job_name: each for each in plan.actions})
    assert replaced == {"q.rest": {"q"}}
    waves = Wave(("s1",), ("q.rest",)), Wave(("s2",), ("q",))
    with pytest.raises(InvalidInput, match=r"starts in wave 1 and replaces job 'q', which stops in wave 2"):
        refuse_crossed(waves, {}, replaced)
    refuse_crossed(waves[::-1], {}, replaced)
    assert groups_of_steps(plan, "q", "q.rest")


def groups_of_steps(plan: Plan, *waves: str) -> bool:
    """True if each step of the waves comes after those that it needs."""
    done: set[object] = set()
    for step in schedule(plan, waves=[each.split() for each in waves]):
        assert step.needs <= done, step
        done.add(step.key)
    return True


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), ["s1", "s2 s3 s4"]),
        (("50%",), ["s1 s2", "s3 s4"]),
        (("s3", "1", "1"), ["s3", "s1", "s2", "s4"]),
        (("idle,s2",), ["s2", "s1 s3 s4"]),
        (("idle",), ["s1 s2 s3 s4"]),
        (("9",), ["s1 s2 s3 s4"]),
    ],
)
def test_the_waves_of_sites_themselves(texts: tuple[str, ...], expected: list[str]) -> None:
    """Of the sites that change: a wave may name others, which is as if it did not."""
    found = site_waves(texts, {"s4", "s3", "s2", "s1"}, KNOWN)
    assert [" ".join(each) for each in found] == expected


def test_no_site_changes() -> None:
    assert site_waves((), (), KNOWN) == []
    with pytest.raises(InvalidInput, match="'s9', which is not a site"):
        site_waves(("s9",), (), KNOWN)
