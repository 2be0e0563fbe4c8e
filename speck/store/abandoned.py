"""Attempts and sessions abandoned at places out of reach, recorded until they are ended.

Deleted sessions are recorded too, until their broker has saved that for certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from speck.core.job import session_fingerprint
from speck.core.runtime import Attempt, Handle, State

LOOKS = (120.0, 3600.0)  # s after a deletion; the last one is behind a save of any broker


@dataclass(frozen=True, slots=True)
class AbandonedAttempt:
    """A copy that may run at an engine out of reach; ``handle`` is ``None`` if none was ever answered."""

    composition: str
    engine: str
    address: str
    source_broker: str
    attempt: Attempt
    handle: Handle | None = None

    @property
    def key(self) -> str:
        """Its key in the store."""
        return self.attempt.id

    @property
    def session(self) -> tuple[str, str]:
        """The broker and the name of the session through which it reads."""
        return self.source_broker, self.attempt.session

    def to_dict(self) -> dict[str, Any]:
        """The copy as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AbandonedAttempt:
        """The inverse of :meth:`to_dict`."""
        attempt, handle = dict(data["attempt"]), data["handle"]
        attempt["state"] = State(**attempt["state"]) if attempt["state"] else None
        parts = {"attempt": Attempt(**attempt), "handle": Handle(**handle) if handle else None}
        return cls(**{**data, **parts})


@dataclass(frozen=True, slots=True)
class AbandonedSession:
    """A session that is to be deleted at a broker out of reach.

    ``fenced``: its fence was raised above the abandoned copies that read through it.  ``waiting`` is the
    number of messages that are deleted with it, and ``unsaved`` that of those that its broker has lost, once
    they have been counted.  ``returned``: it was deleted, and its broker has lost that.
    """

    composition: str
    job: str
    broker: str
    name: str
    topic: str
    fenced: bool = False
    waiting: int = 0
    returned: bool = False
    unsaved: int = 0

    @property
    def key(self) -> str:
        """Its key in the store."""
        return session_fingerprint(self.broker, self.name)

    def to_dict(self) -> dict[str, Any]:
        """The session as plain data, which older versions read as long as nothing was counted."""
        later = ("waiting", "returned", "unsaved")
        return {name: value for name, value in asdict(self).items() if value or name not in later}


@dataclass(frozen=True, slots=True)
class DeletedSession:
    """A session that was deleted at a broker, which may come back from a power cut without that.

    ``at`` is the time of the deletion, ``due`` that of the next look for it (Unix time, s), and ``looks`` the
    number of looks since the deletion.
    """

    composition: str
    job: str
    broker: str
    name: str
    topic: str
    at: float
    due: float
    looks: int = 0

    @classmethod
    def of(cls, session: AbandonedSession, at: float) -> DeletedSession:
        """A session that was deleted at this time."""
        due = at + LOOKS[0]
        return cls(session.composition, session.job, session.broker, session.name, session.topic, at, due)

    def looked_for(self) -> DeletedSession | None:
        """The session when it was not found; ``None`` once its broker has saved the deletion for certain."""
        looks = self.looks + 1
        return replace(self, due=self.at + LOOKS[looks], looks=looks) if looks < len(LOOKS) else None

    def returned(self) -> AbandonedSession:
        """The session as one that is to be deleted again."""
        names = self.composition, self.job, self.broker, self.name, self.topic
        return AbandonedSession(*names, fenced=True, returned=True)

    @property
    def key(self) -> str:
        """Its key in the store."""
        return session_fingerprint(self.broker, self.name)
