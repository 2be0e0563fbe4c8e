"""The events of the adaptation loop: its steps, reverts and bans."""

from __future__ import annotations

from collections.abc import Iterator

from speck.core.adaptation import AdaptationState, Ban
from speck.core.lifecycle import EventKind
from speck.placement.adaptation.decide import Choice, Revert, Step
from speck.store import Event


def announced(
    name: str, answer: Choice, before: AdaptationState, after: AdaptationState, now: float
) -> Iterator[Event]:
    """The events of a decision on a composition, whose memory it changes; ``now`` is Unix time, s."""
    if isinstance(answer, Step):
        yield _event(EventKind.STEP, name, answer.reason, now)
    if isinstance(answer, Revert):
        jobs = ", ".join(answer.record.jobs)
        yield _event(EventKind.BACK, name, f"{jobs} to {answer.record.source}: {answer.reason}", now)
        if answer.ban not in before.bans:
            yield ban_event(name, answer.ban, now)
    if after.advise_only_until > before.advise_only_until:
        yield _event(EventKind.FELL, name, "placements are only advised for now: " + answer.reason, now)


def ban_event(name: str, ban: Ban, now: float) -> Event:
    """The event of a ban."""
    minutes = round((ban.until - now) / 60)
    message = f"{', '.join(ban.jobs)} at {ban.target} for {minutes} min: {ban.reason}"
    return _event(EventKind.BANNED, name, message, now)


def _event(kind: EventKind, name: str, message: str, now: float) -> Event:
    return Event(now, kind, message, name, automatic=True)
