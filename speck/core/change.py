"""A change to what is deployed, as a value: what is to be changed, and who asks for it at what cost.

Nothing is read or decided here.  :class:`speck.coordinator.changes.Changes` turns a change and its request
into a planned one, which is shown, kept, and accepted as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from speck.core.lifecycle import OperationKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The part of a change that does not say what is changed.

    ``author`` asks for it, ``message`` is why.  ``base_revision`` is the revision from which it was made;
    that of an accepted one is the last revision before it (0: none).  ``leave_behind`` names sites, or
    addresses of engines and brokers, that are not asked: copies and sessions there of jobs that leave are
    abandoned instead of stopped and deleted (:mod:`speck.apply.abandon`); of an accepted request these are
    addresses.  ``give_up`` allows the loss of messages in sessions that jobs leave
    (:mod:`speck.apply.leaving`).  An ``atomic`` one is reverted if any job of it fails or waits.
    """

    kind: OperationKind = OperationKind.APPLY
    author: str = ""
    message: str = ""
    base_revision: int | None = None
    leave_behind: tuple[str, ...] = ()
    give_up: bool = False
    atomic: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The request as a part of its operation's plain data."""
        return {
            "kind": self.kind,
            "author": self.author,
            "message": self.message,
            "left_behind": list(self.leave_behind),
            "give_up": self.give_up,
            "atomic": self.atomic,
            "base_revision": self.base_revision or 0,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Request:
        """The request of an operation; former versions stored fewer of its parts."""
        return cls(
            kind=OperationKind(data["kind"]),
            author=data.get("author", ""),
            message=data.get("message", ""),
            base_revision=data.get("base_revision", 0),
            leave_behind=tuple(data.get("left_behind", ())),
            give_up=bool(data.get("give_up")),
            atomic=bool(data.get("atomic")),
        )
