"""The audit log, as it is read: every intent and every outcome on a line of its own, with who and why.

An operation's first event has its author, its reason and all of its intents; later ones name the operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from speck.store import Event, Store


@dataclass(frozen=True, slots=True)
class Filter:
    """The events to select; ``None`` selects any.  ``since`` is Unix time, s."""

    composition: str | None = None
    job: str | None = None
    operation: str | None = None
    since: float | None = None

    def accepts(self, event: Event) -> bool:
        """True if an event, or an intent in it, is selected."""
        jobs = {event.job, *(each.job for each in event.intents)}
        return (
            self.composition in (None, event.composition)
            and self.operation in (None, event.operation)
            and (self.job is None or self.job in jobs)
            and (self.since is None or event.at >= self.since)
        )


def lines(event: Event, job: str | None = None) -> Iterator[Event]:
    """The event itself, and its intents as events of their own (those of one job)."""
    if job in (None, event.job):
        yield replace(event, intents=())
    for each in event.intents:
        if job in (None, each.job):
            message = f"job {each.job!r} to {each.kind}: {each.reason}"
            yield replace(event, kind="intended", message=message, job=each.job, intents=())


def entries(store: Store, limit: int, selected: Filter) -> list[dict[str, Any]]:
    """The log's last lines that are looked for, oldest first, as plain data."""
    found = [line for event in store.events(limit, selected.accepts) for line in lines(event, selected.job)]
    known: dict[str, tuple[str, str]] = {}
    return [_data(each, _who_and_why(store, each, known)) for each in found[-limit:]]


def _who_and_why(store: Store, event: Event, known: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """Of the operation that the event belongs to, as long as that is kept."""
    if event.author or event.cause or not event.operation:
        return event.author, event.cause
    if event.operation not in known:
        data: Mapping[str, Any] = store.operation(event.operation) or {}
        known[event.operation] = data.get("author", ""), data.get("message", "")
    return known[event.operation]


def _data(event: Event, who_and_why: tuple[str, str]) -> dict[str, Any]:
    author, cause = who_and_why
    return {
        "at": event.at,
        "kind": event.kind,
        "message": event.message,
        "composition": event.composition,
        "job": event.job,
        "operation": event.operation,
        "author": author,
        "cause": cause,
    }
