"""The states of attempts, actions and operations, and the kinds of events, as they are stored.

A few stored words are shown as clearer ones: see :func:`shown_kind`.
"""

from __future__ import annotations

from enum import StrEnum


class AttemptPhase(StrEnum):
    """The progress of an attempt, as the store records it."""

    INTENDED = "intended"  # stored; its engine may have been asked, without an answer
    RUNNING = "running"  # its engine has answered with a handle
    STOPPING = "stopping"  # its engine has been, or is about to be, asked to stop it


class ActionKind(StrEnum):
    """The kinds of actions of a plan."""

    START = "start"
    STOP = "stop"
    UPDATE = "update"
    MOVE = "move"
    KEEP = "keep"


class ActionState(StrEnum):
    """The progress of an action; all but the first two are outcomes."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # depends on a job whose action failed
    WAITING = "waiting"  # an engine or a broker is unreachable or full; done when that has changed
    KEPT = "kept"


class OperationKind(StrEnum):
    """The kinds of operations on a composition."""

    APPLY = "apply"
    ROLLBACK = "rollback"
    DELETE = "delete"
    HEAL = "heal"  # by the reconciler
    PLACE = "place"  # a step of the adaptation
    ADOPT = "adopt"  # copies of another store become this one's


AUTOMATIC = frozenset({OperationKind.HEAL, OperationKind.PLACE})  # without a user's request


class OperationState(StrEnum):
    """The progress of an operation; all but the first are outcomes."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    WAITING = "waiting"  # nothing failed, and something waits


class RevisionState(StrEnum):
    """The outcomes of a revision."""

    PENDING = "pending"  # accepted; nothing of it is carried out yet
    APPLIED = "applied"  # all of its jobs were brought to it, at once or later
    PARTLY = "partly applied"  # some of them
    FAILED = "failed"  # none of them
    SUPERSEDED = "superseded"  # by a later change, before it was applied wholly
    ROLLED_BACK = "rolled back"


class EventKind(StrEnum):
    """The kinds of events in the audit log, other than the outcomes of operations and actions."""

    ACCEPTED = "accepted"
    STARTED = "started"
    STOPPED = "stopped"
    DRIFT = "drift"
    HEALED = "healed"
    ORPHAN = "stray"
    ADOPTED = "adopted"
    ABANDONED = "left"
    DROPPED = "given up"  # messages that waited in a session which was deleted
    FORGOTTEN = "forgotten"
    STEP = "step"  # of the adaptation; the next three likewise
    BACK = "back"
    BANNED = "banned"
    FELL = "fell"  # to advice, as the steps of an hour or a day are made
    SCALING = "scaling"  # the hook of an engine's workers is called; the next two are its outcomes
    SCALED = "scaled"
    NOT_SCALED = "not scaled"
    LOST = "lost"  # messages, counted by their reader; the next four likewise
    SUSPECT = "suspect"
    ASIDE = "set aside"
    NOTED = "noted"
    REPEATED = "repeated"
    UNREAD = "not reading"  # a job runs, and no reader has taken its session
    READING = "reading"
    AGENT_AWAY = "agent away"  # of a site; the next ones likewise
    AGENT_BACK = "agent back"
    SECOND_AGENT = "second agent"  # another machine has the token of a connected agent
    INVITED = "invited"  # a code to join was made
    JOINED = "joined"
    REVOKED = "revoked"
    REMOVED = "removed"  # from the inventory
    UPGRADING = "upgrading"  # agents of sites, at a user's request; the next two are its outcomes
    UPGRADED = "upgraded"
    NOT_UPGRADED = "not upgraded"
    RESTARTED = "restarted"  # a job, by its site's agent
    NOT_RESTARTED = "not restarted"
    IGNORED = "ignored"  # what an agent reports: a copy of a job never placed at its site, or too many starts
    PRIMARY = "primary"  # of a pair of servers: this one is; the next two are about the other one
    STANDBY_AWAY = "standby away"
    STANDBY_BACK = "standby back"


_SHOWN = {
    EventKind.ORPHAN: "orphan",
    EventKind.ABANDONED: "abandoned",
    EventKind.DROPPED: "discarded",
    EventKind.BACK: "reverted",
    EventKind.FELL: "paused to advice",
}


def shown_kind(kind: str) -> str:
    """The kind of an event as users see it, where the stored word is another one."""
    return {str(stored): shown for stored, shown in _SHOWN.items()}.get(kind, kind)
