"""The incarnation and the origin in a job's stamps, which its attempts have from the coordinator."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.apply.job_events import (
    AttemptAbandoned,
    AttemptDiscarded,
    AttemptIntended,
    AttemptStarted,
    AttemptStopped,
    StopRequested,
)
from speck.apply.job_state import JobLifecycle, transition
from speck.apply.stamps import DERIVED, Stamps, next_stamps, stamp_notes
from speck.coordinator import Coordinator, build
from speck.core.job import Job, form_fingerprint
from speck.core.plan import Deployed, make_plan
from speck.core.runtime import Attempt, Handle, State
from speck.core.settings import Settings
from speck.store import JobRecord, SessionRecord, Store
from speck.store.codec import decode_attempt, decode_job, encode_attempt, encode_job
from speck.store.maintenance.backup import archive, restore
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

A = make_job("a")
CHANGED = replace(A, trigger="1 second")
STATE = State("spark-checkpoint", "/state", "sc://e1:1")
RAN = JobRecord("a", "traffic", attempts=4, state=STATE, form=form_fingerprint(A))

# --- the decision


@pytest.mark.parametrize(
    ("job", "record", "continues", "expected"),
    [
        (A, JobRecord("a", "traffic"), False, Stamps(0, 0)),
        (A, RAN, True, Stamps(0, 0)),
        (replace(A, labels={"team": "x"}), RAN, True, Stamps(0, 0)),
        (CHANGED, RAN, True, Stamps(5, 0)),
        (A, replace(RAN, incarnation=3, origin=2), True, Stamps(3, 2)),
        (CHANGED, replace(RAN, incarnation=3, origin=2), True, Stamps(5, 2)),
        (A, RAN, False, Stamps(5, 5)),
        (A, replace(RAN, renumbers=True), True, Stamps(5, 5)),
        (A, replace(RAN, form=""), True, Stamps(5, 0)),
    ],
    ids=[
        *("new", "same form", "only a note changed", "other form", "same form again", "another form again"),
        *("without its state", "restored store", "form not kept yet"),
    ],
)
def test_numbers(job: Job, record: JobRecord, continues: bool, expected: Stamps) -> None:
    assert next_stamps(job, record, continues=continues) == expected


FORMS = [replace(A, trigger=f"{seconds} seconds") for seconds in (1, 2, 3)]
ENDS = st.sampled_from(["stopped", "stopped with a state", "abandoned", "discarded"])


@given(st.lists(st.tuples(st.sampled_from(FORMS), ENDS), max_size=20))
def test_no_two_forms_count_in_one_incarnation(history: list[tuple[Job, str]]) -> None:
    """Over any sequence of starts and ends; and the same form that goes on keeps its incarnation."""
    job, counted, before = JobLifecycle(JobRecord("a", "traffic")), dict[int, Job](), None
    for form, end in history:
        stamps = next_stamps(form, job.record, continues=job.record.state is not None)
        attempt = Attempt(
            id=f"{job.record.attempts:032}",
            job_name="a",
            number=job.record.attempts + 1,
            session="speck-a",
            state=job.record.state,
            incarnation=stamps.incarnation,
            origin=stamps.origin,
        )
        if before == form and job.record.state is not None:
            assert stamps.incarnation == job.record.incarnation
        job = _ended(job, attempt, form, end)
        if end != "discarded":
            assert counted.setdefault(stamps.incarnation, form) == form
            before = form


def _ended(job: JobLifecycle, attempt: Attempt, form: Job, end: str) -> JobLifecycle:
    job = transition(job, AttemptIntended(attempt, 1, SessionRecord("tcp://b1:1883", "speck-a", "in")))
    if end == "discarded":
        return transition(job, AttemptDiscarded(attempt))
    handle = Handle("sc://e1:1", attempt.id)
    job = transition(job, AttemptStarted(attempt, handle))
    if end == "abandoned":
        return transition(job, AttemptAbandoned(attempt, form_fingerprint(form)))
    state = STATE if end == "stopped with a state" else None
    job = transition(job, StopRequested(attempt, handle))
    return transition(job, AttemptStopped(attempt, 1, state, form=form_fingerprint(form)))


def test_the_store_keeps_the_numbers() -> None:
    record = replace(RAN, incarnation=3, origin=2, renumbers=True)
    assert decode_job("a", encode_job(record)) == record
    lifecycle = transition(
        JobLifecycle(record),
        AttemptIntended(
            Attempt(id="1" * 32, job_name="a", number=5, session="speck-a", incarnation=5, origin=2),
            1,
            SessionRecord("tcp://b1:1883", "speck-a", "in"),
        ),
    )
    (attempt,) = lifecycle.attempts
    assert decode_attempt("a/5", encode_attempt(attempt)) == attempt
    assert not lifecycle.record.renumbers


@pytest.mark.parametrize(
    ("desired", "kind", "expected"),
    [
        (CHANGED, None, "messages written since its last state may be delivered twice; none are lost"),
        (CHANGED, "counted", "messages written since its last state may be delivered twice; none are lost"),
        (CHANGED, DERIVED, ""),
        (replace(A, spe_address="sc://e2:1"), None, "messages written since its last state may"),
        (A, None, ""),
        (replace(A, labels={"team": "x"}), None, ""),
    ],
    ids=["unknown", "counted", "derived", "moved", "same", "note changed"],
)
def test_the_plan_says_what_another_form_costs(desired: Job, kind: str | None, expected: str) -> None:
    plan = make_plan("traffic", 1, {"a": desired, "b": make_job("b")}, {"a": Deployed(A)})
    notes = stamp_notes(plan, {"a": kind} if kind else {})
    assert notes.get("a", "").startswith(expected)
    assert bool(notes) == bool(expected)


# --- over engines in memory


@pytest.fixture
def coordinator(tmp_path: Path, world: World) -> Iterator[Coordinator]:
    with Store(tmp_path / "store") as store:
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        coordinator = build(store, double_kinds(world, startup=0.1), settings=settings).coordinator
        coordinator.start()
        yield coordinator
        coordinator.close()


def carry_out(coordinator: Coordinator, job: Job) -> str:
    operation, _ = user.apply(coordinator, composition(job))
    assert operation.wait(30)
    return str(operation.state.value)


def numbers(world: World) -> tuple[int, int, int]:
    (running,) = world.running("a")
    attempt = running.attempt
    return attempt.number, attempt.incarnation, attempt.origin


def test_an_update_begins_an_incarnation_and_a_restart_does_not(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, A)
    assert numbers(world) == (1, 0, 0)
    world.crash("a")
    assert carry_out(coordinator, A) == "succeeded"
    assert numbers(world) == (2, 0, 0)
    assert user.plan(coordinator, composition(A)).consequences == {}
    assert carry_out(coordinator, CHANGED) == "succeeded"
    assert numbers(world) == (3, 3, 0)
    (last,) = coordinator.operations.last(1)
    consequence = coordinator.operations.data(last["id"])["actions"][0]["consequence"]
    assert consequence.startswith("messages written since its last state may be delivered twice")


def test_what_is_put_back_begins_an_incarnation(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, A)
    world.doomed = lambda job: job.trigger is not None
    assert carry_out(coordinator, CHANGED) == "failed"
    assert numbers(world) == (3, 3, 0)


def test_what_died_and_is_started_in_another_form_begins_an_incarnation(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, A)
    world.crash("a")
    assert carry_out(coordinator, CHANGED) == "succeeded"
    assert numbers(world) == (2, 2, 0)


def test_a_start_without_the_state_numbers_its_input_afresh(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, A)
    assert carry_out(coordinator, replace(CHANGED, upgrade="stateless")) == "succeeded"
    assert numbers(world) == (2, 2, 2)


def test_a_left_copy_keeps_its_numbers_from_the_next_form(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, A)
    world.down("sc://e1:1")
    operation, _ = user.apply(
        coordinator, composition(replace(A, spe_address="sc://e2:1")), leave_behind=["sc://e1:1"]
    )
    assert operation.wait(30)
    running = max(world.running("a"), key=lambda each: each.attempt.number).attempt
    assert (running.incarnation, running.origin) == (2, 0)


def test_a_restored_store_numbers_afresh(coordinator: Coordinator, world: World, tmp_path: Path) -> None:
    carry_out(coordinator, A)
    store = coordinator.store
    taken = b"".join(archive(store.records(), store.directory, 0.0, "0"))
    restore(io.BytesIO(taken), "backup", tmp_path / "again")
    with Store(tmp_path / "again") as store:
        record = store.job("a")
        assert record is not None
        assert next_stamps(A, record, continues=True) == Stamps(record.attempts + 1, record.attempts + 1)
