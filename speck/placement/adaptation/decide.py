"""The decision of one round: hold, advise, take a step, or take one back.  Each has a reason.

It is made of a :class:`~speck.placement.adaptation.situation.Situation` and the memory of the composition.
:func:`decide` returns the memory to be stored before anything is carried out: a step is in it as pending,
with its prediction, so that another process judges it if this one ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from speck.core.adaptation import (
    ENTRIES,
    AdaptationState,
    Ban,
    Decision,
    Entry,
    StepOutcome,
    StepRecord,
    Streak,
    Trigger,
)
from speck.core.lifecycle import OperationState
from speck.placement.adaptation import verdict
from speck.placement.adaptation.limits import (
    ban_of,
    banned,
    limited_until,
    steps_since,
    trimmed,
    with_ban,
    with_present_limit,
)
from speck.placement.adaptation.situation import Candidate, Progress, Situation, is_overloaded

RUNNING = 3  # decisions in a row that name the same step
OWN_SHARE = 1 / 3  # of the least gain, which a step must have by itself where several reach it together
UTILISATION = 0.6  # most of a target's cores after a step
EMERGENCY = 1.1  # times the multiplier, and least one, after a step that is taken at once
EMERGENCY_COOLDOWN = 60.0  # s
RETRY = 60.0  # s after a way back was refused
UNJUDGED = 900.0  # s after a step is due, for which it waits for messages to its jobs, and for figures
AT_ONCE = 2  # steps in progress on all compositions
LONGEST_REASON = 300  # characters
UNEVALUATED = "the step cannot be evaluated yet: "
REWIRED = "a better placement also moves topics, which is never automatic: speck advise"


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing is done; ``about`` is the step that is not taken yet, if there is one."""

    reason: str
    about: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Advise:
    """Something better exists, which is a user's to do."""

    reason: str
    about: Candidate | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A step is to be carried out."""

    reason: str
    about: Candidate
    emergency: bool = False


@dataclass(frozen=True, slots=True)
class Revert:
    """A step is to be taken back: the jobs of ``record``, from its target to its source."""

    reason: str
    record: StepRecord
    ban: Ban


Choice = Hold | Advise | Step | Revert


def decide(memory: AdaptationState, seen: Situation, now: float) -> tuple[Choice, AdaptationState]:
    """The decision and the memory after it; ``now`` is Unix time, s."""
    memory = _caught_up(trimmed(memory, now), seen)
    memory = with_present_limit(memory, seen.options, now)
    choice, memory = _decide(memory, seen, now)
    return choice, _noted(memory, choice, seen, now)


def _caught_up(memory: AdaptationState, seen: Situation) -> AdaptationState:
    """The memory in which a user's apply has ended the streak and the step that was pending."""
    pending = memory.pending
    if pending is not None and (seen.revision > pending.revision or not _is_own(pending, seen)):
        memory = with_last(memory, replace(pending, outcome=StepOutcome.SUPERSEDED))
    if seen.applied or seen.revision != memory.revision:
        memory = replace(memory, revision=seen.revision, streak=None)
    return memory


def _is_own(pending: StepRecord, seen: Situation) -> bool:
    """True if no user has applied anything since the step was decided."""
    return seen.revision < pending.revision or seen.automatic


def _decide(memory: AdaptationState, seen: Situation, now: float) -> tuple[Choice, AdaptationState]:
    if memory.paused > now:
        return Hold("paused"), replace(memory, streak=None)
    if memory.pending is not None:
        return _judge(memory, memory.pending, seen, now)
    if seen.silent:
        return Advise(_silence(seen)), replace(memory, streak=None)
    if seen.hold:
        return Hold(seen.hold), replace(memory, streak=None)
    return _choose(memory, seen, now)


def _silence(seen: Situation) -> str:
    names = ", ".join(seen.silent)
    options = " ".join(f"--leave-behind {name}" for name in seen.silent)
    return (
        f"site {names} does not respond: speck apply FILE {options} moves its jobs, "
        "and discards their state and unprocessed messages there"
    )


# --- a step that is pending


def _judge(
    memory: AdaptationState, step: StepRecord, seen: Situation, now: float
) -> tuple[Choice, AdaptationState]:
    progress = seen.progress
    if not step.due and now < step.looked:
        return Hold("the revert was refused, and is tried again later"), memory
    if progress is None and seen.revision < step.revision:  # the server ended before it was begun
        return _begun_anew(memory, step, seen)
    state = OperationState.SUCCEEDED if progress is None else progress.state
    waiting, failed = state is OperationState.WAITING, state is OperationState.FAILED
    # Healing completes what waits for an engine; with one that answers, it would have done so by now.
    stuck = waiting and bool(seen.failing) and now >= step.at + UNJUDGED
    if state is OperationState.RUNNING or (waiting and not stuck and not seen.silent):
        return Hold(f"a step is in progress ({state.value})"), memory
    if step.back and (stuck or not waiting):
        failed = failed or stuck
        outcome = StepOutcome.FAILED if failed else StepOutcome.KEPT
        what = "the revert failed (see its operation)" if failed else "the step is reverted"
        return Hold(what), with_last(memory, replace(step, outcome=outcome))
    if failed and progress is not None:
        return _back(memory, step, f"the move failed: {progress.error or 'see its operation'}", seen, now)
    if seen.silent:
        return Advise(_silence(seen)), memory
    if stuck:
        return _back(memory, step, f"job {', '.join(seen.failing)} does not start there", seen, now)
    if not step.due:
        return _await(memory, step, progress, now)
    return _judge_window(memory, step, seen, now)


def _begun_anew(memory: AdaptationState, step: StepRecord, seen: Situation) -> tuple[Choice, AdaptationState]:
    """A step that was stored and not begun, as the server ended: it is forgotten, but not a way back."""
    former = memory.steps[-2] if len(memory.steps) > 1 else step
    bans = [each for each in memory.bans if each.jobs == step.jobs and each.target == step.source]
    if step.back and bans and not seen.stranded:
        return Revert(bans[-1].reason, former, bans[-1]), memory
    return Hold("the last step was not started"), replace(memory, steps=memory.steps[:-1])


def _await(
    memory: AdaptationState, step: StepRecord, progress: Progress | None, now: float
) -> tuple[Choice, AdaptationState]:
    """The step is carried out: note when it is judged."""
    ended = progress.ended if progress is not None and progress.ended else now
    when = verdict.due(ended, step.catch_up)
    return Hold("the step is settling"), with_last(memory, replace(step, due=when, looked=when))


def _judge_window(
    memory: AdaptationState, step: StepRecord, seen: Situation, now: float
) -> tuple[Choice, AdaptationState]:
    """Look at the step in one of its windows, and judge it in the last."""
    # Each window has samples of its own.
    if now < step.looked + max(verdict.WINDOW, seen.interval):
        return Hold("the step is settling" if now < step.due else "the step is being evaluated"), memory
    stale = seen.stale if set(step.jobs) & set(seen.undecidable) else ""
    if set(step.jobs) & set(seen.idle) and now >= step.due + UNJUDGED:
        return _kept_unjudged(memory, step, "no message reaches its jobs")
    if seen.failing:
        missing = f"job {', '.join(seen.failing)} failed there"
    elif seen.hold:
        return Hold(f"the step is evaluated later: {seen.hold}"), memory
    elif stale or seen.realised is None:
        why = stale or "no fresh figures"
        if now >= _unevaluated_since(memory, now) + UNJUDGED:
            return _kept_unjudged(memory, step, why)
        return Hold(UNEVALUATED + why), memory
    else:
        missing = verdict.shortfall(step, seen.realised)
    step = replace(step, windows=step.windows + 1, good=step.good + (not missing), looked=now)
    if step.windows < verdict.WINDOWS:
        found = missing or "it meets its prediction"
        return Hold(f"window {step.windows} of {verdict.WINDOWS}: {found}"), with_last(memory, step)
    if step.good >= verdict.NEEDED:
        memory = with_last(memory, replace(step, outcome=StepOutcome.KEPT))
        gain = seen.realised.gain if seen.realised is not None else verdict.predicted_gain(step)
        return Hold(f"the step is kept: it gains {gain:.0%} of the objective"), memory
    return _back(memory, step, missing or "it missed its prediction in two of three windows", seen, now)


def _unevaluated_since(memory: AdaptationState, now: float) -> float:
    """The time since when no figures of a step have been known, without a pause or a hold between."""
    since = now
    for entry in reversed(memory.entries):
        if not entry.reason.startswith(UNEVALUATED):
            break
        since = entry.since
    return min(since, now)


def _kept_unjudged(memory: AdaptationState, step: StepRecord, why: str) -> tuple[Choice, AdaptationState]:
    """Retain a step whose effect cannot be measured: while it is pending, no other one is decided on."""
    memory = with_last(memory, replace(step, outcome=StepOutcome.KEPT))
    return Hold(f"the step is kept without an evaluation: {why}"), memory


def _back(
    memory: AdaptationState, step: StepRecord, reason: str, seen: Situation, now: float
) -> tuple[Choice, AdaptationState]:
    """Take a step back, once, and ban it; one without a way back is retained."""
    if seen.stranded:
        kept = with_last(memory, replace(step, outcome=StepOutcome.KEPT))
        return Hold(f"the step is kept, as {step.source} has left the inventory: {reason}"), kept
    failed = seen.progress is not None and seen.progress.state is OperationState.FAILED
    ban = _ban_since(memory, step, now) or ban_of(memory, step, reason, now)
    ended = replace(step, outcome=StepOutcome.FAILED if failed else StepOutcome.BACK)
    memory = with_ban(with_last(memory, ended), ban)
    back = StepRecord(
        jobs=step.jobs,
        source=step.target,
        target=step.source,
        at=now,
        due=0.0,
        objective=step.predicted,
        predicted=step.objective,
        age_p95=step.age_p95,
        revision=seen.revision + 1,
        back=True,
    )
    return Revert(reason, ended, ban), replace(memory, steps=(*memory.steps, back), streak=None)


def _ban_since(memory: AdaptationState, step: StepRecord, now: float) -> Ban | None:
    """The ban of a step whose way back was refused before: nothing that is banned is begun."""
    bans = [each for each in memory.bans if (each.jobs, each.target) == (step.jobs, step.target)]
    return next((each for each in bans if each.until > now), None)


def with_refusal(memory: AdaptationState, choice: Step | Revert, reason: str, now: float) -> AdaptationState:
    """The memory from which a choice was made, after its move was refused.

    A group is banned from the target that it was refused at.  A way back is tried again later.
    """
    pending = memory.pending
    memory = replace(memory, streak=None)
    if isinstance(choice, Step):
        return with_ban(memory, ban_of(memory, choice.about, reason, now))
    if pending is not None:
        memory = with_last(memory, replace(pending, looked=now + RETRY))
    return with_ban(memory, choice.ban)


def with_last(memory: AdaptationState, step: StepRecord) -> AdaptationState:
    """The memory with another version of its last step."""
    return replace(memory, steps=(*memory.steps[:-1], step))


# --- a new step


def _choose(memory: AdaptationState, seen: Situation, now: float) -> tuple[Choice, AdaptationState]:
    """Choose the first candidate without an objection, and take it if it is due."""
    if seen.draining and not seen.lag_grows:
        # Its rates are those of the backlog.
        return Hold(f"job {', '.join(seen.draining)} is processing a backlog"), replace(memory, streak=None)
    objections = [(each, _objection(memory, each, seen, now)) for each in seen.candidates]
    permitted = [each for each, why in objections if not why]
    # One that was the best before goes on: near-equal ones change places with every measurement.
    found = next((each for each in permitted if _is_same(memory.streak, each)), None)
    found = found or next(iter(permitted), None)
    if found is None:
        memory = replace(memory, streak=memory.streak if _is_awaited(memory.streak, seen) else None)
        if seen.rewires > 0 and seen.rewires >= seen.options.min_gain:
            return Advise(REWIRED), memory
        about = seen.candidates[0] if seen.candidates else None
        reasons = [objections[0][1] if objections else "no placement is better", seen.stale]
        return Hold("; ".join(filter(None, reasons)), about), memory
    memory = _with_streak(memory, found)
    if memory.advise_only_until > now:
        return Advise("the limit of steps of this hour or day is reached: speck advise", found), memory
    return _time(memory, found, seen, now)


def _objection(memory: AdaptationState, step: Candidate, seen: Situation, now: float) -> str:
    """The reason why a step is not taken, however long it has been the best; empty if there is none."""
    least = seen.options.min_gain
    if not step.is_finite:
        return "its figures are not finite"
    if (ban := banned(memory, step, now)) is not None:
        return f"{_name(step)} is banned: {ban.reason}"
    if not max(step.gain, seen.gain) >= least:
        return f"a gain of {max(step.gain, seen.gain):.0%} of the objective is below {least:.0%}"
    if not step.gain >= least * OWN_SHARE:
        return f"a gain of {step.gain:.0%} of the objective by one step is below {least * OWN_SHARE:.0%}"
    if step.refused:
        return step.refused
    if not step.utilisation <= UTILISATION:
        return f"{step.target} would be at {step.utilisation:.0%} of its cores (at most {UTILISATION:.0%})"
    # Where the rates are not sustained, results get older all the time: that is no time to save a move.
    relieves = _is_overloaded(seen) and step.multiplier >= seen.multiplier
    if not (relieves or step.pays_after <= seen.options.horizon / 2):
        return f"it would break even after {step.pays_after:.0f} s (at most {seen.options.horizon / 2:.0f} s)"
    return ""


def _is_same(streak: Streak | None, step: Candidate) -> bool:
    return streak is not None and (streak.jobs, streak.target) == (step.jobs, step.target)


def _is_awaited(streak: Streak | None, seen: Situation) -> bool:
    """True if the step that was the best before cannot be decided on for the moment.

    On a busy machine samples are late: a row of decisions does not end with one that lacks them.
    """
    return streak is not None and bool(set(streak.jobs) & set(seen.awaited))


def _with_streak(memory: AdaptationState, step: Candidate) -> AdaptationState:
    last = memory.streak
    count = last.count + 1 if last is not None and _is_same(last, step) else 1
    return replace(memory, streak=Streak(jobs=step.jobs, target=step.target, count=count))


def _time(
    memory: AdaptationState, step: Candidate, seen: Situation, now: float
) -> tuple[Choice, AdaptationState]:
    """Take a step, unless it is too early for it."""
    count = memory.streak.count if memory.streak is not None else 0
    emergency = _is_emergency(seen, step)
    if not emergency and count < RUNNING:
        reason = f"{_name(step)} is the best in {count} of {RUNNING} decisions"
        return Hold(reason, step), memory
    cooldown = min(EMERGENCY_COOLDOWN, seen.options.cooldown) if emergency else seen.options.cooldown
    last = max((each.at for each in memory.steps), default=-math.inf)
    if now < last + cooldown:
        return Hold(f"the last step is less than {cooldown:.0f} s ago", step), memory
    if seen.moving >= AT_ONCE:
        return Hold(f"{AT_ONCE} other steps are in progress", step), memory
    if (until := limited_until(memory, seen.options, now)) > 0:
        hour = len(steps_since(memory, now - 3600.0))
        reason = f"{hour} steps in an hour, {len(memory.steps)} in a day: advises only for now"
        return Advise(reason, step), replace(memory, advise_only_until=until, streak=None)
    return _taken(memory, step, seen, emergency, now)


def _is_emergency(seen: Situation, step: Candidate) -> bool:
    """True if jobs fall behind, and the step leads to where they do not, by itself or with those after it.

    The measured rates are those that get through, so that the multiplier of what is full is about 1.
    """
    reached = max(step.multiplier, seen.reachable)
    helps = reached >= EMERGENCY * max(1.0, seen.multiplier) and step.multiplier >= seen.multiplier
    return seen.lag_grows and _is_overloaded(seen) and helps


def _is_overloaded(seen: Situation) -> bool:
    return is_overloaded(seen.multiplier, lag_grows=seen.lag_grows)


def _taken(
    memory: AdaptationState, step: Candidate, seen: Situation, emergency: bool, now: float
) -> tuple[Choice, AdaptationState]:
    record = StepRecord(
        jobs=step.jobs,
        source=step.source,
        target=step.target,
        at=now,
        due=0.0,
        objective=seen.objective,
        predicted=step.objective,
        age_p95=seen.age_p95,
        revision=seen.revision + 1,
        costs=dict(step.costs),
        # Without an end: something else is full besides, for which there is no use in waiting.
        catch_up=step.catch_up if math.isfinite(step.catch_up) else 0.0,
        lagging=tuple(sorted(seen.lagging)),
    )
    memory = replace(memory, steps=(*memory.steps, record), streak=None)
    return Step(step_reason(step, seen, emergency), step, emergency), memory


def step_reason(step: Candidate, seen: Situation, emergency: bool) -> str:
    """The message of a step's revision, with its figures."""
    why = "the rates are not sustained" if emergency else f"the objective falls by {step.gain:.0%}"
    return (
        f"{_name(step)}: {why} ({seen.objective:.3g} to {step.objective:.3g}; "
        f"age p95 {seen.age_p95:.3g} s to {step.age_p95:.3g} s; "
        f"multiplier {seen.multiplier:.2g} to {step.multiplier:.2g}), "
        f"downtime {step.standstill:.1f} s, break-even after {step.pays_after:.0f} s"
    )


def _name(step: Candidate | StepRecord) -> str:
    return f"{', '.join(step.jobs)} from {step.source} to {step.target}"


# --- entries


def with_hold(memory: AdaptationState, reason: str, seen: Situation, now: float) -> AdaptationState:
    """The memory with an entry for a round in which nothing could be decided."""
    return _noted(memory, Hold(reason), seen, now)


def _noted(memory: AdaptationState, choice: Choice, seen: Situation, now: float) -> AdaptationState:
    """The memory with an entry of the choice, and the rates that it was made with."""
    trigger = Trigger.VERDICT if isinstance(choice, Revert) else seen.trigger
    entry = replace(_entry(choice), at=now, since=now, trigger=trigger)
    entries = memory.entries
    if entries and _same(entries[-1], entry):
        entry = replace(entry, since=entries[-1].since, repeated=entries[-1].repeated + 1)
        entries = entries[:-1]
    rates = {name: rate for name, rate in seen.rates.items() if math.isfinite(rate)}
    return replace(memory, entries=(*entries, entry)[-ENTRIES:], rates=rates or memory.rates)


def _entry(choice: Choice) -> Entry:
    blank = Entry(
        at=0.0,
        since=0.0,
        decision=_DECISIONS[type(choice)],
        trigger=Trigger.PERIOD,
        reason=_short(choice.reason),
    )
    if isinstance(choice, Revert):
        step = choice.record
        return replace(blank, jobs=step.jobs, source=step.target, target=step.source)
    if choice.about is None:
        return blank
    about = choice.about
    gain = about.gain if math.isfinite(about.gain) else None
    return replace(blank, jobs=about.jobs, source=about.source, target=about.target, gain=gain)


def _short(reason: str) -> str:
    """A reason on one line, of bounded length: a memory has many."""
    line = " ".join(reason.split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


_DECISIONS: dict[type, Decision] = {
    Hold: Decision.HOLD,
    Advise: Decision.ADVISE,
    Step: Decision.STEP,
    Revert: Decision.BACK,
}


def _same(one: Entry, other: Entry) -> bool:
    return (one.decision, one.reason, one.jobs, one.target) == (
        other.decision,
        other.reason,
        other.jobs,
        other.target,
    )
