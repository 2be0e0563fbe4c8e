"""The sessions with messages that the jobs of a plan leave, as known before it is carried out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from speck.apply.leaving import count_unread, left_sessions
from speck.binder.pool import BinderPool
from speck.core.graph import source_of
from speck.core.job import Job
from speck.core.lifecycle import AttemptPhase
from speck.core.plan import Action, Keep, Plan, UndrainedSession
from speck.core.rewiring import Rewiring, rewirings
from speck.core.runtime import JobStatus
from speck.core.waiting import waiting_text
from speck.errors import BinderError, Fault, InvalidInput
from speck.store import JobRecord, SessionRecord
from speck.store.deployments import Snapshot
from speck.store.history import History

_REMEDY = "use --give-up to discard them"


@dataclass(frozen=True)
class UndrainedSessions:
    """Finds the sessions with messages that the jobs of a plan leave, and what becomes of these.

    ``drain`` is the time for a job to process what waits for it, s; ``left_behind`` are addresses that are
    not asked.
    """

    history: History
    pool: BinderPool
    drain: float
    left_behind: Collection[str]
    give_up: bool

    def of(
        self, plan: Plan, snapshot: Snapshot, desired: Mapping[str, Job], statuses: Mapping[str, JobStatus]
    ) -> tuple[UndrainedSession, ...]:
        """The sessions with messages that a plan's jobs leave."""
        actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
        leaving = rewirings(actions, delete_all=not desired)
        found = (
            self._undrained(snapshot.records[name], rewiring, session, _runs(snapshot, name, statuses))
            for name, rewiring in sorted(leaving.items())
            for session in self._sessions(snapshot, actions[name])
            if session.broker not in self.left_behind
        )
        return tuple(each for each in found if each is not None)

    def _undrained(
        self, record: JobRecord, rewiring: Rewiring, session: SessionRecord, runs: bool
    ) -> UndrainedSession | None:
        away = rewiring.former.spe_address in self.left_behind
        read = runs and session.source == source_of(rewiring.former)
        # At an abandoned engine, a copy that loses its session for a moment does no harm.
        waiting = None if read and not away else self._count(record, session)
        fate, lossless = self._fate(read, runs, away)
        if waiting == 0 or not fate or (away and waiting is None):
            return None
        return UndrainedSession(record.name, session.broker, session.topic, waiting, fate, lossless)

    def _fate(self, read: bool, runs: bool, away: bool) -> tuple[str, bool]:
        """The messages' fate, empty where it goes without saying; and true if none is lost."""
        if away:
            return "its engine is treated as lost, so they are discarded", False
        if self.drain <= 0:
            return "draining is disabled (speck serve --drain 0), so they are discarded", False
        if read and self.give_up:
            return f"those it does not process in {self.drain:g} s are discarded", False
        if read:
            return "", True
        why = "the job does not read them" if runs else "the job is not running"
        if self.give_up:
            return f"{why}, so they are discarded", False
        form = "the form that reads there" if runs else "its old form"
        return f"{why}; it is restarted in {form} to process them first", True

    def _sessions(self, snapshot: Snapshot, action: Action) -> list[SessionRecord]:
        sessions = snapshot.records[action.job.job_name].sessions
        return left_sessions(self.history, snapshot.head.name, action, sessions)

    def _count(self, record: JobRecord, session: SessionRecord) -> int | None:
        try:
            return count_unread(self.pool.broker(session.broker), record, session)
        except BinderError:
            return None


def refuse_loss(composition: str, leaves: Collection[UndrainedSession], give_up: bool) -> None:
    """Raise :class:`~speck.errors.InvalidInput` if messages are to be lost that may not be given up."""
    faults = [
        Fault(f"{undrained_text(each)} ({_REMEDY})", job=each.job, field="source_topic", value=each.topic)
        for each in leaves
        if not each.lossless and not give_up
    ]
    if faults:
        raise InvalidInput(faults, f"composition {composition!r}")


def undrained_text(session: UndrainedSession) -> str:
    """Messages at a source that a job leaves, as text."""
    waiting = waiting_text(session.waiting, session.topic, session.broker)
    return f"{waiting}, which it leaves: {session.fate}"


def _runs(snapshot: Snapshot, name: str, statuses: Mapping[str, JobStatus]) -> bool:
    attempt, status = snapshot.attempt(name), statuses.get(name)
    gone = status is not None and status.state.ended
    return attempt is not None and attempt.phase is AttemptPhase.RUNNING and not gone
