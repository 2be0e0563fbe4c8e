"""Events of the store as lines of the server's log."""

from __future__ import annotations

import logging

from speck.core.lifecycle import ActionState, EventKind, OperationState
from speck.store.records import Event

_log = logging.getLogger("speck.audit")

# The kinds of events that are warnings in the server's log: outcomes of actions and operations, and others.
TROUBLE = frozenset(
    (
        *(OperationState.FAILED, ActionState.SKIPPED, OperationState.WAITING),
        *(EventKind.DRIFT, EventKind.ORPHAN, EventKind.DROPPED, EventKind.LOST, EventKind.SUSPECT),
        *(EventKind.UNREAD, EventKind.AGENT_AWAY, EventKind.SECOND_AGENT, EventKind.RESTARTED),
        *(EventKind.NOT_RESTARTED, EventKind.NOT_UPGRADED, EventKind.IGNORED, EventKind.NOT_SCALED),
        EventKind.STANDBY_AWAY,
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
    _log.log(logging.WARNING if event.kind in TROUBLE else logging.INFO, "%s", event.message, extra=said)
