"""Decisions of the adaptation loop, as a table: each trigger, each hold; and the memory of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from speck.core.adaptation import ENTRIES, AdaptationState, Ban, Decision, StepRecord, Streak
from speck.placement.adaptation import limits
from speck.placement.adaptation.decide import LONGEST_REASON, Advise, Hold, Step, decide, with_hold
from speck.store.codec import decode_adaptation, encode_adaptation
from tests.placement.situations import GOOD, NOW, READY, REALISED, SEEN, judged, past_step


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
