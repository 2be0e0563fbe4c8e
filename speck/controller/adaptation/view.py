"""The state of a composition's adaptation as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from speck.core.adaptation import AdaptationState
from speck.core.placement import PlacementOptions
from speck.placement.adaptation import limits


def memory_data(
    memory: AdaptationState, options: PlacementOptions, now: float, *, enabled: bool
) -> dict[str, Any]:
    """The memory of a composition; ``now`` is Unix time, s, ``enabled`` is true if the loop runs."""
    last = next(reversed(memory.entries), None)
    return {
        "mode": options.mode,
        "state": state_of(memory, options, now, enabled=enabled),
        "paused_until": memory.paused if memory.paused > now else None,
        "advises_until": memory.advise_only_until if memory.advise_only_until > now else None,
        "steps_last_hour": len(limits.steps_since(memory, now - limits.HOUR)),
        "steps_per_hour": options.steps_per_hour,
        "steps_last_day": len(limits.steps_since(memory, now - limits.DAY)),
        "last": None if last is None else asdict(last),
        "entries": [asdict(each) for each in reversed(memory.entries)],
        "steps": [asdict(each) for each in reversed(memory.steps)],
        "bans": [asdict(each) for each in memory.bans if each.until > now],
    }


def state_of(memory: AdaptationState, options: PlacementOptions, now: float, *, enabled: bool) -> str:
    """The state in one word."""
    if options.mode == "off" or (options.mode == "auto" and not enabled):
        return "off"
    if options.mode == "advise":
        return "advising"
    if memory.paused > now:
        return "paused"
    if memory.pending is not None:
        return "judging" if memory.pending.due else "moving"
    return "advising" if memory.advise_only_until > now else "watching"
