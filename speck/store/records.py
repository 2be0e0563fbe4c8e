"""What the store holds: small frozen values, as the coordinator reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speck.core.job import Job
from speck.core.runtime import Attempt, Handle, State


@dataclass(frozen=True, slots=True)
class Head:
    """A composition's last revision (0: none yet)."""

    name: str
    revision: int
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """An accepted version of a composition.  ``at`` is Unix time, s.

    ``restored`` is the number of the revision that a rollback brought back (0: it is no rollback);
    ``counts`` how many jobs it added, removed and changed against the one before.
    """

    composition: str
    number: int
    at: float
    jobs: Mapping[str, Job]
    author: str = ""
    message: str = ""
    restored: int = 0
    counts: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that was made for a job at a broker, or may have been: the intent is stored first."""

    broker: str
    name: str
    topic: str


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What SpecK keeps of a job besides its attempts.

    ``attempts`` is the number of the last attempt; ``sessions`` holds the current one last; ``state`` is
    where its last stopped attempt left its state; ``error`` what went wrong last.  ``left`` holds copies of
    its state that nothing starts from any more, and that are to be deleted.  ``former`` is the revision of
    the form that was stopped to make place for another (0: none), until that one is up.  ``saved`` are the
    states that its attempts have left, each by itself, the newest last.  ``begun`` is of a last attempt that
    ended before it had kept anything: its lineage, and its form's fingerprint.
    """

    name: str
    composition: str
    attempts: int = 0
    sessions: tuple[SessionRecord, ...] = ()
    state: State | None = None
    error: str = ""
    left: tuple[State, ...] = ()
    former: int = 0
    saved: tuple[State, ...] = ()
    begun: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """An attempt that an engine runs or may run: ``phase`` is ``intended``, ``running`` or ``stopping``.

    ``revision`` is the one that holds the form of the job which it runs.
    """

    attempt: Attempt
    revision: int
    phase: str = "intended"
    handle: Handle | None = None


@dataclass(frozen=True, slots=True)
class RetryState:
    """What was tried of a job that does not come up, for who tries again, also after a restart.

    So many ``tries``, and when the next one is due (Unix time, s).  ``held`` says why there is to be none
    before a user asks (empty: there is).
    """

    tries: int = 0
    next_try: float = 0.0
    held: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """What an operation is about to do with one job, and why."""

    job: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the audit log.  ``at`` is Unix time, s.

    The event with which an operation is accepted names who asked for it (``author``) and why (``cause``),
    and holds all that it is about to do (``intents``); those that follow name the operation.  ``by_loop`` is
    true of what the loop does by itself.
    """

    at: float
    kind: str
    message: str
    composition: str = ""
    job: str = ""
    operation: str = ""
    author: str = ""
    cause: str = ""
    intents: tuple[Intent, ...] = ()
    by_loop: bool = False
