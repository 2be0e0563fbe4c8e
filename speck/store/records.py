"""The records of the store: small frozen values, as the coordinator reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from speck.core.graph import Endpoint
from speck.core.job import Job
from speck.core.lifecycle import AttemptPhase, RevisionState
from speck.core.logins import Marks
from speck.core.placement import PlacementOptions
from speck.core.runtime import Attempt, Handle, State
from speck.core.start import LATEST


@dataclass(frozen=True, slots=True)
class Head:
    """A composition's last revision (0: none yet).

    ``left_behind`` and ``give_up`` are what the user allowed for the change to it, which hold until it is
    carried out: the addresses that are not asked, and the loss of messages in sessions that jobs leave.
    """

    name: str
    revision: int
    deleting: bool = False
    left_behind: tuple[str, ...] = ()
    give_up: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """An accepted version of a composition.  ``at`` is Unix time, s.

    ``restored`` is the number of the revision that a rollback restored (0: it is no rollback);
    ``counts`` how many jobs it added, removed and changed against the one before.  ``placement`` and
    ``declared`` are as in :class:`~speck.core.job.Composition`.
    """

    composition: str
    number: int
    at: float
    jobs: Mapping[str, Job]
    author: str = ""
    message: str = ""
    restored: int = 0
    counts: tuple[int, int, int] = (0, 0, 0)
    placement: PlacementOptions | None = None
    declared: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RevisionOutcome:
    """The outcome of a revision.  ``operation`` is the id of the last request that asked for the revision.

    ``by`` is the number of the revision that superseded it or rolled it back (0: none, or a deletion).
    """

    state: RevisionState
    operation: str = ""
    by: int = 0


@dataclass(frozen=True, slots=True)
class DeletedComposition:
    """A composition that was deleted, whose revisions are retained.  ``at`` is Unix time, s.

    ``revision`` is the number of its last one; ``operation`` the id of its deletion.
    """

    name: str
    revision: int
    at: float
    author: str = ""
    message: str = ""
    operation: str = ""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that was made for a job at a broker, or may have been: the intent is stored first.

    ``start`` is that of the form of its job for which it was made; empty for one that is to be deleted.
    """

    broker: str
    name: str
    topic: str
    start: str = LATEST

    @property
    def source(self) -> Endpoint:
        """The endpoint whose messages it collects."""
        return Endpoint(self.broker, self.topic)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job besides its attempts.

    ``attempts`` is the number of the last attempt; ``sessions`` holds the current one last; ``state`` is
    where its last stopped attempt left its state; ``error`` is that of the last action.  Nothing starts from
    ``garbage_states`` any more; they are to be deleted.  ``rollback_revision`` is that of the form which was
    stopped for another (0: none), until that one has come up.  ``retained_states`` are those that its
    attempts have left, each a place of its own, the newest last.  ``restart_lineage`` is of a last attempt
    that ended before it had kept anything: its lineage, and its form's fingerprint.

    ``incarnation`` and ``origin`` are those of its last attempt; ``form`` is the fingerprint of the form that
    ran last (empty: none has ended yet).  ``renumbers`` is true if the next attempt begins new numbers: after
    a restore of the store, whose states may be older than what the job has written.  ``state_source`` is the
    id of an abandoned attempt whose newest state is the job's (empty: none), as it may go on changing it.
    ``rollback_state`` is the state of the form of ``rollback_revision``, until another form has started from
    a state.  ``unmade_sessions`` are those of ``sessions`` that no broker has confirmed to have made yet.
    ``unread`` is the name of a session through which the job is to read again, and which no copy has begun to
    read (empty: none).
    """

    name: str
    composition: str
    attempts: int = 0
    sessions: tuple[SessionRecord, ...] = ()
    state: State | None = None
    error: str = ""
    garbage_states: tuple[State, ...] = ()
    rollback_revision: int = 0
    retained_states: tuple[State, ...] = ()
    restart_lineage: tuple[str, str] | None = None
    incarnation: int = 0
    origin: int = 0
    form: str = ""
    renumbers: bool = False
    state_source: str = ""
    rollback_state: State | None = None
    unmade_sessions: tuple[SessionRecord, ...] = ()
    unread: str = ""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """An attempt that an engine runs or may run.  ``revision`` is the one that holds its form.

    ``logins`` are the marks of those with which it was started; ``None``: not known.
    """

    attempt: Attempt
    revision: int
    phase: AttemptPhase = AttemptPhase.INTENDED
    handle: Handle | None = None
    logins: Marks | None = None


@dataclass(frozen=True, slots=True)
class RetryState:
    """The tries of a job that does not come up, kept over a restart of the coordinator.

    ``tries`` is their number, ``next_try`` the time of the next one (Unix time, s).  ``suspended`` is the
    reason why there is none before a user asks (empty: there is one).
    """

    tries: int = 0
    next_try: float = 0.0
    suspended: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """The action that an operation is about to carry out on one job, and its reason."""

    job: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the audit log.  ``at`` is Unix time, s.

    The event with which an operation is accepted has its ``author``, its reason (``cause``) and its actions
    (``intents``); later ones name the operation.  ``automatic`` is true for those of the reconciler.
    ``messages`` is the number of messages that were given up; ``at_least``: there may be more.  ``session``
    is the key of the session in which they waited, where that is abandoned.  The three are for counters, and
    not stored.
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
    automatic: bool = False
    messages: int = field(default=0, compare=False)
    session: str = field(default="", compare=False)
    at_least: bool = field(default=False, compare=False)
