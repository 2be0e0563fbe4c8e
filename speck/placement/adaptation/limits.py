"""Limits of steps in a period of time, and bans of steps that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from speck.core.adaptation import Ban, Memory, StepRecord
from speck.core.placement import PlacementOptions
from speck.placement.adaptation.situation import Candidate

HOUR, DAY = 3600.0, 86_400.0  # s
PER_DAY = 20  # steps of a composition
BAN = 600.0  # s, the first one; each further one of a group and site is twice as long
LONGEST_BAN = DAY
REMEMBERED = 40  # steps, and bans
LONGEST = 200  # characters of a reason


def steps_since(memory: Memory, oldest: float) -> list[StepRecord]:
    """The steps since then that took no other one back."""
    return [each for each in memory.steps if each.at > oldest and not each.back]


def limited_until(memory: Memory, options: PlacementOptions, now: float) -> float:
    """The time until which no further step is allowed; 0: one is."""
    found = 0.0
    for count, period in ((options.steps_per_hour, HOUR), (PER_DAY, DAY)):
        made = steps_since(memory, now - period)
        if len(made) >= count:
            found = max(found, made[len(made) - count].at + period if count else now + period)
    return found


def trimmed(memory: Memory, now: float) -> Memory:
    """The memory without steps of more than a day ago, and bans that ended a day ago."""
    steps = tuple(each for each in memory.steps if each.at > now - DAY or each is memory.pending)
    bans = tuple(each for each in memory.bans if each.until > now - DAY)
    bans = tuple(sorted(bans, key=lambda each: each.until)[-REMEMBERED:])
    return replace(memory, steps=steps[-REMEMBERED:], bans=bans)


# --- bans


def banned(memory: Memory, candidate: Candidate, now: float) -> Ban | None:
    """The ban of a step: of one of its jobs at its target."""
    for ban in memory.bans:
        if ban.until > now and ban.target == candidate.target and set(ban.jobs) & set(candidate.jobs):
            return ban
    return None


def forbidden(memory: Memory, now: float) -> Mapping[str, frozenset[str]]:
    """The sites to which each banned job may not move now."""
    found: dict[str, frozenset[str]] = {}
    for ban in memory.bans:
        if ban.until > now:
            for job in ban.jobs:
                found[job] = found.get(job, frozenset()) | {ban.target}
    return found


def ban_of(memory: Memory, step: StepRecord, reason: str, now: float) -> Ban:
    """The ban that follows a step which did not hold: twice as long as the one before."""
    former = [each for each in memory.bans if (each.jobs, each.target) == (step.jobs, step.target)]
    times = 1 + max((each.times for each in former), default=0)
    seconds = min(LONGEST_BAN, BAN * 2.0 ** (times - 1))
    return Ban(jobs=step.jobs, target=step.target, until=now + seconds, times=times, reason=reason[:LONGEST])


def with_ban(memory: Memory, ban: Ban) -> Memory:
    """The memory with a ban in place of the former one of the same group and site."""
    others = tuple(each for each in memory.bans if (each.jobs, each.target) != (ban.jobs, ban.target))
    return replace(memory, bans=(*others, ban))
