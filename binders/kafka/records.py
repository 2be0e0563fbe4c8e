"""The records of a session in the control topic: its note and its fence, both with the session's owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from binders.common.session_records import attempt_of, is_tombstone, owner_of, topics_of
from binders.kafka.control_log import ControlLog
from speck.errors import SessionOfAnother


@dataclass(frozen=True)
class SessionRecords:
    """The note and the fence of a session, as JSON objects; empty if there is none, or other content."""

    session: str
    note: dict[str, Any]
    fence: dict[str, Any]

    @classmethod
    def read(cls, log: ControlLog, session: str) -> SessionRecords:
        """Both, as far as the log has been read."""
        return cls(session, log.get(f"note/{session}"), log.get(f"fence/{session}"))

    @property
    def topics(self) -> list[str]:
        """The topics of the note."""
        return topics_of(self.note)

    @property
    def topic_ids(self) -> dict[str, str]:
        """The topics of the note with their ids; empty for a session that is only claimed."""
        return ids_in(self.note)

    @property
    def fenced(self) -> int:
        """The attempt that the fence or the tombstone names; -1 for none."""
        return attempt_of(self.fence)

    @property
    def deleted(self) -> bool:
        """True if there is a tombstone."""
        return is_tombstone(self.fence)

    @property
    def owner(self) -> str:
        """The owner; empty if there is none, as for deleted sessions."""
        return owner_of(self.note, self.fence)

    def reject_foreign(self, owner: str, address: str) -> None:
        """Raise :class:`SessionOfAnother` if another than ``owner`` (empty: not checked) owns the session."""
        if owner and self.owner and self.owner != owner:
            raise SessionOfAnother(
                f"session {self.session!r} at broker {address} belongs to another SpecK, with store "
                f"{self.owner} (this one has store {owner}): give the job another name here, or delete it "
                "there",
                address=address,
            )


def ids_in(note: dict[str, Any]) -> dict[str, str]:
    """The ids of the topics that a note names, by topic."""
    ids = note.get("ids")
    return {str(topic): str(one) for topic, one in ids.items()} if isinstance(ids, dict) else {}
