"""Changes that reach the disk together, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from speck.core.adaptation import AdaptationState
from speck.core.lifecycle import AUTOMATIC
from speck.core.runtime import Attempt
from speck.placement.profile import JobProfile, SiteProfile
from speck.store import codec, profiles
from speck.store.abandoned import AbandonedAttempt, AbandonedSession, DeletedSession
from speck.store.agents import AgentRecord, CodeRecord
from speck.store.codec import key_of, number_part
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

OPERATION_KINDS = ("operation", "healing")

Record = tuple[bytes, bytes]  # a key with its value
Change = tuple[bytes, bytes | None]  # a key with its new value; None deletes it


class Transaction:
    """Gathers changes, each key's last one counting; ``keys`` finds those there are by their beginning."""

    def __init__(self, keys: Callable[[bytes], Iterable[bytes]]) -> None:
        self._keys = keys
        self.events: list[Event] = []
        self._changes: dict[bytes, bytes | None] = {}

    def changes(self) -> list[Change]:
        """The changes so far, except for events, which get their numbers when they are written."""
        return list(self._changes.items())

    def put_head(self, head: Head) -> None:
        """Write a composition's head."""
        self._changes[key_of("composition", head.name)] = codec.encode_head(head)

    def put_deleted(self, deleted: DeletedComposition) -> None:
        """Write a composition as deleted: its revisions stay, its head and its adaptation's memory go."""
        self._changes[key_of("composition", deleted.name)] = None
        self._changes[key_of("adapt", deleted.name)] = None
        self._changes[key_of("deleted", deleted.name)] = codec.encode_deleted(deleted)

    def delete_deleted(self, name: str) -> None:
        """Forget that a composition was deleted, as there is one of its name again."""
        self._changes[key_of("deleted", name)] = None

    def forget_composition(self, name: str) -> None:
        """Forget a deleted composition with its revisions."""
        self.delete_deleted(name)
        for kind in ("revision", "outcome"):
            self._changes |= dict.fromkeys(self._keys(key_of(kind, name, "")))

    def put_adaptation(self, name: str, memory: AdaptationState) -> None:
        """Write the memory of a composition's adaptation."""
        self._changes[key_of("adapt", name)] = codec.encode_adaptation(memory)

    def put_revision(self, revision: Revision) -> None:
        """Write a revision; it is never changed afterwards."""
        key = key_of("revision", revision.composition, number_part(revision.number))
        self._changes[key] = codec.encode_revision(revision)

    def delete_revision(self, composition: str, number: int) -> None:
        """Forget a revision and its outcome."""
        for kind in ("revision", "outcome"):
            self._changes[key_of(kind, composition, number_part(number))] = None

    def put_outcome(self, composition: str, number: int, outcome: RevisionOutcome) -> None:
        """Write the outcome of a revision."""
        key = key_of("outcome", composition, number_part(number))
        self._changes[key] = codec.encode_outcome(outcome)

    def put_job(self, record: JobRecord) -> None:
        """Write what is deployed of a job."""
        self._changes[key_of("job", record.name)] = codec.encode_job(record)

    def delete_job(self, name: str) -> None:
        """Forget a job, what was tried of it, and its measured load."""
        self._changes[key_of("job", name)] = None
        self.put_tries(name, None)
        for kind in ("job", "cut"):
            self._changes |= dict.fromkeys(self._keys(key_of("profile", kind, name, "")))

    def put_tries(self, job: str, tries: RetryState | None) -> None:
        """Write what was tried of a job; ``None`` forgets it."""
        self._changes[key_of("tries", job)] = None if tries is None else codec.encode_tries(tries)

    def put_job_profile(self, job: str, form: str, profile: JobProfile) -> None:
        """Write the measured load of a job in a form."""
        self._changes[key_of("profile", "job", job, form)] = profiles.encode_job_profile(profile)

    def delete_job_profile(self, job: str, form: str) -> None:
        """Forget the measured load of a job in a form."""
        self._changes[key_of("profile", "job", job, form)] = None

    def put_cut_correction(self, job: str, form: str, correction: CutCorrection) -> None:
        """Write the measured errors of the estimate of an input job at a cut."""
        self._changes[key_of("profile", "cut", job, form)] = profiles.encode_cut_correction(correction)

    def delete_cut_correction(self, job: str, form: str) -> None:
        """Forget the measured errors of the estimate of an input job at a cut."""
        self._changes[key_of("profile", "cut", job, form)] = None

    def put_link(self, source: str, target: str, link: MeasuredLink) -> None:
        """Write the measurements of a link between two sites."""
        self._changes[key_of("profile", "link", source, target)] = profiles.encode_link(link)

    def put_site_profile(self, profile: SiteProfile) -> None:
        """Write the measured values of a site."""
        self._changes[key_of("profile", "site", profile.name)] = profiles.encode_site_profile(profile)

    def put_attempt(self, record: AttemptRecord) -> None:
        """Write an attempt, in the phase it is in."""
        self._changes[_attempt_key(record.attempt)] = codec.encode_attempt(record)

    def delete_attempt(self, attempt: Attempt) -> None:
        """Forget an attempt that is known to have ended."""
        self._changes[_attempt_key(attempt)] = None

    def put_abandoned_attempt(self, attempt: AbandonedAttempt) -> None:
        """Write an attempt that is abandoned."""
        self._changes[key_of("left", attempt.key)] = codec.encode_operation(attempt.to_dict())

    def delete_abandoned_attempt(self, attempt: AbandonedAttempt) -> None:
        """Delete an abandoned attempt that has ended."""
        self._changes[key_of("left", attempt.key)] = None

    def put_abandoned_session(self, session: AbandonedSession) -> None:
        """Write a session that is abandoned."""
        self._changes[key_of("left-session", session.key)] = codec.encode_operation(session.to_dict())

    def delete_abandoned_session(self, session: AbandonedSession) -> None:
        """Delete an abandoned session that no longer exists."""
        self._changes[key_of("left-session", session.key)] = None

    def put_deleted_session(self, session: DeletedSession) -> None:
        """Write a session that was deleted."""
        self._changes[key_of("gone-session", session.key)] = codec.encode_operation(asdict(session))

    def forget_deleted_session(self, session: DeletedSession) -> None:
        """Forget a deleted session: its broker has saved that, or a job has a session of its name again."""
        self._changes[key_of("gone-session", session.key)] = None

    def put_agent(self, agent: AgentRecord) -> None:
        """Write the agent of a site."""
        self._changes[key_of("agent", agent.site)] = codec.encode_operation(agent.to_dict())

    def put_join_code(self, code: CodeRecord) -> None:
        """Write a code with which a site joins."""
        self._changes[key_of("join", code.sha256)] = codec.encode_operation(code.to_dict())

    def delete_join_code(self, code: CodeRecord) -> None:
        """Forget a code."""
        self._changes[key_of("join", code.sha256)] = None

    def put_operation(self, identifier: str, data: Mapping[str, Any]) -> None:
        """Write an operation as plain data; those of the loops are kept apart."""
        kind = "healing" if data.get("kind") in AUTOMATIC else "operation"
        self._changes[key_of(kind, identifier)] = codec.encode_operation(data)

    def delete_operation(self, identifier: str) -> None:
        """Forget an operation."""
        self._changes |= {key_of(kind, identifier): None for kind in OPERATION_KINDS}

    def add_event(self, event: Event) -> None:
        """Append to the audit log; the oldest entry leaves when the log is full."""
        self.events.append(event)


def _attempt_key(attempt: Attempt) -> bytes:
    return key_of("attempt", attempt.job_name, number_part(attempt.number))
