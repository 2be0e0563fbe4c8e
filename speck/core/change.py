"""A change to what is deployed, as a value: what is to be changed, and who asks for it at what cost.

Nothing is read or decided here.  :class:`speck.coordinator.changes.Changes` turns a change and its request
into a planned one, which is shown, kept, and accepted as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from speck.core.job import Composition, Job
from speck.core.lifecycle import OperationKind
from speck.errors import Fault

SETTLE = 30.0  # s
KEY_DIGITS = 9  # of the key of a request, with which the id of its operation ends
PLACE_ALL, PLACE_NEW, PLACE_NONE = "all", "new", "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The part of a change that does not say what is changed.

    ``author`` asks for it, ``message`` is why.  ``base_revision`` is the revision from which it was made;
    that of an accepted one is the last revision before it (0: none).  ``leave_behind`` names sites, or
    addresses of engines and brokers, that are not asked: copies and sessions there of jobs that leave are
    abandoned instead of stopped and deleted (:mod:`speck.apply.abandon`); of an accepted request these are
    addresses.  ``give_up`` allows the loss of messages in sessions that jobs leave
    (:mod:`speck.apply.draining`).  An ``atomic`` one is reverted if any job of it fails or waits.  ``key``
    identifies the request of a client that may send it again (:func:`request_key`); empty without one.
    ``waves`` are the sites that change first (:mod:`speck.core.waves`); of an accepted request by their
    names.  The jobs of each must run for ``settle`` s before the next one begins.
    """

    kind: OperationKind = OperationKind.APPLY
    author: str = ""
    message: str = ""
    base_revision: int | None = None
    leave_behind: tuple[str, ...] = ()
    give_up: bool = False
    atomic: bool = False
    key: str = ""
    waves: tuple[str, ...] = ()
    settle: float = SETTLE

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
            **({"key": self.key} if self.key else {}),
            **({"waves": list(self.waves), "settle": self.settle} if self.waves else {}),
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
            key=data.get("key", ""),
            waves=tuple(data.get("waves", ())),
            settle=float(data.get("settle", SETTLE)),
        )


def request_key(resource: str, key: str) -> str:
    """The key of a request to a resource for which the client has chosen ``key``: 32 hexadecimal digits."""
    return hashlib.sha256(f"{resource}\n{key}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Apply:
    """Make a composition the next revision; one that is equal to the last revision makes no new one.

    ``place`` is ``new`` (movable jobs that have no place yet are placed), ``all`` (all movable jobs are
    placed anew) or ``none``.  With ``all_code``, every change of a file counts for all of its jobs.
    ``restored`` is the number of the revision that it brings back (0: none).  ``warnings`` are those about
    its text, ``notes`` remarks for its plan by job name.  With ``cuts_stay``, no cut is chosen anew.
    """

    kind: ClassVar = OperationKind.APPLY
    composition: Composition
    warnings: tuple[Fault, ...] = ()
    place: str = PLACE_NEW
    all_code: bool = False
    restored: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)
    cuts_stay: bool = False


@dataclass(frozen=True, slots=True)
class DeleteComposition:
    """Stop all jobs of a composition, then forget it."""

    kind: ClassVar = OperationKind.DELETE
    composition: str


@dataclass(frozen=True, slots=True)
class ApplyJob:
    """Add a job to the last revision of a composition, or replace it there; the others stay as they are."""

    kind: ClassVar = OperationKind.APPLY
    job: Job
    composition: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Stop and forget one job: the last revision of its composition without it."""

    kind: ClassVar = OperationKind.APPLY
    job: str


@dataclass(frozen=True, slots=True)
class Rollback:
    """Bring an earlier revision back as the next one (``None``: the one before the last that differs).

    Of a deleted composition that is the last one by default, whose jobs start as new ones.
    """

    kind: ClassVar = OperationKind.ROLLBACK
    composition: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """Keep a movable job where it runs or at ``site``; without ``pin``, let it be moved again."""

    kind: ClassVar = OperationKind.APPLY
    job: str
    pin: bool = True
    site: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Run some movable jobs of the last revision at another site: a step of the adaptation."""

    kind: ClassVar = OperationKind.PLACE
    composition: str
    jobs: frozenset[str]
    site: str


@dataclass(frozen=True, slots=True)
class Recut:
    """Run what runs with other cuts of its queries: a step of the adaptation."""

    kind: ClassVar = OperationKind.PLACE
    composition: str
    cuts: Mapping[str, str]  # by input job


@dataclass(frozen=True, slots=True)
class Adopt:
    """Make the copies that other stores have started the attempts of a composition's ``jobs`` (of all)."""

    kind: ClassVar = OperationKind.ADOPT
    composition: Composition
    jobs: tuple[str, ...] = ()
    warnings: tuple[Fault, ...] = ()


Change = Apply | DeleteComposition | ApplyJob | DeleteJob | Rollback | Pin | Place | Recut | Adopt
