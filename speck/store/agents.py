"""The agents of sites: their tokens by hash, and the codes with which sites join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRecord:
    """The agent of a site.  ``joined`` and ``seen`` (its last contact) are Unix times, s; 0: never.

    ``sha256`` is that of its token, empty if it has none from a code.  Tokens whose hash is in ``revoked``
    are refused permanently.  ``entry`` is the site's entry of an inventory; ``None`` for a site of the
    server's own inventory.  ``journal`` is the mark of what was read of the agent's journal, ``restarts`` the
    number of its starts of jobs.
    """

    site: str
    sha256: str = ""
    revoked: tuple[str, ...] = ()
    machine: str = ""
    version: str = ""
    entry: Mapping[str, Any] | None = None
    joined: float = 0.0
    seen: float = 0.0
    journal: str = ""
    restarts: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The agent as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AgentRecord:
        """The inverse of :meth:`to_dict`."""
        return cls(**{**data, "revoked": tuple(data["revoked"])})


class CodeState(StrEnum):
    """The state of a code."""

    OPEN = "open"
    USED = "used"
    REPLACED = "replaced"  # by a later code of the same site
    REVOKED = "revoked"  # with the site's agent


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRecord:
    """A code with which a site may join until a Unix time (s); ``sha256`` is that of its secret."""

    sha256: str
    site: str
    until: float
    state: CodeState = CodeState.OPEN

    def to_dict(self) -> dict[str, Any]:
        """The code as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CodeRecord:
        """The inverse of :meth:`to_dict`."""
        return cls(**{**data, "state": CodeState(data["state"])})
