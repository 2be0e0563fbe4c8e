"""Events of the store as lines of the server's log."""

from __future__ import annotations

import logging

from speck.store.records import Event

_log = logging.getLogger("speck.audit")

# The kinds of events that are warnings in the server's log.
_TROUBLE = frozenset(
    (
        *("failed", "skipped", "waiting", "drift", "given up", "lost", "suspect", "not reading"),
        *("agent away", "second agent", "restarted", "not restarted", "not upgraded", "ignored"),
    )
)


def log_event(event: Event) -> None:
    """Log an event, as a warning if it is of trouble."""
    fields = {
        "event_kind": event.kind,
        "operation": event.operation,
        "composition": event.composition,
        "job": event.job,
        "author": event.author,
    }
    said = {name: value for name, value in fields.items() if value}  # an empty one would hide another's
    _log.log(logging.WARNING if event.kind in _TROUBLE else logging.INFO, "%s", event.message, extra=said)
