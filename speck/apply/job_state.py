"""The lifecycle of a job: what the store keeps of it, and how the :mod:`~speck.apply.job_events` change that.

:func:`transition` is pure: no clock, no ids, no I/O.  A step names its event; nothing else
rewrites a job's record or its attempts.  The phases of an attempt::

    (none) --AttemptIntended--> INTENDED --AttemptStarted--> RUNNING --StopRequested--> STOPPING
    INTENDED --AttemptDiscarded--> (none)        its engine never ran it
    INTENDED, RUNNING, STOPPING --AttemptAbandoned--> (none)      recorded as abandoned instead
    STOPPING --AttemptStopped--> (none)          its engine says that it runs no more

An attempt that is asked to stop may be asked again (STOPPING to STOPPING), after a crash or a lost answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

from speck.apply.job_events import (
    ActionFailed,
    AttemptAbandoned,
    AttemptDiscarded,
    AttemptIntended,
    AttemptStarted,
    AttemptStopped,
    Confirmed,
    CopyAdopted,
    Event,
    FormRestored,
    OrphanAdopted,
    RevisionNoted,
    SessionEnsured,
    SessionIntended,
    SessionsDetached,
    StateFound,
    StateRecovered,
    StatesDiscarded,
    StatesReleased,
    StopRequested,
    TransferBegun,
    TransferCompleted,
    TransferUndone,
)
from speck.core.lifecycle import AttemptPhase
from speck.core.runtime import Attempt, Handle, State
from speck.store import AttemptRecord, JobRecord, SessionRecord, Store, Transaction

RETAINED_STATES = 2  # of those that each stop of a job leaves: its start's, and one more for people


@dataclass(frozen=True, slots=True)
class JobLifecycle:
    """A job's record and its attempts, the oldest first."""

    record: JobRecord
    attempts: tuple[AttemptRecord, ...] = ()


# --- transitions

_P = AttemptPhase
_PHASES: dict[type, frozenset[AttemptPhase]] = {
    AttemptStarted: frozenset({_P.INTENDED}),
    AttemptDiscarded: frozenset({_P.INTENDED}),
    StopRequested: frozenset(_P),
    AttemptStopped: frozenset({_P.STOPPING}),
    AttemptAbandoned: frozenset(_P),
}


def transition(job: JobLifecycle, event: Event) -> JobLifecycle:
    """The job after an event.

    Raises :class:`ValueError` when the event does not fit the phase of the attempt that it names, or names a
    new attempt whose number another one has had.
    """
    _check_phase(job, event)
    _check_number(job.record, event)
    return JobLifecycle(_record(job.record, event), _attempts(job.attempts, event))


def _check_phase(job: JobLifecycle, event: Event) -> None:
    expected = _PHASES.get(type(event))
    if expected is None:
        return
    attempt: Attempt = event.attempt  # type: ignore[union-attr]  # all of the table have one
    phase = next((each.phase for each in job.attempts if each.attempt.id == attempt.id), None)
    if phase not in expected:
        raise ValueError(
            f"job {job.record.name!r}: {type(event).__name__} of attempt {attempt.number}, whose phase is "
            f"{phase or 'none'} (expected {' or '.join(sorted(expected))})"
        )


def _check_number(record: JobRecord, event: Event) -> None:
    """Fences and stamps rest on it that no number is given twice."""
    if isinstance(event, AttemptIntended) and event.attempt.number <= record.attempts:
        raise ValueError(
            f"job {record.name!r}: number {event.attempt.number} of a new attempt is not free "
            f"(expected one above {record.attempts})"
        )


def _attempts(attempts: tuple[AttemptRecord, ...], event: Event) -> tuple[AttemptRecord, ...]:
    match event:
        case AttemptIntended():
            return (*attempts, AttemptRecord(event.attempt, event.revision, logins=event.logins))
        case AttemptStarted():
            return _in_phase(attempts, event.attempt, _P.RUNNING, event.handle)
        case StopRequested():
            return _in_phase(attempts, event.attempt, _P.STOPPING, event.handle)
        case AttemptDiscarded() | AttemptAbandoned() | AttemptStopped():
            return tuple(each for each in attempts if each.attempt.id != event.attempt.id)
        case OrphanAdopted() | CopyAdopted():
            return (AttemptRecord(event.attempt, event.revision, _P.RUNNING, event.handle),)
        case RevisionNoted():
            return (*attempts[:-1], *(replace(each, revision=event.revision) for each in attempts[-1:]))
        case _:
            return attempts


def _in_phase(
    attempts: tuple[AttemptRecord, ...], attempt: Attempt, phase: AttemptPhase, handle: Handle
) -> tuple[AttemptRecord, ...]:
    return tuple(
        replace(each, phase=phase, handle=handle) if each.attempt.id == attempt.id else each
        for each in attempts
    )


def _record(record: JobRecord, event: Event) -> JobRecord:
    match event:
        case SessionIntended():
            return _session_intended(record, event)
        case SessionEnsured():
            return with_session(record, event.session)
        case SessionsDetached():
            return _without_sessions(record, event.sessions)
        case AttemptIntended():
            return _attempt_intended(record, event)
        case AttemptStarted():
            return _started(record, event.attempt)
        case AttemptStopped():
            return _stopped(record, event)
        case AttemptAbandoned():
            source = event.attempt.id if event.changing else ""
            return replace(record, form=event.form, state=event.state or record.state, state_source=source)
        case OrphanAdopted():
            return _orphan_adopted(record, event.attempt)
        case CopyAdopted():
            return _adopted(record, event)
        case StateFound():
            return replace(record, state=event.state)
        case StateRecovered():
            return _recovered(record, event)
        case TransferBegun():
            return _with_garbage(record, [event.place])
        case TransferCompleted():
            # The copy that starts from the state changes it: from now on it is at its new place alone.
            return _moved(record, event.source, event.place)
        case TransferUndone():
            return _moved(record, event.place, event.source)
        case StatesDiscarded():
            return _without_garbage(record, event.states)
        case StatesReleased():
            return _released(record)
        case Confirmed():
            return _confirmed(_settled(record, event.released))
        case FormRestored():
            return _restored(_without_replay(record, event.start))
        case ActionFailed():
            return replace(record, error=event.error)
        case _:
            return record


def _session_intended(record: JobRecord, event: SessionIntended) -> JobRecord:
    intended = with_session(record, event.session)
    unread = event.session.name if event.replay else record.unread
    return replace(intended, unmade_sessions=(*intended.unmade_sessions, event.session), unread=unread)


def _without_sessions(record: JobRecord, sessions: Collection[SessionRecord]) -> JobRecord:
    return replace(
        record,
        sessions=_without(record.sessions, sessions),
        unmade_sessions=_without(record.unmade_sessions, sessions),
    )


def _attempt_intended(record: JobRecord, event: AttemptIntended) -> JobRecord:
    return replace(
        with_session(record, event.session),
        attempts=event.attempt.number,
        incarnation=event.attempt.incarnation,
        origin=event.attempt.origin,
        renumbers=False,
    )


def _started(record: JobRecord, attempt: Attempt) -> JobRecord:
    # A state that a copy did not start from must not come back when a later one is stateful again.
    source = record.state_source if attempt.state is not None else ""
    started = replace(
        _begun(record, attempt),
        state=attempt.state,
        state_source=source,
        restart_lineage=None,
        error="",
    )
    return started if attempt.state is None else replace(started, rollback_state=None)


def _orphan_adopted(record: JobRecord, attempt: Attempt) -> JobRecord:
    """The record of a job whose engine has the state that the copy began from: the store's is of another."""
    return replace(
        _begun(record, attempt),
        attempts=max(record.attempts, attempt.number),
        error="",
        state=None,
        state_source="",
        rollback_revision=0,
        rollback_state=None,
        restart_lineage=None,
        renumbers=True,
    )


def _recovered(record: JobRecord, event: StateRecovered) -> JobRecord:
    retained = _retain(record, event.state)
    newest = record.state_source == event.attempt.id
    return replace(retained, state=event.state, state_source="") if newest else retained


def _begun(record: JobRecord, attempt: Attempt) -> JobRecord:
    """The record as a copy has begun to read through its session."""
    return replace(record, unread="") if record.unread == attempt.session else record


def _adopted(record: JobRecord, event: CopyAdopted) -> JobRecord:
    """The record of a job whose copy continues as it is: its stamps continue, too."""
    return JobRecord(
        record.name,
        record.composition,
        attempts=max(record.attempts, event.attempt.number, event.fenced),
        sessions=(event.session,),
        incarnation=event.attempt.incarnation,
        origin=event.attempt.origin,
        form=event.form,
    )


def _stopped(record: JobRecord, event: AttemptStopped) -> JobRecord:
    if event.unkept is not None:
        record = _without_state(record, event.unkept)
    if event.state is not None and event.retained:
        record = _retain(record, event.state)
    if record.rollback_revision in (0, event.revision):
        record = replace(
            record,
            rollback_revision=event.revision if event.reversible else 0,
            rollback_state=(event.state or record.state) if event.reversible else None,
        )
    # Otherwise it is a form that has not come up: the one before it is the way back.
    record = replace(record, restart_lineage=event.restart_lineage, form=event.form)
    if event.state is None:
        return record
    if event.state.location != _location(event.attempt.state):
        return replace(record, state=event.state, state_source="")
    # It left nothing newer than it began from; an abandoned copy may have since.
    found = _location(record.state) not in (None, event.state.location)
    return record if found else replace(record, state=event.state)


def _moved(record: JobRecord, source: State, place: State) -> JobRecord:
    """The record as the state is at this place, and the one at its source is garbage."""
    moved = _with_garbage(_without_garbage(record, [place]), [source])
    back = place if record.rollback_state == source else record.rollback_state
    return replace(moved, state=place, rollback_state=back)


def _without_state(record: JobRecord, unkept: State) -> JobRecord:
    """The record with the state at a place as garbage, unless the form before this one starts from there."""
    if unkept.location == _location(record.rollback_state):
        return record
    if unkept.location == _location(record.state):
        record = replace(record, state=None, state_source="")
    return _with_garbage(record, [unkept])


def _released(record: JobRecord) -> JobRecord:
    """The record with all states as garbage, except for one that an abandoned copy may still change."""
    states = {each.location: each for each in (record.state, record.rollback_state) if each is not None}
    if record.state is not None and record.state_source:
        del states[record.state.location]
    gone = [each for each in states.values() if each not in record.retained_states]
    released = _with_garbage(record, [*record.retained_states, *gone])
    return replace(released, state=None, state_source="", rollback_state=None)


def _confirmed(record: JobRecord) -> JobRecord:
    """The record without a way back, whose state is garbage unless the present form began from it."""
    former = record.rollback_state
    record = replace(record, rollback_revision=0, rollback_state=None)
    used = [record.state, *record.retained_states]
    if former is None or former.location in map(_location, used):
        return record
    return _with_garbage(record, [former])


def _restored(record: JobRecord) -> JobRecord:
    """The record from which the former form starts: with its own state, if the form after it had none.

    That form may have written messages with the numbers that follow the state: they are not given again.
    The state stays that of the former form until a copy has started from it: if the former form cannot be
    started now, the form after it is tried again, and may begin without a state once more.
    """
    state = record.rollback_state
    if state is None:
        return record
    renumbers = record.renumbers or record.state != state
    return replace(record, state=state, state_source="", renumbers=renumbers)


def _without_replay(record: JobRecord, start: str) -> JobRecord:
    """The record for a form with a ``start``: a session through which another form read again is given up."""
    if not record.sessions or record.sessions[-1].start == start:
        return record
    *former, last = record.sessions
    if not any(each.start and each.source == last.source for each in former):
        return record
    return replace(record, sessions=(*former, replace(last, start="")), unread="")


def _settled(record: JobRecord, released: Collection[SessionRecord]) -> JobRecord:
    """The record without a way back to these sessions, and to those whose messages the last one has too."""
    former, last = record.sessions[:-1], record.sessions[-1:]
    gone = [each for each in former if each in released or each.source == last[0].source]
    return replace(
        record,
        sessions=_marked(record.sessions, gone),
        unmade_sessions=_marked(record.unmade_sessions, gone),
    )


def _marked(sessions: Iterable[SessionRecord], gone: Collection[SessionRecord]) -> tuple[SessionRecord, ...]:
    """The sessions, those that are gone as to be deleted."""
    return tuple(replace(each, start="") if each in gone else each for each in sessions)


def _location(state: State | None) -> str | None:
    return state.location if state is not None else None


def _retain(record: JobRecord, state: State) -> JobRecord:
    """The record with one more retained state; the oldest beyond the bound become garbage."""
    retained = (*_without(record.retained_states, [state]), state)
    record = replace(_without_garbage(record, [state]), retained_states=retained)
    needed = [] if record.rollback_state is None else [record.rollback_state]
    return _with_garbage(record, _without(retained[:-RETAINED_STATES], needed))


def _with_garbage(record: JobRecord, states: Collection[State]) -> JobRecord:
    garbage = (*_without(record.garbage_states, states), *states)
    return replace(record, garbage_states=garbage, retained_states=_without(record.retained_states, states))


def _without_garbage(record: JobRecord, states: Collection[State]) -> JobRecord:
    return replace(record, garbage_states=_without(record.garbage_states, states))


def with_session(record: JobRecord, session: SessionRecord) -> JobRecord:
    """The record with this session last, which is the place of the current one, and made."""
    return replace(
        record,
        sessions=(*_without(record.sessions, [session]), session),
        unmade_sessions=_without(record.unmade_sessions, [session]),
    )


_T = TypeVar("_T")


def _without(values: Iterable[_T], gone: Collection[_T]) -> tuple[_T, ...]:
    return tuple(each for each in values if each not in gone)


# --- the store


def lifecycle_of(store: Store, name: str, composition: str) -> JobLifecycle:
    """A job as the store records it; of a new one, nothing yet."""
    record = store.job(name) or JobRecord(name, composition, store.first_attempt)
    attempts = tuple(store.attempts(name))
    return JobLifecycle(_above_all(record, attempts), attempts)


def _above_all(record: JobRecord, attempts: Iterable[AttemptRecord]) -> JobRecord:
    """The record with a number of attempts that none of its attempts exceeds.

    Stores of versions before 0.2 may have lost the write of a record while that of an attempt was kept: the
    next attempt then counts anew, since its incarnation may have been given as well.
    """
    highest = max((each.attempt.number for each in attempts), default=0)
    return record if highest <= record.attempts else replace(record, attempts=highest, renumbers=True)


def write(transaction: Transaction, before: JobLifecycle, *events: Event) -> JobLifecycle:
    """Write the differences that events make to a job; returns the job after them."""
    after = reduce(transition, events, before)
    if after.record != before.record:
        transaction.put_job(after.record)
    for gone in (each for each in before.attempts if _of(after, each) is None):
        transaction.delete_attempt(gone.attempt)
    for each in after.attempts:
        if _of(before, each) != each:
            transaction.put_attempt(each)
    return after


def _of(job: JobLifecycle, attempt: AttemptRecord) -> AttemptRecord | None:
    return next((each for each in job.attempts if each.attempt.id == attempt.attempt.id), None)
