"""Attempts and sessions abandoned at places out of reach, recorded until they are ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from speck.core.job import session_fingerprint
from speck.core.runtime import Attempt, Handle, State


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
    number of messages that are deleted with it, once they have been counted.
    """

    composition: str
    job: str
    broker: str
    name: str
    topic: str
    fenced: bool = False
    waiting: int = 0

    @property
    def key(self) -> str:
        """Its key in the store."""
        return session_fingerprint(self.broker, self.name)

    def to_dict(self) -> dict[str, Any]:
        """The session as plain data, which older versions read as long as nothing was counted."""
        data = asdict(self)
        return data if self.waiting else {name: data[name] for name in data if name != "waiting"}
