"""Verdicts on steps of the adaptation loop: kept, taken back, or not judged yet."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from speck.core.adaptation import AdaptationState, StepOutcome, Trigger
from speck.core.lifecycle import OperationState
from speck.placement.adaptation import limits, verdict
from speck.placement.adaptation.decide import Advise, Hold, Revert, decide, with_refusal
from speck.placement.adaptation.situation import Progress, Realised
from speck.placement.adaptation.triggers import Watch
from tests.placement.situations import DONE, GOOD, NOW, READY, REALISED, SEEN, STEP, judged


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
        # Where they do not start either, repairs continue, and so do the decisions.
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
