"""The events of a job's lifecycle, steps that were intended or made.

:mod:`speck.apply.job_state` applies them.
"""

from __future__ import annotations

from dataclasses import dataclass

from speck.core.logins import Marks
from speck.core.runtime import Attempt, Handle, State
from speck.core.start import LATEST
from speck.store import SessionRecord


@dataclass(frozen=True, slots=True)
class SessionIntended:
    """This session, which the job has not had, is about to be made for it.

    ``replay``: the job is to read again through it.
    """

    session: SessionRecord
    replay: bool = False


@dataclass(frozen=True, slots=True)
class SessionEnsured:
    """The session that the job reads through, or is about to, is this one, and its broker has made it."""

    session: SessionRecord


@dataclass(frozen=True, slots=True)
class SessionsDetached:
    """These sessions are deleted, or recorded as abandoned."""

    sessions: tuple[SessionRecord, ...]


@dataclass(frozen=True, slots=True)
class AttemptIntended:
    """An attempt in the form of a revision is about to be submitted, with the logins of these marks."""

    attempt: Attempt
    revision: int
    session: SessionRecord
    logins: Marks | None = None


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """The engine runs the attempt under this handle."""

    attempt: Attempt
    handle: Handle


@dataclass(frozen=True, slots=True)
class AttemptDiscarded:
    """The engine never ran the attempt, and never will."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The engine is about to be asked to stop the attempt."""

    attempt: Attempt
    handle: Handle


@dataclass(frozen=True, slots=True)
class AttemptStopped:
    """The engine runs the attempt no more; its form was that of ``revision``.

    ``state`` is the one that it left (``None``: none); ``retained``: the state is a place of its own, which
    is kept beside earlier ones.  ``reversible``: its form can be started again if the next one fails.
    ``restart_lineage``: see :class:`~speck.store.JobRecord`.  ``form`` is the fingerprint of its form.
    ``unkept`` is the place of a state that it left and that was not to be kept.
    """

    attempt: Attempt
    revision: int
    state: State | None = None
    retained: bool = False
    reversible: bool = True
    restart_lineage: tuple[str, str] | None = None
    form: str = ""
    unkept: State | None = None


@dataclass(frozen=True, slots=True)
class AttemptAbandoned:
    """The attempt, in the form of this fingerprint, may run at an engine out of reach.

    It is recorded as abandoned.  ``state`` is its newest state as found without its engine; ``changing``: it
    may yet leave newer ones, at other places, so that its state must be found anew before each start.
    """

    attempt: Attempt
    form: str = ""
    state: State | None = None
    changing: bool = False


@dataclass(frozen=True, slots=True)
class OrphanAdopted:
    """A copy that the store did not name is the job's only attempt from now on."""

    attempt: Attempt
    revision: int
    handle: Handle


@dataclass(frozen=True, slots=True)
class CopyAdopted:
    """A copy that another store has started, in the form of this fingerprint, is the job's only attempt.

    ``fenced`` is the highest attempt that the fence of its ``session`` has named.
    """

    attempt: Attempt
    revision: int
    handle: Handle
    session: SessionRecord
    form: str
    fenced: int


@dataclass(frozen=True, slots=True)
class RevisionNoted:
    """The running attempt has the form of this revision, which differs in notes only."""

    revision: int


@dataclass(frozen=True, slots=True)
class StateFound:
    """The newest state of an attempt, found without its engine."""

    state: State | None


@dataclass(frozen=True, slots=True)
class StateRecovered:
    """An abandoned attempt has ended, and left this state, which is retained like that of a stop."""

    attempt: Attempt
    state: State


@dataclass(frozen=True, slots=True)
class TransferBegun:
    """A copy of the job's state is about to be written to this place."""

    place: State


@dataclass(frozen=True, slots=True)
class TransferCompleted:
    """The job's state is whole at its new place; the old one is garbage."""

    place: State
    source: State


@dataclass(frozen=True, slots=True)
class TransferUndone:
    """No copy has begun from the state at its new place: it is where it was, and the new one is garbage."""

    place: State
    source: State


@dataclass(frozen=True, slots=True)
class StatesDiscarded:
    """These states are deleted."""

    states: tuple[State, ...]


@dataclass(frozen=True, slots=True)
class StatesReleased:
    """The job goes: none of its states is needed any more."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The form that was started has come up: there is no way back to the one before it.

    ``released`` are former sessions that are to be deleted, whatever comes to wait in them.
    """

    released: tuple[SessionRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class FormRestored:
    """The form before this one, with its ``start``, is about to be started again, from the state it had."""

    start: str = LATEST


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """An action on the job failed or waits, for this reason."""

    error: str


Event = (
    SessionIntended
    | SessionEnsured
    | SessionsDetached
    | AttemptIntended
    | AttemptStarted
    | AttemptDiscarded
    | StopRequested
    | AttemptStopped
    | AttemptAbandoned
    | OrphanAdopted
    | CopyAdopted
    | RevisionNoted
    | StateFound
    | StateRecovered
    | TransferBegun
    | TransferCompleted
    | TransferUndone
    | StatesDiscarded
    | StatesReleased
    | Confirmed
    | FormRestored
    | ActionFailed
)
