from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from speck.core.code import CodeChange
from speck.core.inventory import Inventory
from speck.core.job import JOB_FIELDS, ChangeCost, FieldChange, Job
from speck.core.placement import Expects
from speck.core.plan import Action, Deployed, Keep, Move, Plan, Start, Stop, Update, kind_of, make_plan
from speck.core.runtime import JobState, JobStatus
from speck.errors import InvalidInput
from speck.schema.compositions import load_composition
from testbed.benches.examples import PIPELINES, REGISTRY, job, make_jar
from tests.support.properties import property_test


def by_name(*jobs: Job) -> dict[str, Job]:
    return {each.job_name: each for each in jobs}


def deployed(*jobs: Job) -> dict[str, Deployed]:
    return {each.job_name: Deployed(each) for each in jobs}


def actions(desired: dict[str, Job], stored: dict[str, Deployed], **observed: JobState) -> tuple[Action, ...]:
    statuses = {name: JobStatus(state, observed_at=0.0) for name, state in observed.items()}
    return make_plan("test", 1, desired, stored, statuses).actions


# --- the paper's change (Listings 1.1 and 1.2) ------------------------------------------------------


def test_the_change_of_the_paper(tmp_path: Path) -> None:
    make_jar(tmp_path / "jars_and_apps" / "test-1.jar", "package.ExampleJob")
    before, after = (
        load_composition(
            (PIPELINES / name).read_text(),
            inventory=Inventory(),
            registry=REGISTRY,
            root=tmp_path,
            default_name="figure",
        ).composition
        for name in ("figure3.yaml", "figure4.yaml")
    )
    plan = make_plan(after.name, 3, after.jobs, deployed(*before.jobs.values()))
    to_c2 = (
        FieldChange("sink_broker", "tcp://172.16.193.5:1883", "tcp://172.16.192.19:1883"),
        FieldChange("sink_topic", "T-D-join", "T-C2-count"),
    )
    elsewhere = (FieldChange("spe_address", "http://172.16.193.5:8081/", "http://172.16.194.6:8081/"),)
    assert plan == Plan(
        "figure",
        3,
        (
            Keep(before.jobs["A"], "unchanged"),
            Stop(before.jobs["B"], "no longer in the composition"),
            Update(after.jobs["C"], before.jobs["C"], "sink_broker, sink_topic changed", to_c2),
            Start(after.jobs["C2"], "new in the composition"),
            Move(after.jobs["D"], before.jobs["D"], "spe_address changed", elsewhere),
        ),
    )
    assert plan.counts() == {"start": 1, "stop": 1, "update": 1, "move": 1, "keep": 1}


# --- by position in the graph -----------------------------------------------------------------------

#   root --> middle --> leaf
ROOT, MIDDLE, LEAF = job("root", "in", "t1"), job("middle", "t1", "t2"), job("leaf", "t2", "out")
UNCHANGED = {each.job_name: Keep(each, "unchanged") for each in (ROOT, MIDDLE, LEAF)}
NEW_CODE = (FieldChange("code_hash", "c0de", "beef"),)


def change(*jobs: Job) -> tuple[Action, ...]:
    return actions(by_name(*jobs), deployed(ROOT, MIDDLE, LEAF))


def test_nothing_changed() -> None:
    assert change(ROOT, MIDDLE, LEAF) == (UNCHANGED["leaf"], UNCHANGED["middle"], UNCHANGED["root"])


def test_change_leaf() -> None:
    leaf = replace(LEAF, code_hash="beef")
    updated = Update(leaf, LEAF, "code changed", NEW_CODE)
    assert change(ROOT, MIDDLE, leaf) == (updated, UNCHANGED["middle"], UNCHANGED["root"])


def test_change_middle() -> None:
    middle = replace(MIDDLE, code_hash="beef")
    updated = Update(middle, MIDDLE, "code changed", NEW_CODE)
    assert change(ROOT, middle, LEAF) == (UNCHANGED["leaf"], updated, UNCHANGED["root"])


def test_change_root() -> None:
    root = replace(ROOT, code_hash="beef")
    updated = Update(root, ROOT, "code changed", NEW_CODE)
    assert change(root, MIDDLE, LEAF) == (UNCHANGED["leaf"], UNCHANGED["middle"], updated)


def test_job_removed() -> None:
    stopped = Stop(MIDDLE, "no longer in the composition")
    assert change(ROOT, LEAF) == (UNCHANGED["leaf"], stopped, UNCHANGED["root"])


def test_job_added() -> None:
    added = job("added", "out", "end")
    started = Start(added, "new in the composition")
    assert change(ROOT, MIDDLE, LEAF, added) == (
        started,
        UNCHANGED["leaf"],
        UNCHANGED["middle"],
        UNCHANGED["root"],
    )


def test_job_added_in_between() -> None:
    added, leaf = job("added", "t2", "t3"), replace(LEAF, source_topic="t3")
    assert change(ROOT, MIDDLE, added, leaf) == (
        Start(added, "new in the composition"),
        Update(leaf, LEAF, "source_topic changed", (FieldChange("source_topic", "t2", "t3"),)),
        UNCHANGED["middle"],
        UNCHANGED["root"],
    )


def test_job_renamed() -> None:
    renamed = replace(LEAF, job_name="last")
    assert change(ROOT, MIDDLE, renamed) == (
        Start(renamed, "new in the composition"),
        Stop(LEAF, "no longer in the composition"),
        UNCHANGED["middle"],
        UNCHANGED["root"],
    )


def test_everything_removed() -> None:
    assert [kind_of(each) for each in change()] == ["stop", "stop", "stop"]


# --- by field ---------------------------------------------------------------------------------------

COSTS: dict[str, tuple[Any, str]] = {
    "spe_address": ("http://cloud:8081/", "move"),
    "engine": ("spark", "move"),
    "source_broker": ("tcp://cloud:1883", "update"),
    "source_topic": ("other", "update"),
    "sink_broker": ("tcp://cloud:1883", "update"),
    "sink_topic": ("other", "update"),
    "entry_class": ("package.Other", "update"),
    "arguments": ({"limit": 1}, "update"),
    "parallelism": (2, "update"),
    "trigger": ("2 seconds", "update"),
    "output_mode": ("complete", "update"),
    "timezone": ("Europe/Berlin", "update"),
    "code_hash": ("beef", "update"),
    "job_path": ("elsewhere/test-1.jar", "keep"),
    "site": ("A", "keep"),
    "upgrade": ("stateless", "keep"),
    "restart": ("never", "keep"),
    "on_error": ("skip", "update"),
    "park_topic": ("parked", "update"),
    "start": ("earliest", "update"),
    "retain": (True, "update"),
    "labels": ({"owner": "traffic"}, "keep"),
    "sites": (("A", "D"), "keep"),
    "pin": (True, "keep"),
    "with_job": ("B", "keep"),
    "apart": (("B",), "keep"),
    "expects": (Expects(rate=500.0), "keep"),
    "placed": (("spe_address",), "keep"),
    "split": ({"of": "A", "role": "whole", "window_us": 1, "slide_us": 1}, "update"),
    "query": ({"program": "{}"}, "update"),
    "template": ("*", "keep"),
    "partitions": ({"t": 4}, "keep"),
    "cuts": (("columns", "filter"), "keep"),
}


def test_the_table_has_every_field() -> None:
    assert COSTS.keys() == JOB_FIELDS.keys()


@pytest.mark.parametrize("field", COSTS)
def test_change_of_a_field(field: str) -> None:
    value, kind = COSTS[field]
    before = job("A")
    after = replace(before, **{field: value})
    (action,) = actions(by_name(after), deployed(before))
    assert kind_of(action) == kind
    assert action.job == after
    assert action.changes == (FieldChange(field, getattr(before, field), value),)
    named = "code" if field == "code_hash" else field
    assert action.reason.startswith(f"only {named} changed" if kind == "keep" else f"{named} changed")


def test_a_change_of_the_time_zone_names_the_zone_in_the_state() -> None:
    before = job("A", timezone="Asia/Tokyo")
    note = "timezone changed (what its state has counted by local times of Asia/Tokyo stays as it is)"
    for upgrade, expected in (("stateful", note), ("stateless", "upgrade, timezone changed")):
        after = replace(before, timezone="UTC", upgrade=upgrade)
        (action,) = actions(by_name(after), deployed(before))
        assert (kind_of(action), action.reason) == ("update", expected)


def test_the_worst_grade_decides() -> None:
    before = job("A")
    noted = replace(before, labels={"owner": "traffic"})
    updated = replace(noted, sink_topic="other")
    moved = replace(updated, spe_address="http://cloud:8081/")
    kinds = [kind_of(actions(by_name(each), deployed(before))[0]) for each in (before, noted, updated, moved)]
    assert kinds == ["keep", "keep", "update", "move"]
    assert actions(by_name(moved), deployed(before))[0].reason == "spe_address, sink_topic, labels changed"


def test_a_note_is_a_change_of_the_plan_and_an_unchanged_job_is_none() -> None:
    before = job("A")
    noted = replace(before, labels={"owner": "traffic"})
    assert make_plan("test", 1, by_name(before), deployed(before)).changes == ()
    plan = make_plan("test", 1, by_name(noted), deployed(before))
    assert plan.changes == plan.actions


# --- by what is stored and seen ---------------------------------------------------------------------


def test_a_job_accepted_before_and_never_started_is_started() -> None:
    desired = job("A")
    stored = {"A": Deployed(desired, started=False)}
    assert actions(by_name(desired), stored) == (Start(desired, "accepted, but not started yet"),)


@pytest.mark.parametrize("state", [JobState.LOST, JobState.FAILED, JobState.STOPPED, JobState.FINISHED])
def test_a_job_that_runs_no_more_is_started(state: JobState) -> None:
    before = job("A")
    started = Start(before, f"is {state.value} at http://edge:8081/")
    assert actions(by_name(before), deployed(before), A=state) == (started,)


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.STARTING, JobState.RUNNING])
def test_a_job_that_runs_is_kept(state: JobState) -> None:
    before = job("A")
    assert actions(by_name(before), deployed(before), A=state) == (Keep(before, "unchanged"),)


def test_a_change_of_code_that_the_job_does_not_use_is_told() -> None:
    code = {"A": CodeChange("air.py", same=True)}
    plan = make_plan("test", 1, by_name(job("A")), deployed(job("A")), code=code)
    assert [each.reason for each in plan.actions] == [f"unchanged ({code['A']})"]


def test_a_job_at_an_engine_that_does_not_answer_is_kept_and_said_so() -> None:
    before = job("A")
    retained = Keep(before, "unchanged (http://edge:8081/ does not answer)")
    assert actions(by_name(before), deployed(before), A=JobState.UNKNOWN) == (retained,)


def test_a_move_away_from_an_engine_that_does_not_answer_says_so() -> None:
    before = job("A")
    after = replace(before, spe_address="http://cloud:8081/")
    (moved,) = actions(by_name(after), deployed(before), A=JobState.UNKNOWN)
    assert (kind_of(moved), moved.reason) == (
        "move",
        "spe_address changed (http://edge:8081/ does not answer)",
    )


def test_a_job_that_is_gone_and_changed_is_started_with_its_changes() -> None:
    before = job("A")
    after = replace(before, spe_address="http://cloud:8081/")
    (started,) = actions(by_name(after), deployed(before), A=JobState.LOST)
    assert (kind_of(started), [each.field for each in started.changes]) == ("start", ["spe_address"])


# --- by property ------------------------------------------------------------------------------------

names = some.sampled_from(["a", "b", "c", "d", "e"])
jobs = some.builds(
    job,
    names,
    some.sampled_from(["in", "t1", "t2"]),
    some.sampled_from(["t1", "t2", "out"]),
    spe_address=some.sampled_from(["http://edge:8081/", "http://cloud:8081/"]),
    arguments=some.dictionaries(some.sampled_from(["x", "y"]), some.sampled_from([0, 1, 1.0, True, "1"])),
    parallelism=some.sampled_from([None, 1, 2]),
    labels=some.sampled_from([{}, {"owner": "traffic"}]),
    code_hash=some.sampled_from(["c0de", "beef"]),
)
compositions = some.lists(jobs, max_size=5).map(lambda found: by_name(*found))
stores = some.lists(some.builds(Deployed, jobs, some.booleans()), max_size=5).map(
    lambda found: {each.job.job_name: each for each in found}
)
statuses = some.dictionaries(names, some.sampled_from(JobState).map(lambda state: JobStatus(state, 0.0)))


def carried_out(plan: Plan, stored: dict[str, Deployed]) -> dict[str, Deployed]:
    """The deployment after every action has done what it says, and nothing else."""
    after = dict(stored)
    for action in plan.actions:
        if isinstance(action, Stop):
            del after[action.job.job_name]
        else:
            after[action.job.job_name] = Deployed(action.job)
    return after


@property_test
@given(compositions, stores, statuses)
def test_a_plan_carried_out_reaches_what_is_wanted(
    desired: dict[str, Job], stored: dict[str, Deployed], seen: dict[str, JobStatus]
) -> None:
    after = carried_out(make_plan("test", 1, desired, stored, seen), stored)
    assert after.keys() == desired.keys()
    assert all(each.started for each in after.values())
    for name, each in after.items():
        assert {key: repr(value) for key, value in each.job.arguments.items()} == {
            key: repr(value) for key, value in desired[name].arguments.items()
        }
        assert each.job == desired[name]


@property_test
@given(compositions, stores, statuses)
def test_planning_again_gives_nothing_to_do(
    desired: dict[str, Job], stored: dict[str, Deployed], seen: dict[str, JobStatus]
) -> None:
    after = carried_out(make_plan("test", 1, desired, stored, seen), stored)
    running = {name: JobStatus(JobState.RUNNING, 1.0) for name in after}
    again = make_plan("test", 2, desired, after, running)
    assert again.changes == ()
    assert all(isinstance(each, Keep) for each in again.actions)


@property_test
@given(compositions, stores, statuses, some.randoms(use_true_random=False))
def test_the_order_of_the_file_does_not_matter(
    desired: dict[str, Job], stored: dict[str, Deployed], seen: dict[str, JobStatus], random: Any
) -> None:
    shuffled = list(desired)
    random.shuffle(shuffled)
    reordered = {name: desired[name] for name in shuffled}
    assert make_plan("test", 1, reordered, stored, seen) == make_plan("test", 1, desired, stored, seen)


@property_test
@given(compositions, stores, statuses)
def test_planning_changes_nothing_and_names_each_job_once(
    desired: dict[str, Job], stored: dict[str, Deployed], seen: dict[str, JobStatus]
) -> None:
    desired_before, stored_before = dict(desired), dict(stored)
    plan = make_plan("test", 1, desired, stored, seen)
    assert (desired, stored) == (desired_before, stored_before)
    assert [each.job.job_name for each in plan.actions] == sorted(desired.keys() | stored.keys())
    assert sum(plan.counts().values()) == len(plan.actions)


@property_test
@given(compositions, stores)
def test_every_restart_names_a_field_that_costs_one(
    desired: dict[str, Job], stored: dict[str, Deployed]
) -> None:
    for action in make_plan("test", 1, desired, stored).actions:
        if isinstance(action, Update | Move):
            worst = max(JOB_FIELDS[each.field] for each in action.changes)
            assert worst is (ChangeCost.MOVE if isinstance(action, Move) else ChangeCost.UPDATE)


# --- by cost ----------------------------------------------------------------------------------------


def compared(monkeypatch: pytest.MonkeyPatch, jobs: int) -> int:
    """The number of times that jobs are compared to plan as many unchanged ones."""
    count = 0
    equal = Job.__eq__

    def counting(self: Job, other: object) -> bool:
        nonlocal count
        count += 1
        return equal(self, other)

    desired = by_name(*(job(f"j{n}", f"t{n}", f"t{n + 1}") for n in range(jobs)))
    stored = deployed(*(replace(each) for each in desired.values()))
    with monkeypatch.context() as patched:
        patched.setattr(Job, "__eq__", counting)
        plan = make_plan("test", 1, desired, stored)
    assert plan.changes == ()
    return count


@pytest.mark.parametrize("jobs", [10, 1_000, 10_000])
def test_an_unchanged_job_is_compared_once(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    assert compared(monkeypatch, jobs) == jobs


def test_a_broken_composition_is_never_planned(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        load_composition(
            (PIPELINES / "figure3.yaml").read_text(),
            inventory=Inventory(),
            registry=REGISTRY,
            root=tmp_path,
            default_name="figure",
        )
