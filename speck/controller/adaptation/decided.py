"""A decision of the adaptation loop, and its events: steps, reverts and bans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from speck.core.adaptation import AdaptationState, Ban
from speck.core.lifecycle import EventKind
from speck.placement.adaptation.decide import Choice, Revert, Step
from speck.placement.adaptation.situation import Situation
from speck.store import Event


@dataclass(frozen=True)
class Decided:
    """A choice for the composition ``name`` in the situation ``seen``, and its memory before and after."""

    name: str
    choice: Choice
    seen: Situation
    before: AdaptationState
    after: AdaptationState

    def events(self, now: float) -> Iterator[Event]:
        """The events of the decision; ``now`` is Unix time, s."""
        choice, name = self.choice, self.name
        if isinstance(choice, Step):
            yield _event(EventKind.STEP, name, choice.reason, now)
        if isinstance(choice, Revert):
            jobs = ", ".join(choice.record.jobs)
            yield _event(EventKind.BACK, name, f"{jobs} to {choice.record.source}: {choice.reason}", now)
            if choice.ban not in self.before.bans:
                yield ban_event(name, choice.ban, now)
        if self.after.advise_only_until > self.before.advise_only_until:
            yield _event(EventKind.FELL, name, "placements are only advised for now: " + choice.reason, now)


def ban_event(name: str, ban: Ban, now: float) -> Event:
    """The event of a ban."""
    minutes = round((ban.until - now) / 60)
    message = f"{', '.join(ban.jobs)} at {ban.target} for {minutes} min: {ban.reason}"
    return _event(EventKind.BANNED, name, message, now)


def _event(kind: EventKind, name: str, message: str, now: float) -> Event:
    return Event(now, kind, message, name, automatic=True)
