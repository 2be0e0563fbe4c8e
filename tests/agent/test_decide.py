"""The decisions of an agent, and the phases of an attempt, as tables and as interleavings of events."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from speck.agent.decide import (
    AGAIN,
    ALONE,
    ASK_AGAIN,
    FIRST_PAUSE,
    LONGEST_AGAIN,
    LONGEST_PAUSE,
    LOOK_AGAIN,
    MOST_FAILURES,
    Missed,
    Step,
    decide,
    given_up,
    pause_after,
    shown,
    superseded,
)
from speck.agent.run_state import NEXT, Phase, Record, accepted
from speck.core.runtime import Attempt, Handle, JobState, State
from testbed.benches.examples import job

PLACE = "http://127.0.0.1:8081"
ATTEMPT = Attempt(id="a" * 32, job_name="clean", number=3, session="speck-clean")
PERMITTED = [each for each in Phase if each.permitted]


def record(phase: Phase, restart: str = "always") -> Record:
    found = accepted(replace(job("clean"), restart=restart), ATTEMPT, PLACE)
    return replace(found, phase=phase)


LOST_BEFORE = Missed(since=100.0)


@pytest.mark.parametrize(
    ("phase", "seen", "missed", "now", "expected"),
    [
        *((each, JobState.LOST, LOST_BEFORE, 102.0, Step.START) for each in PERMITTED),
        *((each, JobState.LOST, LOST_BEFORE, 101.9, Step.KEEP) for each in PERMITTED),
        *((each, JobState.UNKNOWN, LOST_BEFORE, 500.0, Step.KEEP) for each in Phase),
        *((each, JobState.FAILED, LOST_BEFORE, 500.0, Step.KEEP) for each in Phase),
        *((each, JobState.STOPPED, LOST_BEFORE, 500.0, Step.KEEP) for each in Phase),
        *((each, JobState.LOST, LOST_BEFORE, 500.0, Step.KEEP) for each in Phase if not each.permitted),
        (Phase.RUNNING, JobState.LOST, Missed(100.0, next_try=130.0), 129.0, Step.KEEP),
        (Phase.RUNNING, JobState.LOST, Missed(100.0, next_try=130.0), 130.0, Step.START),
        (Phase.RUNNING, JobState.RUNNING, None, 0.0, Step.KEEP),
        (Phase.ACCEPTED, JobState.STARTING, None, 0.0, Step.CONFIRM),
        (Phase.STARTING, JobState.RUNNING, None, 0.0, Step.CONFIRM),
        (Phase.GONE, JobState.RUNNING, None, 0.0, Step.CONFIRM),
    ],
)
def test_the_next_step(
    phase: Phase, seen: JobState, missed: Missed | None, now: float, expected: Step
) -> None:
    assert decide(record(phase), seen, missed, now) is expected


def failing(phase: Phase = Phase.RUNNING, failures: int = 0, restart: str = "always") -> Record:
    """The record of a job that its engine had confirmed."""
    handle = Handle(PLACE, "run")
    return replace(record(phase, restart), handle=handle, run_handle=handle, runs=1, failures=failures)


UNCONFIRMED = replace(failing(Phase.STARTING, failures=1), run_id="b" * 32, run_handle=None)


@pytest.mark.parametrize(
    ("known", "now", "alone", "expected"),
    [
        (failing(), 102.0, ALONE, Step.RETRY),
        (failing(), 101.9, ALONE, Step.KEEP),
        (failing(), 500.0, ALONE - 1, Step.KEEP),
        (failing(), 500.0, 0.0, Step.KEEP),
        (failing(restart="never"), 500.0, ALONE, Step.KEEP),
        (failing(failures=1), 100.0 + AGAIN - 1, ALONE, Step.KEEP),
        (failing(failures=1), 100.0 + AGAIN, ALONE, Step.RETRY),
        (failing(Phase.GONE, failures=1), 500.0, ALONE, Step.RETRY),
        (failing(failures=MOST_FAILURES - 1), 1000.0, ALONE, Step.RETRY),
        (failing(failures=MOST_FAILURES), 1000.0, ALONE, Step.WAIT),
        (failing(Phase.GONE, failures=MOST_FAILURES), 1000.0, ALONE, Step.KEEP),
        (record(Phase.ACCEPTED), 500.0, ALONE, Step.CONFIRM),
        (record(Phase.ACCEPTED), 500.0, 0.0, Step.KEEP),
        (UNCONFIRMED, 500.0, 0.0, Step.CONFIRM),
        *((failing(each), 500.0, ALONE, Step.KEEP) for each in Phase if not each.permitted),
    ],
)
def test_the_next_step_with_a_job_that_has_failed(
    known: Record, now: float, alone: float, expected: Step
) -> None:
    assert decide(known, JobState.FAILED, LOST_BEFORE, now, alone) is expected


def test_starts_after_failures_come_further_apart() -> None:
    pauses = [pause_after(number) for number in range(MOST_FAILURES + 1)]
    assert pauses[:3] == [0.0, AGAIN, 2 * AGAIN]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_AGAIN


def test_a_run_after_a_failure_has_an_id_of_its_own_and_the_numbers_of_the_attempt() -> None:
    gone = replace(failing(), phase=Phase.GONE, failed=True)
    state = State("flink-savepoint", "5")
    first = gone.next_run(state)
    assert first.run.id != ATTEMPT.id
    assert replace(first.run, id=ATTEMPT.id) == replace(ATTEMPT, state=state)
    assert (first.run_handle, first.failures, first.failed) == (None, 1, False)
    second = replace(first.confirmed(Handle(PLACE, first.run.id)).to(Phase.GONE), failed=True).next_run(state)
    assert len({ATTEMPT.id, first.run.id, second.run.id}) == 3
    assert second.handle == gone.handle
    lost = first.confirmed(Handle(PLACE, first.run.id)).to(Phase.GONE).next_run(state)
    assert lost.run.id == first.run.id


def test_a_run_after_one_that_kept_nothing_repeats_its_work() -> None:
    gone = replace(failing(), phase=Phase.GONE, failed=True)
    first = gone.next_run(None)
    assert first.run.lineage == ATTEMPT.id
    again = replace(first.confirmed(Handle(PLACE, first.run.id)).to(Phase.GONE), failed=True)
    assert again.next_run(None).run.lineage == ATTEMPT.id
    assert again.next_run(State("flink-savepoint", "5")).run.lineage == ATTEMPT.id


def test_the_coordinator_sees_the_starts_of_a_job_that_has_failed() -> None:
    assert shown(failing(), JobState.FAILED, "x") == (JobState.FAILED, "x")
    state, message = shown(failing(failures=2), JobState.FAILED, "x")
    assert (state, message) == (JobState.FAILED, "x (after 2 starts of it by the agent, without contact)")


def test_a_job_that_is_not_to_restart_is_left_alone() -> None:
    assert decide(record(Phase.RUNNING, "never"), JobState.LOST, LOST_BEFORE, 500.0) is Step.KEEP
    state, _ = shown(record(Phase.RUNNING, "never"), JobState.LOST, "unknown")
    assert state is JobState.LOST


def test_starts_that_fail_come_further_apart() -> None:
    missed, pauses = Missed(0.0), []
    for _ in range(7):
        missed = missed.failed(0.0)
        pauses.append(missed.next_try)
    assert pauses[0] == FIRST_PAUSE >= LOOK_AGAIN
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE


def test_a_place_that_is_away_is_asked_again_soon() -> None:
    missed = Missed(0.0).failed(0.0)
    for now in (10.0, 100.0, 1000.0):
        missed = missed.waits(now)
        assert missed.next_try == now + ASK_AGAIN
    assert (missed.since, missed.tries) == (0.0, 1)


def test_a_later_attempt_or_a_deletion_takes_the_place() -> None:
    assert superseded(record(Phase.GONE), 3) == superseded(record(Phase.GONE), 0) == ""
    assert "attempt 4" in superseded(record(Phase.GONE), 4)


def test_an_engine_that_refuses_is_left_to_the_coordinator_only_while_it_is_there() -> None:
    refused = Missed(0.0, tries=3)
    assert given_up(refused, in_contact=True)
    assert not given_up(refused, in_contact=False)
    assert not given_up(replace(refused, tries=2), in_contact=True)


def test_the_coordinator_sees_a_job_that_is_started_again_as_starting() -> None:
    gone = replace(record(Phase.GONE), reason="tcp://127.0.0.1:1883: no connection")
    state, message = shown(gone, JobState.LOST, "the engine does not know the job")
    assert state is JobState.STARTING
    assert gone.reason in message
    assert shown(gone, JobState.LOST, "x", durable=False) == (JobState.LOST, "x")
    assert shown(gone, JobState.UNKNOWN, "no answer") == (JobState.UNKNOWN, "no answer")
    ended = replace(record(Phase.ENDED), reason="replaced")
    assert shown(ended, JobState.LOST, "x") == (JobState.FAILED, "replaced")


@pytest.mark.parametrize("phase", list(Phase))
def test_no_way_leads_from_a_stop_to_another_start(phase: Phase) -> None:
    """A stop that is stored ends the permission, unless the engine answers that the job runs on."""
    if phase in (Phase.STOPPED, Phase.ENDED):
        reachable, found = {phase}, set[Phase]()
        while reachable - found:
            found |= reachable
            reachable |= {after for before in reachable for after in NEXT[before]}
        assert found & {Phase.GONE, Phase.STARTING, Phase.ACCEPTED} <= (
            {Phase.GONE, Phase.STARTING} if Phase.STOPPING in found and Phase.RUNNING in found else set()
        )
    with pytest.raises(ValueError, match="accepted after"):
        record(phase).to(Phase.ACCEPTED)


class Model:
    """One attempt at an engine that loses jobs, and an agent that may be killed between any two steps."""

    def __init__(self) -> None:
        self.disk = record(Phase.ACCEPTED)
        self.copies = 0
        self.state, self.stopped, self.fence = 0, False, 3
        self.has_failed = ""  # the id of the run that the engine reports as failed
        self.started_from: list[int] = []

    def _start(self) -> None:
        if self.copies == 0:
            self.copies = 1
            self.started_from.append(self.state)

    def submit(self) -> None:
        if self.disk.phase is Phase.ACCEPTED:
            self._start()
            self.disk = self.disk.confirmed(Handle(PLACE, ATTEMPT.id))

    def work(self) -> None:
        self.state += self.copies

    def lose(self) -> None:
        self.copies = 0

    def stop(self) -> None:
        if not self.disk.phase.over:
            self.disk = self.disk.to(Phase.STOPPING)
        self.disk = self.disk.to(Phase.STOPPED)
        self.copies, self.stopped = 0, True

    def broken_stop(self) -> None:
        if self.disk.phase.permitted:
            self.disk = self.disk.to(Phase.STOPPING)

    def take_over(self) -> None:
        self.fence = 4

    def fail(self) -> None:
        if self.copies:
            self.copies, self.has_failed = 0, self.disk.run.id

    def seen(self) -> JobState:
        if self.copies:
            return JobState.RUNNING
        return JobState.FAILED if self.has_failed == self.disk.run.id else JobState.LOST

    def step(self) -> Step:
        return decide(self.disk, self.seen(), Missed(0.0), 1000.0, ALONE)

    def look(self) -> None:
        step = self.step()
        if step is Step.CONFIRM:
            self.disk = self.disk.confirmed(Handle(PLACE, self.disk.run.id))
        if step not in (Step.START, Step.RETRY):
            return
        if superseded(self.disk, self.fence):
            gone = self.disk if self.disk.phase is Phase.GONE else self.disk.to(Phase.GONE)
            self.disk = gone.to(Phase.ENDED, "replaced")
            return
        gone = replace(self.disk.to(Phase.GONE), failed=self.disk.failed or step is Step.RETRY)
        self.disk = gone.next_run(State("flink-savepoint", str(self.state)))
        assert self.disk.run.id != self.has_failed  # the engine would refuse it
        self._start()
        self.disk = self.disk.confirmed(Handle(PLACE, self.disk.run.id))

    def crash_in_a_start(self) -> None:
        """The agent ends after it has stored the next run, and before it submits it to the engine."""
        step = self.step()
        if step in (Step.START, Step.RETRY) and not superseded(self.disk, self.fence):
            gone = replace(self.disk.to(Phase.GONE), failed=self.disk.failed or step is Step.RETRY)
            self.disk = gone.next_run(State("flink-savepoint", str(self.state)))

    def check(self, before: int) -> None:
        assert self.copies <= 1
        assert self.started_from == sorted(self.started_from)
        started = len(self.started_from) > before
        assert not (started and (self.stopped or self.disk.phase in (Phase.STOPPING, Phase.ENDED)))
        assert not (started and self.fence > 3 and before > 0)


EVENTS = ("submit", "work", "lose", "fail", "stop", "broken_stop", "take_over", "look", "crash_in_a_start")


@pytest.mark.slow("every interleaving of events")
def test_all_interleavings_of_five_events_keep_the_rules() -> None:
    """One copy at a time; none after a stored stop or a higher fence; no start from an older state."""
    for events in itertools.product(EVENTS, repeat=4):
        model = Model()
        model.submit()
        for event in events:
            before = len(model.started_from)
            getattr(model, event)()
            model.check(before)


def test_a_job_that_was_lost_runs_again_after_any_events_without_a_stop() -> None:
    for events in itertools.product(("work", "lose", "fail", "look", "crash_in_a_start"), repeat=4):
        model = Model()
        model.submit()
        for event in (*events, "look", "look"):
            getattr(model, event)()
        assert model.copies == 1
        assert model.disk.phase is Phase.RUNNING
