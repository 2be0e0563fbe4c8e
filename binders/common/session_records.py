"""The JSON records that SpecK keeps beside a session at a broker, as far as MQTT and Kafka share their form.

The *note* names the topics and the owner of a session, the *fence* the attempt that may read through it.  Any
client of the broker may have written them: content of another form counts as none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from speck.binder import OwnedSession
from speck.errors import SessionOfAnother

_IDENTITY = re.compile("[0-9A-Za-z-]{1,64}")  # other texts are not of SpecK, and name no owner


def json_object(payload: str | bytes | bytearray | None) -> dict[str, Any]:
    """A record as a JSON object; empty if there is none, or other content."""
    try:
        content = json.loads(payload) if payload is not None else {}
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def topics_of(note: Mapping[str, Any]) -> list[str]:
    """The topics, or topic filters, of a note."""
    topics = note.get("topics")
    return [each for each in topics if isinstance(each, str)] if isinstance(topics, list) else []


def attempt_of(fence: Mapping[str, Any]) -> int:
    """The attempt that a fence or a tombstone names; -1 for none."""
    number = fence.get("attempt")
    return number if isinstance(number, int) else -1


def is_tombstone(fence: Mapping[str, Any]) -> bool:
    """True for the record that replaces the fence of a deleted session."""
    return fence.get("deleted") is True


def named_owner(record: Mapping[str, Any]) -> str:
    """The owner that a record names; empty for none."""
    owner = record.get("owner")
    return owner if isinstance(owner, str) and _IDENTITY.fullmatch(owner) else ""


def owner_of(note: Mapping[str, Any], fence: Mapping[str, Any]) -> str:
    """The owner of a session by its records; empty if there is none, as for deleted sessions."""
    if is_tombstone(fence) and not note:
        return ""
    return named_owner(note) or named_owner(fence)


def owned_by(owner: str) -> dict[str, str]:
    """The fields of a record by which it names its owner; none for an empty one."""
    return {"owner": owner} if owner else {}


def of_others(owned: Iterable[OwnedSession], owner: str) -> list[OwnedSession]:
    """The sessions that others than ``owner`` own, without their fences."""
    return [OwnedSession(each.session, each.owner, each.topics) for each in owned if each.owner != owner]


@dataclass(frozen=True)
class SharedRecords:
    """The note and the fence of a session, as JSON objects; empty if there is none, or other content."""

    session: str
    note: dict[str, Any]
    fence: dict[str, Any]

    @property
    def topics(self) -> list[str]:
        """The topics, or topic filters, of the note."""
        return topics_of(self.note)

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

    @property
    def way_out(self) -> str:
        """The remedy for records whose owner is lost, for messages; empty by default."""
        return ""

    def reject_foreign(self, owner: str, address: str) -> None:
        """Raise :class:`SessionOfAnother` if another than ``owner`` (empty: not checked) owns the session."""
        if owner and self.owner and self.owner != owner:
            raise SessionOfAnother(
                f"session {self.session!r} at broker {address} belongs to another SpecK, with store "
                f"{self.owner} (this one has store {owner}): give the job another name here, or delete it "
                f"there{self.way_out}",
                address=address,
            )
