"""Changes that reach the disk together, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from speck.core.adaptation import AdaptationState
from speck.core.lifecycle import AUTOMATIC
from speck.core.runtime import Attempt
from speck.placement.profile import JobProfile, SiteProfile
from speck.store import kinds
from speck.store.abandoned import AbandonedAttempt, AbandonedSession, DeletedSession
from speck.store.agents import AgentRecord, CodeRecord
from speck.store.kinds import Kind
from speck.store.profiles import CutCorrection, MeasuredLink
from speck.store.records import (
    AttemptRecord,
    DeletedComposition,
    Event,
    Head,
    JobRecord,
    RetryState,
    Revision,
    RevisionOutcome,
)

_T = TypeVar("_T")

Record = tuple[bytes, bytes]  # a key with its value
Write = tuple[bytes, bytes | None]  # a key with its new value; None deletes it


class Transaction:
    """Gathers changes, each key's last one counting; ``keys`` finds those there are by their beginning."""

    def __init__(self, keys: Callable[[bytes], Iterable[bytes]]) -> None:
        self._keys = keys
        self.events: list[Event] = []
        self._changes: dict[bytes, bytes | None] = {}

    def changes(self) -> list[Write]:
        """The changes so far, except for events, which get their numbers when they are written."""
        return list(self._changes.items())

    def _put(self, kind: Kind[_T], record: _T, *parts: str | int) -> None:
        self._changes[kind.key(*parts)] = kind.encode(record)

    def _delete(self, kind: Kind[Any], *parts: str | int) -> None:
        self._changes[kind.key(*parts)] = None

    def _delete_all(self, kind: Kind[Any], *parts: str) -> None:
        self._changes |= dict.fromkeys(self._keys(kind.beginning(*parts)))

    def put_head(self, head: Head) -> None:
        """Write a composition's head."""
        self._put(kinds.HEAD, head, head.name)

    def put_deleted(self, deleted: DeletedComposition) -> None:
        """Write a composition as deleted: its revisions stay, its head and its adaptation's memory go."""
        self._delete(kinds.HEAD, deleted.name)
        self._delete(kinds.ADAPTATION, deleted.name)
        self._put(kinds.DELETED, deleted, deleted.name)

    def delete_deleted(self, name: str) -> None:
        """Forget that a composition was deleted, as there is one of its name again."""
        self._delete(kinds.DELETED, name)

    def forget_composition(self, name: str) -> None:
        """Forget a deleted composition with its revisions."""
        self.delete_deleted(name)
        self._delete_all(kinds.REVISION, name)
        self._delete_all(kinds.OUTCOME, name)

    def put_adaptation(self, name: str, memory: AdaptationState) -> None:
        """Write the memory of a composition's adaptation."""
        self._put(kinds.ADAPTATION, memory, name)

    def put_revision(self, revision: Revision) -> None:
        """Write a revision; it is never changed afterwards."""
        self._put(kinds.REVISION, revision, revision.composition, revision.number)

    def delete_revision(self, composition: str, number: int) -> None:
        """Forget a revision and its outcome."""
        self._delete(kinds.REVISION, composition, number)
        self._delete(kinds.OUTCOME, composition, number)

    def put_outcome(self, composition: str, number: int, outcome: RevisionOutcome) -> None:
        """Write the outcome of a revision."""
        self._put(kinds.OUTCOME, outcome, composition, number)

    def put_job(self, record: JobRecord) -> None:
        """Write what is deployed of a job."""
        self._put(kinds.JOB, record, record.name)

    def delete_job(self, name: str) -> None:
        """Forget a job, its retry state, and its measured load."""
        self._delete(kinds.JOB, name)
        self.put_retry_state(name, None)
        self._delete_all(kinds.JOB_PROFILE, name)
        self._delete_all(kinds.CUT_CORRECTION, name)

    def put_retry_state(self, job: str, state: RetryState | None) -> None:
        """Write the retry state of a job that does not come up; ``None`` forgets it."""
        if state is None:
            self._delete(kinds.RETRY_STATE, job)
        else:
            self._put(kinds.RETRY_STATE, state, job)

    def put_job_profile(self, job: str, form: str, profile: JobProfile) -> None:
        """Write the measured load of a job in a form."""
        self._put(kinds.JOB_PROFILE, profile, job, form)

    def delete_job_profile(self, job: str, form: str) -> None:
        """Forget the measured load of a job in a form."""
        self._delete(kinds.JOB_PROFILE, job, form)

    def put_cut_correction(self, job: str, form: str, correction: CutCorrection) -> None:
        """Write the measured errors of the estimate of an input job at a cut."""
        self._put(kinds.CUT_CORRECTION, correction, job, form)

    def delete_cut_correction(self, job: str, form: str) -> None:
        """Forget the measured errors of the estimate of an input job at a cut."""
        self._delete(kinds.CUT_CORRECTION, job, form)

    def put_link(self, source: str, target: str, link: MeasuredLink) -> None:
        """Write the measurements of a link between two sites."""
        self._put(kinds.LINK, link, source, target)

    def put_site_profile(self, profile: SiteProfile) -> None:
        """Write the measured values of a site."""
        self._put(kinds.SITE_PROFILE, profile, profile.name)

    def put_attempt(self, record: AttemptRecord) -> None:
        """Write an attempt, in the phase it is in."""
        self._put(kinds.ATTEMPT, record, record.attempt.job_name, record.attempt.number)

    def delete_attempt(self, attempt: Attempt) -> None:
        """Forget an attempt that is known to have ended."""
        self._delete(kinds.ATTEMPT, attempt.job_name, attempt.number)

    def put_abandoned_attempt(self, attempt: AbandonedAttempt) -> None:
        """Write an attempt that is abandoned."""
        self._put(kinds.ABANDONED_ATTEMPT, attempt, attempt.key)

    def delete_abandoned_attempt(self, attempt: AbandonedAttempt) -> None:
        """Delete an abandoned attempt that has ended."""
        self._delete(kinds.ABANDONED_ATTEMPT, attempt.key)

    def put_abandoned_session(self, session: AbandonedSession) -> None:
        """Write a session that is abandoned."""
        self._put(kinds.ABANDONED_SESSION, session, session.key)

    def delete_abandoned_session(self, session: AbandonedSession) -> None:
        """Delete an abandoned session that no longer exists."""
        self._delete(kinds.ABANDONED_SESSION, session.key)

    def put_deleted_session(self, session: DeletedSession) -> None:
        """Write a session that was deleted."""
        self._put(kinds.DELETED_SESSION, session, session.key)

    def forget_deleted_session(self, session: DeletedSession) -> None:
        """Forget a deleted session: its broker has saved that, or a job has a session of its name again."""
        self._delete(kinds.DELETED_SESSION, session.key)

    def put_agent(self, agent: AgentRecord) -> None:
        """Write the agent of a site."""
        self._put(kinds.AGENT, agent, agent.site)

    def put_join_code(self, code: CodeRecord) -> None:
        """Write a code with which a site joins."""
        self._put(kinds.JOIN_CODE, code, code.sha256)

    def delete_join_code(self, code: CodeRecord) -> None:
        """Forget a code."""
        self._delete(kinds.JOIN_CODE, code.sha256)

    def put_operation(self, identifier: str, data: Mapping[str, Any]) -> None:
        """Write an operation as plain data; those of the loops are kept apart."""
        kind = kinds.HEALING if data.get("kind") in AUTOMATIC else kinds.OPERATION
        self._put(kind, dict(data), identifier)

    def delete_operation(self, identifier: str) -> None:
        """Forget an operation."""
        for kind in kinds.OPERATIONS:
            self._delete(kind, identifier)

    def add_event(self, event: Event) -> None:
        """Append to the audit log; the oldest entry leaves when the log is full."""
        self.events.append(event)
