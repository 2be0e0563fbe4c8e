"""The names of sessions in tests whose store has a known identity (the fixture ``known_owner``)."""

from __future__ import annotations

from speck.core.job import session_name
from speck.testing.waiting import OWNER


def named(job: str, number: int = 0) -> str:
    """The name of a session of a job of the store :data:`OWNER`."""
    return session_name(job, OWNER, number)
