"""The records of a session in the control topic: its note and its fence, both with the session's owner."""

from __future__ import annotations

from typing import Any

from binders.common.session_records import SharedRecords
from binders.kafka.control_log import ControlLog


class KafkaSessionRecords(SharedRecords):
    """The records of a session, in the control topic."""

    @classmethod
    def read(cls, log: ControlLog, session: str) -> KafkaSessionRecords:
        """Both, as far as the log has been read."""
        return cls(session, log.get(f"note/{session}"), log.get(f"fence/{session}"))

    @property
    def topic_ids(self) -> dict[str, str]:
        """The topics of the note with their ids; empty for a session that is only claimed."""
        return ids_in(self.note)


def ids_in(note: dict[str, Any]) -> dict[str, str]:
    """The ids of the topics that a note names, by topic."""
    ids = note.get("ids")
    return {str(topic): str(one) for topic, one in ids.items()} if isinstance(ids, dict) else {}
