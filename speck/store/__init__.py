"""The store: what SpecK wants, has asked for and knows, in LevelDB, which belongs to this one process.

:mod:`~speck.store.records` are the values, :mod:`~speck.store.codec` their form on disk,
:mod:`~speck.store.leveldb.database` LevelDB with its troubles translated, :mod:`~speck.store.store` what the
coordinator uses.  Every change is one atomic batch that is on disk when the call returns.
"""

from __future__ import annotations

from speck.store.records import (
    AttemptRecord,
    DeletedComposition,
    Event,
    Head,
    Intent,
    JobRecord,
    Outcome,
    RetryState,
    Revision,
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
    "Outcome",
    "RetryState",
    "Revision",
    "SessionRecord",
    "Store",
    "Transaction",
]
