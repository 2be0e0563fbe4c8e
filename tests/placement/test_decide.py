"""Decisions of the adaptation loop, as a table: each trigger, each hold, each verdict."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from speck.core.adaptation import (
    ENTRIES,
    AdaptationState,
    Ban,
    Decision,
    StepOutcome,
    StepRecord,
    Streak,
    Trigger,
)
from speck.core.lifecycle import OperationState
from speck.core.placement import PlacementOptions
from speck.placement.adaptation import limits, triggers, verdict
from speck.placement.adaptation.decide import (
    LONGEST_REASON,
    Advise,
    Hold,
    Revert,
    Step,
    decide,
    with_hold,
    with_refusal,
)
from speck.placement.adaptation.situation import Candidate, Progress, Realised, Situation
from speck.placement.adaptation.triggers import Watch
from speck.placement.profile import Known, LinkProfile, Value
from speck.store.codec import decode_adaptation, encode_adaptation

NOW = 1_000_000.0
GOOD = Candidate(
    jobs=("clean", "count"),
    source="D",
    target="A",
    gain=0.4,
    objective=0.6,
    age_p95=0.1,
    multiplier=6.0,
    utilisation=0.3,
    pays_after=40.0,
)
SEEN = Situation(
    revision=3,
    options=PlacementOptions(mode="auto"),
    objective=1.0,
    age_p95=0.2,
    multiplier=2.0,
    gain=0.4,
    rates={"clean": 100.0, "count": 50.0},
    candidates=(GOOD,),
)
READY = AdaptationState(revision=3, streak=Streak(jobs=GOOD.jobs, target="A", count=2))
STEP = StepRecord(
    jobs=GOOD.jobs,
    source="D",
    target="A",
    at=NOW,
    due=0.0,
    objective=1.0,
    predicted=0.6,
    age_p95=0.2,
    revision=4,
    operation="op",
)
DONE = Progress(state=OperationState.SUCCEEDED, ended=NOW + 5)
REALISED = Realised(
    objective=0.6,
    without=1.0,
    age_p95=0.1,
    age_p95_without=0.2,
    multiplier=6.0,
    multiplier_without=2.0,
)


def past_step(at: float) -> StepRecord:
    return replace(STEP, at=at, due=at, outcome=StepOutcome.KEPT)


def test_third_decision_for_the_same_step_takes_it() -> None:
    memory = AdaptationState(revision=3)
    found = []
    for minute in range(3):
        answer, memory = decide(memory, SEEN, NOW + 60 * minute)
        found.append(type(answer))
    assert found == [Hold, Hold, Step]
    assert memory.pending is not None
    assert (memory.pending.objective, memory.pending.predicted, memory.pending.revision) == (1.0, 0.6, 4)
    assert [each.decision for each in memory.entries] == [Decision.HOLD, Decision.HOLD, Decision.STEP]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hold": "an operation is in progress"}, "an operation is in progress"),
        ({"candidates": ()}, "no placement is better"),
        (
            {"candidates": (replace(GOOD, gain=0.1),), "gain": 0.1},
            "a gain of 10% of the objective is below 15%",
        ),
        (
            {"candidates": (replace(GOOD, gain=0.01),), "gain": 0.4},
            "a gain of 1% of the objective by one step",
        ),
        ({"candidates": (replace(GOOD, gain=math.nan),)}, "not finite"),
        ({"candidates": (replace(GOOD, utilisation=0.61),)}, "A would be at 61% of its cores"),
        ({"candidates": (replace(GOOD, utilisation=math.nan),)}, "not finite"),
        ({"candidates": (replace(GOOD, pays_after=1900.0),)}, "break even after 1900 s (at most 1800 s)"),
        ({"candidates": (replace(GOOD, pays_after=math.nan),)}, "break even after"),
        ({"candidates": (replace(GOOD, refused="the link A-D is assumed"),)}, "the link A-D is assumed"),
        ({"candidates": (replace(GOOD, target="B"),)}, "is the best in 1 of 3 decisions"),
        ({"candidates": (replace(GOOD, jobs=("clean",)),)}, "is the best in 1 of 3 decisions"),
        ({"moving": 2}, "2 other steps are in progress"),
        ({"revision": 4}, "is the best in 1 of 3 decisions"),
        ({"applied": True}, "is the best in 1 of 3 decisions"),
    ],
)
def test_holds(change: dict[str, Any], reason: str) -> None:
    answer, memory = decide(READY, replace(SEEN, **change), NOW)
    assert isinstance(answer, Hold)
    assert reason in answer.reason
    assert memory.pending is None
    assert memory.entries[-1].reason == answer.reason


@pytest.mark.parametrize(
    ("memory", "reason"),
    [
        (replace(READY, paused=NOW + 1), "paused"),
        (replace(READY, steps=(past_step(NOW - 299),)), "the last step is less than 300 s ago"),
        (
            replace(
                READY, bans=(Ban(jobs=("clean",), target="A", until=NOW + 1, times=1, reason="it was slow"),)
            ),
            "is banned: it was slow",
        ),
    ],
)
def test_memories_that_hold(memory: AdaptationState, reason: str) -> None:
    answer, after = decide(memory, SEEN, NOW)
    assert isinstance(answer, Hold)
    assert reason in answer.reason
    assert after.pending is None


@pytest.mark.parametrize(
    "memory",
    [
        READY,
        replace(READY, paused=NOW),
        replace(READY, steps=(past_step(NOW - 300),)),
        replace(READY, bans=(Ban(jobs=("clean",), target="A", until=NOW, times=1, reason="over"),)),
        replace(READY, bans=(Ban(jobs=("other",), target="A", until=NOW + 1, times=1, reason="other"),)),
        replace(READY, bans=(Ban(jobs=("clean",), target="B", until=NOW + 1, times=1, reason="other"),)),
    ],
)
def test_memories_that_do_not_hold(memory: AdaptationState) -> None:
    assert isinstance(decide(memory, SEEN, NOW)[0], Step)


def test_a_banned_step_gives_way_to_the_next_one() -> None:
    other = replace(GOOD, target="B")
    memory = limits.with_ban(READY, Ban(jobs=GOOD.jobs, target="A", until=NOW + 1, times=1, reason="slow"))
    memory = replace(memory, streak=Streak(jobs=other.jobs, target="B", count=2))
    answer, _ = decide(memory, replace(SEEN, candidates=(GOOD, other)), NOW)
    assert isinstance(answer, Step)
    assert answer.about is other


def test_several_small_steps_may_reach_the_least_gain_together() -> None:
    small = replace(GOOD, gain=0.06)
    assert isinstance(decide(READY, replace(SEEN, candidates=(small,), gain=0.2), NOW)[0], Step)


@pytest.mark.parametrize(
    ("now", "after", "lag", "taken"),
    [
        (0.9, 1.2, True, True),
        (0.9, 1.2, False, False),  # nothing falls behind
        (0.9, 1.05, True, False),
        (1.06, 1.2, True, True),  # what is full measures as nearly full
        (1.2, 1.3, True, False),
        (1.26, 2.0, True, False),  # nothing is nearly full
        (1.06, 1.2, False, False),
    ],
)
def test_emergency_takes_one_decision(now: float, after: float, lag: bool, taken: bool) -> None:
    seen = replace(
        SEEN, multiplier=now, lagging=["clean"] if lag else [], candidates=(replace(GOOD, multiplier=after),)
    )
    answer, _ = decide(AdaptationState(revision=3, steps=(past_step(NOW - 61),)), seen, NOW)
    assert isinstance(answer, Step if taken else Hold)


def test_emergency_may_need_several_steps() -> None:
    step = replace(GOOD, multiplier=0.9)
    seen = replace(SEEN, multiplier=0.9, lagging=["clean"], candidates=(step,))
    assert isinstance(decide(AdaptationState(revision=3), seen, NOW)[0], Hold)
    assert isinstance(decide(AdaptationState(revision=3), replace(seen, reachable=1.2), NOW)[0], Step)


def test_a_move_away_from_what_is_full_need_not_pay_back() -> None:
    endless = replace(GOOD, pays_after=math.inf, multiplier=1.0)
    seen = replace(SEEN, candidates=(endless,))
    assert isinstance(decide(READY, replace(seen, multiplier=1.0), NOW)[0], Step)
    assert isinstance(decide(READY, replace(seen, multiplier=1.06), NOW)[0], Hold)
    nearly = replace(seen, multiplier=1.2, candidates=(replace(endless, multiplier=1.2),))
    assert isinstance(decide(READY, nearly, NOW)[0], Hold)
    assert isinstance(decide(READY, replace(nearly, lagging=["clean"]), NOW)[0], Step)


def test_near_equal_steps_do_not_break_the_row() -> None:
    other, memory = replace(GOOD, target="B"), AdaptationState(revision=3)
    for number, order in enumerate(((GOOD, other), (other, GOOD), (other, GOOD))):
        answer, memory = decide(memory, replace(SEEN, candidates=order), NOW + 60 * number)
    assert isinstance(answer, Step)
    assert answer.about is GOOD


def test_emergency_has_a_cooldown_of_its_own() -> None:
    seen = replace(SEEN, multiplier=0.5, lagging=["clean"])
    answer, _ = decide(AdaptationState(revision=3, steps=(past_step(NOW - 59),)), seen, NOW)
    assert isinstance(answer, Hold)
    assert answer.reason == "the last step is less than 60 s ago"


def test_a_break_in_a_row_begins_it_anew() -> None:
    memory = READY
    for seen in (replace(SEEN, hold="the rate of job 'clean' is not of the last minute"), SEEN, SEEN):
        answer, memory = decide(memory, seen, NOW)
        assert isinstance(answer, Hold)
    assert isinstance(decide(memory, SEEN, NOW)[0], Step)


def test_late_samples_of_its_jobs_do_not_end_a_row() -> None:
    late = replace(SEEN, candidates=(), gain=0.0, undecidable=GOOD.jobs, awaited=GOOD.jobs, stale="no rate")
    answer, memory = decide(READY, late, NOW)
    assert answer == Hold("no placement is better; no rate")
    assert memory.streak == READY.streak
    assert isinstance(decide(memory, SEEN, NOW)[0], Step)
    _, memory = decide(READY, replace(late, awaited=()), NOW)  # they have been missing for long
    assert memory.streak is None


def test_the_jobs_without_a_fresh_rate_are_named_beside_the_objection() -> None:
    narrow = replace(SEEN, candidates=(replace(GOOD, refused="no room"),), undecidable={"x"}, stale="no rate")
    answer, _ = decide(READY, narrow, NOW)
    assert answer == Hold("no room; no rate", narrow.candidates[0])


# --- advice


def test_silent_site_is_advised_upon_and_nothing_else() -> None:
    answer, memory = decide(READY, replace(SEEN, silent={"C": "no answer"}), NOW)
    assert isinstance(answer, Advise)
    assert "--leave-behind C" in answer.reason
    assert "discards" in answer.reason
    assert memory.streak is None


def test_a_least_gain_of_zero_is_no_gain_by_other_topics() -> None:
    options = replace(SEEN.options, min_gain=0.0)
    answer, _ = decide(READY, replace(SEEN, candidates=(), gain=0.0, options=options), NOW)
    assert answer == Hold("no placement is better")


def test_topics_are_moved_by_users_alone() -> None:
    answer, _ = decide(READY, replace(SEEN, candidates=(), gain=0.0, rewires=0.3), NOW)
    assert isinstance(answer, Advise)
    assert "speck advise" in answer.reason


@pytest.mark.parametrize(
    "steps",
    [
        tuple(past_step(NOW - 3599 + 301 * number) for number in range(6)),
        tuple(past_step(NOW - 86_399 + 3700 * number) for number in range(20)),
    ],
    ids=["hour", "day"],
)
def test_beyond_its_limits_the_loop_falls_to_advice(steps: tuple[StepRecord, ...]) -> None:
    answer, memory = decide(replace(READY, steps=steps), SEEN, NOW)
    assert isinstance(answer, Advise)
    assert memory.advise_only_until > NOW
    again, memory = decide(memory, SEEN, NOW + 0.5)
    assert isinstance(again, Advise)
    assert "speck advise" in again.reason
    later, _ = decide(replace(memory, streak=READY.streak), SEEN, memory.advise_only_until + 1)
    assert isinstance(later, Step)


def test_the_advice_of_an_hour_ends_when_a_user_raises_the_limit() -> None:
    steps = tuple(past_step(NOW - 3599 + 301 * number) for number in range(6))
    _, memory = decide(replace(READY, steps=steps), SEEN, NOW)
    assert memory.advise_only_until > NOW
    raised = replace(SEEN, options=replace(SEEN.options, steps_per_hour=7))
    answer, lifted = decide(replace(memory, streak=READY.streak), raised, NOW + 0.5)
    assert isinstance(answer, Step)
    assert lifted.advise_only_until == 0


def test_a_raised_limit_of_the_hour_leaves_that_of_the_day() -> None:
    steps = tuple(past_step(NOW - 86_399 + 3700 * number) for number in range(20))
    _, memory = decide(replace(READY, steps=steps), SEEN, NOW)
    raised = replace(SEEN, options=replace(SEEN.options, steps_per_hour=60))
    answer, later = decide(replace(memory, streak=READY.streak), raised, NOW + 0.5)
    assert isinstance(answer, Advise)
    assert later.advise_only_until == memory.advise_only_until


def test_ways_back_do_not_count_as_steps() -> None:
    steps = tuple(replace(past_step(NOW - 3000 + number), back=True) for number in range(10))
    assert isinstance(decide(replace(READY, steps=steps), SEEN, NOW)[0], Step)


# --- verdicts


def judged(realised: Realised | None, windows: int = 3, **pending: Any) -> tuple[Any, AdaptationState]:
    memory = AdaptationState(revision=3, steps=(replace(STEP, **pending),))
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, realised=realised)
    answer, memory = decide(memory, seen, NOW + 6)
    for number in range(windows):
        answer, memory = decide(memory, seen, NOW + 5 + 30 + 20 * (number + 1))
    return answer, memory


def test_a_step_that_holds_is_kept_after_three_windows() -> None:
    answer, memory = judged(REALISED)
    assert isinstance(answer, Hold)
    assert "the step is kept: it gains 40%" in answer.reason
    assert memory.pending is None
    assert memory.steps[-1].outcome is StepOutcome.KEPT
    assert (memory.steps[-1].windows, memory.steps[-1].good) == (3, 3)


def test_each_window_has_a_sample_of_its_own() -> None:
    """If jobs are sampled every 100 s, a window is as long."""
    memory = AdaptationState(revision=3, steps=(STEP,))
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, realised=REALISED, interval=100.0)
    due = NOW + 5 + 30
    _, memory = decide(memory, seen, NOW + 6)
    for seconds, windows in ((20, 0), (99, 0), (100, 1), (150, 1), (199, 1), (200, 2)):
        _, memory = decide(memory, seen, due + seconds)
        assert memory.steps[-1].windows == windows
    answer, _ = decide(memory, seen, due + 300)
    assert "the step is kept" in answer.reason


@pytest.mark.parametrize(("interval", "lasting"), [(10.0, 30.0), (25.0, 50.0), (100.0, 200.0)])
def test_a_trigger_has_lasted_for_three_samples(interval: float, lasting: float) -> None:
    watch, full = Watch(), (Trigger.LINK, "A")
    watch, _ = watch.with_next([full], NOW, interval)
    for seconds, reported in ((lasting - 1, []), (lasting, [full])):
        assert watch.with_next([full], NOW + seconds, interval)[1] == reported


@pytest.mark.parametrize(
    ("realised", "why"),
    [
        (replace(REALISED, objective=0.85), "it gains 15% of the objective, 40% was predicted"),
        (replace(REALISED, objective=1.2), "it gains -20%"),
        (replace(REALISED, objective=math.nan), "it gains nan%"),
        (replace(REALISED, age_p95=0.23), "the age of results (p95) is 0.23 s, it was 0.2 s"),
        (replace(REALISED, multiplier=0.9), "the rates are not sustained (multiplier 0.9)"),
        (replace(REALISED, lag_grows=True), "jobs have fallen behind since the step"),
    ],
)
def test_a_step_that_does_not_hold_goes_back_once_and_is_banned(realised: Realised, why: str) -> None:
    answer, memory = judged(realised)
    assert isinstance(answer, Revert)
    assert why in answer.reason
    assert [each.outcome for each in memory.steps] == [StepOutcome.BACK, StepOutcome.PENDING]
    assert memory.steps[-1].back
    assert (memory.steps[-1].source, memory.steps[-1].target) == ("A", "D")
    [ban] = memory.bans
    assert (ban.jobs, ban.target, ban.times) == (GOOD.jobs, "A", 1)
    assert ban.until == NOW + 95 + 600
    seen = replace(SEEN, revision=5, automatic=True, progress=DONE, realised=realised)
    after, memory = decide(memory, seen, NOW + 100)
    assert isinstance(after, Hold)
    assert memory.pending is None
    assert [each.outcome for each in memory.steps] == [StepOutcome.BACK, StepOutcome.KEPT]


@pytest.mark.parametrize("without", [0.5, 1.2])
def test_step_out_of_an_overload_is_kept_while_its_backlog_lasts(without: float) -> None:
    lagging = replace(
        REALISED, multiplier=without * 1.8, multiplier_without=without, age_p95=0.5, lag_grows=True
    )
    answer, memory = judged(lagging, lagging=("clean",))
    assert isinstance(answer, Hold)
    assert memory.steps[-1].outcome is StepOutcome.KEPT
    answer, _ = judged(replace(lagging, multiplier_without=1.3, multiplier=2.0), lagging=("clean",))
    assert isinstance(answer, Revert)


def test_a_backlog_that_began_with_the_step_is_no_sign_of_an_overload_before_it() -> None:
    found = replace(REALISED, multiplier=2.0, multiplier_without=1.2, lag_grows=True)
    assert isinstance(judged(found)[0], Revert)
    assert isinstance(judged(found, lagging=("clean",))[0], Hold)


def test_a_step_records_the_jobs_that_fell_behind_before_it() -> None:
    _, memory = decide(READY, replace(SEEN, lagging=["count", "clean"]), NOW)
    assert memory.pending is not None
    assert memory.pending.lagging == ("clean", "count")
    stored = memory.to_dict()
    assert AdaptationState.from_dict(json.loads(json.dumps(stored))) == memory
    del stored["steps"][-1]["lagging"]  # that of a former version
    assert AdaptationState.from_dict(stored).steps == (replace(memory.pending, lagging=()),)


def test_nothing_moves_while_a_job_works_off_a_backlog() -> None:
    memory = AdaptationState()
    for number in range(6):
        answer, memory = decide(memory, replace(SEEN, draining=["clean"]), NOW + 60 * number)
        assert isinstance(answer, Hold)
        assert answer.reason == "job clean is processing a backlog"
    assert memory.streak is None


def test_growth_of_the_load_is_no_regret() -> None:
    answer, _ = judged(replace(REALISED, multiplier=0.8, multiplier_without=0.5))
    assert isinstance(answer, Hold)
    answer, _ = judged(replace(REALISED, age_p95=0.5, age_p95_without=0.6))
    assert isinstance(answer, Hold)


def test_one_bad_window_of_three_is_forgiven() -> None:
    memory = AdaptationState(revision=4, steps=(replace(STEP, due=NOW, looked=NOW),))
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE)
    answers = []
    for number, found in enumerate((REALISED, replace(REALISED, objective=2.0), REALISED)):
        answer, memory = decide(memory, replace(seen, realised=found), NOW + 20 * (number + 1))
        answers.append(answer)
    assert isinstance(answers[-1], Hold)
    assert memory.steps[-1].outcome is StepOutcome.KEPT


def test_a_step_is_not_judged_without_fresh_figures() -> None:
    _, memory = judged(None, windows=30)
    assert memory.pending is not None
    assert memory.pending.windows == 0
    assert "cannot be evaluated yet: no fresh figures" in memory.entries[-1].reason


def test_a_step_is_judged_by_the_rates_of_its_own_jobs_and_those_beside_them() -> None:
    memory = AdaptationState(revision=4, steps=(replace(STEP, due=NOW, looked=NOW),))
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, realised=REALISED, stale="no rate")
    for jobs, windows in ((("other",), 1), (GOOD.jobs[:1], 0)):
        answer, after = decide(memory, replace(seen, undecidable=jobs), NOW + 20)
        assert after.pending is not None
        assert after.pending.windows == windows
    assert answer == Hold("the step cannot be evaluated yet: no rate")


def test_a_step_waits_a_quarter_of_an_hour_for_messages() -> None:
    memory = AdaptationState(revision=4, steps=(replace(STEP, due=NOW, looked=NOW),))
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, realised=replace(REALISED, objective=2.0))
    seen = replace(seen, undecidable=["clean"], idle=["clean"], stale="no message reaches job 'clean'")
    answer, after = decide(memory, seen, NOW + 899)
    assert answer == Hold("the step cannot be evaluated yet: no message reaches job 'clean'")
    assert after.pending == memory.pending
    answer, after = decide(memory, seen, NOW + 900)
    assert answer == Hold("the step is kept without an evaluation: no message reaches its jobs")
    assert after.steps[-1].outcome is StepOutcome.KEPT
    assert isinstance(decide(after, SEEN, NOW + 960)[0], Hold)


def test_a_step_without_figures_for_a_quarter_of_an_hour_is_kept_as_it_is() -> None:
    """As of a site that the inventory has no longer, or of an engine that reports no metrics."""
    memory = AdaptationState(revision=4, steps=(replace(STEP, due=NOW, looked=NOW),))
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, realised=None)
    reasons = []
    for after in (20, 400, 919, 920):
        answer, memory = decide(memory, seen, NOW + after)
        assert isinstance(answer, Hold)
        reasons.append(answer.reason)
    assert reasons[:-1] == ["the step cannot be evaluated yet: no fresh figures"] * 3
    assert reasons[-1] == "the step is kept without an evaluation: no fresh figures"
    assert memory.steps[-1].outcome is StepOutcome.KEPT


@pytest.mark.parametrize("paused", [0.0, NOW + 999])
def test_a_hold_or_a_pause_does_not_count_as_a_time_without_figures(paused: float) -> None:
    memory = AdaptationState(revision=4, steps=(replace(STEP, due=NOW, looked=NOW),))
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, realised=None)
    _, memory = decide(memory, seen, NOW + 20)
    hold = "" if paused else "the server started"
    _, memory = decide(replace(memory, paused=paused), replace(seen, hold=hold), NOW + 990)
    answer, memory = decide(memory, seen, NOW + 1000)
    assert answer == Hold("the step cannot be evaluated yet: no fresh figures")
    assert memory.pending is not None


@pytest.mark.parametrize(("catch_up", "seconds"), [(0.0, 30.0), (40.0, 80.0), (1000.0, 300.0)])
def test_a_step_settles_before_it_is_judged(catch_up: float, seconds: float) -> None:
    _, memory = judged(REALISED, windows=0, catch_up=catch_up)
    assert memory.pending is not None
    assert memory.pending.due == NOW + 5 + seconds == verdict.due(NOW + 5, catch_up)


def test_bans_double_up_to_a_day() -> None:
    memory, times = AdaptationState(), []
    for number in range(12):
        ban = limits.ban_of(memory, STEP, "slow", NOW + number)
        memory = limits.with_ban(memory, ban)
        times.append(ban.until - NOW - number)
    assert times[:4] == [600, 1200, 2400, 4800]
    assert times[-1] == 86_400
    assert len(memory.bans) == 1


def test_jobs_that_fail_at_the_target_miss_a_window() -> None:
    memory = AdaptationState(revision=4, steps=(replace(STEP, due=NOW, looked=NOW),))
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, hold="job 'clean' waits")
    for window in (1, 2):
        answer, memory = decide(memory, replace(seen, failing=["clean"]), NOW + 20 * window)
        assert answer.reason == f"window {window} of 3: job clean failed there"
    assert isinstance(decide(memory, seen, NOW + 60)[0], Hold)  # nothing has failed since
    answer, _ = decide(memory, replace(seen, failing=["clean"]), NOW + 60)
    assert isinstance(answer, Revert)
    assert answer.reason == "job clean failed there"


@pytest.mark.parametrize("state", [OperationState.WAITING, OperationState.SUCCEEDED])
def test_a_silent_site_is_advised_upon_while_a_step_is_pending(state: OperationState) -> None:
    silent = replace(SEEN, revision=4, automatic=True, silent={"A": "no answer"})
    memory = AdaptationState(revision=4, steps=(replace(STEP, due=0.0),))
    answer, after = decide(memory, replace(silent, progress=Progress(state=state)), NOW + 5)
    assert isinstance(answer, Advise)
    assert "--leave-behind A" in answer.reason
    assert after.pending == memory.pending
    running = replace(silent, progress=Progress(state=OperationState.RUNNING))
    assert isinstance(decide(memory, running, NOW + 5)[0], Hold)


def test_a_ban_doubles_though_the_group_differs_by_a_job() -> None:
    memory = limits.with_ban(AdaptationState(), limits.ban_of(AdaptationState(), STEP, "slow", NOW))
    for jobs, target, times in ((("clean", "more"), "A", 2), (("more",), "A", 1), (("clean",), "B", 1)):
        other = replace(STEP, jobs=jobs, target=target)
        assert limits.ban_of(memory, other, "slow", NOW + 700).times == times


def test_failed_move_goes_back_and_is_banned() -> None:
    failed = Progress(state=OperationState.FAILED, ended=NOW + 3, error="no slot is free")
    seen = replace(SEEN, revision=4, automatic=True, progress=failed)
    answer, memory = decide(AdaptationState(revision=3, steps=(STEP,)), seen, NOW + 5)
    assert isinstance(answer, Revert)
    assert "the move failed: no slot is free" in answer.reason
    assert memory.steps[0].outcome is StepOutcome.FAILED
    assert len(memory.bans) == 1


@pytest.mark.parametrize("state", [OperationState.RUNNING, OperationState.WAITING])
def test_nothing_is_decided_while_a_step_is_at_work(state: OperationState) -> None:
    seen = replace(SEEN, revision=4, automatic=True, progress=Progress(state=state))
    answer, memory = decide(AdaptationState(revision=3, steps=(STEP,)), seen, NOW + 5)
    assert isinstance(answer, Hold)
    assert memory.pending == STEP


@pytest.mark.parametrize(("seconds", "reverts"), [(899, False), (900, True)])
def test_a_step_whose_jobs_do_not_start_at_an_engine_that_answers_goes_back(
    seconds: float, reverts: bool
) -> None:
    waiting = Progress(state=OperationState.WAITING)
    seen = replace(SEEN, revision=4, automatic=True, progress=waiting, failing=("clean",))
    memory = AdaptationState(revision=4, steps=(STEP,))
    answer, after = decide(memory, seen, NOW + seconds)
    assert isinstance(answer, Revert) is reverts
    if reverts:
        assert "job clean does not start there" in answer.reason
        # Where they do not start either, healing goes on, and so do the decisions.
        seen = replace(seen, revision=5)
        answer, after = decide(after, seen, NOW + seconds + 899)
        assert after.pending is not None and after.pending.back
        answer, after = decide(after, seen, NOW + seconds + 900)
        assert isinstance(answer, Hold)
        assert after.steps[-1].outcome is StepOutcome.FAILED


@pytest.mark.parametrize(("revision", "automatic"), [(5, False), (4, False), (5, True)])
def test_a_users_apply_ends_a_pending_step(revision: int, automatic: bool) -> None:
    seen = replace(SEEN, revision=revision, automatic=automatic, progress=DONE, realised=REALISED)
    answer, memory = decide(AdaptationState(revision=4, steps=(STEP,)), seen, NOW + 400)
    assert isinstance(answer, Hold)
    assert memory.steps[0].outcome is StepOutcome.SUPERSEDED
    assert memory.pending is None
    assert not memory.bans


def test_a_step_that_was_stored_and_not_begun_is_forgotten() -> None:
    answer, memory = decide(AdaptationState(revision=3, steps=(STEP,)), SEEN, NOW + 5)
    assert isinstance(answer, Hold)
    assert memory.steps == ()


def test_a_way_back_that_was_stored_and_not_begun_is_begun() -> None:
    _, memory = judged(replace(REALISED, objective=2.0))
    seen = replace(SEEN, revision=4, automatic=True)
    answer, after = decide(memory, seen, NOW + 200)
    assert isinstance(answer, Revert)
    assert (answer.record.source, answer.record.target) == ("D", "A")
    assert after.steps == memory.steps
    assert after.bans == memory.bans


def test_a_step_whose_source_left_the_inventory_is_kept() -> None:
    step = replace(STEP, due=NOW, looked=NOW, windows=2)
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, stranded=True)
    seen = replace(seen, realised=replace(REALISED, objective=2.0))
    answer, memory = decide(AdaptationState(revision=4, steps=(step,)), seen, NOW + 60)
    assert isinstance(answer, Hold)
    assert "the step is kept, as D has left the inventory: it gains" in answer.reason
    assert memory.steps[0].outcome is StepOutcome.KEPT
    assert not memory.bans


def test_a_way_back_to_a_site_that_left_the_inventory_is_forgotten() -> None:
    _, memory = judged(replace(REALISED, objective=2.0))
    assert memory.pending is not None and memory.pending.back
    seen = replace(SEEN, revision=4, automatic=True, stranded=True)
    answer, after = decide(memory, seen, NOW + 200)
    assert isinstance(answer, Hold)
    assert after.pending is None


@pytest.mark.parametrize("failed", [True, False])
def test_a_refused_way_back_keeps_its_ban(failed: bool) -> None:
    """Of a step whose move failed, or that was stored and not begun as the server ended."""
    progress = Progress(state=OperationState.FAILED, ended=NOW + 3, error="no slot is free")
    seen = replace(SEEN, revision=4, automatic=True, progress=progress)
    before = AdaptationState(revision=4, steps=(STEP,))
    first, after = decide(before, seen, NOW + 5)
    assert isinstance(first, Revert)
    before = before if failed else replace(after, revision=4)
    seen = seen if failed else replace(seen, progress=None)
    memory = with_refusal(before, first, "a library is missing", NOW + 5)
    assert memory.bans == (first.ban,)
    assert isinstance(decide(memory, seen, NOW + 64)[0], Hold)
    again, _ = decide(memory, seen, NOW + 65)
    assert isinstance(again, Revert)
    assert again.ban == first.ban


def test_a_pause_also_holds_a_way_back() -> None:
    memory = AdaptationState(
        revision=4, steps=(replace(STEP, due=NOW, looked=NOW, windows=2),), paused=NOW + 900
    )
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, realised=replace(REALISED, objective=2.0))
    assert isinstance(decide(memory, seen, NOW + 800)[0], Hold)
    assert isinstance(decide(memory, seen, NOW + 900)[0], Revert)


# --- the memory


def test_the_same_decisions_are_one_entry() -> None:
    memory = AdaptationState(revision=3)
    for minute in range(10):
        _, memory = decide(memory, replace(SEEN, candidates=()), NOW + 60 * minute)
    [entry] = memory.entries
    assert (entry.repeated, entry.since, entry.at) == (10, NOW, NOW + 540)


def test_an_entry_has_a_reason_of_one_line_and_bounded_length() -> None:
    error = "InvalidInput:\n" + "job 'a': no site can run it\n" * 200
    memory = with_hold(AdaptationState(revision=3), error, SEEN, NOW)
    _, memory = decide(memory, replace(SEEN, candidates=(replace(GOOD, refused=error),)), NOW + 60)
    for entry in memory.entries:
        assert entry.reason.startswith("InvalidInput: job 'a'")
        assert len(entry.reason) <= LONGEST_REASON


@pytest.mark.slow("hundreds of decisions")
def test_the_memory_stays_small() -> None:
    names = tuple(f"a-job-with-a-long-name-{number}" for number in range(6))
    memory = AdaptationState(revision=3)
    for number in range(10 * ENTRIES):
        step = replace(GOOD, jobs=names, refused=f"{number} " + "why " * 200, target=f"site-{number}")
        seen = replace(SEEN, candidates=(step,), rates=dict.fromkeys(names, 100.0 + number))
        ban = Ban(jobs=names, target=f"site-{number}", until=NOW + 100 * number, times=1, reason="x" * 200)
        memory = limits.with_ban(memory, ban)
        done = tuple(replace(past_step(NOW + 60 * number), jobs=names) for _ in range(2))
        _, memory = decide(replace(memory, steps=(*memory.steps, *done)), seen, NOW + 60 * number)
    assert len(memory.entries) == ENTRIES
    assert len(memory.bans) <= limits.REMEMBERED + 1
    assert len(memory.steps) <= limits.REMEMBERED + 1
    assert len(encode_adaptation(memory)) <= 16_384
    assert decode_adaptation(encode_adaptation(memory)) == memory


def test_memory_goes_through_json() -> None:
    _, memory = judged(replace(REALISED, objective=2.0))
    assert AdaptationState.from_dict(json.loads(json.dumps(memory.to_dict()))) == memory


# --- triggers


def link(bandwidth: float | None, trip: float | None, *, at_least: bool = False) -> dict[Any, LinkProfile]:
    def measured(value: float | None) -> Value | None:
        return None if value is None else Value(value, Known.MEASURED)

    profile = LinkProfile(
        source="A",
        target="D",
        bandwidth=measured(bandwidth),
        round_trip=measured(trip),
        at_least=at_least,
    )
    return {("A", "D"): profile}


@pytest.mark.parametrize(
    ("now", "fires"),
    [
        (link(49.0, 0.1), True),
        (link(51.0, 0.1), False),
        (link(49.0, 0.1, at_least=True), False),
        (link(100.0, 0.31), True),
        (link(100.0, 0.29), False),
        (link(None, None), False),
        ({}, False),
    ],
)
def test_links(now: dict[Any, LinkProfile], fires: bool) -> None:
    found = list(triggers.links(link(100.0, 0.1), now))
    assert found == ([(Trigger.LINK, "A-D")] if fires else [])


def test_rates() -> None:
    before = {"big": 100.0, "small": 1.0, "gone": 5.0}
    assert list(triggers.rates(before, {"big": 121.0, "small": 1.9, "new": 9.0})) == [(Trigger.RATES, "big")]
    assert not list(triggers.rates(before, {"big": 119.0}))


def test_a_condition_is_reported_once_when_it_has_lasted() -> None:
    watch, reported = triggers.Watch(), []
    condition = (Trigger.CORES, "A")
    for second in range(0, 100, 10):
        watch, due = watch.with_next([condition], NOW + second)
        reported += [second] * len(due)
    assert reported == [30]
    watch, due = watch.with_next([], NOW + 100)
    assert due == []
    for second in range(110, 150, 10):
        watch, due = watch.with_next([condition], NOW + second)
        reported += [second] * len(due)
    assert reported == [30, 140]


@pytest.mark.parametrize(
    ("counts", "lags"),
    [
        ([0, 400, 900, 1600], True),
        ([0, 400, 390, 1600], False),  # it does not grow all the time
        ([0, 10, 20, 30], False),  # less than 10 s of input
        ([1600, 1600, 1600, 1600], False),
        ([0, 1600], False),  # too short a time
    ],
)
def test_lag(counts: list[int], lags: bool) -> None:
    samples = [(NOW + 20.0 * number, count) for number, count in enumerate(counts)]
    assert triggers.lagging({"clean": samples}, {"clean": 100.0}) == (["clean"] if lags else [])


@pytest.mark.parametrize(
    ("counts", "drains"),
    [
        ([6000, 4000, 2000], True),
        ([6000, 4000, 4000, 2000], True),
        ([6000, 4000, 5900], False),  # a full buffer
        ([6000, 6000], False),
        ([6000, 4000, 900], False),  # less than 10 s of input is left
        ([2000, 4000, 6000], False),
        ([2000], False),
    ],
)
def test_draining(counts: list[int], drains: bool) -> None:
    samples = [(NOW + 10.0 * number, count) for number, count in enumerate(counts)]
    assert triggers.draining({"clean": samples}, {"clean": 100.0}) == (["clean"] if drains else [])
