"""The lifecycle of a job: each event's effect, and the events that do not fit a phase."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.apply.job_events import (
    ActionFailed,
    AttemptAbandoned,
    AttemptDiscarded,
    AttemptIntended,
    AttemptStarted,
    AttemptStopped,
    Confirmed,
    Event,
    FormRestored,
    OrphanAdopted,
    RevisionNoted,
    SessionEnsured,
    SessionIntended,
    SessionsDetached,
    StateFound,
    StatesDiscarded,
    StatesReleased,
    StopRequested,
    TransferBegun,
    TransferCompleted,
    TransferUndone,
)
from speck.apply.job_state import RETAINED_STATES, JobLifecycle, lifecycle_of, transition
from speck.core.lifecycle import AttemptPhase
from speck.core.runtime import Attempt, Handle, State
from speck.store import AttemptRecord, JobRecord, SessionRecord, Store

SESSION = SessionRecord("tcp://b1:1883", "speck-a", "in")
OTHER = SessionRecord("tcp://b2:1883", "speck-a", "in")
HANDLE = Handle("sc://one", "q1")
FIRST = Attempt(id="1" * 32, job_name="a", number=1, session="speck-a")
SECOND = Attempt(id="2" * 32, job_name="a", number=2, session="speck-a")
NEW = JobLifecycle(JobRecord("a", "traffic"))


def state(name: str) -> State:
    return State("flink-savepoint", name, "http://one")


def after(*events: Event, job: JobLifecycle = NEW) -> JobLifecycle:
    for event in events:
        job = transition(job, event)
    return job


INTENDED = after(AttemptIntended(FIRST, 1, SESSION))
RUNNING = after(AttemptStarted(FIRST, HANDLE), job=INTENDED)
STOPPING = after(StopRequested(FIRST, HANDLE), job=RUNNING)


def test_an_attempt_is_intended_then_runs() -> None:
    assert INTENDED.record == JobRecord("a", "traffic", attempts=1, sessions=(SESSION,))
    assert INTENDED.attempts == (AttemptRecord(FIRST, 1, AttemptPhase.INTENDED),)
    assert RUNNING.attempts == (AttemptRecord(FIRST, 1, AttemptPhase.RUNNING, HANDLE),)


def test_a_start_forgets_the_error_and_a_state_that_it_did_not_begin_from() -> None:
    record = replace(INTENDED.record, error="refused", state=state("old"), restart_lineage=("1", "f"))
    started = transition(JobLifecycle(record, INTENDED.attempts), AttemptStarted(FIRST, HANDLE))
    assert started.record == INTENDED.record


def test_a_stop_leaves_a_state_and_a_way_back() -> None:
    stopped = transition(STOPPING, AttemptStopped(FIRST, 1, state("s1"), retained=True))
    assert stopped.attempts == ()
    assert stopped.record.state == state("s1")
    assert stopped.record.retained_states == (state("s1"),)
    assert stopped.record.rollback_revision == 1


def test_a_form_that_has_not_come_up_is_no_way_back() -> None:
    again = after(
        AttemptStopped(FIRST, 1),
        AttemptIntended(SECOND, 2, SESSION),
        AttemptStarted(SECOND, HANDLE),
        StopRequested(SECOND, HANDLE),
        AttemptStopped(SECOND, 2),
        job=STOPPING,
    )
    assert again.record.rollback_revision == 1
    assert transition(again, Confirmed()).record.rollback_revision == 0
    assert transition(STOPPING, AttemptStopped(FIRST, 1, reversible=False)).record.rollback_revision == 0


def test_a_form_that_has_come_up_notes_the_sessions_that_it_leaves_for_good() -> None:
    third = replace(SESSION, name="speck-a-3", topic="elsewhere")
    rewired = after(SessionEnsured(OTHER), SessionIntended(third), SessionEnsured(SESSION), job=RUNNING)
    record = transition(rewired, Confirmed((OTHER, third))).record
    gone = tuple(replace(each, start="") for each in (OTHER, third))
    assert record.sessions == (*gone, SESSION)
    assert record.unmade_sessions == (gone[1],)
    assert transition(rewired, Confirmed()).record == rewired.record
    detached = transition(JobLifecycle(record), SessionsDetached(gone)).record
    assert (detached.sessions, detached.unmade_sessions) == ((SESSION,), ())


def test_a_stop_without_a_state_keeps_the_one_before() -> None:
    job = JobLifecycle(replace(STOPPING.record, state=state("s0")), STOPPING.attempts)
    stopped = transition(job, AttemptStopped(FIRST, 1, restart_lineage=("1", "f")))
    assert (stopped.record.state, stopped.record.restart_lineage) == (state("s0"), ("1", "f"))


def test_a_stop_that_keeps_no_state_makes_garbage_of_it_unless_the_former_form_has_it() -> None:
    here = state("here")
    elsewhere = State(here.kind, here.location, "http://two")
    record = replace(STOPPING.record, state=here, state_source="x")
    stopped = transition(
        JobLifecycle(record, STOPPING.attempts), AttemptStopped(FIRST, 1, unkept=elsewhere)
    ).record
    assert (stopped.state, stopped.state_source, stopped.garbage_states) == (None, "", (elsewhere,))
    assert stopped.rollback_state is None
    record = replace(STOPPING.record, rollback_revision=9, rollback_state=here)
    stopped = transition(
        JobLifecycle(record, STOPPING.attempts), AttemptStopped(FIRST, 1, unkept=elsewhere)
    ).record
    assert (stopped.rollback_state, stopped.garbage_states) == (here, ())


def test_the_state_before_a_form_that_began_without_is_garbage_once_that_has_come_up() -> None:
    record = replace(RUNNING.record, rollback_revision=1, rollback_state=state("before"))
    assert transition(JobLifecycle(record), Confirmed()).record.garbage_states == (state("before"),)
    for kept in (
        replace(record, state=state("before")),
        replace(record, retained_states=(state("before"),)),
    ):
        confirmed = transition(JobLifecycle(kept), Confirmed()).record
        assert (confirmed.garbage_states, confirmed.rollback_state) == ((), None)


def test_the_state_of_a_form_that_is_put_back_stays_its_own_until_a_copy_has_started_from_it() -> None:
    before = state("before")
    tried = JobLifecycle(replace(INTENDED.record, rollback_revision=1, rollback_state=before))
    restored = transition(tried, FormRestored())
    assert (restored.record.state, restored.record.rollback_state) == (before, before)
    # The former form could not be started: the one after it is tried again, without a state.
    again = after(AttemptIntended(SECOND, 2, SESSION), AttemptStarted(SECOND, HANDLE), job=restored)
    assert (again.record.state, again.record.rollback_state) == (None, before)
    back = replace(SECOND, id="3" * 32, number=3, state=before)
    runs = after(FormRestored(), AttemptIntended(back, 1, SESSION), AttemptStarted(back, HANDLE), job=again)
    assert (runs.record.state, runs.record.rollback_state) == (before, None)


def test_a_job_that_goes_releases_all_states_but_that_of_an_abandoned_copy() -> None:
    record = JobRecord("a", "traffic", state=state("s1"), retained_states=(state("s0"),))
    released = transition(JobLifecycle(record), StatesReleased()).record
    assert (released.state, released.garbage_states) == (None, (state("s0"), state("s1")))
    changing = replace(record, state_source="abandoned")
    assert transition(JobLifecycle(changing), StatesReleased()).record.garbage_states == (state("s0"),)


def test_the_oldest_retained_states_become_garbage() -> None:
    job = STOPPING
    for number in range(RETAINED_STATES + 2):
        job = transition(
            JobLifecycle(job.record, STOPPING.attempts),
            AttemptStopped(FIRST, 1, state(f"s{number}"), retained=True),
        )
    assert job.record.retained_states == (state("s2"), state("s3"))
    assert job.record.garbage_states == (state("s0"), state("s1"))
    released = transition(job, StatesReleased()).record
    assert (released.retained_states, len(released.garbage_states)) == ((), 4)
    remaining = transition(JobLifecycle(released), StatesDiscarded((state("s0"), state("s3")))).record
    assert remaining.garbage_states == (state("s1"), state("s2"))


def test_a_transfer_is_garbage_until_it_is_whole() -> None:
    job = JobLifecycle(JobRecord("a", "traffic", state=state("here")))
    begun = transition(job, TransferBegun(state("there")))
    assert (begun.record.state, begun.record.garbage_states) == (state("here"), (state("there"),))
    whole = transition(begun, TransferCompleted(state("there"), state("here")))
    assert (whole.record.state, whole.record.garbage_states) == (state("there"), (state("here"),))
    undone = transition(whole, TransferUndone(state("there"), state("here")))
    assert undone == begun


def test_the_way_back_goes_along_with_a_transfer() -> None:
    job = JobLifecycle(JobRecord("a", "traffic", state=state("here"), rollback_state=state("here")))
    whole = transition(job, TransferCompleted(state("there"), state("here")))
    assert whole.record.rollback_state == state("there")
    undone = transition(whole, TransferUndone(state("there"), state("here")))
    assert undone.record.rollback_state == state("here")


def test_sessions_come_and_go() -> None:
    job = after(SessionEnsured(SESSION), SessionEnsured(OTHER), SessionEnsured(SESSION))
    assert job.record.sessions == (OTHER, SESSION)
    assert after(SessionsDetached((OTHER,)), job=job).record.sessions == (SESSION,)


def test_a_session_is_unmade_until_its_broker_has_it() -> None:
    job = after(SessionEnsured(SESSION), SessionIntended(OTHER))
    assert (job.record.sessions, job.record.unmade_sessions) == ((SESSION, OTHER), (OTHER,))
    assert after(SessionEnsured(OTHER), job=job).record.unmade_sessions == ()
    assert after(SessionsDetached((OTHER,)), job=job).record == after(SessionEnsured(SESSION)).record


def test_an_orphan_takes_the_place_of_all_attempts() -> None:
    orphan = Attempt(id="9" * 32, job_name="a", number=9, session="speck-a")
    record = replace(RUNNING.record, error="gone", state=state("s"), rollback_revision=3)
    adopted = transition(JobLifecycle(record, RUNNING.attempts), OrphanAdopted(orphan, 4, HANDLE))
    assert adopted.attempts == (AttemptRecord(orphan, 4, AttemptPhase.RUNNING, HANDLE),)
    assert adopted.record == replace(RUNNING.record, attempts=9, renumbers=True)


def test_notes() -> None:
    assert after(RevisionNoted(7), job=RUNNING).attempts[0].revision == 7
    assert after(RevisionNoted(7)).attempts == ()
    assert after(ActionFailed("no room")).record.error == "no room"
    assert after(StateFound(state("s"))).record.state == state("s")


@pytest.mark.parametrize("job", [INTENDED, RUNNING, STOPPING])
def test_an_abandoned_attempt_leaves_its_job(job: JobLifecycle) -> None:
    assert transition(job, AttemptAbandoned(FIRST)).attempts == ()


@pytest.mark.parametrize(
    ("job", "event"),
    [
        (NEW, AttemptStarted(FIRST, HANDLE)),
        (RUNNING, AttemptStarted(FIRST, HANDLE)),
        (RUNNING, AttemptDiscarded(FIRST)),
        (RUNNING, AttemptStopped(FIRST, 1)),
        (INTENDED, AttemptStopped(FIRST, 1)),
        (STOPPING, AttemptStarted(FIRST, HANDLE)),
        (NEW, StopRequested(FIRST, HANDLE)),
    ],
)
def test_an_event_that_does_not_fit_is_refused(job: JobLifecycle, event: Event) -> None:
    with pytest.raises(ValueError, match=rf"job 'a': {type(event).__name__} of attempt 1, whose phase is"):
        transition(job, event)


EVENTS = st.sampled_from(
    [
        SessionEnsured(SESSION),
        SessionEnsured(OTHER),
        SessionsDetached((SESSION,)),
        AttemptIntended(FIRST, 1, SESSION),
        AttemptStarted(FIRST, HANDLE),
        AttemptDiscarded(FIRST),
        StopRequested(FIRST, HANDLE),
        AttemptStopped(FIRST, 1, state("s1"), retained=True),
        AttemptAbandoned(FIRST),
        TransferBegun(state("s2")),
        TransferCompleted(state("s2"), state("s1")),
        TransferUndone(state("s2"), state("s1")),
        StatesDiscarded((state("s1"),)),
        StatesReleased(),
        Confirmed(),
    ]
)


@given(st.lists(EVENTS, max_size=30))
def test_what_holds_after_any_events(events: list[Any]) -> None:
    """No state is retained and garbage at once, none twice; no more are retained than the bound."""
    job = NEW
    for event in events:
        if isinstance(event, AttemptIntended) and job.attempts:
            continue  # the applier stops the one before it first
        try:
            job = transition(job, event)
        except ValueError:
            continue
        record = job.record
        assert len(record.retained_states) <= RETAINED_STATES
        assert len(set(record.garbage_states)) == len(record.garbage_states)
        assert not set(record.garbage_states) & set(record.retained_states)
        assert len(set(record.sessions)) == len(record.sessions)
        assert len(job.attempts) <= 1


@pytest.mark.parametrize("number", [1, 2])
def test_a_number_that_an_attempt_has_had_is_not_given_again(number: int) -> None:
    job = after(AttemptIntended(SECOND, 1, SESSION))
    again = replace(FIRST, id="3" * 32, number=number)
    with pytest.raises(
        ValueError, match=rf"job 'a': number {number} of a new attempt is not free \(expected"
    ):
        transition(job, AttemptIntended(again, 1, SESSION))


def test_the_number_of_an_attempt_that_its_record_has_lost_counts(tmp_path: Path) -> None:
    """Stores of before 0.2 may have records whose last write was undone by another thread's."""
    with Store(tmp_path / "s") as store:
        with store.transaction() as transaction:
            transaction.put_job(JobRecord("a", "traffic", attempts=1, incarnation=1, origin=1))
            transaction.put_attempt(AttemptRecord(SECOND, 1))
        found = lifecycle_of(store, "a", "traffic")
    assert found.record == JobRecord("a", "traffic", attempts=2, incarnation=1, origin=1, renumbers=True)
