"""The store: desired state, requests and observations, in a LevelDB that one process has open.

:mod:`~speck.store.records` are the values, :mod:`~speck.store.codec` their form on disk,
:mod:`~speck.store.leveldb.database` LevelDB with its troubles translated,
:mod:`~speck.store.leveldb.resident` the records in memory, :mod:`~speck.store.store` what the coordinator
uses.  Every change is one atomic batch that is on disk when the call returns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speck.store.records import (
        AttemptRecord,
        DeletedComposition,
        Event,
        Head,
        Intent,
        JobRecord,
        RetryState,
        Revision,
        RevisionOutcome,
        SessionRecord,
    )
    from speck.store.store import Store
    from speck.store.transaction import Transaction

__all__ = [
    "AttemptRecord",
    "DeletedComposition",
    "Event",
    "Head",
    "Intent",
    "JobRecord",
    "RetryState",
    "Revision",
    "RevisionOutcome",
    "SessionRecord",
    "Store",
    "Transaction",
]

_ELSEWHERE = {"Store": "store", "Transaction": "transaction"}


def __getattr__(name: str) -> object:
    """Import a name when it is used: commands that need a job's file alone load no LevelDB."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'records')}"), name)
    globals()[name] = found  # found once
    return found
