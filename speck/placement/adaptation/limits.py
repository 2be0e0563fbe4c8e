"""Limits of steps in a period of time, and bans of steps that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from speck.core.adaptation import LONGEST_PAUSE, AdaptationState, Ban, StepRecord
from speck.core.placement import PlacementOptions
from speck.placement.adaptation.situation import Candidate
from speck.placement.adaptation.verdict import LONGEST_DELAY

HOUR, DAY = 3600.0, 86_400.0  # s
PER_DAY = 20  # steps of a composition
BAN = 600.0  # s, the first one; each further one of a group and site is twice as long
LONGEST_BAN = DAY
REMEMBERED = 40  # steps, and bans
LONGEST = 200  # characters of a reason


def steps_since(memory: AdaptationState, oldest: float) -> list[StepRecord]:
    """The steps since then that took no other one back."""
    return [each for each in memory.steps if each.at > oldest and not each.back]


def limited_until(memory: AdaptationState, options: PlacementOptions, now: float) -> float:
    """The time until which no further step is allowed; 0: one is."""
    found = 0.0
    for count, period in ((options.steps_per_hour, HOUR), (PER_DAY, DAY)):
        made = steps_since(memory, now - period)
        if len(made) >= count:
            found = max(found, made[len(made) - count].at + period if count else now + period)
    return found


def with_present_limit(memory: AdaptationState, options: PlacementOptions, now: float) -> AdaptationState:
    """The memory that only advises no longer than its limits say now, which a user may have raised."""
    if memory.advise_only_until <= now:
        return memory
    until = min(memory.advise_only_until, limited_until(memory, options, now))
    return replace(memory, advise_only_until=until)


def bounded(memory: AdaptationState, now: float) -> AdaptationState:
    """The memory with no time further ahead than it can be; ``now`` is Unix time, which may be set back.

    A step that was made after ``now`` was made now; a ban, a pause and the time until steps are advised only
    last no longer than they can from now on.
    """
    return replace(
        memory,
        steps=tuple(_bounded(each, now) for each in memory.steps),
        bans=tuple(replace(each, until=min(each.until, now + _length(each.times))) for each in memory.bans),
        paused=min(memory.paused, now + LONGEST_PAUSE),
        advise_only_until=min(memory.advise_only_until, now + DAY),
    )


def _bounded(step: StepRecord, now: float) -> StepRecord:
    latest = now + LONGEST_DELAY
    return replace(step, at=min(step.at, now), due=min(step.due, latest), looked=min(step.looked, latest))


def trimmed(memory: AdaptationState, now: float) -> AdaptationState:
    """The memory without steps of more than a day ago, and bans that ended a day ago."""
    memory = bounded(memory, now)
    steps = tuple(each for each in memory.steps if each.at > now - DAY or each is memory.pending)
    bans = tuple(each for each in memory.bans if each.until > now - DAY)
    bans = tuple(sorted(bans, key=lambda each: each.until)[-REMEMBERED:])
    return replace(memory, steps=steps[-REMEMBERED:], bans=bans)


# --- bans


def banned(memory: AdaptationState, candidate: Candidate, now: float) -> Ban | None:
    """The ban of a step: of one of its jobs at its target."""
    for ban in memory.bans:
        if ban.until > now and ban.target == candidate.target and set(ban.jobs) & set(candidate.jobs):
            return ban
    return None


def forbidden(memory: AdaptationState, now: float) -> Mapping[str, frozenset[str]]:
    """The sites to which each banned job may not move now."""
    found: dict[str, frozenset[str]] = {}
    for ban in memory.bans:
        if ban.until > now:
            for job in ban.jobs:
                found[job] = found.get(job, frozenset()) | {ban.target}
    return found


def ban_of(memory: AdaptationState, step: StepRecord | Candidate, reason: str, now: float) -> Ban:
    """The ban that follows a step which did not hold, or was refused: twice as long as the one before."""
    # A group that differs by a job is another way to make the same mistake.
    former = [each for each in memory.bans if each.target == step.target and set(each.jobs) & set(step.jobs)]
    times = 1 + max((each.times for each in former), default=0)
    until = now + _length(times)
    return Ban(jobs=step.jobs, target=step.target, until=until, times=times, reason=reason[:LONGEST])


def _length(times: int) -> float:
    """The length of the ban of a group that was banned from a site this number of times, s."""
    return min(LONGEST_BAN, BAN * 2.0 ** (min(times, 20) - 1))


def with_ban(memory: AdaptationState, ban: Ban) -> AdaptationState:
    """The memory with a ban that replaces the former one of the same group and site."""
    others = tuple(each for each in memory.bans if (each.jobs, each.target) != (ban.jobs, ban.target))
    return replace(memory, bans=(*others, ban))
