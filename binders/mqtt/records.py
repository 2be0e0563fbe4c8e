"""The retained records beside a session at a broker: its note and its fence, both with the session's owner.

The note lists every filter that the session may hold, and names the owner: the store whose job reads through
the session.  It is pending until the session is complete: a broker may save its memory while a session is
being made, and come back with one that collects nothing.  The fence names the attempt that may read.
Deleting a session replaces its fence with a tombstone, which prevents a returning copy from recreating it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from binders.common.session_records import SharedRecords, json_object, named_owner, owned_by
from binders.mqtt.connection import Connection
from binders.mqtt.retained import retained_all, retained_below
from speck.binder import OwnedSession
from speck.core.job import fence_topic

TOMBSTONE_SECONDS = 28 * 24 * 3600  # longer than any engine is expected to restart a copy on its own

# Requests to writers to send again, a topic filter each: retained, so that a writer that is away reads them
# when it comes back.  Writers retain messages for less time than that (ResendRequest of the connectors).
_RESEND_REQUESTS = "speck/again/"
_REQUEST_SECONDS = 3600  # for which a broker keeps a request to a job that is away
_NOTES, _FENCES = "speck/session/", fence_topic("")


def note_topic(session: str) -> str:
    """The topic of the retained note with the filters that a session may be subscribed to."""
    return f"{_NOTES}{session}"


def writers_topic(session: str) -> str:
    """The topic of the retained list of the jobs whose stamps a session's reader believes."""
    return f"speck/writers/{session}"


class MqttSessionRecords(SharedRecords):
    """The records of a session, retained at the broker."""

    @classmethod
    def read(cls, control: Connection, session: str) -> MqttSessionRecords:
        """Both, read from the broker."""
        topics = note_topic(session), fence_topic(session)
        note, fence = (json_object(each) for each in retained_all(control, topics))
        return cls(session, note, fence)

    @property
    def pending(self) -> bool:
        """True if the session may not have collected all that its note names."""
        return self.note.get("pending") is True

    def is_complete(self, topic: str) -> bool:
        """True if the session was subscribed to this filter, as far as its note says."""
        return topic in self.topics and not self.pending

    @property
    def read_by(self) -> int | None:
        """The attempt whose reader has claimed the fence; ``None`` if no reader has."""
        claim = self.fence.get("claim")
        return self.fenced if isinstance(claim, int) and claim > 0 and not self.deleted else None

    def name_only(self, owner: str) -> bool:
        """True if all of the records that there are name this owner."""
        return all(named_owner(each) == owner for each in (self.note, self.fence) if each)

    @property
    def way_out(self) -> str:
        """The retained messages to remove if their owner is lost."""
        notes = f"{note_topic(self.session)!r} and {fence_topic(self.session)!r}"
        remedy = f"remove the retained messages {notes}; docs/mqtt.md, Owners"
        return f" (if that store is permanently lost, {remedy})"


def write_note(
    control: Connection, session: str, filters: Iterable[str], owner: str, *, pending: bool = False
) -> None:
    """Write the note of a session."""
    content: dict[str, Any] = {"topics": sorted(filters)} | owned_by(owner)
    _write(control, note_topic(session), content | ({"pending": True} if pending else {}))


def write_writers(control: Connection, session: str, writers: Iterable[str]) -> None:
    """Write the list of the writers whose stamps the session's reader believes."""
    _write(control, writers_topic(session), {"writers": list(writers)})


def write_fence(control: Connection, session: str, attempt: int, owner: str) -> None:
    """Write the fence of a session."""
    _write(control, fence_topic(session), {"attempt": attempt} | owned_by(owner))


def write_tombstone(control: Connection, records: MqttSessionRecords, owner: str) -> None:
    """Replace the fence of a session by a tombstone; none where there is nothing to delete.

    Its number is above all attempts that the fence admitted, so their connectors end.
    """
    if not records.note and not records.fence:
        return
    number = records.fenced if records.deleted else max(records.fenced, 0) + 1
    content = {"attempt": number, "deleted": True} | owned_by(owner)
    _write(control, fence_topic(records.session), content, TOMBSTONE_SECONDS)


def request_resend(control: Connection, topic: str) -> None:
    """Ask all writers to send the messages that they retain for a topic filter again."""
    request = f"{_RESEND_REQUESTS}{uuid.uuid4().hex}"
    control.publish(request, topic.encode(), retain=True, expiry=_REQUEST_SECONDS)


def hand_over(control: Connection, records: MqttSessionRecords, owner: str) -> None:
    """Make a session another owner's in the records that there are; the rest of them stays as it is.

    The note comes first, since it decides.  A reader that claims the fence meanwhile claims it once more.
    """
    if records.note:
        write_note(control, records.session, records.topics, owner, pending=records.pending)
    if records.fence:
        _write(control, fence_topic(records.session), records.fence | owned_by(owner))


def owned_sessions(control: Connection) -> list[OwnedSession]:
    """The sessions at the broker whose notes name an owner, by name."""
    notes = retained_below(control, _NOTES.rstrip("/"))
    fences = retained_below(control, _FENCES.rstrip("/")) if notes else {}
    found = {topic: json_object(content) for topic, content in (notes | fences).items()}
    names = sorted(topic.removeprefix(_NOTES) for topic in notes)
    records = (
        MqttSessionRecords(each, found[note_topic(each)], found.get(fence_topic(each), {})) for each in names
    )
    return [
        OwnedSession(each.session, each.owner, tuple(each.topics), max(each.fenced, 0))
        for each in records
        if each.owner
    ]


def read_fences(control: Connection, sessions: Sequence[str]) -> list[MqttSessionRecords]:
    """The records of sessions without their notes."""
    fences = retained_all(control, [fence_topic(each) for each in sessions])
    return [
        MqttSessionRecords(session, {}, json_object(fence))
        for session, fence in zip(sessions, fences, strict=True)
    ]


def _write(control: Connection, topic: str, content: dict[str, Any], expiry: int = 0) -> None:
    control.publish(topic, json.dumps(content).encode(), retain=True, expiry=expiry)
